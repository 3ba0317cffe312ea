//! Moves the configured store to another one. Results are text for people.

use std::{path::PathBuf, sync::Arc};

use super::{
    maintenance::{MaintenanceError, NoopListener, maintenance_error},
    transfer::{TransferReport, cannot_open, run},
    wiring,
};
use crate::{
    clock::SystemClock,
    config::{Config, EngineKind},
    metrics::Metrics,
    store::{
        self, Movable, RecordReader, Store,
        embedded::{self, Durability, Identity},
        redis,
    },
    transfer::{self, NamedStore, PassReport, Relocation, Watcher, contents_in_words, counted},
};

/// Which step of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    /// Copies what differs, beside the servers of the source.
    Copy,
    /// Closes the source, copies the rest, compares everything and opens the target.
    Last {
        /// Whether records that cannot be read are left behind.
        without_broken: bool,
    },
}

/// Makes a step of the move from the store of `from` to that of `to`.
///
/// # Errors
/// Why it was not made; it can be repeated.
pub fn relocate(
    from: &Config,
    to: &Config,
    step: MoveStep,
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    let place = place_of(from);
    if directory_of(from).is_some_and(|from| directory_of(to) == Some(from)) {
        return Err(MaintenanceError::Refused(format!("{place} is both the source and the target")));
    }
    run(async {
        // First: a target is made where there is none, and a source must be there.
        let source = ReadSource::open(from).await?;
        let target = open(to, Role::Target).await?;
        let done = match step {
            MoveStep::Copy => copy(source, place, &target, to, watcher).await,
            MoveStep::Last { without_broken } => {
                drop(source);
                complete(from, &target, to, without_broken, watcher).await
            }
        };
        target.close(done).await
    })
}

/// Gives the move of the store of `from` up.
///
/// # Errors
/// Why that is not possible.
pub fn abandon(from: &Config) -> Result<TransferReport, MaintenanceError> {
    let place = place_of(from);
    run(async {
        let found = ReadSource::open(from).await?;
        let was_closed = if found.is_served(from) {
            false
        } else {
            drop(found);
            let source = open(from, Role::Source).await?;
            let done = transfer::abandon(&*source.movable, &place).await.map_err(MaintenanceError::from);
            source.close(done).await?
        };
        let text = if was_closed {
            format!("{place}: the move is given up; its servers may run\n")
        } else {
            format!("{place}: no move has closed it; its servers may run\n")
        };
        Ok(TransferReport { text, is_complete: true })
    })
}

async fn copy(
    source: ReadSource,
    place: String,
    target: &Opened,
    to: &Config,
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    let Identity { id, mark, clocks } = &source.identity;
    let relocation =
        Relocation::new(NamedStore { id: id.clone(), name: place }, &*target.movable, place_of(to))?;
    let passed = relocation.copy(mark.as_ref(), *clocks, || source.records(), watcher).await?;
    let text =
        format!("{}; when the servers are stopped, complete the move with --last\n", in_words(to, &passed));
    Ok(TransferReport { text, is_complete: is_complete(to, &passed) })
}

async fn complete(
    from: &Config,
    target: &Opened,
    to: &Config,
    without_broken: bool,
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    let source = open(from, Role::Source).await?;
    let place = NamedStore { id: source.movable.store_id(), name: place_of(from) };
    let done = async {
        let relocation = Relocation::new(place, &*target.movable, place_of(to))?;
        let passed = relocation.complete(&*source.movable, without_broken, watcher).await?;
        Ok(match passed {
            Some(passed) => TransferReport {
                text: format!("{}; it is open: start its servers\n", in_words(to, &passed)),
                is_complete: is_complete(to, &passed),
            },
            None => {
                TransferReport { text: format!("{}: it is open already\n", place_of(to)), is_complete: true }
            }
        })
    };
    let done: Result<_, MaintenanceError> = done.await;
    source.close(done).await
}

fn is_complete(to: &Config, passed: &PassReport) -> bool {
    passed.broken == 0 && passed.remembered <= dedup_max(to)
}

fn dedup_max(config: &Config) -> u64 {
    match config.engine {
        EngineKind::Embedded => config.embedded.dedup_max,
        EngineKind::Redis => config.redis.dedup_max,
    }
}

fn in_words(to: &Config, passed: &PassReport) -> String {
    let PassReport {
        jobs, topics, schedules, remembered, copied, deleted, set, schedules_set, broken, ..
    } = *passed;
    let mut text = format!(
        "{}: {}; copied {}, deleted {deleted}, set {}",
        place_of(to),
        contents_in_words(jobs, topics, schedules, remembered),
        counted(copied, "job"),
        counted(set, "topic")
    );
    if schedules_set > 0 {
        text.push_str(&format!(" and {}", counted(schedules_set, "schedule")));
    }
    if broken > 0 {
        text.push_str(&format!(", left out {}", counted(broken, "broken record")));
    }
    let most = dedup_max(to);
    if remembered > most {
        text.push_str(&format!(", kept at most {most} of the remembered ids (queue.dedup_max)"));
    }
    text
}

/// The place of a store, for people. Several stores may be at one Redis, under different prefixes.
fn place_of(config: &Config) -> String {
    match config.engine {
        EngineKind::Embedded => wiring::engine(config),
        EngineKind::Redis => {
            format!("redis ({}, prefix {})", config.redis.location(), config.redis.prefix)
        }
    }
}

/// The directory of the embedded engine, without symbolic links.
fn directory_of(config: &Config) -> Option<PathBuf> {
    match config.engine {
        EngineKind::Embedded => config.embedded.data_dir.canonicalize().ok(),
        EngineKind::Redis => None,
    }
}

/// What a store is in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Source,
    Target,
}

/// A store that is open for a move, without the tasks of a server.
struct Opened {
    store: Arc<dyn Store>,
    movable: Arc<dyn Movable>,
}

impl Opened {
    /// Closes it after `done`, whose failure is the first one.
    async fn close<T>(&self, done: Result<T, MaintenanceError>) -> Result<T, MaintenanceError> {
        let closed = self.store.close().await.map_err(|error| MaintenanceError::Failed(error.to_string()));
        done.and_then(|done| closed.map(|()| done))
    }
}

async fn open(config: &Config, role: Role) -> Result<Opened, MaintenanceError> {
    let (listener, metrics) = (Arc::new(NoopListener), Metrics::new().engine);
    match config.engine {
        EngineKind::Embedded => {
            let options = embedded::Options {
                to_move: true,
                reads_set_aside: role == Role::Source,
                durability: Durability::Always,
                ..wiring::embedded_options(config)
            };
            let opened = embedded::open(options, Arc::new(SystemClock::new()), listener, metrics).await;
            opened.map(|store| Opened { store: store.clone(), movable: store }).map_err(|error| match error {
                embedded::OpenError::Locked { .. } => {
                    let role = if role == Role::Source { "source" } else { "target" };
                    MaintenanceError::Refused(format!("{error}; stop the server of the {role} first"))
                }
                other => maintenance_error(other),
            })
        }
        EngineKind::Redis => {
            let options = config.redis.clone();
            let opened = match role {
                Role::Source => {
                    redis::open_offline(redis::OpenMode::Source, options, listener, metrics).await
                }
                Role::Target => {
                    redis::open_offline(redis::OpenMode::Target, options, listener, metrics).await
                }
            };
            opened
                .map(|store| Opened { store: store.clone(), movable: store })
                .map_err(|error| cannot_open(format!("{}: {error}", place_of(config))))
        }
    }
}

/// A source that its servers may use at the same time.
struct ReadSource {
    identity: Identity,
    reader: SourceReader,
}

enum SourceReader {
    Embedded(embedded::Options),
    Redis(Arc<redis::Redis>),
}

impl ReadSource {
    /// Opens a store that is there.
    async fn open(config: &Config) -> Result<Self, MaintenanceError> {
        match config.engine {
            EngineKind::Embedded => {
                let options = wiring::embedded_options(config);
                let identity = embedded::read_identity(&options.data_dir, &SystemClock::new());
                Ok(Self {
                    identity: identity.map_err(maintenance_error)?,
                    reader: SourceReader::Embedded(options),
                })
            }
            EngineKind::Redis => {
                let unread =
                    |error: &dyn std::fmt::Display| cannot_open(format!("{}: {error}", place_of(config)));
                let opened = redis::open_offline(
                    redis::OpenMode::ReadSource,
                    config.redis.clone(),
                    Arc::new(NoopListener),
                    Metrics::new().engine,
                );
                let store = opened.await.map_err(|error| unread(&error))?;
                let mark = store.move_mark().await.map_err(|error| unread(&error))?;
                let clocks = store.clock_offsets().await.map_err(|error| unread(&error))?;
                let identity = Identity { id: store.store_id(), mark, clocks };
                Ok(Self { identity, reader: SourceReader::Redis(store) })
            }
        }
    }

    /// Whether nothing has closed it. On Redis an earlier run may have left its fences, which only the store knows.
    fn is_served(&self, config: &Config) -> bool {
        config.engine == EngineKind::Embedded && self.identity.mark.is_none()
    }

    async fn records(&self) -> store::Result<Box<dyn RecordReader>> {
        match &self.reader {
            SourceReader::Embedded(options) => {
                embedded::read_records(&options.data_dir, &SystemClock::new(), false)
                    .map_err(|error| store::Error::Unavailable(error.to_string()))
            }
            SourceReader::Redis(store) => Store::records(&**store).await,
        }
    }
}
