//! The bounds of the HTTP layer. Each is in the configuration.

use std::time::Duration;

use crate::metrics::Metrics;

/// How the server listens and what it puts up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether the address listened on is a loopback address: then foreign `Host` names are refused.
    pub loopback: bool,
    /// Host names, without ports, that are accepted beside addresses and `localhost`. When any is given,
    /// others are refused on every address.
    pub allowed_hosts: Vec<String>,
    /// Largest body of a request, in bytes.
    pub max_request_bytes: usize,
    /// Most bytes that the bodies of all requests at work may hold together.
    pub max_buffered_bytes: usize,
    /// Largest head of a request, in bytes.
    pub max_header_bytes: usize,
    /// Most connections open at once; later ones wait to be accepted.
    pub max_connections: usize,
    /// How long a connection may take for a request's head; also how long it may stay idle between two
    /// requests, since hyper has one timer for both.
    pub header_timeout: Duration,
    /// How long each 64 KiB of a request's body may take.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer.
    pub write_timeout: Duration,
    /// How long a refused client may go on sending before its connection is cut. Cutting at once would
    /// lose it the answer (RFC 9112, 9.6).
    pub linger: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            loopback: true,
            allowed_hosts: Vec::new(),
            max_request_bytes: 8 * 1_024 * 1_024,
            max_buffered_bytes: 256 * 1_024 * 1_024,
            max_header_bytes: 32 * 1_024,
            max_connections: 100_000,
            // Longer than the minute that load balancers keep idle connections for.
            header_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// Shows every limit as a metric.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let limit = |name, value: u64| metrics.queue.set_limit(name, value);
        limit("max_request_bytes", self.max_request_bytes as u64);
        limit("max_buffered_bytes", self.max_buffered_bytes as u64);
        limit("max_header_bytes", self.max_header_bytes as u64);
        limit("max_connections", self.max_connections as u64);
        limit("header_timeout_seconds", self.header_timeout.as_secs());
        limit("body_timeout_seconds", self.body_timeout.as_secs());
        limit("write_timeout_seconds", self.write_timeout.as_secs());
    }
}
