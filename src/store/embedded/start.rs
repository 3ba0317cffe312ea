//! Starts the engine: opens the store, then the writer's thread and the threads beside it.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use tokio::sync::{OnceCell, oneshot};

use super::{
    disk::{
        ballast::{self, is_lack_of_space},
        disk_space::{DiskSpace, is_out_of_space},
    },
    engine::EmbeddedStore,
    id_index::IdIndex,
    notice_board::NoticeBoard,
    options::{Durability, OpenError, Options},
    rate_limits::RateLimits,
    recovery::open::StoreOpener,
    writer::{
        checkpoint::Checkpointer, commit::Writer, interval_sync::IntervalSync, published::PublishedState,
        vacuum::Vacuum, write_queue::WriteQueue,
    },
};
use crate::{clock::Clock, job::Timestamp, metrics::EngineMetrics, store::Listener};

/// Opens the store in `options.data_dir`, creating it when there is none. The clock is raised to the latest
/// moment that was ever acted on here.
///
/// # Errors
/// [`OpenError`] names the file and the reason. A directory in use, a file of another program, an unknown
/// format and a lost log are refused, never guessed at.
pub async fn open(
    options: Options,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<EmbeddedStore>, OpenError> {
    let start = Start { options: Arc::new(options), clock, listener, metrics };
    let dir = start.options.data_dir.clone();
    let (opened, opening) = oneshot::channel();
    // The writer's own thread loads the store, so that its connection never changes threads.
    let writer = std::thread::Builder::new()
        .name("linger-writer".to_owned())
        .spawn(move || match start.open_with_space() {
            Ok((writer, engine)) => match opened.send(Ok(engine)) {
                Ok(()) => writer.run(),
                Err(_receiver_dropped) => Ok(()),
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
    *engine.writer.lock().expect("no other thread has the engine yet") = Some(writer);
    Ok(Arc::new(engine))
}

/// What an engine is started with.
pub(super) struct Start {
    pub options: Arc<Options>,
    pub clock: Arc<dyn Clock>,
    pub listener: Arc<dyn Listener>,
    pub metrics: EngineMetrics,
}

impl Start {
    /// The same as [`open`](Self::open); when the disk is full, the ballast is removed and it is tried again.
    fn open_with_space(&self) -> Result<(Writer, EmbeddedStore), OpenError> {
        let opened = self.open();
        match opened {
            Err(error)
                if needs_space(&error, &self.options.data_dir)
                    && ballast::remove_in(&self.options.data_dir) =>
            {
                tracing::warn!(%error, "the disk is full; the ballast file was removed for the start");
                self.open()
            }
            Ok(_) | Err(_) => opened,
        }
    }

    /// Loads the store. Returns the writer, ready to run, and the engine that callers use.
    pub fn open(&self) -> Result<(Writer, EmbeddedStore), OpenError> {
        let opener = StoreOpener::new(&self.options, &*self.clock, &self.metrics);
        let store = opener.open()?;
        let published = Arc::new(PublishedState::default());
        store.ready.iter().for_each(|outlet| published.set_ready(outlet, true));
        store.configs.into_iter().for_each(|(topic, config)| published.set_config(topic, config));
        let durability = self.options.durability;
        let checkpoints = Checkpointer::start(&opener.db_path, durability)?;
        let syncer = match durability {
            Durability::Interval(every) => {
                let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
                Some(IntervalSync::start(&opener.wal_path, every, clock, metrics, published.clone())?)
            }
            Durability::Always | Durability::Os => None,
        };
        let queue = Arc::new(WriteQueue::new());
        let engine = EmbeddedStore {
            queue: queue.clone(),
            published: published.clone(),
            options: self.options.clone(),
            writer: Mutex::new(None),
            closed: OnceCell::new(),
            host_seed: store.db.store_head().store.0,
            rate_limits: RateLimits::new(self.clock.clone()),
            notices: NoticeBoard::new(self.clock.clone()),
            ids: IdIndex::default(),
            clock: self.clock.clone(),
        };
        let writer = Writer {
            db: store.db,
            memory: store.memory,
            queue,
            published,
            disk: DiskSpace::new(self.options.clone()),
            options: self.options.clone(),
            clock: self.clock.clone(),
            listener: self.listener.clone(),
            metrics: self.metrics.clone(),
            checkpoints,
            syncer,
            sleeps_until: Timestamp::MAX,
            promotion_limit: None,
            vacuum: Vacuum::default(),
            ran_out_of_space: false,
            db_path: opener.db_path,
            data_dir: store.data_dir,
            writes_commit_marks: true,
            needs_maintenance: true,
        };
        Ok((writer, engine))
    }
}

/// Whether opening failed for lack of disk space.
fn needs_space(error: &OpenError, dir: &Path) -> bool {
    match error {
        OpenError::Io { source, .. } => is_lack_of_space(source),
        OpenError::Sqlite { source, .. } => is_out_of_space(source, dir),
        OpenError::Locked { .. }
        | OpenError::NotOurs { .. }
        | OpenError::Schema { .. }
        | OpenError::Moved { .. }
        | OpenError::UnknownFormat { .. }
        | OpenError::Incomplete { .. } => false,
    }
}
