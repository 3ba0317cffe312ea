//! Metrics of the log itself.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// The metrics of the log. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LogMetrics {
    dropped: Counter,
}

impl LogMetrics {
    /// Registers the log's metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { dropped: Counter::default() };
        registry.register(
            "linger_log_lines_dropped",
            "Log lines dropped because the log was not read fast enough",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// Counts a dropped line.
    pub fn count_dropped(&self) {
        self.dropped.inc();
    }
}
