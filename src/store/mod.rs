//! The store: one trait of whole queue operations, and the laws that every engine obeys.
//!
//! The conformance suite (`tests/it/conformance`) proves the laws on each engine. The store knows no
//! waiters, no HTTP and no limits: what reaches it is valid. It owns time: delays stay relative until
//! the engine resolves them on its own clock.

pub mod embedded;
mod error;
mod metered;
mod outcome;
pub mod redis;
mod request;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use error::Error;
pub use metered::Metered;
pub use outcome::{
    Added, Deleted, Finished, Held, Move, MoveKind, NotHeld, Patched, Promoted, PurgeSlice, Requeued,
    Reservation, TopicStats, Verified,
};
pub use request::{AddJob, DeadCursor, FinishJob, Patch, PurgeCursor, Release, Wait};

use crate::job::{Delay, Job, JobId, Reason, Receipt, Topic, TopicFilter, TopicPause, TopicSettings, Ttr};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Told by a store what may have become possible. Hints, never facts: a lost hint costs time until
/// the next one or the next sweep, an extra one costs a look. Called without locks held, from any
/// thread, and must return at once.
pub trait Listener: Send + Sync {
    /// `topic` may have ready jobs that it did not have before.
    fn ready(&self, topic: &Topic);

    /// Something may be due for [`Store::promote`] in `after`.
    fn due_in(&self, after: Duration);
}

/// How an engine presents itself to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// `"embedded"` or `"redis"`.
    pub engine: &'static str,
    /// What an acknowledgement means, in a few words: `"always"`, `"interval 50ms"`, `"aof everysec"`.
    pub durability: String,
    /// Version of the engine's library or server.
    pub version: String,
}

/// One queue store, shared by all tasks of the process.
///
/// # Laws
///
/// 1. Each operation on each job is atomic and, when it returns `Ok`, as durable as the engine is
///    configured. A batch is not atomic as a whole; its results are in the order of its items.
/// 2. A state changes only as in the job's life (`ARCHITECTURE.md`). *Now* is the engine's clock
///    ([`crate::job::Now`]): rounded down for comparing, up for counting a delay from; without a delay
///    a job is ready at once.
/// 3. Delayed jobs become ready, and reservations end, only inside [`promote`](Self::promote): a
///    receipt works until `promote` took the job back, also just past its TTR. Once `promote` has
///    answered with `more == false`, nothing that was due at that moment is left waiting. Where a store is
///    several servers, this excepts the jobs of a server that did not answer in time: they are promoted in the
///    background as soon as it answers, and the [`Listener`] is told.
/// 4. [`reserve`](Self::reserve) answers with fewer jobs than wanted only when no more are ready, or
///    when more take so long that the TTRs of the first would suffer; then the [`Listener`] is told that
///    there may be more. Every ready job is reached in the end. Order is about by due time.
/// 5. Only the receipt of the present reservation finishes, releases, touches, buries or cancels. Any
///    other changes nothing.
/// 6. A finished or deleted job is gone: it counts nowhere and its id is free.
/// 7. Whatever makes a job ready tells the [`Listener`] after it happened; so does whatever makes
///    something due earlier.
/// 8. All checks come before the first write; an `Err` other than [`Error::Full`] may have happened.
/// 9. A step by id takes the caller's topics, its `scope`, and checks them inside the step. A job of another
///    topic is answered exactly like no job, its body does not leave the engine, and the step does not touch it.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// How the engine presents itself.
    fn info(&self) -> EngineInfo;

    /// Adds jobs. The same id with the same fingerprint is [`Added::Replayed`] and changes nothing;
    /// with another it is [`Added::Exists`]. Two equal ids within a batch are treated in order.
    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Added>>;

    /// Reserves up to `ttrs.len()` ready jobs of `topic`, each for the TTR at its index, `None` being
    /// the job's own. Each grant counts an attempt and carries a fresh receipt. With [`Wait::Yes`] the engine
    /// may leave ready jobs behind, as described there.
    async fn reserve(&self, topic: &Topic, ttrs: &[Option<Ttr>], wait: Wait) -> Result<Vec<Reservation>>;

    /// Whether [`reserve`](Self::reserve) is worth asking for `topic`, from memory: false only where it
    /// would have granted nothing at a moment during this call. Who is told false and waits is in time for
    /// the [`Listener`]'s next word.
    fn may_have_ready(&self, _topic: &Topic) -> bool {
        true
    }

    /// Takes reservations back that no client has seen: the attempt is not counted, the due time
    /// stays, the job is ready again at once. Stale receipts are passed over.
    async fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> Result<()>;

    /// Finishes jobs: they are gone. Without a receipt a job is finished while it is reserved, unless
    /// it requires receipts. Items with equal ids are treated in order; repeats do not multiply the work.
    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Finished>>;

    /// Gives a reserved job back: after `release.delay`, or after its schedule's step when that is
    /// `None`; dead instead when its attempts are used.
    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held>;

    /// Extends a reservation to now plus `ttr`, or plus the TTR of this reservation's job when `None`.
    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held>;

    /// Makes a reserved job a dead letter.
    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held>;

    /// Makes a dead job wait again, after `delay`; its attempts start at 0, its reason is cleared.
    async fn requeue(&self, scope: &TopicFilter, id: &JobId, delay: Delay) -> Result<Requeued>;

    /// Changes a delayed or ready job in place. Its fingerprint stays.
    async fn patch(&self, scope: &TopicFilter, id: &JobId, patch: Patch) -> Result<Patched>;

    /// Deletes jobs in any state. Repeated ids do not multiply the work.
    async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>>;

    /// The job, without reserving it.
    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>>;

    /// Moves up to about `limit` jobs whose deadline has passed: delayed to ready, reserved to ready,
    /// delayed or dead, dead to gone where a retention is set. A broken entry is set aside, counted
    /// and logged, and stops nothing.
    async fn promote(&self, limit: usize) -> Result<Promoted>;

    /// The settings and pause of a topic, from memory; other processes' changes within a second.
    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig>;

    /// Replaces a topic's settings; default settings forget them.
    async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()>;

    /// Pauses what `set` names, then resumes what `clear` names, in one step. The rest stays as it is, whatever
    /// others change at the same time. Returns what is paused afterwards. Resuming delivery tells the listener.
    async fn change_pause(&self, topic: &Topic, set: TopicPause, clear: TopicPause) -> Result<TopicPause>;

    /// Up to `limit` topics with jobs, settings or a pause, by name, after `after`. Without a limit
    /// (`usize::MAX`) the engine passes over its topics once, in pieces that hold nobody up for long: of very many
    /// topics, a job that moves meanwhile may count in two states or in none.
    async fn topics(&self, after: Option<&Topic>, limit: usize) -> Result<Vec<(Topic, TopicStats)>>;

    /// One topic; `None` when it has neither jobs nor settings nor a pause.
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>>;

    /// Deletes a slice of all jobs of a topic; start with `None` and go on while a cursor comes back.
    /// Jobs present from start to end of the walk are all deleted.
    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice>;

    /// Up to `limit` dead letters of a topic by `(dead_at, id)`, after `after`.
    async fn dead(&self, topic: &Topic, after: Option<&DeadCursor>, limit: usize) -> Result<Vec<Job>>;

    /// Requeues up to `limit` dead letters of a topic, oldest first, without delay; how many.
    async fn requeue_dead(&self, topic: &Topic, limit: usize) -> Result<usize>;

    /// Deletes up to `limit` dead letters of a topic, oldest first; how many.
    async fn delete_dead(&self, topic: &Topic, limit: usize) -> Result<usize>;

    /// Reads everything and holds it against itself: every job has exactly one valid index entry, every
    /// count is that of the contents, every record is sound. Changes nothing. Of a store in use a
    /// consistent view is taken piece by piece, which holds its other operations up.
    async fn verify(&self) -> Result<Verified>;

    /// Whether the store can take a write now.
    async fn check(&self) -> Result<()>;

    /// What does not work at the moment although the store takes writes, as of the last look. Never waits.
    fn degraded(&self) -> Vec<Degraded> {
        Vec::new()
    }

    /// Flushes and stops; later operations fail with [`Error::Unavailable`].
    async fn close(&self) -> Result<()>;
}

/// A part of a store that does not work as it should, while the store as a whole does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degraded {
    /// The part's name, such as `disk_space`.
    pub part: &'static str,
    /// What does not work, in words for operators.
    pub detail: String,
}

/// What is set for a topic as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicConfig {
    /// Defaults for new jobs.
    pub settings: TopicSettings,
    /// What is stopped.
    pub pause: TopicPause,
}

impl TopicConfig {
    /// Whether nothing is set, so that the topic need not be remembered for it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
