//! Metrics of the process's clock compared with the system's.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// How far the system's clock is from the clock of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClockMetrics {
    steps: Counter,
    drift_seconds: Gauge<f64, AtomicU64>,
}

impl ClockMetrics {
    /// Registers the clock's metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { steps: Counter::default(), drift_seconds: Gauge::default() };
        registry.register(
            "linger_clock_steps",
            "Times the system's clock was set by a second or more since the start",
            metrics.steps.clone(),
        );
        registry.register(
            "linger_clock_drift_seconds",
            "The system's clock minus the clock of this process",
            metrics.drift_seconds.clone(),
        );
        metrics
    }

    /// Sets the difference between the clocks.
    pub fn set_drift(&self, seconds: f64) {
        self.drift_seconds.set(seconds);
    }

    /// Counts that the system's clock was set.
    pub fn count_step(&self) {
        self.steps.inc();
    }
}
