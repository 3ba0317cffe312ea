//! What a schedule remembers between its runs.

use super::{FiredRuns, MissedRule, ScheduleSpec, members::Members};
use crate::job::{JobId, ScheduleName, Timestamp};

/// What a schedule remembers between its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleState {
    /// Counts the changes that clients made: 1 for a new schedule.
    pub revision: u64,
    /// `next` is the first occurrence after this moment. All before it are decided.
    pub after: Timestamp,
    /// The next occurrence; `None` after the last.
    pub next: Option<Timestamp>,
    /// The last occurrence that was handled: that has run, gave way to a run which was not over, or was missed.
    pub last: Option<Timestamp>,
    /// The job of the last run.
    pub last_job: Option<JobId>,
    /// Whether it is paused. It has no runs then.
    pub paused: bool,
    /// Set while the next run is due and cannot be added.
    pub waiting: Option<Waiting>,
    /// The version of the zone database with which `next` was computed.
    pub zone_database: String,
    /// How many occurrences had which end.
    pub counts: RunCounts,
    /// Which occurrences are not run again.
    pub fired: FiredRuns,
    /// Members of later versions.
    pub(super) other: Members,
}

/// A run that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// When it could not be added for the first time.
    pub since: Timestamp,
    /// Why.
    pub reason: WaitReason,
}

/// Why a run cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// The store is full.
    StoreFull,
    /// The intake of the topic is paused.
    IntakePaused,
    /// A reason of a later version.
    Other(Box<str>),
}

impl WaitReason {
    /// The name in the API.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::StoreFull => "store_full",
            Self::IntakePaused => "intake_paused",
            Self::Other(name) => name,
        }
    }

    fn parse(name: &str) -> Self {
        let known = [Self::StoreFull, Self::IntakePaused].into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.into()))
    }
}

/// How many occurrences had which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCounts {
    /// Runs.
    pub fired: u64,
    /// Occurrences that were missed; each outage counts at most 1,000.
    pub missed: u64,
    /// Occurrences that gave way to a run which was not over.
    pub overlapped: u64,
}

impl ScheduleState {
    /// The state of a new schedule.
    #[must_use]
    pub fn new(spec: &ScheduleSpec, now: Timestamp, zone_database: &str) -> Self {
        let mut state = Self {
            revision: 1,
            after: now,
            next: None,
            last: None,
            last_job: None,
            paused: false,
            waiting: None,
            zone_database: String::new(),
            counts: RunCounts::default(),
            fired: FiredRuns::default(),
            other: Members::default(),
        };
        state.continue_after(spec, now, zone_database);
        state
    }

    /// Computes `next` from a moment on.
    pub(super) fn continue_after(&mut self, spec: &ScheduleSpec, after: Timestamp, zone_database: &str) {
        self.after = after;
        self.recompute(spec, zone_database);
    }

    /// Computes `next` from the clock on: the first occurrence that is not due before `now`, if it has not run.
    pub(super) fn continue_from(
        &mut self,
        name: &ScheduleName,
        spec: &ScheduleSpec,
        now: Timestamp,
        zone_database: &str,
    ) {
        let jitter_ms = i64::try_from(spec.jitter.as_millis()).unwrap_or(i64::MAX);
        let latest = spec.recurrence.latest(now.shifted(-jitter_ms).shifted(-1), now);
        let not_due = latest.filter(|latest| spec.due_at(name, *latest) >= now);
        self.continue_after(spec, not_due.map_or(now, |occurrence| occurrence.shifted(-1)), zone_database);
    }

    /// Computes `next` from the same moment on.
    pub(super) fn recompute(&mut self, spec: &ScheduleSpec, zone_database: &str) {
        let next = self.fired.following(&spec.recurrence, self.after);
        if next != self.next {
            self.waiting = None;
        }
        self.next = next;
        zone_database.clone_into(&mut self.zone_database);
    }

    /// When the next run is due, by which a store orders schedules; `None` without a next run, and while it is paused.
    #[must_use]
    pub fn due_at(&self, name: &ScheduleName, spec: &ScheduleSpec) -> Option<Timestamp> {
        self.next.filter(|_| !self.paused).map(|next| spec.due_at(name, next))
    }

    /// Whether moments of this schedule are over a minute later than the clock: it ran, or was changed, by a wrong one. This
    /// stays true until the next run.
    #[must_use]
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        self.last.unwrap_or(self.after).max(self.after) > now.after(MissedRule::LATE)
    }

    /// The state after the next run could not be added. Later attempts keep the first moment.
    #[must_use]
    pub fn waiting(&self, now: Timestamp, reason: WaitReason) -> Self {
        let since = self.waiting.as_ref().map_or(now, |waiting| waiting.since);
        Self { waiting: Some(Waiting { since, reason }), ..self.clone() }
    }

    /// The next occurrences, at most `count`, whether or not it is paused.
    #[must_use]
    pub fn upcoming(&self, spec: &ScheduleSpec, count: usize) -> Vec<Timestamp> {
        let following = |after: &Timestamp| self.fired.following(&spec.recurrence, *after);
        std::iter::successors(self.next, following).take(count).collect()
    }

    /// As it is stored: a JSON object. Moments are milliseconds since 1970.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut members = self.other.clone();
        members.set("revision", Some(self.revision));
        members.set("after", Some(self.after.as_millis()));
        members.set("next", self.next.map(Timestamp::as_millis));
        members.set("last", self.last.map(Timestamp::as_millis));
        members.set("last_job", self.last_job.as_ref().map(JobId::as_str));
        members.set("paused", self.paused.then_some(true));
        members.set("waiting_since", self.waiting.as_ref().map(|waiting| waiting.since.as_millis()));
        members.set("waiting_for", self.waiting.as_ref().map(|waiting| waiting.reason.as_str()));
        members.set("zone_database", Some(&self.zone_database));
        members.set("fired", Some(self.counts.fired));
        members.set("missed", Some(self.counts.missed));
        members.set("overlapped", Some(self.counts.overlapped));
        members.set("fired_runs", Some(self.fired.encode()));
        members.encode()
    }

    /// Reads a stored one. Members that this version does not know are kept.
    ///
    /// # Errors
    /// The rest of a sentence about the stored state if it is malformed.
    pub fn decode(text: &str) -> Result<Self, String> {
        let mut members = Members::decode(text)?;
        let last_job: Option<String> = members.remove("last_job")?;
        let last_job = last_job.map(|id| JobId::parse(&id)).transpose();
        let since: Option<i64> = members.remove("waiting_since")?;
        let reason: Option<String> = members.remove("waiting_for")?;
        let waiting = since.zip(reason).map(|(since, reason)| Waiting {
            since: Timestamp::from_millis(since),
            reason: WaitReason::parse(&reason),
        });
        Ok(Self {
            revision: members.require("revision")?,
            after: Timestamp::from_millis(members.require("after")?),
            next: members.remove("next")?.map(Timestamp::from_millis),
            last: members.remove("last")?.map(Timestamp::from_millis),
            last_job: last_job.map_err(|error| format!("has a last_job that {error}"))?,
            paused: members.remove("paused")?.unwrap_or_default(),
            waiting,
            zone_database: members.require("zone_database")?,
            counts: RunCounts {
                fired: members.require("fired")?,
                missed: members.require("missed")?,
                overlapped: members.require("overlapped")?,
            },
            fired: FiredRuns::decode(&members.remove::<Vec<_>>("fired_runs")?.unwrap_or_default()),
            other: members,
        })
    }
}
