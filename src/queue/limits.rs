//! The limits of the queue. Each is a setting, so that one client cannot use up what all share.

use std::time::Duration;

use crate::{job::Delay, metrics::QueueMetrics};

/// Limits of the queue. A call past one of them is refused with an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a job, in bytes.
    pub max_body: usize,
    /// Most items of a batch add, finish or delete.
    pub max_batch: usize,
    /// Most jobs delivered by one batch pop.
    pub max_batch_pop: usize,
    /// Most bytes of bodies delivered by one pop, unless a single job has more.
    pub max_delivery: usize,
    /// Most topics of one batch pop.
    pub max_pop_topics: usize,
    /// Longest delay of an add, a patch, a release or a requeue, and longest step of a retry list.
    pub max_delay: Delay,
    /// Longest wait of a poll; a longer one is shortened to this.
    pub max_wait: Duration,
    /// Most polls waiting at once.
    pub max_waiting: usize,
    /// Most jobs that one step of the timer moves.
    pub promote_batch: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body: 256 * 1_024,
            max_batch: 1_000,
            max_batch_pop: 1_000,
            max_delivery: 64 * 1_024 * 1_024,
            max_pop_topics: 100,
            max_delay: Delay::LONGEST,
            max_wait: Duration::from_secs(60),
            max_waiting: 100_000,
            promote_batch: 1_000,
        }
    }
}

impl Limits {
    /// Publishes every limit as a metric.
    pub(super) fn publish(&self, metrics: &QueueMetrics) {
        metrics.set_limit("max_body_bytes", self.max_body as u64);
        metrics.set_limit("max_batch", self.max_batch as u64);
        metrics.set_limit("max_batch_pop", self.max_batch_pop as u64);
        metrics.set_limit("max_delivery_bytes", self.max_delivery as u64);
        metrics.set_limit("max_pop_topics", self.max_pop_topics as u64);
        metrics.set_limit("max_delay_seconds", self.max_delay.as_duration().as_secs());
        metrics.set_limit("max_wait_seconds", self.max_wait.as_secs());
        metrics.set_limit("max_waiting", self.max_waiting as u64);
        metrics.set_limit("promote_batch", self.promote_batch as u64);
    }
}
