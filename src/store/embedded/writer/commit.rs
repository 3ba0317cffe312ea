//! The one thread that changes anything. It takes a group of operations, does them in one transaction, makes
//! that durable with one sync, and only then tells and answers. There is no timer: while one sync runs, the
//! next group gathers. A group that meets a full disk is rolled back, and its operations run once more, each in a
//! transaction of its own, so that none is refused because of another.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rusqlite::ErrorCode;

use super::{
    checkpoint::Checkpointer,
    interval_sync::Syncer,
    shared::Shared,
    vacuum::GiveBack,
    write_queue::{Intake, Operation, Patience, Taken},
};
use crate::{
    clock::Clock,
    job::Timestamp,
    metrics::EngineMetrics,
    store::{
        Error, Listener,
        embedded::{
            disk::{
                data_dir::DataDir,
                disk_space::{DiskSpace, is_out_of_space},
            },
            memory::state::State,
            ops::write_txn::{News, Work, time_until},
            options::{Durability, Options},
            recovery::{identity::Note, wal::Run},
            rows::records::{Db, Sql, backfill},
        },
    },
};

pub(crate) struct Writer {
    pub db: Db,
    pub state: State,
    pub intake: Arc<Intake>,
    pub shared: Arc<Shared>,
    pub options: Arc<Options>,
    pub clock: Arc<dyn Clock>,
    pub listener: Arc<dyn Listener>,
    pub metrics: EngineMetrics,
    pub checkpoints: Checkpointer,
    pub syncer: Option<Syncer>,
    /// Until when the timer sleeps unless the listener hears of something sooner.
    pub sleeps_until: Timestamp,
    pub give_back: GiveBack,
    pub disk: DiskSpace,
    /// The last transaction met a full disk.
    pub ran_out: bool,
    pub db_path: PathBuf,
    /// Locked for as long as the thread lives, and let go last.
    pub data_dir: DataDir,
    /// Whether the lock file takes notes; it is only an aid, and nothing stops when it does not.
    pub notes: bool,
}

/// Closes the intake however the thread ends, also by a panic, so that nobody waits for an answer.
struct Abandon {
    intake: Arc<Intake>,
    shared: Arc<Shared>,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail("the writer thread panicked", &"the log says where");
        }
        self.intake.abandon();
    }
}

impl Writer {
    /// Works until the intake is closed and empty. An error means that the store was not left tidy.
    pub fn run(mut self) -> Result<(), Error> {
        let _abandon = Abandon { intake: self.intake.clone(), shared: self.shared.clone() };
        let mut patience = Patience::Forever;
        loop {
            match self.intake.take(patience) {
                Taken::Group(operations) => {
                    self.group(operations);
                    patience = self.after_group();
                }
                Taken::Quiet => patience = self.tidy(),
                Taken::Closed => break,
            }
        }
        self.end()
    }

    /// Does a group of operations, and answers each.
    fn group(&mut self, mut operations: Vec<Box<dyn Operation>>) {
        let outcome = self.run_operations(&mut operations);
        if !self.ran_out {
            operations.into_iter().for_each(|operation| operation.answer(outcome.clone()));
            return;
        }
        self.disk.make_room();
        for mut operation in operations {
            self.keep_log_short();
            let outcome = self.run_operations(std::slice::from_mut(&mut operation));
            operation.answer(outcome);
        }
    }

    /// Runs operations in one transaction, and tells the listener.
    fn run_operations(&mut self, operations: &mut [Box<dyn Operation>]) -> Result<(), Error> {
        self.ran_out = false;
        if self.disk.is_full() {
            self.disk.recover();
        }
        let ((), news) = self.transact(|work| {
            operations.iter_mut().try_for_each(|operation| {
                work.next_operation();
                operation.run(work)
            })
        })?;
        if let Err(gone) = self.data_dir.check() {
            return Err(self.shared.fail("changes would be lost", &gone));
        }
        // Notify before replying, so that callers see the effects of their own writes.
        self.tell(news);
        Ok(())
    }

    /// Keeps the log from growing on a full disk.
    fn keep_log_short(&mut self) {
        if let Err(error) = self.checkpoints.keep_short(self.db.conn()) {
            self.checkpoint_failed(&error);
        }
    }

    /// Runs `change` in a transaction of its own. When it or the commit fails, disk and memory are as before.
    pub fn transact<T>(&mut self, change: impl FnOnce(&mut Work<'_>) -> Sql<T>) -> Result<(T, News), Error> {
        self.shared.check()?;
        let mut news = News::default();
        let mut work = Work {
            db: &mut self.db,
            state: &mut self.state,
            news: &mut news,
            now: self.clock.read(),
            clock: &*self.clock,
            options: &self.options,
            space: self.disk.gauge(),
        };
        let changed = change(&mut work);
        if let Some(level) = work.space.known() {
            self.shared.set_space(level);
        }
        let changed = changed.and_then(|value| self.commit().map(|()| value));
        match changed {
            Ok(value) => {
                self.state.commit(|topic, any| self.shared.set_ready(topic, any));
                for (topic, config) in news.configs.drain(..) {
                    self.shared.set_config(topic, config);
                }
                self.metrics.set_aside(news.set_aside);
                Ok((value, news))
            }
            Err(error) => Err(self.take_back(&error)),
        }
    }

    fn commit(&mut self) -> Sql<()> {
        if !self.db.is_changing() {
            return Ok(());
        }
        let start_us = self.clock.now_micros();
        self.db.commit(self.clock.read().up)?;
        match self.options.durability {
            Durability::Always => {
                let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
                self.metrics.synced(Duration::from_micros(took_us));
            }
            Durability::Interval(_) => self.syncer.iter().for_each(Syncer::written),
            Durability::Os => {}
        }
        self.note();
        Ok(())
    }

    /// Notes how far the store has come, for the next start to hold it against.
    fn note(&mut self) {
        if self.notes
            && let Err(error) =
                Note::of(self.db.link(), self.options.durability).write(self.data_dir.lock_file())
        {
            self.notes = false;
            tracing::warn!(%error, "the lock file cannot be written to; it no longer tells how far the store is");
        }
    }

    /// Undoes the group, and decides whether the engine may go on.
    fn take_back(&mut self, error: &rusqlite::Error) -> Error {
        let undone = self.db.rollback();
        self.state.rollback();
        if let Err(error) = undone {
            return self.shared.fail("a group of changes could not be taken back", &error);
        }
        if is_out_of_space(error) {
            self.ran_out = true;
            self.disk.ran_out();
            return match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Error::Full("the disk is full".to_owned()),
                // The log holds the change until the next one takes its place, and a crash would bring it back.
                Some(_) | None => Error::Unavailable("the disk is full".to_owned()),
            };
        }
        match error.sqlite_error_code() {
            // Somebody else holds the file's write lock, perhaps a person with the `sqlite3` shell.
            Some(ErrorCode::DatabaseBusy) => {
                Error::Unavailable("the database file is locked by somebody else".to_owned())
            }
            Some(_) | None => self.shared.fail("a group of changes could not be written", error),
        }
    }

    /// Tells the listener, without any lock held.
    fn tell(&mut self, news: News) {
        for topic in &news.ready {
            self.listener.ready(topic);
        }
        if let Some(until) = news.sleeps_until {
            self.sleeps_until = until;
        }
        if let Some(next) = self.state.next_deadline(self.options.dead_retention)
            && next < self.sleeps_until
        {
            self.sleeps_until = next;
            self.listener.due_in(time_until(&*self.clock, next));
        }
    }

    /// The short chores that keep pace with the work: reading ahead, checkpoints.
    pub fn after_group(&mut self) -> Patience {
        if self.shared.check().is_err() {
            return Patience::Forever;
        }
        self.disk.recover();
        if self.disk.is_full() {
            self.keep_log_short();
        }
        if let Err(error) = self.checkpoints.after_commit(self.db.conn()) {
            self.checkpoint_failed(&error);
        }
        match self.transact(|work| work.keep_ahead()) {
            Ok((true, news)) => {
                self.tell(news);
                Patience::For(self.options.idle_after)
            }
            Ok((false, news)) => {
                self.tell(news);
                Patience::None
            }
            Err(_logged) => Patience::For(self.options.idle_after),
        }
    }

    /// Nothing came for a while: one step of handing back space.
    pub fn tidy(&mut self) -> Patience {
        match self.try_tidy() {
            Ok(patience) => patience,
            Err(error) => {
                self.checkpoint_failed(&error);
                Patience::Forever
            }
        }
    }

    fn try_tidy(&mut self) -> Sql<Patience> {
        if self.shared.check().is_err() {
            return Ok(Patience::Forever);
        }
        if self.checkpoints.look(self.db.conn())? {
            return Ok(Patience::For(self.options.idle_after));
        }
        let mut ahead = true;
        if let Ok((complete, news)) = self.transact(|work| work.keep_ahead()) {
            self.tell(news);
            ahead = complete;
        }
        let was_giving = self.give_back.is_active();
        if self.give_back.is_wanted(self.db.conn())? {
            return Ok(match self.transact(|work| GiveBack::step(work.db)) {
                Ok(_) => Patience::None,
                Err(_logged) => Patience::Forever,
            });
        }
        if was_giving {
            // The file shrinks when the log, which cuts it off, has been moved into it.
            self.checkpoints.ask();
            return Ok(Patience::For(self.options.idle_after));
        }
        Ok(if ahead { Patience::Forever } else { Patience::None })
    }

    /// A checkpoint that met a full disk is tried again with the next; whatever else failed may have lost
    /// what it should have written.
    fn checkpoint_failed(&mut self, error: &rusqlite::Error) {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                self.disk.ran_out();
                self.disk.make_room();
            }
            Some(ErrorCode::DatabaseBusy) => {
                tracing::warn!(%error, "the log could not be moved into the file; it is tried again later");
            }
            Some(_) | None => {
                self.shared.fail("the log could not be moved into the file", error);
            }
        }
    }

    /// The end of the thread. After a clean stop the log is empty and the file says so; otherwise everything
    /// is left for the next start to recover.
    fn end(&mut self) -> Result<(), Error> {
        let stopped = self.checkpoints.stop();
        if let Err(error) = stopped {
            self.checkpoint_failed(&error);
        }
        self.shared.check()?;
        if !self.shared.stops_cleanly() {
            return Ok(());
        }
        let mut emptied = self.empty_log();
        if self.ran_out && self.disk.make_room() {
            emptied = self.empty_log();
        }
        if emptied.is_err() && self.ran_out {
            tracing::warn!(db = %self.db_path.display(), "the disk is full; the next start moves the log into the file");
        } else {
            emptied?;
        }
        tracing::info!(db = %self.db_path.display(), "the store is closed");
        self.shared.check()
    }

    /// Marks the file as left tidy, and moves all of the log into it.
    fn empty_log(&mut self) -> Result<(), Error> {
        self.ran_out = false;
        self.transact(|work| work.db.set_run(Run::Clean))?;
        // The last sync of `interval`, before the log is emptied.
        self.syncer = None;
        match backfill(self.db.conn(), "TRUNCATE") {
            Ok(_) => Ok(()),
            Err(error) if is_out_of_space(&error) => {
                self.ran_out = true;
                self.disk.ran_out();
                Err(Error::Full("the disk is full".to_owned()))
            }
            Err(error) => Err(self.shared.fail("the log could not be moved into the file", &error)),
        }
    }
}
