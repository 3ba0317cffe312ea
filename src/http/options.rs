//! The options of the HTTP layer: lowers and publishes the limits. `config` reads them from the settings.

pub use crate::config::HttpOptions as Options;
use crate::metrics::Metrics;

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
