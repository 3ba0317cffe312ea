//! The store: one trait of whole queue operations, and the laws that every engine obeys.
//!
//! The conformance suite (`tests/it/conformance`) proves the laws on each engine. The store knows no
//! waiters, no HTTP and no limits: its arguments are valid. It owns time: delays stay relative until
//! the engine resolves them on its own clock.

mod archive;
mod bounded_text;
pub mod embedded;
mod error;
mod list;
mod metered;
mod moving;
mod notice;
mod outcome;
mod rate_limit;
mod records;
pub mod redis;
mod request;
pub(crate) mod schedules;
mod step;
mod topic_updates;
mod topic_values;
mod view;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use archive::TOO_OLD_AT_ONCE;
pub use archive::{Archive, ArchiveContent, ArchiveKind, ArchivedRecord};
pub use error::Error;
pub use list::{
    ChangeJob, JobChange, JobFilter, JobPage, ListPosition, ListedJob, Order, SeenJob, moment_of,
};
pub use metered::Metered;
pub use moving::{ClockOffsets, Movable, MoveMark, MoveRole, ServerSet};
pub use notice::{MAX_NOTICES, Notice, NoticeContent, NoticeKind, Notices, WATCHED_FOR};
pub use outcome::{
    Added, AddedSecret, Finished, Move, MoveKind, Outcome, Promoted, PurgeSlice, Refusal, Reservation,
    TopicStats, Verified,
};
pub use rate_limit::Allowed;
pub use records::{JobRecord, Put, RecordPage, RecordReader, TopicRecord};
pub use request::{AddJob, Claim, FinishJob, IfExists, Patch, PurgeCursor, Release, Requeue, Touch, Wait};
pub use schedules::{
    DUE_BYTES, PreviousRun, ScheduleChange, ScheduleChanged, ScheduleContent, ScheduleOutcome, SchedulePage,
    ScheduleRefusal, ScheduleRun, ScheduleStore, ScheduleUpdates, StoredSchedule,
};
pub use step::{Applied, DeleteRule, DeletedJob, Step, StepAction, Steps};
pub use topic_updates::TopicUpdates;
pub use topic_values::{TopicStore, TopicValues, Updated};
pub use view::{Minute, Span, Timeline, Totals};

use crate::job::{
    Attributes, CallRate, HostNumber, Job, JobId, Origin, Outlet, RememberedId, SigningSecret, Timestamp,
    Topic, TopicFilter, TopicPause, TopicSettings, decode_called_at, encode_called_at,
};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Receives the notifications of a store. [`ready`](Self::ready) and [`due_in`](Self::due_in) are hints, not facts: a
/// lost one costs time until the next one or the next sweep, an extra one costs a call. Notifications come from any
/// thread, without locks held, and the methods must return at once.
pub trait Listener: Send + Sync {
    /// `outlet` may have new ready jobs.
    fn ready(&self, outlet: &Outlet);

    /// [`Store::promote`] may have work in `after`.
    fn due_in(&self, after: Duration);

    /// The engine made these moves by itself, outside of [`Store::promote`].
    fn promoted(&self, moves: &[Move]);

    /// The callback of `topic` has changed, or its delivery was resumed, as [`Store::topic_config`] now says. Outlets of the
    /// topic that may have ready jobs are announced besides.
    fn topic_changed(&self, _topic: &Topic) {}

    /// A client reads the figures of all processes ([`NoticeKind::Watch`]).
    fn watched(&self) {}
}

/// The description of an engine for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// `"embedded"` or `"redis"`.
    pub engine: &'static str,
    /// When an acknowledged change is durable: `"always"`, `"interval 50ms"`, `"aof everysec"`.
    pub durability: String,
    /// Version of the engine's library or server.
    pub version: String,
    /// Whether several processes may serve its store at the same time.
    pub is_shared: bool,
}

/// A store of queues, shared by all tasks of the process.
///
/// # Laws
///
/// 1. Each operation on each job is atomic and, when it returns `Ok`, as durable as the engine is
///    configured. A batch is not atomic as a whole; its results are in the order of its items.
/// 2. A state changes only as in the job's life (`ARCHITECTURE.md`). *Now* is the engine's clock
///    ([`crate::job::Now`]): rounded down for comparing, up for counting a delay from; without a delay
///    a job is ready at once.
/// 3. Delayed jobs become ready, and reservations end, only inside a promotion: a reservation lasts until a
///    promotion ends it, also just past its TTR. Promotions are the calls of
///    [`promote`](Self::promote), and from the first call on also those that an engine makes by itself when
///    jobs are due; it passes their moves to the [`Listener`]. If one of them fails, the engine makes no
///    more until a call succeeds. Once `promote` has returned `more == false`, no job that was due at that
///    moment is left waiting. In a store of several
///    servers this excludes the jobs of a server that did not answer in time: they are promoted in the
///    background as soon as it answers, and the [`Listener`] is notified.
/// 4. [`reserve`](Self::reserve) returns fewer jobs than requested only when no more are ready, or when
///    finding more would use up too much of the TTRs of the first; then the [`Listener`] is notified that there may be more.
///    Every ready job is eventually reserved. The order is approximately by due time.
/// 5. Only the receipt of the present reservation can release, touch, bury or cancel. It can finish, too; and once the
///    reservation has timed out, it still can until another one begins or a patch, a replacement, a requeue or a change of a listed
///    job changes the job, unless the job wants no [late finish](crate::job::JobSpec::late_finish). A reservation that was cancelled
///    or postponed counts as none. Any other receipt changes nothing. [`Refusal::TimedOut`] of a release, a touch or a bury
///    says that the receipt can finish, any other refusal that it cannot.
/// 6. A finished or deleted job is gone: no count includes it and its id can be used again, unless the job had a
///    [window](crate::job::JobSpec::dedup). A finish or a [`StepAction::Delete`] then leaves the id until the window has passed.
///    An add with this id and a window of its own is [`Added::FinishedBefore`] if it repeats the request of a finished job,
///    otherwise [`Refusal::EndedBefore`]. An add of the same topic that replaces adds the job, unless its revision is lower, or
///    equal, which is a repeat. Of more ids than the engine may remember, those whose windows end first are forgotten; without
///    space for one, the job ends all the same.
/// 7. The [`Listener`] is notified after each change that makes a job ready, or that moves forward the next
///    deadline for which `promote` must be called.
/// 8. All checks come before the first write. After an `Err` other than [`Error::Full`] the change may have
///    happened.
/// 9. A step by id takes the caller's topics, its `scope`, and checks them inside the step. For a
///    job of another topic the result is exactly that for no job, its body does not leave the engine, and the
///    step does not change it.
/// 10. A job belongs to one [`Outlet`] until it is replaced: that of its topic and the host of its own callback, or the plain one.
///    [`reserve`](Self::reserve) never returns a job of another outlet. All else is by topic: figures, purges, dead
///    letters, settings and scopes. Resuming a topic's delivery notifies the [`Listener`] of its outlets with ready jobs.
/// 11. A job's [history](crate::job::History) gets an entry in the step that ends a reservation by a release, a bury or its
///    TTR, that requeues or replaces the job, or in which a caller changes its due time; no other step changes it. It names who
///    reserved the job, or who asked for the change.
/// 12. A job with an [expiry](crate::job::Expiry) is not reserved from that moment on. A promotion then makes it a dead letter
///    or deletes it, the latter only while the clock is [trusted](crate::clock::ClockTrust), and never makes it ready; until then
///    an engine may show a ready one as delayed. A reservation keeps it from expiring. The moment follows from the due time that
///    an add, a patch, a requeue or a change of a listed job sets, and no other step moves it.
/// 13. An add that [replaces](IfExists::Replace) puts a whole new job in the place of the one of its topic with its id: only the
///    history goes on. An add with a lower revision than the stored one is [`Refusal::OlderRevision`]; with an equal one it is
///    [`Added::Replayed`]. A reserved job keeps its reservation, but it is then one of an older version and counts as no attempt of the new one: a finish, release or bury with
///    its receipt is [`Refusal::Replaced`] and ends it, as do its deadline and a cancellation, and then the new job waits for its
///    due time. A touch with it is refused as well and ends nothing.
/// 14. A job keeps the [note](crate::job::ProgressNote) of a touch, also when its reservation ends, until another touch sets one. A requeue or
///    a replacement clears it. Without the space for a note, the touch extends the reservation all the same.
#[async_trait]
pub trait Store: TopicStore + ScheduleStore + std::fmt::Debug + 'static {
    /// Describes the engine.
    fn info(&self) -> EngineInfo;

    /// Adds jobs. The same id with the same fingerprint is [`Added::Replayed`] and changes nothing;
    /// with another it is [`Refusal::Exists`], unless the add replaces. Two equal ids within a batch are treated in order.
    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>>;

    /// Reserves up to `claims.len()` ready jobs of `outlet`, at most one for each claim, and returns them in the order of the
    /// claims. Of equal claims the earlier ones get the jobs; of different claims any may get none. Each reservation counts as
    /// an attempt and has a new receipt. With [`Wait::Yes`] the engine may miss ready jobs, as described there.
    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>>;

    /// Whether [`reserve`](Self::reserve) may succeed for `outlet`, from memory: false only if it would have
    /// returned no job at a moment during this call. After `false`, a registered waiter cannot miss the
    /// [`Listener`]'s next notification.
    fn may_have_ready(&self, _outlet: &Outlet) -> bool {
        true
    }

    /// The number of a callback's host in this store, by a seed of its own. The same as long as the store exists.
    fn host_number(&self, origin: &Origin) -> HostNumber;

    /// The outlets that have ready jobs. Later ones are notified to the [`Listener`].
    async fn ready_outlets(&self) -> Result<Vec<Outlet>>;

    /// Takes up to `want` calls of a topic's rate over all processes: evenly spaced by the engine's clock, with bursts of a
    /// tenth of a second. After a restart of the embedded engine, a burst is allowed.
    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed>;

    /// Gives back `unused` of the calls that were taken, as if they had not been. Does nothing if calls were taken or given
    /// back since, so that the rate is never exceeded: then up to a tenth of a second of calls, or one call, is lost.
    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()>;

    /// Finishes jobs, which removes them. Without a receipt a job can be finished while it is reserved, unless
    /// it requires receipts. Items with equal ids are treated in order; repeats do not multiply the work.
    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>>;

    /// Applies steps, each atomic by itself. The outcomes are in the order of the steps; steps of one job are applied in that
    /// order. A cancelled reservation whose call was repeated may be shown as
    /// [`Refusal::Lost`].
    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>>;

    /// The job, without reserving it.
    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>>;

    /// Moves up to about `limit` jobs whose deadline has passed: delayed to ready, reserved to ready,
    /// delayed or dead, dead to gone where a retention is set. A call moves at most twice `limit`: Redis moves
    /// the jobs of outlets that this process has not used in a second step. A broken entry is set aside,
    /// counted and logged, and stops nothing.
    async fn promote(&self, limit: usize) -> Result<Promoted>;

    /// The settings and pauses of a topic, from memory; other processes' changes within a second.
    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig>;

    /// Up to `limit` topics of `scope` with jobs, settings, secrets or a pause, by name, after `after`. Without a limit
    /// (`usize::MAX`) the engine reads its topics once, in pieces, so that other operations are not delayed for long: with
    /// very many topics, a job that changes meanwhile may count in two states or in none.
    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>>;

    /// One topic; `None` when it has neither jobs nor settings nor secrets nor a pause.
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>>;

    /// Counts the delayed jobs of a topic, or of all topics, by due time. Each counts once, in the minute in which it is
    /// due; on the embedded engine, of more than 16,384 jobs with a delay (or with a moment) that are due in the same
    /// millisecond, the rest count in the next.
    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline>;

    /// Lists up to `limit` jobs that match `filter`, without their bodies, behind `after`. The call ends when it has found
    /// `limit` jobs or has examined about [`JobPage::MAX_EXAMINED`]: a page may be short or empty, and only one without
    /// [`next`](JobPage::next) is the last. A job that matches and does not move during the
    /// walk is on exactly one page. Dead letters of one topic are in the order of their moments and ids. An engine that keeps
    /// ready jobs in several lists may return them in approximate order, and one twice, or not at all while its list is compacted.
    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage>;

    /// Deletes a slice of all jobs of a topic. Start with `None` and continue while a cursor is returned.
    /// Jobs present from the first to the last slice are all deleted: it walks the ids in any state, while a walk through the
    /// lists of the states would miss a job that moves to a list that was walked already.
    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice>;

    /// Reads everything that is set for topics, then every schedule, then every remembered id, then every job, whole. A schedule,
    /// id or job that is there from the call until the last page is on exactly one page, as it was at one moment since the call;
    /// one whose due time has passed may be shown as ready before a promotion. On the embedded engine all pages are of one moment.
    async fn records(&self) -> Result<Box<dyn RecordReader>>;

    /// Stores jobs as they are in another store: state, times, attempts, reservation and fingerprint included. A delayed job
    /// whose due time has passed may become ready at once. Results are in the order of `jobs`. A job that is there already, or
    /// another one under its id, stays as it is. The id of a job that is stored is not remembered any more.
    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>>;

    /// Remembers ids as they are remembered in another store. An id whose window has passed counts as there. One of which a later
    /// end is remembered stays as it is, and one that would be the first to be forgotten is not stored when there are too many:
    /// [`Put::Differs`].
    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>>;

    /// What the processes of this store leave for each other.
    fn notices(&self) -> &dyn Notices;

    /// What was done, kept over restarts.
    fn archive(&self) -> &dyn Archive;

    /// Reads and compares everything: every job has exactly one valid index entry, every count is right, every
    /// record is sound. Changes nothing. A store in use is verified piece by piece, each of which delays its other
    /// operations.
    async fn verify(&self) -> Result<Verified>;

    /// Whether the store can take a write now.
    async fn check(&self) -> Result<()>;

    /// The parts that do not work although the store accepts writes, as of the last check. Never waits.
    fn degraded(&self) -> Vec<Degraded> {
        Vec::new()
    }

    /// The space that the store takes, as of some seconds ago. Unknown to engines without a place of their own.
    async fn space(&self) -> Result<StoreSpace> {
        Ok(StoreSpace::default())
    }

    /// What is known of the last complete backup.
    async fn last_backup(&self) -> Result<LastBackup> {
        Ok(LastBackup::default())
    }

    /// Flushes and stops; later operations fail with [`Error::Unavailable`].
    async fn close(&self) -> Result<()>;
}

/// The space that a store takes: on disk, or in the memory of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreSpace {
    /// Bytes in use. On Redis all that the servers hold, including the data of other programs.
    pub used_bytes: Option<u64>,
    /// Bytes that are free; of several servers on the one with the least. `None` where there is no limit.
    pub free_bytes: Option<u64>,
}

/// What is known of the last backup of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastBackup {
    /// The engine makes none itself.
    #[default]
    Foreign,
    /// None is known.
    Unknown,
    /// It began at this moment, and is complete.
    At(Timestamp),
}

/// A part of a store that does not work, while the store as a whole does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degraded {
    /// The part's name, such as `disk_space`.
    pub part: &'static str,
    /// What does not work, as a message for operators.
    pub detail: String,
    /// Whether the server is not ready because of it, although calls are carried out.
    pub is_unready: bool,
}

/// The configuration of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicConfig {
    /// Defaults for new jobs.
    pub settings: TopicSettings,
    /// What is paused, perhaps until a moment that has passed.
    pub pause: TopicPause,
    /// What signs its calls, oldest first; at most [`SigningSecret::MAX_COUNT`].
    pub secrets: Vec<SigningSecret>,
    /// When its endpoints were last to be called at once, although they rested.
    pub called_at: Option<Timestamp>,
}

impl TopicConfig {
    /// The configuration among the values that an engine has stored for a topic; `None` when one is malformed.
    #[must_use]
    pub fn decode(values: &Attributes) -> Option<Self> {
        let (settings, secrets) = (TopicSettings::decode(values)?, SigningSecret::decode_from(values)?);
        let (pause, called_at) = (TopicPause::decode(values), decode_called_at(values));
        Some(Self { settings, pause, secrets, called_at })
    }

    /// Whether its ready jobs may go somewhere since the configuration was `before`, or at another moment, so that the listener must
    /// be notified.
    #[must_use]
    pub fn restarts_delivery(&self, before: &Self) -> bool {
        let end = |config: &Self| config.pause.delivery.as_ref().map(|pause| pause.until);
        end(before).is_some_and(|earlier| end(self) != Some(earlier))
            || before.settings.callback != self.settings.callback
            || before.called_at != self.called_at
    }

    /// Replaces the configuration among the values of a topic. Defaults take no space.
    pub fn encode_into(&self, values: &mut Attributes) {
        let Self { settings, pause, secrets, called_at } = self;
        settings.encode_into(values);
        pause.encode_into(values);
        SigningSecret::encode_into(secrets, values);
        encode_called_at(*called_at, values);
    }

    /// Whether nothing differs from the default, so that it need not be stored.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
