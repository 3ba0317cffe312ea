//! Opens a store: locks its directory, checks its files, and loads everything into memory. Starts no thread that
//! outlives it; `start.rs` does.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{identity::StoreFiles, load::load, wal::WalState};
use crate::{
    clock::Clock,
    job::{Outlet, Topic},
    metrics::EngineMetrics,
    store::{
        TopicConfig,
        embedded::{
            disk::{
                commit_mark::CommitMark,
                data_dir::{DB_FILE, DataDir, LOCK_FILE, WAL_FILE, create_dir, open_private, sync_dir},
                disk_space::SpaceGauge,
            },
            memory::{job_index::JobIndex, state::Memory},
            ops::write_txn::{CommitEffects, WriteTxn},
            options::{OpenError, Options},
            rows::{
                db::{Db, SqlResult, wal_checkpoint},
                meta::RunState,
                schema,
            },
        },
    },
};

/// A store that is ready to be served.
pub(crate) struct OpenedStore {
    pub db: Db,
    pub memory: Memory,
    pub data_dir: DataDir,
    /// The outlets that have ready jobs.
    pub ready: Vec<Outlet>,
    /// The topics' configurations, where they differ from the default.
    pub configs: Vec<(Topic, Arc<TopicConfig>)>,
}

/// The memory of a store, with what callers have to know of it.
struct LoadedStore {
    memory: Memory,
    ready: Vec<Outlet>,
    configs: Vec<(Topic, Arc<TopicConfig>)>,
}

pub(crate) struct StoreOpener<'a> {
    pub options: &'a Options,
    pub clock: &'a dyn Clock,
    pub metrics: &'a EngineMetrics,
    pub db_path: PathBuf,
    pub wal_path: PathBuf,
}

impl<'a> StoreOpener<'a> {
    pub fn new(options: &'a Options, clock: &'a dyn Clock, metrics: &'a EngineMetrics) -> Self {
        let (db_path, wal_path) = (options.data_dir.join(DB_FILE), options.data_dir.join(WAL_FILE));
        Self { options, clock, metrics, db_path, wal_path }
    }

    /// For a store that must be there, and that is not served.
    pub fn existing(
        options: &'a Options,
        clock: &'a dyn Clock,
        metrics: &'a EngineMetrics,
    ) -> Result<Self, OpenError> {
        let opener = Self::new(options, clock, metrics);
        std::fs::metadata(&opener.db_path).map_err(io_at(&opener.db_path))?;
        Ok(opener)
    }

    /// Opens the store, creating it when there is none.
    pub fn open(&self) -> Result<OpenedStore, OpenError> {
        create_dir(&self.options.data_dir).map_err(io_at(&self.options.data_dir))?;
        let mut data_dir = DataDir::lock(&self.options.data_dir)?;
        let mut db = self.open_db(&data_dir)?;
        let LoadedStore { memory, ready, configs } = self.load(&mut db)?;
        self.begin_run(&mut db).map_err(|error| self.sqlite(error))?;
        self.settle_files(&db, &mut data_dir)?;
        Ok(OpenedStore { db, memory, data_dir, ready, configs })
    }

    /// Opens the database if it and its log belong together.
    pub(super) fn open_db(&self, data_dir: &DataDir) -> Result<Db, OpenError> {
        let wal = WalState::inspect(&self.wal_path).map_err(io_at(&self.wal_path))?;
        let is_new = match std::fs::metadata(&self.db_path) {
            Ok(file) => file.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(io_at(&self.db_path)(error)),
        };
        if is_new && wal != WalState::Missing {
            let why =
                "the file is missing or empty, but its log is there; put it back, or remove the log too";
            return Err(OpenError::Incomplete { path: self.db_path.clone(), why: why.to_owned() });
        }
        let lock_path = self.options.data_dir.join(LOCK_FILE);
        let mark = CommitMark::read(data_dir.lock_file()).map_err(io_at(&lock_path))?;
        let files = StoreFiles::read((&self.db_path, &self.wal_path, lock_path), wal, mark)
            .map_err(io_at(&self.db_path))?;
        if is_new {
            files.check_new()?;
            // SQLite gives its other files the mode of this one.
            open_private(&self.db_path).map_err(io_at(&self.db_path))?;
        }
        let mut db = Db::new(schema::open_writer(&self.db_path, self.options.durability)?);
        db.count_log_pages().map_err(|error| self.sqlite(error))?;
        let run = db.run_state().map_err(|error| self.sqlite(error))?.unwrap_or_else(|| {
            tracing::error!(
                db = %self.db_path.display(),
                "the entry of how the last run ended is damaged; the store counts as not stopped cleanly"
            );
            RunState::Open
        });
        wal.check_compatible(&self.wal_path, &self.db_path, run)?;
        let stored = db.read_store_head().map_err(|error| self.sqlite(error))?;
        db.set_store_head(files.check(stored)?);
        self.check_move(&db)?;
        // Last: a store that is refused stays as it is.
        schema::add_missing_tables(db.conn()).map_err(|error| self.sqlite(error))?;
        db.count_remembered_anew().map_err(|error| self.sqlite(error))?;
        Ok(db)
    }

    /// Refuses a store that takes part in a move, unless it is opened to be moved.
    fn check_move(&self, db: &Db) -> Result<(), OpenError> {
        let forbidden = match db.move_mark().map_err(|error| self.sqlite(error))? {
            Some(Err(damaged)) => Some(damaged.to_string()),
            Some(Ok(mark)) if !self.options.to_move => mark.forbids(),
            Some(Ok(_)) | None => None,
        };
        forbidden.map_or(Ok(()), |why| Err(OpenError::Moved { path: self.db_path.clone(), why }))
    }

    fn load(&self, db: &mut Db) -> Result<LoadedStore, OpenError> {
        let clock_mark = db.clock_mark().map_err(|error| self.sqlite(error))?.unwrap_or_else(|| {
            tracing::error!(db = %self.db_path.display(), "the stored clock is damaged; using the system clock");
            self.clock.read().rounded_down
        });
        let moved = self.clock.advance_to_at_least(clock_mark);
        if moved.as_secs() >= 1 {
            tracing::warn!(
                moved_ms = u64::try_from(moved.as_millis()).unwrap_or(u64::MAX),
                "the clock was behind the latest moment of this store and was raised; check the system's time"
            );
        }
        let start_us = self.clock.now_micros();
        let now = self.clock.read();
        let mut memory = Memory::new(JobIndex::new());
        let mut effects = CommitEffects::default();
        let mut txn = WriteTxn {
            db,
            memory: &mut memory,
            effects: &mut effects,
            now,
            wall_ahead_ms: self.clock.wall_ahead_ms(),
            clock: self.clock,
            options: self.options,
            space: SpaceGauge::new(self.options),
        };
        load(&mut txn, clock_mark).map_err(|error| self.sqlite(error))?;
        self.check_job_count(db, memory.job_index().len() as u64);
        if db.in_transaction() {
            db.commit(now.rounded_up).map_err(|error| self.sqlite(error))?;
        }
        let mut ready = Vec::new();
        memory.commit(|outlet, has_ready| ready.extend(has_ready.then(|| outlet.clone())));
        self.metrics.set_aside(effects.set_aside);
        tracing::info!(
            db = %self.db_path.display(), jobs = memory.job_index().len(), set_aside = effects.set_aside,
            took_ms = (self.clock.now_micros() - start_us) / 1_000, "the store is loaded"
        );
        Ok(LoadedStore { memory, ready, configs: effects.configs })
    }

    /// Logs records that vanished without a trace: SQLite has no checksums of its own.
    fn check_job_count(&self, db: &mut Db, found: u64) {
        if let Some(expected) = db.job_count()
            && expected != found
        {
            tracing::error!(
                db = %self.db_path.display(), expected, found,
                "the file does not contain as many jobs as were stored: it was damaged, or changed by another program"
            );
        }
        db.set_job_count(found);
    }

    /// Makes the names of new files durable and writes the first mark. From now on the files must stay in place.
    fn settle_files(&self, db: &Db, data_dir: &mut DataDir) -> Result<(), OpenError> {
        let dir = &self.options.data_dir;
        CommitMark::after_commit(db.store_head(), self.options.durability)
            .write(data_dir.lock_file())
            .map_err(io_at(&dir.join(LOCK_FILE)))?;
        for path in [&self.db_path, &self.wal_path] {
            data_dir.watch(path.clone()).map_err(io_at(path))?;
        }
        // Also when the files are not new: the process that made them may have been killed before this.
        sync_dir(dir).map_err(io_at(dir))
    }

    /// Marks the database as in use. The order ensures that the mark is in the database file itself before the
    /// first operation, and that the log is never empty while it is there; see `wal.rs`.
    fn begin_run(&self, db: &mut Db) -> SqlResult<()> {
        let set = |db: &mut Db, run| {
            db.set_run_state(run)?;
            db.commit(self.clock.read().rounded_up)
        };
        set(db, RunState::Opening)?;
        wal_checkpoint(db.conn(), "TRUNCATE")?;
        set(db, RunState::Open)?;
        wal_checkpoint(db.conn(), "PASSIVE")?;
        Ok(())
    }

    pub(super) fn sqlite(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Sqlite { path: self.db_path.clone(), source }
    }
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), source }
}
