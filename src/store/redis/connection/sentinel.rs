//! Queries sentinels for the primary, each on a connection of its own that is used once.
//!
//! The client library can do that too, but it trusts the first sentinel that it reaches, which may be
//! cut off together with an old primary, and it keeps a primary as long as that one answers.

use std::{io, net::SocketAddr, time::Duration};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::Server,
};
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpStream, lookup_host},
};

use super::{error::CallFault, tls_fault};
use crate::store::redis::{
    options::{Credentials, bare_host},
    tls::RedisTls,
};

/// Longest wait for one sentinel. The others answer meanwhile.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest line or string that is read from a sentinel.
const LENGTH_LIMIT: usize = 1_024;

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type BufferedStream = BufReader<Box<dyn Stream>>;

/// The sentinels, and the service whose primary they know.
#[derive(Debug)]
pub struct Sentinels {
    pub hosts: Vec<Server>,
    pub service: String,
    pub credentials: Credentials,
    /// User and password of the Redis servers themselves.
    pub server_credentials: Credentials,
    /// TLS to the sentinels and to the servers.
    pub tls: Option<RedisTls>,
}

impl Sentinels {
    /// The primary that most sentinels name. If fewer than half answer, those that do decide: it
    /// is better to follow one than none. If they are divided, as when one was cut off during a failover and
    /// another is down, the one server decides that reports the role of a primary.
    pub async fn primary(&self) -> Result<Server, FredError> {
        let mut queries: FuturesUnordered<_> = self.hosts.iter().map(|host| self.query(host)).collect();
        let mut votes: Vec<(Server, usize)> = Vec::new();
        let mut last_error = FredError::new(ErrorKind::Sentinel, "no sentinel answers");
        while let Some(result) = queries.next().await {
            match result {
                Ok(server) => {
                    let at = votes.iter().position(|(named, _)| *named == server);
                    let at = at.unwrap_or_else(|| {
                        votes.push((server, 0));
                        votes.len() - 1
                    });
                    votes[at].1 += 1;
                    if votes[at].1 * 2 > self.hosts.len() {
                        break;
                    }
                }
                Err(error) => {
                    // A refusal is more useful to report than another sentinel that is down.
                    if !matches!(CallFault::classify(&last_error), CallFault::Refused(_)) {
                        last_error = error;
                    }
                }
            }
        }
        let best = votes.iter().map(|(_, count)| *count).max().ok_or(last_error)?;
        let best = votes.into_iter().filter(|(_, count)| *count == best).map(|(server, _)| server);
        let mut best: Vec<Server> = best.collect();
        if best.len() > 1 {
            let roles = join_all(best.iter().map(|server| self.is_primary(server))).await;
            let mut roles = roles.into_iter();
            best.retain(|_| roles.next().unwrap_or(false));
        }
        match (best.pop(), best.pop()) {
            (Some(server), None) => Ok(server),
            // In the middle of a failover: no primary is better than one that changes with every query.
            _ => Err(FredError::new(ErrorKind::Sentinel, "the sentinels do not agree on the primary")),
        }
    }

    async fn query(&self, host: &Server) -> Result<Server, FredError> {
        let (why, error) = match tokio::time::timeout(TIMEOUT, self.get_primary(host)).await {
            Ok(Ok(server)) => return Ok(server),
            Ok(Err(error)) => (error.to_string(), FredError::from(error)),
            Err(_) => {
                (format!("sentinel {host} does not answer"), FredError::new(ErrorKind::Timeout, "no answer"))
            }
        };
        let explained = tls_fault::explain(error.clone(), &host.host, self.tls.as_ref());
        Err(if explained == error {
            FredError::new(ErrorKind::Sentinel, why)
        } else {
            FredError::new(explained.kind().clone(), format!("sentinel {host}: {}", explained.details()))
        })
    }

    /// Whether a server reports the role of a primary; false if it does not answer.
    async fn is_primary(&self, server: &Server) -> bool {
        let role = async {
            let mut stream = self.connect(server).await?;
            authenticate(&mut stream, &self.server_credentials).await?;
            send(&mut stream, ["ROLE"]).await?;
            read_line(&mut stream).await?;
            read_string(&mut stream).await
        };
        matches!(tokio::time::timeout(TIMEOUT, role).await, Ok(Ok(role)) if role == "master")
    }

    async fn get_primary(&self, host: &Server) -> io::Result<Server> {
        let mut stream = self.connect(host).await?;
        authenticate(&mut stream, &self.credentials).await?;
        send(&mut stream, ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.service]).await?;
        match read_line(&mut stream).await?.as_str() {
            "*2" => {}
            "*-1" => {
                return Err(protocol_error(&format!("sentinel {host} knows no primary {}", self.service)));
            }
            other => return Err(protocol_error(other)),
        }
        let (host, port) = (read_string(&mut stream).await?, read_string(&mut stream).await?);
        Ok(Server::new(host, port.parse().map_err(|_| protocol_error("a port was expected"))?))
    }

    async fn connect(&self, host: &Server) -> io::Result<BufferedStream> {
        let addresses: Vec<SocketAddr> = lookup_host((bare_host(&host.host), host.port)).await?.collect();
        let stream = TcpStream::connect(&*addresses).await?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = tls.server_name(&host.host);
                let no_name = || {
                    let why = format!("no certificate can have the name {host}: set redis.server_name");
                    io::Error::new(io::ErrorKind::InvalidInput, why)
                };
                Box::new(tls.connector().connect(name.ok_or_else(no_name)?, stream).await?)
            }
        };
        Ok(BufReader::new(stream))
    }
}

async fn authenticate(stream: &mut BufferedStream, credentials: &Credentials) -> io::Result<()> {
    if let Some(password) = &credentials.password {
        let username = credentials.username.as_deref();
        send(stream, ["AUTH"].into_iter().chain(username).chain([password.expose()])).await?;
        read_line(stream).await?;
    }
    Ok(())
}

async fn send<'a>(stream: &mut BufferedStream, words: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let words: Vec<&str> = words.into_iter().collect();
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let stream = stream.get_mut();
    stream.write_all(command.as_bytes()).await?;
    // TLS keeps what is not flushed.
    stream.flush().await
}

/// One line without its end; a line that begins with `-` is an error in the sentinel's own words.
async fn read_line(stream: &mut BufferedStream) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LENGTH_LIMIT as u64).read_line(&mut line).await?;
    let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    match line.strip_prefix('-') {
        Some(error) => Err(protocol_error(error)),
        None => Ok(line.to_owned()),
    }
}

async fn read_string(stream: &mut BufferedStream) -> io::Result<String> {
    let line = read_line(stream).await?;
    let len = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok());
    let len =
        len.filter(|len| *len <= LENGTH_LIMIT).ok_or_else(|| protocol_error("a string was expected"))?;
    let mut text = vec![0; len + 2];
    stream.read_exact(&mut text).await?;
    text.truncate(len);
    String::from_utf8(text).map_err(|_| protocol_error("a string was expected"))
}

fn protocol_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A sentinel that sends this reply to every request.
    async fn sentinel(reply: impl Into<String>) -> Server {
        let reply = reply.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("has an address").port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1_024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(reply.as_bytes()).await;
            }
        });
        Server::new("127.0.0.1", port)
    }

    /// The reply of a sentinel that names this server as the primary.
    fn naming(server: &Server) -> String {
        let port = server.port.to_string();
        format!("*2\r\n${}\r\n{}\r\n${}\r\n{port}\r\n", server.host.len(), server.host, port.len())
    }

    #[tokio::test]
    async fn the_server_with_the_role_of_a_primary_wins_when_sentinels_are_divided() {
        let right = sentinel("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n").await;
        let stale = sentinel("*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n").await;
        let replies = [naming(&stale), String::new(), naming(&right)];
        assert_eq!(primary(&replies).await.expect("is known"), right);
        let divided = primary(&[naming(&right), naming(&sentinel("*3\r\n$6\r\nmaster\r\n").await)]).await;
        assert!(divided.is_err(), "two primaries: {divided:?}");
    }

    async fn primary(replies: &[impl AsRef<str>]) -> Result<Server, FredError> {
        let mut hosts = Vec::new();
        for reply in replies {
            hosts.push(sentinel(reply.as_ref()).await);
        }
        let service = "main".to_owned();
        let (credentials, server_credentials) = Default::default();
        Sentinels { hosts, service, credentials, server_credentials, tls: None }.primary().await
    }

    const A: &str = "*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    const B: &str = "*2\r\n$1\r\nb\r\n$1\r\n2\r\n";

    #[tokio::test]
    async fn the_majority_of_the_sentinels_decides() {
        assert_eq!(primary(&[A, B, B]).await.expect("is known"), Server::new("b", 2));
        assert_eq!(primary(&[A, "", "-ERR no\r\n"]).await.expect("is known"), Server::new("a", 1));
    }

    #[tokio::test]
    async fn an_invalid_reply_is_an_error() {
        for reply in ["", "*-1\r\n", "-NOAUTH no\r\n", "*2\r\n$1\r\na\r\n$1\r\nx\r\n", "*2\r\n$9999\r\n", "x"]
        {
            let result = primary(&[reply]).await;
            assert!(result.is_err(), "{reply:?}");
        }
        let unknown = primary(&["*-1\r\n"]).await.expect_err("is unknown");
        assert!(unknown.details().contains("knows no primary main"), "{unknown}");
    }
}
