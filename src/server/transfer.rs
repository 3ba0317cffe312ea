//! Exports and imports of the configured store. Results are text for people.

use std::{io::Write, path::Path, sync::Arc};

use tokio::runtime;

use super::{
    maintenance::{MaintenanceError, NoopListener, maintenance_error},
    wiring,
};
use crate::{
    clock::{Clock, SystemClock},
    config::{Config, EngineKind},
    metrics::Metrics,
    process::signals,
    store::{
        RecordReader, Store,
        embedded::{self, OpenError},
    },
    transfer::{self, ExportFile, Exported, Imported, TransferError, Watcher, contents_in_words, counted},
};

/// What a transfer did.
#[derive(Debug)]
pub struct TransferReport {
    /// A line that says what was done.
    pub text: String,
    /// Whether nothing was left out.
    pub is_complete: bool,
}

/// Exports the configured store to `file`, also while servers use it.
///
/// # Errors
/// Why there is no export.
pub fn export(
    config: &Config,
    file: &Path,
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    let target = file.to_owned();
    signals::clean_up_at_stop(move || transfer::remove_incomplete(&target))
        .map_err(|error| MaintenanceError::Failed(format!("cannot start: {error}")))?;
    let mut target = ExportFile::create(file)?;
    let name = file.display().to_string();
    let exported = export_records(config, target.out(), &name, watcher)?;
    target.complete()?;
    Ok(exported_report(&name, exported))
}

/// Exports the configured store to `out`, also while servers use it.
///
/// # Errors
/// Why there is no export, or one without its end.
pub fn export_to(
    config: &Config,
    out: &mut (impl Write + Send),
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    Ok(exported_report("-", export_records(config, out, "stdout", watcher)?))
}

/// Imports `file` into the configured store: Redis, or a data directory that no server uses.
///
/// # Errors
/// Why nothing or not everything was imported.
pub fn import(
    config: &Config,
    file: &Path,
    partial: bool,
    watcher: &mut dyn Watcher,
) -> Result<TransferReport, MaintenanceError> {
    let export = transfer::check(file, partial)?;
    let imported = run(async {
        let store = open_to_import(config).await?;
        let imported = transfer::import(&*store, export, watcher).await;
        let closed = store.close().await.map_err(|error| MaintenanceError::Failed(error.to_string()));
        let imported = imported?;
        closed.map(|()| imported)
    })?;
    let Imported { jobs, topics, schedules, remembered, existing, refused } = imported;
    let text = format!(
        "{}: imported {}; already there: {existing}, refused: {refused}\n",
        wiring::engine(config),
        contents_in_words(jobs, topics, schedules, remembered)
    );
    Ok(TransferReport { text, is_complete: refused == 0 })
}

fn export_records(
    config: &Config,
    out: &mut (impl Write + Send),
    name: &str,
    watcher: &mut dyn Watcher,
) -> Result<Exported, MaintenanceError> {
    let clock = SystemClock::new();
    run(async {
        let at = clock.read().rounded_down;
        match config.engine {
            EngineKind::Embedded => {
                let records: Box<dyn RecordReader> =
                    embedded::read_records(&config.embedded.data_dir, &clock, false)
                        .map_err(maintenance_error)?;
                Ok(transfer::export(records, ("embedded", at), out, name, watcher).await?)
            }
            EngineKind::Redis => {
                let store =
                    wiring::open_redis_to_read(config, Arc::new(NoopListener), Metrics::new().engine).await;
                let store = store.map_err(cannot_open)?;
                let failed =
                    |error: crate::store::Error| MaintenanceError::Failed(format!("not exported: {error}"));
                let records = store.records().await.map_err(failed)?;
                let exported = transfer::export(records, ("redis", at), out, name, watcher).await?;
                store.close().await.map_err(failed)?;
                Ok(exported)
            }
        }
    })
}

async fn open_to_import(config: &Config) -> Result<Arc<dyn Store>, MaintenanceError> {
    let (clock, listener) = (Arc::new(SystemClock::new()), Arc::new(NoopListener));
    match config.engine {
        EngineKind::Embedded => {
            let options = wiring::embedded_options(config);
            let opened = embedded::open(options, clock, listener, Metrics::new().engine).await;
            opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| match error {
                OpenError::Locked { .. } => {
                    MaintenanceError::Refused(format!("{error}; stop the server, then import"))
                }
                other => maintenance_error(other),
            })
        }
        EngineKind::Redis => {
            let tls = wiring::redis_tls(config).map_err(|faults| {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                cannot_open(faults.join("; "))
            })?;
            wiring::open_store(config, clock, listener, &Metrics::new(), tls).await.map_err(cannot_open)
        }
    }
}

pub(super) fn cannot_open(why: String) -> MaintenanceError {
    MaintenanceError::Failed(format!("cannot open the store: {why}"))
}

pub(super) fn run<T>(
    transfer: impl Future<Output = Result<T, MaintenanceError>>,
) -> Result<T, MaintenanceError> {
    let runtime = runtime::Runtime::new();
    runtime.map_err(|error| MaintenanceError::Failed(format!("cannot start: {error}")))?.block_on(transfer)
}

fn exported_report(name: &str, exported: Exported) -> TransferReport {
    let Exported { jobs, topics, schedules, remembered, broken } = exported;
    let mut text = format!("{name}: {}", contents_in_words(jobs, topics, schedules, remembered));
    if broken > 0 {
        text.push_str(&format!("; left out {}", counted(broken, "broken record")));
    }
    TransferReport { text: text + "\n", is_complete: broken == 0 }
}

impl From<TransferError> for MaintenanceError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Refused(why) => Self::Refused(why),
            TransferError::Failed(why) => Self::Failed(why),
        }
    }
}
