//! Metrics of schedules.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{
    buckets::waits,
    labels::{MAX_TOPICS, shared_label},
};

/// The outcome of an occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OccurrenceEnd {
    /// It ran.
    Fired,
    /// It was left out because the previous run was not over.
    Overlap,
    /// It was missed.
    Missed,
}

/// What is wrong with a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleProblem {
    /// A run cannot be added, and waits.
    Waiting,
    /// It ran by a clock that was ahead.
    Ahead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabel {
    schedule: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabel {
    schedule: Arc<str>,
    problem: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScheduleLabel {
    schedule: Arc<str>,
}

/// The metrics of schedules. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ScheduleMetrics {
    runs: Family<RunLabel, Counter>,
    problems: Family<ProblemLabel, Counter>,
    late: Family<ScheduleLabel, Histogram, fn() -> Histogram>,
    /// The schedules with a label of their own.
    names: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl ScheduleMetrics {
    /// Registers the metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            runs: Family::default(),
            problems: Family::default(),
            late: Family::new_with_constructor(waits),
            names: Arc::default(),
        };
        registry.register(
            "linger_schedule_runs",
            "Occurrences of schedules by their outcome",
            metrics.runs.clone(),
        );
        registry.register(
            "linger_schedule_problems",
            "Attempts to add a run that has to wait, and schedules that ran by a clock that was ahead",
            metrics.problems.clone(),
        );
        registry.register(
            "linger_schedule_late_seconds",
            "From the due time of a run to the first delivery of its job",
            metrics.late.clone(),
        );
        metrics
    }

    /// Counts `n` occurrences of a schedule.
    pub fn count(&self, schedule: &str, outcome: OccurrenceEnd, n: u64) {
        let outcome = match outcome {
            OccurrenceEnd::Fired => "fired",
            OccurrenceEnd::Overlap => "overlap",
            OccurrenceEnd::Missed => "missed",
        };
        if n > 0 {
            self.runs.get_or_create(&RunLabel { schedule: self.label(schedule), outcome }).inc_by(n);
        }
    }

    /// Counts a problem of a schedule.
    pub fn count_problem(&self, schedule: &str, problem: ScheduleProblem) {
        let problem = match problem {
            ScheduleProblem::Waiting => "waiting",
            ScheduleProblem::Ahead => "ahead",
        };
        self.problems.get_or_create(&ProblemLabel { schedule: self.label(schedule), problem }).inc();
    }

    /// Records how long after its due time the job of a run was delivered for the first time.
    pub fn delivered(&self, schedule: &str, late: Duration) {
        let label = ScheduleLabel { schedule: self.label(schedule) };
        self.late.get_or_create(&label).observe(late.as_secs_f64());
    }

    /// The label of a schedule: its name, or `other` when as many have one as topics may have.
    fn label(&self, schedule: &str) -> Arc<str> {
        let mut names = self.names.lock().expect("no code panics while it holds the names");
        if let Some(name) = names.get(schedule) {
            return name.clone();
        }
        if names.len() >= MAX_TOPICS {
            return shared_label();
        }
        let name: Arc<str> = schedule.into();
        names.insert(name.clone());
        name
    }
}
