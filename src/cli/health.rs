//! `linger health`: checks whether a server is ready, in bounded time. It needs only a status line, so it uses no HTTP
//! library.

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

use super::{
    health_tls,
    output::{print, print_error},
};
use crate::clock::{Clock, SystemClock};

/// Checks the server that listens on the configured address, over TLS if it has a certificate.
pub(super) fn check_listen_address(listen: SocketAddr, secure: bool, timeout: Duration) -> ExitCode {
    if listen.port() == 0 {
        print_error(&"server.listen has port 0, so the real port is unknown; use --url");
        return ExitCode::FAILURE;
    }
    report(&HealthTarget { authority: connectable(listen).to_string(), secure }, timeout)
}

/// Checks the server at `url`.
pub(super) fn check_url(url: &str, timeout: Duration) -> ExitCode {
    match parse_url(url) {
        Some(target) => report(&target, timeout),
        None => {
            print_error(&format_args!(
                "--url: {url:?} must be like http://127.0.0.1:9277 or https://queue.internal"
            ));
            ExitCode::FAILURE
        }
    }
}

/// The server to check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HealthTarget {
    /// Host and port.
    pub authority: String,
    /// Whether to use TLS.
    pub secure: bool,
}

fn report(target: &HealthTarget, timeout: Duration) -> ExitCode {
    let authority = &target.authority;
    let clock = SystemClock::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = runtime.and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                status = readiness(target) => status,
                () = clock.sleep(timeout) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")))
                }
            }
        })
    });
    match status {
        Ok(200) => print("ready\n"),
        Ok(status) => {
            print_error(&format_args!("{authority} is not ready: it answers {status}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            print_error(&format_args!("{authority} is not ready: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The status of the response to `GET /readyz`.
async fn readiness(HealthTarget { authority, secure }: &HealthTarget) -> io::Result<u16> {
    let stream = TcpStream::connect(authority).await?;
    if *secure {
        request_status(health_tls::connect_tls(authority, stream).await?, authority).await
    } else {
        request_status(stream, authority).await
    }
}

async fn request_status(mut stream: impl AsyncRead + AsyncWrite + Unpin, authority: &str) -> io::Result<u16> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    // Only "HTTP/1.1 200" matters; the rest is not read.
    let mut start = Vec::with_capacity(12);
    let read = stream.take(12).read_to_end(&mut start).await;
    if let Some(status) = parse_status(&start) {
        return Ok(status);
    }
    Err(match (start.as_slice(), read) {
        // A TLS record with an alert, of any version.
        ([0x15, 0x03, ..], _) => io::Error::other(format!("it speaks TLS; use --url https://{authority}")),
        ([], Err(error)) => error,
        ([], Ok(_)) => io::Error::other("it closed the connection without a response"),
        _ => io::Error::other("the response is not HTTP"),
    })
}

fn parse_status(start: &[u8]) -> Option<u16> {
    let digits = start.strip_prefix(b"HTTP/1.1 ").or_else(|| start.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// An address to connect to: loopback for a server that listens on all addresses.
fn connectable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Parses an `http://` or `https://` URL. Its path is ignored.
pub(super) fn parse_url(url: &str) -> Option<HealthTarget> {
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
    Some(HealthTarget { authority, secure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_on_all_addresses_is_checked_over_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:9277", "127.0.0.1:9277"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:80", "10.0.0.7:80"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            let listen: SocketAddr = listen.parse().expect("is an address");
            assert_eq!(connectable(listen).to_string(), expected);
        }
    }

    #[test]
    fn urls_are_parsed() {
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
            let expected = expected.map(|authority| HealthTarget { authority: authority.to_owned(), secure });
            assert_eq!(parse_url(url), expected, "{url}");
        }
    }

    #[test]
    fn a_status_line_is_recognised() {
        assert_eq!(parse_status(b"HTTP/1.1 200"), Some(200));
        assert_eq!(parse_status(b"HTTP/1.0 503"), Some(503));
        assert_eq!(parse_status(b"SSH-2.0-Open"), None);
        assert_eq!(parse_status(b"HTTP/1.1 2x0"), None);
    }
}
