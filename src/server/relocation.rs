//! Moves the configured store to another one. Results are text for people.

use std::sync::Arc;

use super::{
    maintenance::{MaintenanceError, NoopListener, maintenance_error},
    transfer::{Named, TransferReport, cannot_open, run},
    wiring,
};
use crate::{
    clock::SystemClock,
    config::{Config, EngineKind},
    metrics::Metrics,
    store::{
        Movable, MoveMark, RecordReader, Store,
        embedded::{self, Durability},
        redis,
    },
    transfer::{Passed, Place, Relocation},
};

/// Which step of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    /// Copies what differs, beside the servers of the source.
    Copy,
    /// Closes the source, copies the rest, compares everything and opens the target.
    Last,
    /// Takes the source back.
    Abandon,
}

/// Makes a step of the move from the store of `from` to that of `to`.
///
/// # Errors
/// Why it was not made; it can be repeated.
pub fn relocate(
    from: &Config,
    to: &Config,
    step: MoveStep,
    named: Named<'_>,
) -> Result<TransferReport, MaintenanceError> {
    let (source, target) = (wiring::engine(from), wiring::engine(to));
    if source == target {
        return Err(MaintenanceError::Refused(format!("{source} is both the source and the target")));
    }
    run(async {
        let opened = open(to, "target").await?;
        let done = match step {
            MoveStep::Copy => copy(from, &*opened.movable, target, named).await,
            MoveStep::Last | MoveStep::Abandon => end(from, &*opened.movable, target, step, named).await,
        };
        let closed = opened.store.close().await.map_err(|error| MaintenanceError::Failed(error.to_string()));
        done.and_then(|report| closed.map(|()| report))
    })
}

async fn copy(
    from: &Config,
    target: &dyn Movable,
    target_name: String,
    named: Named<'_>,
) -> Result<TransferReport, MaintenanceError> {
    let name = wiring::engine(from);
    let source = ReadSource::open(from).await?;
    let to = target_name.clone();
    let relocation = Relocation::new(Place { id: source.id.clone(), name }, target, target_name)?;
    relocation.check_source(source.mark.as_ref())?;
    let passed = relocation.copy(|| source.records(), named).await?;
    let text =
        format!("{}; when the servers are stopped, complete the move with --last\n", in_words(&to, passed));
    Ok(TransferReport { text, is_complete: passed.broken == 0 })
}

async fn end(
    from: &Config,
    target: &dyn Movable,
    target_name: String,
    step: MoveStep,
    named: Named<'_>,
) -> Result<TransferReport, MaintenanceError> {
    let (name, to) = (wiring::engine(from), target_name.clone());
    let source = open(from, "source").await?;
    let relocation =
        Relocation::new(Place { id: source.movable.store_id(), name: name.clone() }, target, target_name)?;
    let done = if step == MoveStep::Last {
        relocation.complete(&*source.movable, named).await.map(|passed| match passed {
            Some(passed) => TransferReport {
                text: format!("{}; it is open: start its servers\n", in_words(&to, passed)),
                is_complete: passed.broken == 0,
            },
            None => TransferReport { text: format!("{to}: it is open already\n"), is_complete: true },
        })
    } else {
        let text = format!("{name}: it is taken back: start its servers\n");
        relocation.abandon(&*source.movable).await.map(|()| TransferReport { text, is_complete: true })
    };
    let closed = source.store.close().await.map_err(|error| MaintenanceError::Failed(error.to_string()));
    let report = done?;
    closed.map(|()| report)
}

fn in_words(target: &str, passed: Passed) -> String {
    let Passed { jobs, topics, copied, deleted, broken } = passed;
    let mut text =
        format!("{target}: {jobs} jobs and {topics} topics; {copied} were copied, {deleted} deleted");
    if broken > 0 {
        text.push_str(&format!(", {broken} broken records are not in it"));
    }
    text
}

/// A store that is open for a move, without the tasks of a server.
struct Opened {
    store: Arc<dyn Store>,
    movable: Arc<dyn Movable>,
}

async fn open(config: &Config, role: &str) -> Result<Opened, MaintenanceError> {
    match config.engine {
        EngineKind::Embedded => {
            let (clock, listener) = (Arc::new(SystemClock::new()), Arc::new(NoopListener));
            let options = embedded::Options {
                to_move: true,
                durability: Durability::Always,
                ..wiring::embedded_options(config)
            };
            let opened = embedded::open(options, clock, listener, Metrics::new().engine).await;
            opened.map(|store| Opened { store: store.clone(), movable: store }).map_err(|error| match error {
                embedded::OpenError::Locked { .. } => {
                    MaintenanceError::Refused(format!("{error}; stop the server of the {role} first"))
                }
                other => maintenance_error(other),
            })
        }
        EngineKind::Redis => {
            let opened =
                redis::open_to_move(config.redis.clone(), Arc::new(NoopListener), Metrics::new().engine)
                    .await;
            opened
                .map(|store| Opened { store: store.clone(), movable: store })
                .map_err(|error| cannot_open(error.to_string()))
        }
    }
}

/// A source that its servers may use at the same time.
struct ReadSource {
    id: String,
    mark: Option<MoveMark>,
    reader: Reader,
}

enum Reader {
    Embedded(embedded::Options),
    Redis(Arc<redis::Redis>),
}

impl ReadSource {
    async fn open(config: &Config) -> Result<Self, MaintenanceError> {
        match config.engine {
            EngineKind::Embedded => {
                let options = wiring::embedded_options(config);
                let (id, mark) = embedded::read_identity(&options.data_dir).map_err(maintenance_error)?;
                Ok(Self { id, mark, reader: Reader::Embedded(options) })
            }
            EngineKind::Redis => {
                let opened =
                    redis::open_to_read(config.redis.clone(), Arc::new(NoopListener), Metrics::new().engine)
                        .await;
                let store = opened.map_err(|error| cannot_open(error.to_string()))?;
                let mark = store.move_mark().await.map_err(|error| cannot_open(error.to_string()))?;
                Ok(Self { id: store.store_id(), mark, reader: Reader::Redis(store) })
            }
        }
    }

    async fn records(&self) -> crate::store::Result<Box<dyn RecordReader>> {
        match &self.reader {
            Reader::Embedded(options) => embedded::read_records(&options.data_dir, &SystemClock::new())
                .map_err(|error| crate::store::Error::Unavailable(error.to_string())),
            Reader::Redis(store) => Store::records(&**store).await,
        }
    }
}
