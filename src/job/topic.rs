//! The settings of a topic: the defaults for its jobs, and its pauses.

use super::{Actor, DedupWindow, Delay, OnExpiry, Reason, RetrySchedule, Timestamp, TopicCallback, Ttr};

/// Defaults for jobs that do not set these values themselves. They are copied into each job when it is added, except
/// for the callback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicSettings {
    /// Default time to run.
    pub ttr: Option<Ttr>,
    /// Default limit on attempts; 0 means no limit.
    pub max_attempts: Option<u32>,
    /// Default waits between attempts.
    pub retry: Option<RetrySchedule>,
    /// Whether a finish must carry the receipt.
    pub require_receipt: bool,
    /// Whether the receipt of a reservation that timed out still finishes a job; `None` means that it does.
    pub late_finish: Option<bool>,
    /// How long after their due time jobs expire.
    pub expire: Option<Delay>,
    /// What happens to jobs that expire.
    pub on_expiry: Option<OnExpiry>,
    /// For how long the ids of finished and deleted jobs are remembered; `None` remembers none.
    pub dedup: Option<DedupWindow>,
    /// Whom to call for its jobs, and how often. Read when a job is called, not copied into jobs.
    pub callback: TopicCallback,
}

/// The operations of a topic that a call pauses or resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausedOperations {
    /// The delivery of jobs.
    pub delivery: bool,
    /// The intake of jobs.
    pub intake: bool,
}

impl PausedOperations {
    /// Both.
    pub const ALL: Self = Self { delivery: true, intake: true };
    /// Neither.
    pub const NONE: Self = Self { delivery: false, intake: false };
}

/// The pauses of a topic, also those that are over and were not removed yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPause {
    /// No jobs are delivered.
    pub delivery: Option<Pause>,
    /// No jobs are accepted.
    pub intake: Option<Pause>,
}

/// A pause of an operation. A version that knew none of its values has left them out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pause {
    /// Since when the operation is paused.
    pub since: Option<Timestamp>,
    /// Who paused it last.
    pub by: Option<Actor>,
    /// Why.
    pub reason: Option<Reason>,
    /// When it ends by itself. No process has to be alive then.
    pub until: Option<Timestamp>,
}

/// Pauses of which nothing is known.
impl From<PausedOperations> for TopicPause {
    fn from(operations: PausedOperations) -> Self {
        let pause = |is_paused: bool| is_paused.then(Pause::default);
        Self { delivery: pause(operations.delivery), intake: pause(operations.intake) }
    }
}

impl Pause {
    /// A pause of which nothing is known.
    pub const ENDLESS: Self = Self { since: None, by: None, reason: None, until: None };

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl TopicPause {
    /// Both are paused, without an end.
    pub const ALL: Self = Self { delivery: Some(Pause::ENDLESS), intake: Some(Pause::ENDLESS) };

    /// The pauses that are not over.
    #[must_use]
    pub fn active(&self, now: Timestamp) -> Self {
        let active = |pause: &Option<Pause>| pause.clone().filter(|pause| !pause.is_over(now));
        Self { delivery: active(&self.delivery), intake: active(&self.intake) }
    }

    /// Pauses these operations as `pause` says. One that is paused already stays so since then.
    pub fn pause(&mut self, operations: PausedOperations, pause: &Pause) {
        let PausedOperations { delivery, intake } = operations;
        for (_, paused) in [(delivery, &mut self.delivery), (intake, &mut self.intake)]
            .into_iter()
            .filter(|(is_asked, _)| *is_asked)
        {
            let since = paused.take().map_or(pause.since, |earlier| earlier.since);
            *paused = Some(Pause { since, ..pause.clone() });
        }
    }

    /// Resumes these operations.
    pub fn resume(&mut self, operations: PausedOperations) {
        if operations.delivery {
            self.delivery = None;
        }
        if operations.intake {
            self.intake = None;
        }
    }
}
