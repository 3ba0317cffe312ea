//! The settings of a topic: the defaults for its jobs, and its pauses.

use super::{DedupWindow, Delay, OnExpiry, RetrySchedule, TopicCallback, Ttr};

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

/// Which operations of a topic are paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPause {
    /// No jobs are delivered.
    pub delivery: bool,
    /// No jobs are accepted.
    pub intake: bool,
}

impl TopicPause {
    /// Both are paused.
    pub const ALL: Self = Self { delivery: true, intake: true };
    /// Neither is paused.
    pub const NONE: Self = Self { delivery: false, intake: false };

    /// This pause after pausing `set` and then resuming `clear`.
    #[must_use]
    pub fn changed(self, set: Self, clear: Self) -> Self {
        Self {
            delivery: (self.delivery || set.delivery) && !clear.delivery,
            intake: (self.intake || set.intake) && !clear.intake,
        }
    }
}
