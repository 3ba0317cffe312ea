//! Figures of the process's own clock beside the system's.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// How far the system's clock is from the one that this process counts by. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClockMetrics {
    steps: Counter,
    drift_seconds: Gauge<f64, AtomicU64>,
}

impl ClockMetrics {
    /// Registers the clock's figures in `registry`.
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
            "The system's clock less the one that this process counts by",
            metrics.drift_seconds.clone(),
        );
        metrics
    }

    /// The clocks were compared.
    pub fn drift(&self, seconds: f64) {
        self.drift_seconds.set(seconds);
    }

    /// The system's clock was set.
    pub fn step(&self) {
        self.steps.inc();
    }
}
