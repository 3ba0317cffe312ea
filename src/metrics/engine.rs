//! Figures that only an engine can see.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// What an engine reports that nobody above it can see. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineMetrics {
    syncs: Histogram,
    set_aside: Counter,
}

impl EngineMetrics {
    /// Registers the engine's figures in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let syncs = Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let set_aside = Counter::default();
        registry.register(
            "linger_store_sync_duration_seconds",
            "Time to make a group of changes durable",
            syncs.clone(),
        );
        registry.register(
            "linger_store_set_aside",
            "Broken entries set aside, which never stop the timer",
            set_aside.clone(),
        );
        Self { syncs, set_aside }
    }

    /// One group of changes was made durable in `took`.
    pub fn synced(&self, took: Duration) {
        self.syncs.observe(took.as_secs_f64());
    }

    /// `entries` broken entries were set aside.
    pub fn set_aside(&self, entries: u64) {
        self.set_aside.inc_by(entries);
    }
}
