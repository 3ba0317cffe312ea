//! The history: one event for each call, recorded by the client that made the call.

use std::{
    fmt::{Display, Formatter, Result},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// When a call was sent, as returned by [`History::sent_now`].
#[derive(Debug, Clone, Copy)]
pub struct SentAt(Duration);

/// What an add asked for. All adds with one revision are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Add {
    pub delay: Duration,
    pub max_attempts: u32,
    /// The steps of the job's retry schedule; empty if they are not known.
    pub retry: &'static [Duration],
    /// How long after its due time the job becomes a dead letter, if it does.
    pub expire: Option<Duration>,
    /// Above 0, the add replaces a job with a lower revision.
    pub revision: u64,
    /// Whether the topic remembers the id of the job for longer than the history lasts, once the job ended.
    pub is_remembered: bool,
}

/// What a call asked for; for a pop, what it received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// An add. All adds of one job are equal except for the delay and the revision.
    Add(Add),
    /// A pop that returned this job, or a callback with it, reserved for `ttr`. `revision` is that of the body.
    Deliver {
        receipt: String,
        revision: u64,
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
    /// A touch, after which the reservation lasts for `ttr`.
    Touch {
        receipt: String,
        ttr: Duration,
    },
    Bury {
        receipt: String,
    },
    /// An endpoint's answer to a callback, or its silence, by which the attempt fails. The job returns after `delay`, or, if
    /// the server did not process the answer, `step` after the end of the reservation.
    Fail {
        receipt: String,
        delay: Duration,
        step: Duration,
    },
    Delete,
    /// A change of the due time. Sent only once the add is acknowledged.
    Reschedule {
        delay: Duration,
    },
    /// Makes a dead job wait again; its attempts start at 1. Sent only while the job is known to be dead, and by one client
    /// at a time.
    Requeue {
        delay: Duration,
    },
    /// A look at the job, which changes nothing.
    Read,
}

impl Action {
    /// What the call adds, or `None` for every other call.
    pub fn added(&self) -> Option<&Add> {
        match self {
            Self::Add(add) => Some(add),
            _ => None,
        }
    }

    /// The receipt that the call sent, or `None` for calls without one.
    pub fn receipt(&self) -> Option<&str> {
        match self {
            Self::Finish { receipt }
            | Self::Release { receipt, .. }
            | Self::Touch { receipt, .. }
            | Self::Bury { receipt }
            | Self::Fail { receipt, .. } => Some(receipt),
            Self::Add(_)
            | Self::Deliver { .. }
            | Self::Delete
            | Self::Reschedule { .. }
            | Self::Requeue { .. }
            | Self::Read => None,
        }
    }

    /// Whether a successful call removes the job.
    pub fn removes(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Delete)
    }

    /// Whether a successful call changes a job that waits or is dead, so that it is another job for its earlier holders.
    pub fn changes(&self) -> bool {
        matches!(self, Self::Reschedule { .. } | Self::Requeue { .. })
    }

    /// Whether a successful call ends the reservation.
    pub fn ends_reservation(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Release { .. } | Self::Bury { .. } | Self::Fail { .. })
    }
}

/// What a call's response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx: the call took effect.
    Done,
    /// 409: the call had no effect, because its receipt is stale or the job is in another state, except that a call by the
    /// holder of an older version ends its reservation.
    Refused,
    /// 404: there is no such job. For an add, the answer that a job of this id has ended before.
    Gone,
    /// 5xx or no response: the call may have taken effect at any time up to the end of the attempt.
    Unknown,
}

/// One call. Its effect happened between `sent` and `answered`, both counted from the start of the history.
#[derive(Debug, Clone)]
pub struct Event {
    pub job: String,
    pub sent: Duration,
    pub answered: Duration,
    pub action: Action,
    pub outcome: Outcome,
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { sent, answered, action, outcome, .. } = self;
        write!(f, "{sent:?} to {answered:?}: {action:?}, {outcome:?}")
    }
}

impl Event {
    /// Whether the call may have taken effect.
    pub fn possible(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Unknown)
    }

    /// Whether the call took effect for certain.
    pub fn done(&self) -> bool {
        self.outcome == Outcome::Done
    }
}

/// What all clients of a run sent and received, by one monotonic clock.
#[derive(Debug)]
pub struct History {
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl History {
    #[expect(clippy::disallowed_methods, reason = "clients run in real time")]
    pub fn new() -> Self {
        Self { began: Instant::now(), events: Mutex::default() }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The present time. To be called just before a call is sent.
    pub fn sent_now(&self) -> SentAt {
        SentAt(self.now())
    }

    /// Records a call once its response has arrived or is known to be missing.
    pub fn record(&self, job: &str, sent: SentAt, action: Action, outcome: Outcome) {
        let answered = self.now();
        self.push(Event { job: job.to_owned(), sent: sent.0, answered, action, outcome });
    }

    /// The time of the history at `instant`; zero before it began.
    pub fn time_of(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.began)
    }

    pub fn push(&self, event: Event) {
        self.events.lock().expect("not poisoned").push(event);
    }

    /// All events, in the order in which they were recorded.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().expect("not poisoned")
    }
}
