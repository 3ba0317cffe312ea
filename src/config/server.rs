//! Listening, and the limits of connections and requests: section `[server]`.

use std::{net::SocketAddr, time::Duration};

use super::reader::{self, GIB, HOUR, KIB, MIB, MILLISECOND, Reader, SECOND};

/// Section `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Limits and timeouts of connections.
    pub listener: ListenerOptions,
    /// Limits of requests and responses.
    pub http: HttpOptions,
    /// Time between the signal to stop and the orderly shutdown.
    pub drain_delay: Duration,
    /// Longest orderly shutdown.
    pub shutdown_grace: Duration,
}

/// The limits and timeouts of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerOptions {
    /// Largest head of a request, in bytes.
    pub max_header_bytes: usize,
    /// Most open connections; further ones are answered 503 and closed.
    pub max_connections: usize,
    /// Most open connections per address; for IPv6, per network of 64 bits.
    pub max_connections_per_address: usize,
    /// How long a new connection may stay silent, and how long the head of a request may take from its first byte.
    pub header_timeout: Duration,
    /// How long a connection may stay idle between two requests.
    pub keep_alive_timeout: Duration,
    /// How long a client may take to read each 64 KiB of a response.
    pub write_timeout: Duration,
    /// How long a refused client may go on sending before its connection is closed. Closing it at once would lose the
    /// response (RFC 9112, 9.6). Not a setting; only tests change it.
    pub linger: Duration,
}

/// The limits of requests and responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// Whether requests with an unknown `Host` are refused.
    pub check_host: bool,
    /// Host names, without ports, that are accepted besides addresses and `localhost`. A leading `*.` stands for any
    /// labels.
    pub allowed_hosts: Vec<String>,
    /// Largest body of a request, in bytes.
    pub max_request_bytes: usize,
    /// Most bytes that the bodies of all requests in progress may hold together.
    pub max_buffered_bytes: usize,
    /// The same for the requests of one token, or of one address where there are no tokens.
    pub max_buffered_bytes_per_caller: usize,
    /// Most bytes of responses over 4 KiB that clients have not read yet. A response that reports a change is sent even
    /// beyond this, and one larger than this is sent when there is no other.
    pub max_answer_bytes: usize,
    /// How long the body of a request may take, in addition to a second for each 64 KiB that has arrived.
    pub body_timeout: Duration,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        reader::read_defaults(ServerSettings::read).listener
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        reader::read_defaults(ServerSettings::read).http
    }
}

impl ServerSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            listen: reader.address("server.listen"),
            listener: ListenerOptions::read(reader),
            http: HttpOptions::read(reader),
            drain_delay: reader.duration("server.drain_delay", Duration::ZERO, HOUR),
            shutdown_grace: reader.duration("server.shutdown_grace", 100 * MILLISECOND, HOUR),
        }
    }
}

impl ListenerOptions {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            // hyper's read buffer cannot be smaller.
            max_header_bytes: reader.size("server.max_header_bytes", 8 * KIB, MIB),
            max_connections: reader.count("server.max_connections", 1, 1_000_000),
            max_connections_per_address: reader.count("server.max_connections_per_address", 1, 1_000_000),
            header_timeout: reader.duration("server.header_timeout", 10 * MILLISECOND, HOUR),
            keep_alive_timeout: reader.duration("server.keep_alive_timeout", 10 * MILLISECOND, HOUR),
            write_timeout: reader.duration("server.write_timeout", 10 * MILLISECOND, HOUR),
            linger: 2 * SECOND,
        }
    }
}

impl HttpOptions {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            // Depends on other sections: see `Config`.
            check_host: true,
            allowed_hosts: reader.host_names("server.allowed_hosts"),
            max_request_bytes: reader.size("server.max_request_bytes", KIB, GIB),
            max_buffered_bytes: reader.size("server.max_buffered_bytes", KIB, 1_024 * GIB),
            max_buffered_bytes_per_caller: reader.size(
                "server.max_buffered_bytes_per_caller",
                KIB,
                1_024 * GIB,
            ),
            max_answer_bytes: reader.size("server.max_answer_bytes", KIB, 1_024 * GIB),
            body_timeout: reader.duration("server.body_timeout", 10 * MILLISECOND, HOUR),
        }
    }
}
