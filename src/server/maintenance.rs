//! Operations on a store that is not served by this process: verify, backup, restore. Results are text for people.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::runtime;

use super::wiring;
use crate::{
    clock::{Clock, SystemClock},
    config::{Config, EngineKind},
    files::file_kind,
    job::{Outlet, Timestamp, TopicFilter},
    messages::printable,
    metrics::Metrics,
    process::signals,
    store::{
        Listener, Move, Store, Verified,
        embedded::{self, Inspection, OpenError},
        redis,
    },
};

/// Topics read by one call to sum up their jobs.
const PAGE: usize = 1_000;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// It is not possible as requested.
    #[error("{0}")]
    Refused(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// The result of a verification.
#[derive(Debug)]
pub struct VerifyReport {
    /// The report, in several lines.
    pub text: String,
    /// Whether no fault was found.
    pub is_sound: bool,
}

/// Verifies the configured store: Redis, or a data directory that no server uses. Changes nothing.
///
/// # Errors
/// Why it could not be read.
pub fn verify(config: &Config) -> Result<VerifyReport, MaintenanceError> {
    match config.engine {
        EngineKind::Embedded => {
            let options = wiring::embedded_options(config);
            let found = embedded::inspect(&options, &SystemClock::new()).map_err(|error| match error {
                OpenError::Locked { .. } => MaintenanceError::Refused(format!(
                    "{error}; stop it, or verify a backup: linger backup FILE && linger verify FILE"
                )),
                other => maintenance_error(other),
            })?;
            Ok(report(&options.data_dir.display().to_string(), &found))
        }
        EngineKind::Redis => runtime::Runtime::new()
            .map_err(|error| MaintenanceError::Failed(format!("cannot start: {error}")))?
            .block_on(verify_connected(config)),
    }
}

/// Makes what Redis stores now the store of the servers that miss theirs, because Redis was emptied or replaced. Returns
/// what was done.
///
/// # Errors
/// Why it is unchanged; it may be repeated.
pub fn accept_store(config: &Config) -> Result<String, MaintenanceError> {
    if config.engine == EngineKind::Embedded {
        return Err(MaintenanceError::Refused(
            "the embedded engine has nothing to accept: at its start it refuses files that do not belong together"
                .to_owned(),
        ));
    }
    let accept = redis::accept(config.redis.clone(), Metrics::new().engine);
    let runtime = runtime::Runtime::new()
        .map_err(|error| MaintenanceError::Failed(format!("cannot start: {error}")))?;
    let accepted = runtime.block_on(accept).map_err(|error| MaintenanceError::Failed(error.to_string()))?;
    let outcome = if accepted {
        "accepted; the servers that missed their store use it within a second"
    } else {
        "nothing to accept; no server misses its store"
    };
    Ok(format!("{}: {outcome}\n", wiring::engine(config)))
}

/// Verifies a backup of the embedded engine.
///
/// # Errors
/// Why it could not be read.
pub fn verify_backup(file: &Path) -> Result<VerifyReport, MaintenanceError> {
    refuse_other_kinds(file)?;
    let found = embedded::inspect_backup(file, &SystemClock::new()).map_err(maintenance_error)?;
    Ok(report(&file.display().to_string(), &found))
}

/// Copies the embedded engine's store to `file`, also while a server uses it. Returns a line that says what was done.
///
/// # Errors
/// Why there is no copy.
pub fn backup(config: &Config, file: &Path) -> Result<String, MaintenanceError> {
    only_embedded(config, "use the means of Redis (BGSAVE, its append-only file, a replica)")?;
    remove_incomplete_at_stop(file.to_owned())?;
    let (data_dir, began_at) = (&config.embedded.data_dir, SystemClock::new().wall_now());
    let bytes = embedded::backup(data_dir, file).map_err(|error| backup_error(error, file))?;
    let note = record_backup(data_dir, began_at);
    Ok(format!("{}: {bytes} bytes; verify it with: linger verify {0}\n{note}", file.display()))
}

/// Has the server show when the backup began. Returns a line for the operator if that fails: the backup is complete all the same.
fn record_backup(data_dir: &Path, began_at: Timestamp) -> String {
    match embedded::record_backup(data_dir, began_at, SystemClock::new().wall_now()) {
        Ok(()) => String::new(),
        Err(error) => {
            format!("the server does not show when this backup was made: {}: {error}\n", data_dir.display())
        }
    }
}

/// Where nothing can be written to `file`, as in a container without a writable directory, there may still be an output.
fn backup_error(error: OpenError, file: &Path) -> MaintenanceError {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let is_unwritable = matches!(&error, OpenError::Io { path, source }
        if path == file && [PermissionDenied, ReadOnlyFilesystem].contains(&source.kind()));
    if is_unwritable {
        let hint = "with - in the place of the file, the backup is written to standard output";
        return MaintenanceError::Failed(format!("{error}; {hint}"));
    }
    maintenance_error(error)
}

/// Copies the embedded engine's store to `out`, also while a server uses it. Returns a line that says what was done.
///
/// # Errors
/// Why there is no copy, or an incomplete one.
pub fn backup_to(config: &Config, out: &mut impl io::Write) -> Result<String, MaintenanceError> {
    only_embedded(config, "use the means of Redis (BGSAVE, its append-only file, a replica)")?;
    // In a container the data directory may be the only place with free space or write access.
    let scratch_dir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
    let scratch_dir = scratch_dir.map_or_else(|| config.embedded.data_dir.clone(), PathBuf::from);
    let scratch = scratch_dir.join("backup");
    remove_incomplete_at_stop(scratch.clone())?;
    let (data_dir, began_at) = (&config.embedded.data_dir, SystemClock::new().wall_now());
    let bytes = embedded::backup_to(data_dir, &scratch, out).map_err(maintenance_error)?;
    let note = record_backup(data_dir, began_at);
    Ok(format!("{bytes} bytes\n{note}").trim_end().to_owned())
}

/// Restores a sound backup into the configured data directory, which must be empty. Returns what was done.
///
/// # Errors
/// Why the directory is unchanged.
pub fn restore(config: &Config, file: &Path) -> Result<String, MaintenanceError> {
    only_embedded(config, "use the means of Redis")?;
    let checked = verify_backup(file)?;
    if !checked.is_sound {
        return Err(has_faults(&checked));
    }
    let data_dir = &config.embedded.data_dir;
    remove_incomplete_at_stop(embedded::restored_file(data_dir))?;
    embedded::restore(file, data_dir).map_err(maintenance_error)?;
    Ok(format!("{}restored into {}\n", checked.text, data_dir.display()))
}

/// Like [`restore`], from a stream. The copy is verified in the data directory, and removed if it has faults.
///
/// # Errors
/// Why there is no store in the directory.
pub fn restore_from(config: &Config, source: &mut impl io::Read) -> Result<String, MaintenanceError> {
    only_embedded(config, "use the means of Redis")?;
    let data_dir = &config.embedded.data_dir;
    remove_incomplete_at_stop(embedded::restored_file(data_dir))?;
    let mut checked = VerifyReport { text: String::new(), is_sound: false };
    let restored = embedded::restore_from(source, data_dir, |copy| {
        match verify_backup(copy) {
            Ok(found) => checked = found,
            Err(why) => checked.text = format!("{why}\n"),
        }
        // The copy has a name that only this process knows.
        checked.text = checked.text.replace(&copy.display().to_string(), "standard input");
        Ok(checked.is_sound)
    });
    match restored.map_err(maintenance_error)? {
        true => Ok(format!("{}restored into {}\n", checked.text, data_dir.display())),
        false => Err(has_faults(&checked)),
    }
}

/// Refuses an export or a compressed backup. Whatever else is wrong with the file, its verification says.
fn refuse_other_kinds(file: &Path) -> Result<(), MaintenanceError> {
    const SQLITE: &[u8] = b"SQLite format 3\0";
    let mut beginning = Vec::new();
    if std::fs::metadata(file).is_ok_and(|found| found.is_file()) {
        let opened = std::fs::File::open(file);
        let _ = opened.and_then(|file| io::Read::take(file, 32).read_to_end(&mut beginning));
    }
    match file_kind::recognise(&beginning) {
        Some(kind) if !beginning.starts_with(SQLITE) => {
            Err(MaintenanceError::Refused(format!("{}: {kind}", file.display())))
        }
        _ => Ok(()),
    }
}

fn has_faults(checked: &VerifyReport) -> MaintenanceError {
    MaintenanceError::Failed(format!("not restored, because the backup has faults\n{}", checked.text))
}

/// Has a signal remove the incomplete copy that is to become `target`, and end the process.
fn remove_incomplete_at_stop(target: PathBuf) -> Result<(), MaintenanceError> {
    signals::clean_up_at_stop(move || embedded::remove_incomplete(&target))
        .map_err(|error| MaintenanceError::Failed(format!("cannot start: {error}")))
}

fn only_embedded(config: &Config, instead: &str) -> Result<(), MaintenanceError> {
    match config.engine {
        EngineKind::Embedded => Ok(()),
        EngineKind::Redis => Err(MaintenanceError::Refused(format!("the store is Redis; {instead}"))),
    }
}

pub(super) fn maintenance_error(error: OpenError) -> MaintenanceError {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
    let text = error.to_string();
    match error {
        OpenError::Locked { .. } | OpenError::Moved { .. } => MaintenanceError::Refused(text),
        OpenError::Io { source, .. }
            if [AlreadyExists, DirectoryNotEmpty, NotFound].contains(&source.kind()) =>
        {
            MaintenanceError::Refused(text)
        }
        OpenError::Io { .. }
        | OpenError::Sqlite { .. }
        | OpenError::NotOurs { .. }
        | OpenError::Schema { .. }
        | OpenError::UnknownFormat { .. }
        | OpenError::Incomplete { .. } => MaintenanceError::Failed(text),
    }
}

/// Ignores events: there are no waiting polls here.
pub(super) struct NoopListener;

impl Listener for NoopListener {
    fn ready(&self, _: &Outlet) {}

    fn due_in(&self, _: Duration) {}

    fn promoted(&self, _: &[Move]) {}
}

async fn verify_connected(config: &Config) -> Result<VerifyReport, MaintenanceError> {
    let store = wiring::open_redis_to_read(config, Arc::new(NoopListener), Metrics::new().engine).await;
    let store = store.map_err(|why| MaintenanceError::Failed(format!("cannot open the store: {why}")))?;
    let failed = |error: crate::store::Error| MaintenanceError::Failed(format!("not verified: {error}"));
    let verified = store.verify().await.map_err(failed)?;
    let found = sum_jobs(&*store, verified).await.map_err(failed)?;
    store.close().await.map_err(failed)?;
    Ok(report(&wiring::engine(config), &found))
}

/// Sums up the jobs of all topics by state. If other processes use the store, these are the counts after the
/// verification.
async fn sum_jobs(store: &dyn Store, verified: Verified) -> crate::store::Result<Inspection> {
    let mut sums = Inspection { verified, ..Inspection::default() };
    let mut after = None;
    loop {
        let page = store.topics(&TopicFilter::ALL, after.as_ref(), PAGE).await?;
        for (_, stats) in &page {
            sums.delayed += stats.delayed;
            sums.ready += stats.ready;
            sums.reserved += stats.reserved;
            sums.dead += stats.dead;
        }
        after = page.last().map(|(topic, _)| topic.clone());
        if page.len() < PAGE {
            return Ok(sums);
        }
    }
}

/// Sets the clock of the embedded engine's store back to that of this machine. Returns a line that says what was done.
///
/// # Errors
/// Why the store is unchanged.
pub fn accept_clock(config: &Config) -> Result<String, MaintenanceError> {
    only_embedded(config, "correct the clock of its machine")?;
    let options = wiring::embedded_options(config);
    let accepted = embedded::accept_clock(&options, &SystemClock::new()).map_err(|error| match error {
        OpenError::Locked { .. } => MaintenanceError::Refused(format!("{error}; stop it first")),
        other => maintenance_error(other),
    })?;
    let dir = options.data_dir.display();
    if accepted.set_back.is_zero() {
        return Ok(format!("{dir}: the store's clock is not ahead; nothing was changed\n"));
    }
    let seconds = accepted.set_back.as_secs();
    Ok(format!(
        "{dir}: the store's clock was set back by {} h {} min {} s; {} jobs keep their remaining time\n",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        accepted.jobs
    ))
}

fn report(place: &str, found: &Inspection) -> VerifyReport {
    let Inspection { verified, delayed, ready, reserved, dead } = found;
    let Verified { jobs, stale, set_aside, faults } = verified;
    let mut text = format!(
        "{place}: {}\n  jobs       {jobs} ({delayed} delayed, {ready} ready, {reserved} reserved, {dead} dead)\n  \
         stale      {stale}\n  set aside  {set_aside}\n  faults     {}\n",
        if faults.is_empty() { "sound" } else { "NOT SOUND" },
        faults.len(),
    );
    for fault in faults {
        text.push_str("    ");
        text.push_str(&printable::escape_line(fault));
        text.push('\n');
    }
    VerifyReport { text, is_sound: faults.is_empty() }
}
