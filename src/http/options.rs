//! The limits of requests and responses as metrics. `config` reads them from the settings.

pub use crate::config::HttpOptions;
use crate::metrics::Metrics;

impl HttpOptions {
    /// Publishes every limit as a metric.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let limit = |name, value: u64| metrics.queue.set_limit(name, value);
        limit("max_request_bytes", self.max_request_bytes as u64);
        limit("max_small_request_bytes", self.max_small_request_bytes as u64);
        limit("max_buffered_bytes", self.max_buffered_bytes as u64);
        limit("max_buffered_bytes_per_caller", self.max_buffered_bytes_per_caller as u64);
        limit("max_answer_bytes", self.max_answer_bytes as u64);
        limit("body_timeout_seconds", self.body_timeout.as_secs());
        limit("min_body_rate", self.min_body_rate as u64);
    }
}
