//! Opening: the lock, the file's identity, the log, then everything into memory. Nothing is served before.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::sync::{OnceCell, oneshot};

use super::{
    identity::{CommitMark, StoreFiles},
    load::load,
    wal::{RunState, WalState},
};
use crate::{
    clock::Clock,
    job::Timestamp,
    metrics::EngineMetrics,
    store::{
        Listener,
        embedded::{
            disk::{
                ballast::{self, is_lack_of_space},
                data_dir::{DB_FILE, DataDir, LOCK_FILE, LOG_FILE, create_dir, open_private, sync_dir},
                disk_space::{DiskSpace, SpaceGauge, is_out_of_space},
            },
            engine::EmbeddedStore,
            memory::{job_index::JobIndex, state::Memory},
            ops::write_txn::{CommitEffects, WriteTxn},
            options::{Durability, OpenError, Options},
            rows::{
                key::RowKey,
                records::{Db, SqlResult, wal_checkpoint},
                schema,
            },
            writer::{
                checkpoint::Checkpointer, commit::Writer, interval_sync::IntervalSync, shared::SharedState,
                vacuum::Vacuum, write_queue::WriteQueue,
            },
        },
    },
};

/// Opens the store in `options.data_dir`, creating it when there is none. The clock is raised to the latest
/// moment that was ever acted on here.
///
/// # Errors
/// [`OpenError`] names the file and the reason. A directory in use, a file of somebody else, an unknown
/// format and a lost log are refused, never guessed at.
pub async fn open(
    options: Options,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<EmbeddedStore>, OpenError> {
    let opener = StoreOpener::new(options, clock, listener, metrics);
    let dir = opener.options.data_dir.clone();
    let (opened, opening) = oneshot::channel();
    // The writer's own thread does the loading, so that its connection never changes threads.
    let writer = std::thread::Builder::new()
        .name("linger-writer".to_owned())
        .spawn(move || match opener.writer_with_room() {
            Ok((writer, engine)) => match opened.send(Ok(engine)) {
                Ok(()) => writer.run(),
                Err(_nobody_waits) => Ok(()),
            },
            Err(error) => {
                let _ = opened.send(Err(error));
                Ok(())
            }
        })
        .map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let engine = opening.await.unwrap_or_else(|_| {
        Err(OpenError::Io { path: dir, source: io::Error::other("opening it panicked; see the log") })
    })?;
    *engine.writer.lock().expect("nobody else has it yet") = Some(writer);
    Ok(Arc::new(engine))
}

pub(crate) struct StoreOpener {
    options: Arc<Options>,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
    db_path: PathBuf,
    log_path: PathBuf,
}

impl StoreOpener {
    pub fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        listener: Arc<dyn Listener>,
        metrics: EngineMetrics,
    ) -> Self {
        let (db_path, log_path) = (options.data_dir.join(DB_FILE), options.data_dir.join(LOG_FILE));
        Self { options: Arc::new(options), clock, listener, metrics, db_path, log_path }
    }

    /// The same as [`writer`](Self::writer), also on a full disk: the ballast is given up for it.
    fn writer_with_room(&self) -> Result<(Writer, EmbeddedStore), OpenError> {
        let opened = self.writer();
        match opened {
            Err(error) if needs_space(&error) && ballast::remove_in(&self.options.data_dir) => {
                tracing::warn!(%error, "the disk is full; the ballast file was removed for the start");
                self.writer()
            }
            Ok(_) | Err(_) => opened,
        }
    }

    /// Everything loaded: the writer, ready to run, and the engine as its callers see it.
    pub fn writer(&self) -> Result<(Writer, EmbeddedStore), OpenError> {
        create_dir(&self.options.data_dir)
            .map_err(|source| OpenError::Io { path: self.options.data_dir.clone(), source })?;
        let mut data_dir = DataDir::lock(&self.options.data_dir)?;
        let mut db = self.open_db(&data_dir)?;
        let shared = Arc::new(SharedState::default());
        let memory = self.load(&mut db, &shared)?;
        self.begin_run(&mut db).map_err(|error| self.sqlite(error))?;
        self.settle_files(&db, &mut data_dir)?;
        let durability = self.options.durability;
        let checkpoints = Checkpointer::start(&self.db_path, durability)?;
        let syncer = match durability {
            Durability::Interval(every) => {
                let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
                Some(IntervalSync::start(&self.log_path, every, clock, metrics, shared.clone())?)
            }
            Durability::Always | Durability::Os => None,
        };
        let queue = Arc::new(WriteQueue::new());
        let engine = EmbeddedStore {
            queue: queue.clone(),
            shared: shared.clone(),
            options: self.options.clone(),
            reader: Arc::new(Mutex::new(Some(schema::open_reader(&self.db_path)?))),
            writer: Mutex::new(None),
            closed: OnceCell::new(),
        };
        let writer = Writer {
            db,
            memory,
            queue,
            shared,
            disk: DiskSpace::new(self.options.clone()),
            options: self.options.clone(),
            clock: self.clock.clone(),
            listener: self.listener.clone(),
            metrics: self.metrics.clone(),
            checkpoints,
            syncer,
            sleeps_until: Timestamp::MAX,
            vacuum: Vacuum::default(),
            ran_out_of_space: false,
            db_path: self.db_path.clone(),
            data_dir,
            writes_commit_marks: true,
        };
        Ok((writer, engine))
    }

    /// Opens the file when it and its log belong together.
    fn open_db(&self, data_dir: &DataDir) -> Result<Db, OpenError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        let log = WalState::inspect(&self.log_path).map_err(io(&self.log_path))?;
        let is_new = match std::fs::metadata(&self.db_path) {
            Ok(file) => file.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(io(&self.db_path)(error)),
        };
        if is_new && log != WalState::Missing {
            let why =
                "the file is missing or empty, but its log is there; put it back, or remove the log too";
            return Err(OpenError::Incomplete { path: self.db_path.clone(), why: why.to_owned() });
        }
        let lock_path = self.options.data_dir.join(LOCK_FILE);
        let mark = CommitMark::read(data_dir.lock_file()).map_err(io(&lock_path))?;
        let files = StoreFiles::new(&self.db_path, &self.log_path, lock_path, log.replays())
            .map_err(io(&self.db_path))?;
        if is_new {
            files.check_new(mark)?;
            // SQLite gives its other files the mode of this one.
            open_private(&self.db_path).map_err(io(&self.db_path))?;
        }
        let mut db = Db::new(schema::open_writer(&self.db_path, self.options.durability)?);
        let run = db.run().map_err(|error| self.sqlite(error))?;
        log.check_compatible(&self.log_path, &self.db_path, run)?;
        let told = db.store_head_state().map_err(|error| self.sqlite(error))?;
        db.set_store_head(files.check_compatible(told, mark)?);
        Ok(db)
    }

    fn load(&self, db: &mut Db, shared: &SharedState) -> Result<Memory, OpenError> {
        let mark = db.clock().map_err(|error| self.sqlite(error))?.unwrap_or_else(|| {
            tracing::error!(db = %self.db_path.display(), "the clock's mark is damaged; the system's clock has to do");
            self.clock.read().down
        });
        let moved = self.clock.advance_to_at_least(mark);
        if moved.as_secs() >= 1 {
            tracing::warn!(
                moved_ms = u64::try_from(moved.as_millis()).unwrap_or(u64::MAX),
                "the clock was behind what this store has seen and was raised; check the system's time"
            );
        }
        let start_us = self.clock.now_micros();
        let now = self.clock.read();
        let frontier = RowKey::first_after(now.up.after(self.options.look_ahead));
        let mut memory = Memory::new(JobIndex::new(), frontier);
        let mut effects = CommitEffects::default();
        let mut txn = WriteTxn {
            db,
            memory: &mut memory,
            effects: &mut effects,
            now,
            clock: &*self.clock,
            options: &self.options,
            space: SpaceGauge::new(&self.options),
        };
        load(&mut txn, mark).map_err(|error| self.sqlite(error))?;
        self.count_jobs(db, memory.job_index().len() as u64);
        if db.in_transaction() {
            db.commit(now.up).map_err(|error| self.sqlite(error))?;
        }
        memory.commit(|topic, any| shared.set_ready(topic, any));
        for (topic, config) in effects.configs {
            shared.set_config(topic, config);
        }
        self.metrics.set_aside(effects.set_aside);
        tracing::info!(
            db = %self.db_path.display(), jobs = memory.job_index().len(), set_aside = effects.set_aside,
            took_ms = (self.clock.now_micros() - start_us) / 1_000, "the store is loaded"
        );
        Ok(memory)
    }

    /// Tells of records that are gone without a trace: SQLite has no checksums of its own.
    fn count_jobs(&self, db: &mut Db, found: u64) {
        if let Some(told) = db.jobs()
            && told != found
        {
            tracing::error!(
                db = %self.db_path.display(), told, found,
                "the file does not hold as many jobs as were put into it: it was damaged, or changed by others"
            );
        }
        db.set_jobs(found);
    }

    /// The names of new files, and the first note. From now on the files must stay where they are.
    fn settle_files(&self, db: &Db, data_dir: &mut DataDir) -> Result<(), OpenError> {
        let io = |path: PathBuf| move |source| OpenError::Io { path, source };
        let dir = &self.options.data_dir;
        CommitMark::of(db.link(), self.options.durability)
            .write(data_dir.lock_file())
            .map_err(io(dir.join(LOCK_FILE)))?;
        for path in [&self.db_path, &self.log_path] {
            data_dir.watch(path.clone()).map_err(io(path.clone()))?;
        }
        // Also when the files are not new: whoever made them may have been cut short.
        sync_dir(dir).map_err(io(dir.clone()))
    }

    /// Marks the file as in use, in such an order that the mark stands in the file itself before the first
    /// operation and the log is never empty while it does; see `wal.rs`.
    fn begin_run(&self, db: &mut Db) -> SqlResult<()> {
        let mark = |db: &mut Db, run| {
            db.set_run(run)?;
            db.commit(self.clock.read().up)
        };
        mark(db, RunState::Opening)?;
        wal_checkpoint(db.conn(), "TRUNCATE")?;
        mark(db, RunState::Open)?;
        wal_checkpoint(db.conn(), "PASSIVE")?;
        Ok(())
    }

    fn sqlite(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Sqlite { path: self.db_path.clone(), source }
    }
}

/// Whether the start failed for lack of disk space.
fn needs_space(error: &OpenError) -> bool {
    match error {
        OpenError::Io { source, .. } => is_lack_of_space(source),
        OpenError::Sqlite { source, .. } => is_out_of_space(source),
        OpenError::Locked { .. }
        | OpenError::NotOurs { .. }
        | OpenError::Schema { .. }
        | OpenError::UnknownFormat { .. }
        | OpenError::Incomplete { .. } => false,
    }
}
