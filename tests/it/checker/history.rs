//! The log: one event for each call, written down by the client that made it.

use std::{
    fmt::{Display, Formatter, Result},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// When a call was sent; made by [`History::sending`].
#[derive(Debug, Clone, Copy)]
pub struct Sent(Duration);

/// What a call asked for, or for a pop what it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// An add; the same for every sending of it.
    Add {
        delay: Duration,
        max_attempts: u32,
    },
    /// A pop that was answered with this job, to be held for `ttr`.
    Deliver {
        receipt: String,
        attempt: u32,
        ttr: Duration,
    },
    Finish {
        receipt: String,
    },
    Release {
        receipt: String,
        delay: Duration,
    },
    /// An extension to `ttr` from then on.
    Touch {
        receipt: String,
        ttr: Duration,
    },
    Bury {
        receipt: String,
    },
    Delete,
}

impl Act {
    /// The receipt that the call showed; `None` for adds, deliveries and deletes.
    pub fn shown(&self) -> Option<&str> {
        match self {
            Self::Finish { receipt }
            | Self::Release { receipt, .. }
            | Self::Touch { receipt, .. }
            | Self::Bury { receipt } => Some(receipt),
            Self::Add { .. } | Self::Deliver { .. } | Self::Delete => None,
        }
    }

    /// Whether the job is gone when it is done.
    pub fn removes(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Delete)
    }

    /// Whether it ends its holder's reservation.
    pub fn ends_hold(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Release { .. } | Self::Bury { .. })
    }
}

/// How a call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// 2xx: it happened.
    Done,
    /// 409: it did not happen, the receipt is not the present one.
    Refused,
    /// 404: no such job.
    Gone,
    /// 5xx or no answer: it may have happened, then or up to the answer's time.
    Unknown,
}

/// One call: what it did, it did between `sent` and `answered`, counted from the history's beginning.
#[derive(Debug, Clone)]
pub struct Event {
    pub job: String,
    pub sent: Duration,
    pub answered: Duration,
    pub act: Act,
    pub said: Said,
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { sent, answered, act, said, .. } = self;
        write!(f, "{sent:?} to {answered:?}: {act:?}, {said:?}")
    }
}

impl Event {
    /// Whether it may have happened.
    pub fn possible(&self) -> bool {
        matches!(self.said, Said::Done | Said::Unknown)
    }

    pub fn done(&self) -> bool {
        self.said == Said::Done
    }
}

/// What all clients of a run sent and saw, by one monotonic clock.
#[derive(Debug)]
pub struct History {
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl History {
    #[expect(clippy::disallowed_methods, reason = "clients live in real time")]
    pub fn new() -> Self {
        Self { began: Instant::now(), events: Mutex::default() }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// To be called just before a call is sent.
    pub fn sending(&self) -> Sent {
        Sent(self.now())
    }

    /// Writes down a call once its answer is there, or known to be missing.
    pub fn record(&self, job: &str, sent: Sent, act: Act, said: Said) {
        let answered = self.now();
        self.push(Event { job: job.to_owned(), sent: sent.0, answered, act, said });
    }

    pub fn push(&self, event: Event) {
        self.events.lock().expect("not poisoned").push(event);
    }

    /// All events, in the order in which they were written down.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().expect("not poisoned")
    }
}
