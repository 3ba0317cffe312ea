//! A blocking connection to a Redis server, for what an operator does to it: no pool, no retries,
//! no redirections followed.

use std::{
    io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

use super::certificates::CertificateFiles;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(String),
    /// The server's own words, such as `MOVED 3999 127.0.0.1:6381`.
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    /// The text of an answer that must be one.
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("a text was expected: {other:?}"),
        }
    }

    /// The number of an answer that must be one.
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("a number was expected: {other:?}"),
        }
    }

    /// The items of an answer that must be a list.
    pub fn list(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            other => panic!("a list was expected: {other:?}"),
        }
    }
}

/// A connection, with TLS or without.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub struct Resp {
    stream: BufReader<Box<dyn Stream>>,
}

impl Resp {
    /// Connects; no answer takes longer than a minute, also on a busy machine.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_with(address, None)
    }

    /// The same with TLS, if the server has a certificate, which must be for localhost.
    pub fn connect_with(address: SocketAddr, tls: Option<&CertificateFiles>) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(files) => Box::new(StreamOwned::new(tls_to_localhost(files), stream)),
        };
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command given as words and reads the answer.
    pub fn send(&mut self, words: &[&str]) -> Result<Reply> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(command.as_bytes())?;
        self.read()
    }

    /// The same, for what must be done: panics when it is not.
    pub fn call(&mut self, words: &[&str]) -> Reply {
        match self.send(words) {
            Ok(Reply::Error(why)) => panic!("{words:?}: {why}"),
            Ok(reply) => reply,
            Err(error) => panic!("{words:?}: {error}"),
        }
    }

    fn read(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        let odd = || Error::new(ErrorKind::InvalidData, line.to_owned());
        let (kind, rest) = line.split_at_checked(1).ok_or_else(odd)?;
        let number = || rest.parse::<i64>().map_err(|_| odd());
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(number()?)),
            "$" => match usize::try_from(number()?) {
                Ok(len) => self.text(len),
                Err(_) => Ok(Reply::Nil),
            },
            "*" => match usize::try_from(number()?) {
                Ok(len) => Ok(Reply::List((0..len).map(|_| self.read()).collect::<Result<_>>()?)),
                Err(_) => Ok(Reply::Nil),
            },
            _ => Err(odd()),
        }
    }

    fn text(&mut self, len: usize) -> Result<Reply> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes)?;
        Ok(Reply::Text(String::from_utf8_lossy(&bytes[..len]).into_owned()))
    }
}

fn tls_to_localhost(files: &CertificateFiles) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.authority).expect("PEM")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("has versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a valid configuration")
}

/// Asks again and again, for at most a minute, until the answer is yes; whether it came.
#[expect(clippy::disallowed_methods, reason = "looking must not take the time of what is looked at")]
pub fn until(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..6_000 {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
