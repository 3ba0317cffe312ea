//! The limits of requests and responses as metrics. `config` reads them from the settings.

pub use crate::config::HttpOptions;
use crate::metrics::Metrics;

/// Largest body of a request that carries no jobs: pops, operations on reserved jobs, settings, pauses.
pub const MAX_SMALL_REQUEST_BYTES: usize = 64 * 1_024;

/// Bytes of a request's body for which a client gets another second.
pub const MIN_BODY_RATE: usize = 64 * 1_024;

impl HttpOptions {
    /// Publishes every limit as a metric.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let limit = |name, value: u64| metrics.queue.set_limit(name, value);
        limit("max_request_bytes", self.max_request_bytes as u64);
        limit("max_small_request_bytes", MAX_SMALL_REQUEST_BYTES as u64);
        limit("max_buffered_bytes", self.max_buffered_bytes as u64);
        limit("max_buffered_bytes_per_caller", self.max_buffered_bytes_per_caller as u64);
        limit("max_answer_bytes", self.max_answer_bytes as u64);
        limit("body_timeout_seconds", self.body_timeout.as_secs());
        limit("min_body_rate", MIN_BODY_RATE as u64);
    }
}
