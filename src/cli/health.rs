//! `linger health`: asks a server whether it is ready, in bounded time and without an HTTP library,
//! since it needs one status line.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{complain, health_tls, print};
use crate::clock::{Clock, SystemClock};

/// Asks the address that a server of this configuration listens on, by TLS where it has a certificate.
pub(super) fn ask_address(listen: SocketAddr, secure: bool, timeout: Duration) -> ExitCode {
    if listen.port() == 0 {
        complain(&"server.listen has port 0, which says nothing about the real one; use --url");
        return ExitCode::FAILURE;
    }
    report(&Asked { authority: reachable(listen).to_string(), secure }, timeout)
}

/// Asks the server at `url`.
pub(super) fn ask_url(url: &str, timeout: Duration) -> ExitCode {
    match asked(url) {
        Some(asked) => report(&asked, timeout),
        None => {
            complain(&format_args!(
                "--url: {url:?} must be like http://127.0.0.1:9277 or https://queue.internal"
            ));
            ExitCode::FAILURE
        }
    }
}

/// Whom to ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Host and port.
    pub authority: String,
    /// Whether by TLS.
    pub secure: bool,
}

fn report(asked: &Asked, timeout: Duration) -> ExitCode {
    let authority = &asked.authority;
    let clock = SystemClock::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                answer = ask(asked) => answer,
                () = clock.sleep(timeout) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")))
                }
            }
        })
    });
    match answer {
        Ok(200) => print("ready\n"),
        Ok(status) => {
            complain(&format_args!("{authority} is not ready: it answers {status}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(&format_args!("{authority} is not ready: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The status that `GET /readyz` is answered with.
async fn ask(Asked { authority, secure }: &Asked) -> io::Result<u16> {
    let stream = TcpStream::connect(authority).await?;
    if *secure {
        status_of(health_tls::secure(authority, stream).await?, authority).await
    } else {
        status_of(stream, authority).await
    }
}

async fn status_of(mut stream: impl AsyncRead + AsyncWrite + Unpin, authority: &str) -> io::Result<u16> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    // "HTTP/1.1 200" is all that matters; what follows is left unread.
    let mut start = Vec::with_capacity(12);
    let read = stream.take(12).read_to_end(&mut start).await;
    if let Some(status) = status(&start) {
        return Ok(status);
    }
    Err(match (start.as_slice(), read) {
        // A record of TLS: an alert, of any version.
        ([0x15, 0x03, ..], _) => io::Error::other(format!("it speaks TLS; use --url https://{authority}")),
        ([], Err(error)) => error,
        ([], Ok(_)) => io::Error::other("it closed the connection without an answer"),
        _ => io::Error::other("the answer is not HTTP"),
    })
}

fn status(start: &[u8]) -> Option<u16> {
    let digits = start.strip_prefix(b"HTTP/1.1 ").or_else(|| start.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// An address that can be connected to: what listens everywhere is asked over loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Whom an `http://` or `https://` URL means; any path is left out.
pub(super) fn asked(url: &str) -> Option<Asked> {
    let (rest, secure, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, false, 80),
        (None, Some(rest)) => (rest, true, 443),
        (None, None) => return None,
    };
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let legal = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(legal) {
        return None;
    }
    let host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    let authority = if host.contains(':') { authority.to_owned() } else { format!("{authority}:{port}") };
    Some(Asked { authority, secure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_asked_over_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:9277", "127.0.0.1:9277"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:80", "10.0.0.7:80"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            let listen: SocketAddr = listen.parse().expect("is an address");
            assert_eq!(reachable(listen).to_string(), asked);
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        for (url, expected) in [
            ("http://127.0.0.1:9277", Some("127.0.0.1:9277")),
            ("http://linger/readyz", Some("linger:80")),
            ("http://[::1]", Some("[::1]:80")),
            ("http://[::1]:9277/", Some("[::1]:9277")),
            ("https://linger", Some("linger:443")),
            ("ftp://linger", None),
            ("linger:9277", None),
            ("http://", None),
            ("http://a b", None),
            ("http://a\r\nX: y", None),
        ] {
            let secure = url.starts_with("https");
            let expected = expected.map(|authority| Asked { authority: authority.to_owned(), secure });
            assert_eq!(asked(url), expected, "{url}");
        }
    }

    #[test]
    fn a_status_line_is_recognised() {
        assert_eq!(status(b"HTTP/1.1 200"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503"), Some(503));
        assert_eq!(status(b"SSH-2.0-Open"), None);
        assert_eq!(status(b"HTTP/1.1 2x0"), None);
    }
}
