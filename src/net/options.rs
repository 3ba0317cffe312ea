//! The limits of connections: lowers them and publishes them as metrics. `config` reads them from the settings.

pub use crate::config::ListenerOptions;
use crate::metrics::Metrics;

impl ListenerOptions {
    /// Lowers `max_connections` to `limit`, and the limit per address to half of that, so that one address cannot use
    /// up all connections unless the settings allowed that before.
    pub fn lower_max_connections(&mut self, limit: usize) {
        if limit < self.max_connections {
            let one_address_may_use_all = self.max_connections_per_address >= self.max_connections;
            let per_address = if one_address_may_use_all { limit } else { limit.div_ceil(2) };
            self.max_connections_per_address = self.max_connections_per_address.min(per_address);
            self.max_connections = limit;
        }
    }

    /// Publishes every limit as a metric.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let limit = |name, value: u64| metrics.queue.set_limit(name, value);
        limit("max_header_bytes", self.max_header_bytes as u64);
        limit("max_connections", self.max_connections as u64);
        limit("max_connections_per_address", self.max_connections_per_address as u64);
        limit("header_timeout_seconds", self.header_timeout.as_secs());
        limit("keep_alive_timeout_seconds", self.keep_alive_timeout.as_secs());
        limit("write_timeout_seconds", self.write_timeout.as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fewer_connections_one_address_still_cannot_use_all() {
        let lowered = |max_connections, max_connections_per_address, limit| {
            let mut options = ListenerOptions {
                max_connections,
                max_connections_per_address,
                ..ListenerOptions::default()
            };
            options.lower_max_connections(limit);
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
