//! The bounds of the HTTP layer. Each is in the configuration.

use std::time::Duration;

use crate::metrics::Metrics;

/// How the server listens and what it puts up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether requests by foreign `Host` names are refused.
    pub check_host: bool,
    /// Host names, without ports, that are accepted besides addresses and `localhost`; `*.` at the beginning
    /// stands for any labels.
    pub allowed_hosts: Vec<String>,
    /// Largest body of a request, in bytes.
    pub max_request_bytes: usize,
    /// The same for calls that carry no jobs: pops, what the holder of a job does, settings, pauses.
    pub max_small_request_bytes: usize,
    /// Most bytes that the bodies of all requests at work may hold together.
    pub max_buffered_bytes: usize,
    /// The same for the requests of one token, or of one address where there are no tokens.
    pub max_buffered_bytes_per_caller: usize,
    /// Most bytes of answers over 4 KiB that clients have not taken yet, what tells of a change aside; one
    /// of more is sent when there is no other.
    pub max_answer_bytes: usize,
    /// Largest head of a request, in bytes.
    pub max_header_bytes: usize,
    /// Most headers of a request.
    pub max_headers: usize,
    /// Most connections open at once; later ones are answered 503 and closed.
    pub max_connections: usize,
    /// The same for each address; of IPv6, for each network of 64 bits.
    pub max_connections_per_address: usize,
    /// How long a new connection may stay silent.
    pub first_byte_timeout: Duration,
    /// How long a request's head may take from its first byte.
    pub header_timeout: Duration,
    /// How long a connection may stay idle between two requests.
    pub keep_alive_timeout: Duration,
    /// How long a request's body may take besides the time that `min_body_rate` allows for its length.
    pub body_timeout: Duration,
    /// Bytes of a request's body that have to come in each second.
    pub min_body_rate: usize,
    /// How long a client may take to read each 64 KiB of an answer.
    pub write_timeout: Duration,
    /// How long a refused client may go on sending before its connection is cut. Cutting at once would
    /// lose it the answer (RFC 9112, 9.6).
    pub linger: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            check_host: true,
            allowed_hosts: Vec::new(),
            max_request_bytes: 8 * 1_024 * 1_024,
            max_small_request_bytes: 64 * 1_024,
            max_buffered_bytes: 256 * 1_024 * 1_024,
            max_buffered_bytes_per_caller: 32 * 1_024 * 1_024,
            max_answer_bytes: 1_024 * 1_024 * 1_024,
            max_header_bytes: 16 * 1_024,
            max_headers: 100,
            max_connections: 100_000,
            max_connections_per_address: 1_000,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            // Longer than the minute that load balancers keep idle connections for.
            keep_alive_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            min_body_rate: 64 * 1_024,
            write_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// Lowers the most connections to `room`, and the most of an address to half of that, so that one address
    /// still cannot take all places unless it was allowed to.
    pub fn lower_connections(&mut self, room: usize) {
        if room < self.max_connections {
            let one_may_take_all = self.max_connections_per_address >= self.max_connections;
            let most = if one_may_take_all { room } else { room.div_ceil(2) };
            self.max_connections_per_address = self.max_connections_per_address.min(most);
            self.max_connections = room;
        }
    }

    /// Shows every limit as a metric.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let limit = |name, value: u64| metrics.queue.set_limit(name, value);
        limit("max_request_bytes", self.max_request_bytes as u64);
        limit("max_small_request_bytes", self.max_small_request_bytes as u64);
        limit("max_buffered_bytes", self.max_buffered_bytes as u64);
        limit("max_buffered_bytes_per_caller", self.max_buffered_bytes_per_caller as u64);
        limit("max_answer_bytes", self.max_answer_bytes as u64);
        limit("max_header_bytes", self.max_header_bytes as u64);
        limit("max_headers", self.max_headers as u64);
        limit("max_connections", self.max_connections as u64);
        limit("max_connections_per_address", self.max_connections_per_address as u64);
        limit("first_byte_timeout_seconds", self.first_byte_timeout.as_secs());
        limit("header_timeout_seconds", self.header_timeout.as_secs());
        limit("keep_alive_timeout_seconds", self.keep_alive_timeout.as_secs());
        limit("body_timeout_seconds", self.body_timeout.as_secs());
        limit("min_body_rate", self.min_body_rate as u64);
        limit("write_timeout_seconds", self.write_timeout.as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_connections_leave_an_address_its_share() {
        let lowered = |all, own, room| {
            let mut options =
                Options { max_connections: all, max_connections_per_address: own, ..Options::default() };
            options.lower_connections(room);
            (options.max_connections, options.max_connections_per_address)
        };
        assert_eq!(lowered(100_000, 50_000, 100_000), (100_000, 50_000));
        assert_eq!(lowered(100_000, 50_000, 768), (768, 384));
        assert_eq!(lowered(100_000, 50_000, 1), (1, 1));
        assert_eq!(lowered(100_000, 1_000, 768), (768, 384));
        assert_eq!(lowered(100_000, 1_000, 20_000), (20_000, 1_000));
        assert_eq!(lowered(100, 1_000, 10), (10, 10));
    }
}
