//! The job.

use std::{fmt, time::Duration};

use super::{Actor, Body, History, JobId, JobSpec, Now, ProgressNote, Timestamp, Topic, time::ceil_millis};

/// Largest accepted `max_attempts`.
pub const MAX_ATTEMPTS_LIMIT: u32 = 1_000_000;

/// Why a well-formed value was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A delay over [`Delay::MAX`].
    #[error("must be at most 10 years")]
    DelayTooLong,
    /// A TTR outside of [`Ttr::MIN`] to [`Ttr::MAX`].
    #[error("must be between 1 s and 30 days")]
    TtrOutOfRange,
    /// A window of remembered ids outside of [`DedupWindow::MIN`](super::DedupWindow::MIN) to
    /// [`DedupWindow::MAX`](super::DedupWindow::MAX).
    #[error("must be between 1 s and 7 days")]
    WindowOutOfRange,
    /// Too many retry steps.
    #[error("must have at most {limit} steps, got {got}")]
    TooManySteps {
        /// Longest accepted list.
        limit: usize,
        /// Steps given.
        got: usize,
    },
    /// A retry step over [`Delay::MAX`].
    #[error("must not hold a step of over 10 years")]
    StepTooLong,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Waiting for its due time.
    Delayed,
    /// Waiting for a worker.
    Ready,
    /// Reserved by a worker until a deadline.
    Reserved,
    /// A dead letter: its attempts were used up, or it was buried.
    Dead,
}

impl State {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 4] = [Self::Delayed, Self::Ready, Self::Reserved, Self::Dead];

    /// The name of the state in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The time until a job is due: 0 to 10 years, in whole milliseconds, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Delay(Duration);

impl Delay {
    /// Ten years of 365.25 days.
    pub const MAX: Duration = Duration::from_secs(10 * 31_557_600);
    /// The delay of [`Delay::MAX`].
    pub const LONGEST: Self = Self(Self::MAX);

    /// Accepts up to [`Delay::MAX`].
    ///
    /// # Errors
    /// [`ValueError::DelayTooLong`] beyond that.
    pub fn new(duration: Duration) -> Result<Self, ValueError> {
        if duration > Self::MAX {
            return Err(ValueError::DelayTooLong);
        }
        Ok(Self(Duration::from_millis(ceil_millis(duration).unsigned_abs())))
    }

    /// Whole milliseconds.
    #[must_use]
    pub fn as_duration(self) -> Duration {
        self.0
    }
}

/// Time to run: how long a reservation lasts; 1 s to 30 days, in whole milliseconds, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttr(Duration);

impl Ttr {
    /// Shortest accepted TTR.
    pub const MIN: Duration = Duration::from_secs(1);
    /// Longest accepted TTR.
    pub const MAX: Duration = Duration::from_secs(30 * 86_400);
    /// The TTR if neither the job nor its topic sets one.
    pub const DEFAULT: Self = Self(Duration::from_secs(60));

    /// Accepts [`Ttr::MIN`] to [`Ttr::MAX`].
    ///
    /// # Errors
    /// [`ValueError::TtrOutOfRange`] outside of that.
    pub fn new(duration: Duration) -> Result<Self, ValueError> {
        if !(Self::MIN..=Self::MAX).contains(&duration) {
            return Err(ValueError::TtrOutOfRange);
        }
        Ok(Self(Duration::from_millis(ceil_millis(duration).unsigned_abs())))
    }

    /// Whole milliseconds.
    #[must_use]
    pub fn as_duration(self) -> Duration {
        self.0
    }
}

/// When a job becomes due. A delay stays relative until the engine resolves it with its own clock. A time in the past
/// means now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// This long after the engine has accepted the job.
    After(Delay),
    /// At this time.
    At(Timestamp),
}

impl Due {
    /// The due time if the engine's clock shows `now`.
    #[must_use]
    pub fn resolve(self, now: Now) -> Timestamp {
        match self {
            Self::After(delay) => now.after(delay.as_duration()),
            Self::At(moment) => moment.max(now.rounded_down),
        }
    }

    /// Whether the job is due at once if the engine's clock shows `now`.
    #[must_use]
    pub fn is_at_once(self, now: Timestamp) -> bool {
        match self {
            Self::After(delay) => delay.as_duration().is_zero(),
            Self::At(moment) => moment <= now,
        }
    }

    /// Which clock decides when the job is due.
    #[must_use]
    pub fn kind(self) -> DueKind {
        match self {
            Self::After(_) => DueKind::Elapsed,
            Self::At(_) => DueKind::Moment,
        }
    }
}

/// Which clock decides when a job is due. The two differ once the machine's clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum DueKind {
    /// Time elapses: a delay, or a step of a retry schedule.
    #[default]
    Elapsed,
    /// The machine's clock reaches a moment that the client named.
    Moment,
}

impl DueKind {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Elapsed, Self::Moment];
}

impl Default for Due {
    fn default() -> Self {
        Self::After(Delay::default())
    }
}

/// Why a job is dead or was released, as given by the worker or the server: at most [`Reason::MAX_LEN`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason(Box<str>);

impl Reason {
    /// Longest reason, in bytes.
    pub const MAX_LEN: usize = 1_024;
    /// The reason of a dead letter whose last reservation ended by its TTR.
    pub const TTR_EXPIRED: &'static str = "ttr_expired";
    /// The reason of a dead letter whose last reservation was released without a reason.
    pub const ATTEMPTS_USED: &'static str = "attempts_used";
    /// The reason of a dead letter buried without a reason.
    pub const BURIED: &'static str = "buried";
    /// The reason of a dead letter that expired.
    pub const EXPIRED: &'static str = "expired";

    /// Accepts `text` of at most [`Reason::MAX_LEN`] bytes.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (text.len() <= Self::MAX_LEN).then(|| Self(text.into()))
    }

    /// The reason of a job that was taken back from its worker: by whom, and why. What is too long is cut off.
    #[must_use]
    pub fn revoked(by: Option<&Actor>, why: Option<&Self>) -> Self {
        let who = by.map_or("revoked".to_owned(), |by| format!("revoked by {by}"));
        let text = why.map_or_else(|| who.clone(), |why| format!("{who}: {}", why.as_str()));
        Self(text[..text.floor_char_boundary(Self::MAX_LEN)].into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The state of a job, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Waiting for its due time.
    Delayed,
    /// Waiting for a worker.
    Ready,
    /// Reserved by a worker.
    Reserved(Reserved),
    /// A dead letter, since this moment.
    Dead(Timestamp),
}

/// A reservation as callers see it. Its receipt is the holder's secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// When the job was reserved.
    pub since: Timestamp,
    /// When the reservation ends.
    pub until: Timestamp,
    /// Who reserved the job, if that is known.
    pub by: Option<Actor>,
}

/// A job in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its topic.
    pub topic: Topic,
    /// Its state, with what belongs to it.
    pub state: JobState,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it is or was due. A job that was returned is due at the time of its return plus its retry step.
    pub due_at: Timestamp,
    /// When it expires; present exactly if its spec has an expiry.
    pub expires_at: Option<Timestamp>,
    /// How it is run.
    pub spec: JobSpec,
    /// Reservations granted so far. None while it [waits for the holder of an older version](Job::waits_for_older).
    pub attempts: u32,
    /// Why it is dead or was last released.
    pub reason: Option<Reason>,
    /// How far a worker was with it.
    pub note: Option<ProgressNote>,
    /// What happened to it before.
    pub history: History,
    /// The payload for the worker.
    pub body: Body,
}

impl Job {
    /// Its state without what belongs to it.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.state {
            JobState::Delayed => State::Delayed,
            JobState::Ready => State::Ready,
            JobState::Reserved(_) => State::Reserved,
            JobState::Dead(_) => State::Dead,
        }
    }

    /// Its reservation, if it has one.
    #[must_use]
    pub fn reserved(&self) -> Option<&Reserved> {
        match &self.state {
            JobState::Reserved(reserved) => Some(reserved),
            JobState::Delayed | JobState::Ready | JobState::Dead(_) => None,
        }
    }

    /// Whether it replaced a version that is reserved: its reservation is one of that version, and the job is not
    /// delivered until it ends. No reservation of its own has been granted yet.
    #[must_use]
    pub fn waits_for_older(&self) -> bool {
        self.state() == State::Reserved && self.attempts == 0
    }

    /// When it was reserved, if it has a reservation.
    #[must_use]
    pub fn reserved_at(&self) -> Option<Timestamp> {
        self.reserved().map(|reserved| reserved.since)
    }

    /// Who reserved it, if it has a reservation and that is known.
    #[must_use]
    pub fn reserved_by(&self) -> Option<&Actor> {
        self.reserved()?.by.as_ref()
    }

    /// When its reservation ends, if it has one.
    #[must_use]
    pub fn reserved_until(&self) -> Option<Timestamp> {
        self.reserved().map(|reserved| reserved.until)
    }

    /// When it became a dead letter, if it is one.
    #[must_use]
    pub fn dead_at(&self) -> Option<Timestamp> {
        match &self.state {
            JobState::Dead(at) => Some(*at),
            JobState::Delayed | JobState::Ready | JobState::Reserved(_) => None,
        }
    }

    /// When time changes its state next, unless its retention as a dead letter does.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match &self.state {
            JobState::Delayed => Some(self.expires_at.map_or(self.due_at, |expiry| expiry.min(self.due_at))),
            JobState::Ready => self.expires_at,
            JobState::Reserved(reserved) => Some(reserved.until),
            JobState::Dead(_) => None,
        }
    }

    /// The endpoint of the job's own callback. Its attempts are stored without an actor, because a job is reserved before its
    /// callback is known.
    #[must_use]
    pub fn callback_endpoint(&self) -> Option<Actor> {
        Actor::of_endpoint(self.spec.callback.as_ref()?.url.origin())
    }

    /// Who has reserved the job, if it has a reservation and that is known: a worker, or the host of its callback.
    #[must_use]
    pub fn holder(&self) -> Option<Actor> {
        self.reserved()?.by.clone().or_else(|| self.callback_endpoint())
    }
}

#[cfg(test)]
impl Job {
    /// A job `a` of the topic `t` that was added and due at this moment, for tests.
    pub(crate) fn sample(state: JobState, at: Timestamp) -> Self {
        Self {
            id: JobId::parse("a").expect("valid"),
            topic: Topic::parse("t").expect("valid"),
            state,
            created_at: at,
            due_at: at,
            expires_at: None,
            spec: JobSpec::default(),
            attempts: 1,
            reason: None,
            note: None,
            history: History::default(),
            body: Body::from_stored(bytes::Bytes::from_static(b"null")),
        }
    }
}

#[cfg(test)]
mod tests;
