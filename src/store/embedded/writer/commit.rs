//! Group commit: the only thread that changes anything. It takes a group of operations, runs them in one
//! transaction, makes that durable with one sync, and only then notifies the listener and replies. There is no
//! batching timer: requests queue while the previous sync runs. A group that meets a full disk is rolled back, and
//! its operations run once more, each in a transaction of its own, so that none is refused because of another.
//! Between groups the writer promotes due jobs, and it waits for operations no longer than until the next deadline.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rusqlite::ErrorCode;

use super::{
    checkpoint::Checkpointer,
    interval_sync::IntervalSync,
    published::{LOCKED, PublishedState},
    request::WriteRequest,
    vacuum::Vacuum,
    write_queue::{NextGroup, Operation, WaitFor, WriteQueue},
};
use crate::{
    clock::Clock,
    job::Timestamp,
    metrics::EngineMetrics,
    store::{
        Error, Listener,
        embedded::{
            disk::{
                commit_mark::CommitMark,
                data_dir::DataDir,
                disk_space::{DiskSpace, is_out_of_index_space},
            },
            memory::state::Memory,
            ops::{
                self,
                write_txn::{CommitEffects, WriteTxn, time_until},
            },
            options::{Durability, Options},
            rows::db::{Db, SqlResult},
        },
    },
};

pub(crate) struct Writer {
    pub db: Db,
    pub memory: Memory,
    pub queue: Arc<WriteQueue>,
    pub published: Arc<PublishedState>,
    pub options: Arc<Options>,
    pub clock: Arc<dyn Clock>,
    pub listener: Arc<dyn Listener>,
    pub metrics: EngineMetrics,
    pub checkpoints: Checkpointer,
    pub syncer: Option<IntervalSync>,
    /// Until when the queue's timer sleeps unless it is notified of an earlier deadline.
    pub sleeps_until: Timestamp,
    /// Most jobs that one of the writer's own promotions moves, as in the last call of `promote`. `None` if the writer
    /// does not promote by itself: before the first call, and after a failure until a call succeeds, because the
    /// queue's timer retries with pauses and logs.
    pub promotion_limit: Option<usize>,
    pub vacuum: Vacuum,
    pub disk: DiskSpace,
    /// Whether the last transaction met a full disk.
    pub ran_out_of_space: bool,
    pub db_path: PathBuf,
    /// Whether something was written since [maintenance](Self::do_maintenance) found nothing more to do.
    pub needs_maintenance: bool,
    /// Locked for as long as the thread lives, and unlocked last.
    pub data_dir: DataDir,
    /// Whether the lock file can be written to. The marks are only an aid, so a failure stops nothing else.
    pub writes_commit_marks: bool,
}

/// Closes the queue however the thread ends, also by a panic, so that no caller waits forever.
struct CloseQueueOnDrop {
    queue: Arc<WriteQueue>,
    published: Arc<PublishedState>,
}

impl Drop for CloseQueueOnDrop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.published.fail("the writer thread panicked", &"the log says where");
        }
        self.queue.abandon();
    }
}

impl Writer {
    /// Runs until the queue is closed and empty. An error means that the store was not closed cleanly.
    pub fn run(mut self) -> Result<(), Error> {
        let _abandon = CloseQueueOnDrop { queue: self.queue.clone(), published: self.published.clone() };
        let mut wait = WaitFor::Forever;
        loop {
            match self.queue.next_group(wait.min(self.wait_for_deadline())) {
                NextGroup::Group(operations) => {
                    // In turn, so that neither many operations nor many due jobs hold up the others.
                    self.promote_if_due();
                    self.run_group(operations);
                    wait = self.after_group();
                }
                NextGroup::Idle if self.promote_if_due() => wait = self.after_group(),
                NextGroup::Idle => wait = self.do_maintenance(),
                NextGroup::Closed => break,
            }
        }
        self.end()
    }

    /// How long the writer may wait until it has to promote.
    fn wait_for_deadline(&self) -> WaitFor {
        let next = self.promotion_limit.and_then(|_| self.next_deadline());
        next.map_or(WaitFor::Forever, |next| WaitFor::AtMost(time_until(&*self.clock, next)))
    }

    /// Promotes one batch if the writer promotes by itself and something is due. Returns whether it did.
    fn promote_if_due(&mut self) -> bool {
        let (Some(limit), WaitFor::AtMost(Duration::ZERO)) = (self.promotion_limit, self.wait_for_deadline())
        else {
            return false;
        };
        let (promotion, mut outcome) =
            WriteRequest::new(move |txn: &mut WriteTxn<'_>| ops::promote(txn, limit).map(Ok));
        self.run_group(vec![promotion]);
        match outcome.try_recv() {
            Ok(Ok(promoted)) => self.listener.promoted(&promoted.moves),
            Ok(Err(_)) | Err(_) => {
                self.promotion_limit = None;
                self.announce_deadline();
            }
        }
        true
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.memory.next_deadline(self.options.dead_retention, self.clock.wall_ahead_ms())
    }

    /// Runs a group of operations, and replies to each.
    fn run_group(&mut self, mut operations: Vec<Box<dyn Operation>>) {
        let outcome = self.run_operations(&mut operations);
        if !self.ran_out_of_space {
            operations.into_iter().for_each(|operation| operation.reply(outcome.clone()));
            return;
        }
        self.disk.make_room();
        for mut operation in operations {
            self.keep_wal_short();
            let outcome = self.run_operations(std::slice::from_mut(&mut operation));
            operation.reply(outcome);
        }
    }

    /// Runs operations in one transaction, and notifies the listener.
    fn run_operations(&mut self, operations: &mut [Box<dyn Operation>]) -> Result<(), Error> {
        self.ran_out_of_space = false;
        if self.disk.is_full() {
            self.disk.recover();
        }
        let ((), effects) = self.transact(|txn| {
            operations.iter_mut().try_for_each(|operation| {
                txn.next_operation();
                operation.run(txn)
            })
        })?;
        if let Err(gone) = self.data_dir.check() {
            return Err(self.published.fail("changes would be lost", &gone));
        }
        // Notify before replying, so that callers see the effects of their own writes.
        self.notify_listener(effects);
        Ok(())
    }

    /// Keeps the write-ahead log from growing on a full disk.
    fn keep_wal_short(&mut self) {
        if let Err(error) = self.checkpoints.keep_wal_short(self.db.conn()) {
            self.checkpoint_failed(&error);
        }
    }

    /// Runs `change` in a transaction of its own. When it or the commit fails, disk and memory are unchanged.
    pub fn transact<T>(
        &mut self,
        change: impl FnOnce(&mut WriteTxn<'_>) -> SqlResult<T>,
    ) -> Result<(T, CommitEffects), Error> {
        self.published.check()?;
        let mut effects = CommitEffects::default();
        let mut txn = WriteTxn {
            db: &mut self.db,
            memory: &mut self.memory,
            effects: &mut effects,
            now: self.clock.read(),
            wall_ahead_ms: self.clock.wall_ahead_ms(),
            clock: &*self.clock,
            options: &self.options,
            space: self.disk.gauge(),
        };
        let changed = change(&mut txn);
        if let Some(level) = txn.space.known() {
            self.published.set_space(level);
        }
        let changed = changed.and_then(|value| self.commit().map(|()| value));
        match changed {
            Ok(value) => {
                self.memory.commit(|outlet, has_ready| self.published.set_ready(outlet, has_ready));
                for (topic, config) in effects.configs.drain(..) {
                    self.published.set_config(topic, config);
                }
                self.metrics.set_aside(effects.set_aside);
                self.metrics.ids_not_kept(effects.not_remembered, effects.forgotten_early);
                Ok((value, effects))
            }
            Err(error) => Err(self.roll_back(&error)),
        }
    }

    fn commit(&mut self) -> SqlResult<()> {
        if !self.db.in_transaction() {
            return Ok(());
        }
        self.needs_maintenance = true;
        let start_us = self.clock.now_micros();
        self.db.commit(self.clock.read().rounded_up)?;
        match self.options.durability {
            Durability::Always => {
                let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
                self.metrics.synced(Duration::from_micros(took_us));
            }
            Durability::Interval(_) => self.syncer.iter().for_each(IntervalSync::mark_written),
            Durability::Os => {}
        }
        self.write_commit_mark();
        Ok(())
    }

    /// Records the commit in the lock file, with which the next start compares the database.
    fn write_commit_mark(&mut self) {
        if self.writes_commit_marks
            && let Err(error) = CommitMark::after_commit(self.db.store_head(), self.options.durability)
                .write(self.data_dir.lock_file())
        {
            self.writes_commit_marks = false;
            tracing::warn!(%error, "the lock file cannot be written to; the next start cannot notice a loss of commits");
        }
    }

    /// Rolls the group back, and decides whether the engine may continue.
    fn roll_back(&mut self, error: &rusqlite::Error) -> Error {
        let undone = self.db.rollback();
        self.memory.rollback();
        if let Err(error) = undone {
            return self.published.fail("a group of changes could not be rolled back", &error);
        }
        if self.disk.explains(error) {
            self.ran_out_of_space = true;
            self.disk.ran_out();
            if is_out_of_index_space(error) {
                // The log contains the change until the next one overwrites it, and a crash would restore it.
                return Error::refused("the disk is full");
            }
            return self.disk.full();
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => Error::refused(LOCKED),
            Some(_) | None => self.published.fail("a group of changes could not be written", error),
        }
    }

    /// Notifies the listener, without holding any lock.
    fn notify_listener(&mut self, effects: CommitEffects) {
        effects.changed_topics.iter().for_each(|topic| self.listener.topic_changed(topic));
        effects.ready.iter().for_each(|outlet| self.listener.ready(outlet));
        if let Some((limit, until)) = effects.promotion {
            self.sleeps_until = until;
            self.promotion_limit = self.options.promotes_by_itself.then_some(limit);
        }
        self.announce_deadline();
    }

    /// Notifies the listener of the next deadline if it has to wake the queue's timer for it.
    fn announce_deadline(&mut self) {
        if self.promotion_limit.is_none()
            && let Some(next) = self.next_deadline()
            && next < self.sleeps_until
        {
            self.sleeps_until = next;
            self.listener.due_in(time_until(&*self.clock, next));
        }
    }

    /// The short maintenance that keeps pace with the operations: checkpoints and the ballast.
    pub fn after_group(&mut self) -> WaitFor {
        if self.published.check().is_err() {
            return WaitFor::Forever;
        }
        self.disk.recover();
        if self.disk.is_full() {
            self.keep_wal_short();
        }
        if !self.needs_maintenance {
            return WaitFor::Forever;
        }
        if let Err(error) = self.checkpoints.after_commit(&self.db) {
            self.checkpoint_failed(&error);
        }
        self.metrics.set_log_bytes(self.checkpoints.log_bytes());
        self.published.set_blocked_log(self.checkpoints.blocked());
        WaitFor::AtMost(self.options.idle_after)
    }

    /// Runs one step of maintenance while no operation is queued, such as freeing disk space.
    pub fn do_maintenance(&mut self) -> WaitFor {
        match self.try_maintenance() {
            Ok(wait) => wait,
            Err(error) => {
                self.checkpoint_failed(&error);
                WaitFor::Forever
            }
        }
    }

    fn try_maintenance(&mut self) -> SqlResult<WaitFor> {
        if self.published.check().is_err() {
            return Ok(WaitFor::Forever);
        }
        if self.checkpoints.finish_if_done(self.db.conn())? {
            return Ok(WaitFor::AtMost(self.options.idle_after));
        }
        if self.checkpoints.blocked().is_some() {
            // The reader may be gone.
            self.checkpoints.request();
        }
        let was_vacuuming = self.vacuum.is_running();
        if self.vacuum.is_due(self.db.conn())? {
            return Ok(match self.transact(|txn| Vacuum::step(txn.db)) {
                Ok(_) => WaitFor::None,
                Err(_logged) => WaitFor::Forever,
            });
        }
        if was_vacuuming {
            // The file shrinks with the next checkpoint.
            self.checkpoints.request();
            return Ok(WaitFor::AtMost(self.options.idle_after));
        }
        // While a reader blocks the log, each group looks whether it still does.
        self.needs_maintenance = self.checkpoints.blocked().is_some();
        Ok(WaitFor::Forever)
    }

    /// A checkpoint that met a full disk is retried later. Any other failure may have lost what the checkpoint
    /// should have written.
    pub(super) fn checkpoint_failed(&mut self, error: &rusqlite::Error) {
        if self.disk.explains(error) {
            self.disk.ran_out();
            self.disk.make_room();
            return;
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => {
                tracing::warn!(%error, "the checkpoint failed because the database is locked; it is tried again later");
            }
            Some(_) | None => {
                self.published.fail("the write-ahead log could not be copied into the database file", error);
            }
        }
    }
}
