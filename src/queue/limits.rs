//! The limits of the queue as metrics. `config` reads them from the settings.

pub use crate::config::Limits;
use crate::metrics::QueueMetrics;

impl Limits {
    /// Most topics of one pop.
    pub const MAX_POP_TOPICS: usize = 100;

    /// Publishes every limit as a metric.
    pub(super) fn publish(&self, metrics: &QueueMetrics) {
        metrics.set_limit("max_body_bytes", self.max_body as u64);
        metrics.set_limit("max_batch", self.max_batch as u64);
        metrics.set_limit("max_batch_pop", self.max_batch_pop as u64);
        metrics.set_limit("max_delivery_bytes", self.max_delivery as u64);
        metrics.set_limit("max_pop_topics", Self::MAX_POP_TOPICS as u64);
        metrics.set_limit("max_delay_seconds", self.max_delay.as_duration().as_secs());
        metrics.set_limit("max_wait_seconds", self.max_wait.as_secs());
        metrics.set_limit("max_waiting", self.max_waiting as u64);
    }
}
