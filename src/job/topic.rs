//! What is set for a topic: the defaults of its jobs, and what of it is paused.

use super::{RetrySchedule, Ttr};

/// What a topic adds to jobs that do not say themselves; copied into each job when it is added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicSettings {
    /// Default time to run.
    pub ttr: Option<Ttr>,
    /// Default cap on attempts; 0 means no cap.
    pub max_attempts: Option<u32>,
    /// Default waits between attempts.
    pub retry: Option<RetrySchedule>,
    /// Whether a finish must carry the receipt.
    pub require_receipt: bool,
}

/// What of a topic is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPause {
    /// Nothing is handed out.
    pub delivery: bool,
    /// Nothing is taken in.
    pub intake: bool,
}

impl TopicPause {
    /// Everything.
    pub const ALL: Self = Self { delivery: true, intake: true };
    /// Nothing.
    pub const NONE: Self = Self { delivery: false, intake: false };

    /// What is stopped once `set` is stopped and then `clear` goes on.
    #[must_use]
    pub fn changed(self, set: Self, clear: Self) -> Self {
        Self {
            delivery: (self.delivery || set.delivery) && !clear.delivery,
            intake: (self.intake || set.intake) && !clear.intake,
        }
    }
}
