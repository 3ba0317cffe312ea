//! Metrics that only an engine can measure.

use std::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// 0.1 ms to 10 s, with the 0.25 s at which an alert calls a disk slow.
const SYNC_SECONDS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The metrics of an engine that no layer above it can measure. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineMetrics {
    syncs: Histogram,
    set_aside: Counter,
    not_remembered: Counter,
    forgotten_early: Counter,
    clock_steps: Counter,
    clock_step_seconds: Gauge<f64, AtomicU64>,
    log_bytes: Gauge<u64, AtomicU64>,
    replaced: Gauge<u64, AtomicU64>,
}

impl EngineMetrics {
    /// Registers the engine's metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let syncs = Histogram::new(SYNC_SECONDS);
        let set_aside = Counter::default();
        let (not_remembered, forgotten_early) = (Counter::default(), Counter::default());
        let (clock_steps, clock_step_seconds) = (Counter::default(), Gauge::default());
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
        registry.register(
            "linger_ids_not_remembered",
            "Finished or deleted jobs whose ids could not be remembered, because the disk was full",
            not_remembered.clone(),
        );
        registry.register(
            "linger_ids_forgotten_early",
            "Ids that were forgotten before their window had passed, because there were more than queue.dedup_max",
            forgotten_early.clone(),
        );
        registry.register(
            "linger_store_clock_steps",
            "Steps of the store's clock that were noticed; each shifts all due times by as much",
            clock_steps.clone(),
        );
        registry.register(
            "linger_store_clock_step_seconds",
            "How far the store's clock stepped when it last did, negative when back",
            clock_step_seconds.clone(),
        );
        let log_bytes = Gauge::default();
        registry.register(
            "linger_store_log_bytes",
            "Size of the write-ahead log of the embedded engine",
            log_bytes.clone(),
        );
        let replaced = Gauge::default();
        registry.register(
            "linger_store_replaced",
            "1 while the store, or a part of it, was emptied or replaced by another one",
            replaced.clone(),
        );
        Self {
            syncs,
            set_aside,
            not_remembered,
            forgotten_early,
            clock_steps,
            clock_step_seconds,
            log_bytes,
            replaced,
        }
    }

    /// Records that a group of changes was made durable in `took`.
    pub fn synced(&self, took: Duration) {
        self.syncs.observe(took.as_secs_f64());
    }

    /// Counts ids that could not be remembered, and those that were forgotten to remember others.
    pub fn ids_not_kept(&self, not_remembered: u64, forgotten_early: u64) {
        self.not_remembered.inc_by(not_remembered);
        self.forgotten_early.inc_by(forgotten_early);
    }

    /// Counts `entries` broken entries that were set aside.
    pub fn set_aside(&self, entries: u64) {
        self.set_aside.inc_by(entries);
    }

    /// Sets whether the store was emptied or replaced.
    pub fn set_replaced(&self, is_replaced: bool) {
        self.replaced.set(is_replaced.into());
    }

    /// Sets the size of the write-ahead log.
    pub fn set_log_bytes(&self, bytes: u64) {
        self.log_bytes.set(bytes);
    }

    /// Records a step of the clock that defines due times, in microseconds, negative if it was set back.
    pub fn clock_stepped(&self, step_us: i64) {
        self.clock_steps.inc();
        self.clock_step_seconds.set(step_us as f64 / 1_000_000.0);
    }
}
