//! Metrics of callbacks. No label names a host: clients choose them.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{GaugeGuard, buckets::waits};

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallResult {
    /// The job is finished.
    Ok,
    /// The endpoint finishes the job later.
    Held,
    /// The endpoint buried the job.
    Refused,
    /// The endpoint answered, and the job is tried again.
    Failed,
    /// The endpoint did not answer, and the job is tried again.
    Unreachable,
    /// The job was no longer reserved for this call.
    Lost,
    /// The server stopped before the answer.
    Cut,
}

impl CallResult {
    /// All results.
    pub const ALL: [Self; 7] =
        [Self::Ok, Self::Held, Self::Refused, Self::Failed, Self::Unreachable, Self::Lost, Self::Cut];

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Held => "held",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Cut => "cut",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    topic: Arc<str>,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabel {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutletStateLabel {
    state: &'static str,
}

/// The metrics of callbacks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallbackMetrics {
    calls: Family<ResultLabel, Counter>,
    failures: Family<FailureLabel, Counter>,
    seconds: Family<DurationLabel, Histogram, fn() -> Histogram>,
    late: Histogram,
    in_flight: Gauge,
    outlets: Family<OutletStateLabel, Gauge>,
}

/// 1 ms to 10 minutes, the longest timeout by default.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0])
}

impl CallbackMetrics {
    /// Registers the metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            failures: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            late: waits(),
            in_flight: Gauge::default(),
            outlets: Family::default(),
        };
        registry.register("linger_callbacks", "Calls by their result", metrics.calls.clone());
        registry.register(
            "linger_callback_failures",
            "Calls that failed, by the first word of the reason",
            metrics.failures.clone(),
        );
        registry.register(
            "linger_callback_seconds",
            "From the begin of a call to the end of the answer's head",
            metrics.seconds.clone(),
        );
        registry.register(
            "linger_callback_late_seconds",
            "From the due time of a job to the begin of its call",
            metrics.late.clone(),
        );
        registry.register("linger_callbacks_in_flight", "Calls in progress", metrics.in_flight.clone());
        registry.register(
            "linger_callback_outlets",
            "Outlets with calls in progress or ready jobs (active), and those that rest",
            metrics.outlets.clone(),
        );
        metrics
    }

    /// A call begins, `late` after its job was due.
    pub fn begin(&self, late: Duration) -> GaugeGuard {
        self.late.observe(late.as_secs_f64());
        GaugeGuard::new(&self.in_flight)
    }

    /// Records the result of a call that took `took`.
    pub fn ended(&self, result: CallResult, took: Duration) {
        self.seconds.get_or_create(&DurationLabel { result: result.as_str() }).observe(took.as_secs_f64());
    }

    /// Counts a failure by the first word of its reason.
    pub fn failed(&self, reason: &str) {
        self.failures.get_or_create(&FailureLabel { reason: reason.to_owned() }).inc();
    }

    /// Sets how many outlets are active and how many rest.
    pub fn set_outlets(&self, active: usize, resting: usize) {
        for (state, count) in [("active", active), ("resting", resting)] {
            self.outlets
                .get_or_create(&OutletStateLabel { state })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts a result with the label of a topic.
    pub(super) fn count(&self, topic: &Arc<str>, result: CallResult) {
        self.calls.get_or_create(&ResultLabel { topic: topic.clone(), result: result.as_str() }).inc();
    }

    /// Removes the counters of a topic that has lost its label.
    pub(super) fn forget(&self, topic: &Arc<str>) {
        for result in CallResult::ALL {
            self.calls.remove(&ResultLabel { topic: topic.clone(), result: result.as_str() });
        }
    }
}
