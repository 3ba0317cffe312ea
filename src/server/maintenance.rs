//! What is done to a store without serving it: verify, backup, restore. Answers in words for people.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::runtime;

use super::wiring;
use crate::{
    clock::SystemClock,
    config::{Config, Engine},
    job::Topic,
    metrics::Metrics,
    printable,
    store::{
        Listener, Store, Verified,
        embedded::{self, Inspection, OpenError},
    },
};

/// Topics read at a time for the sums.
const PAGE: usize = 1_000;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is not possible here, as asked.
    #[error("{0}")]
    Wrong(String),
    /// It was tried, and failed.
    #[error("{0}")]
    Failed(String),
}

/// What a verification found.
#[derive(Debug)]
pub struct Report {
    /// Several lines.
    pub text: String,
    /// Whether there is no fault.
    pub is_sound: bool,
}

/// Verifies the configured store: all of Redis, or a data directory that nobody serves, which is not changed.
///
/// # Errors
/// Why it could not be looked at.
pub fn verify(config: &Config) -> Result<Report, Refusal> {
    match config.engine {
        Engine::Embedded => {
            let options = wiring::embedded_options(config);
            let found = embedded::inspect(&options, &SystemClock::new()).map_err(|error| match error {
                OpenError::Locked { .. } => Refusal::Wrong(format!(
                    "{error}; stop it, or verify a backup: linger backup FILE && linger verify FILE"
                )),
                other => refusal(other),
            })?;
            Ok(report(&options.data_dir.display().to_string(), &found))
        }
        Engine::Redis => runtime::Runtime::new()
            .map_err(|error| Refusal::Failed(format!("cannot start: {error}")))?
            .block_on(verify_connected(config)),
    }
}

/// Verifies a backup of the embedded engine.
///
/// # Errors
/// Why it could not be looked at.
pub fn verify_backup(file: &Path) -> Result<Report, Refusal> {
    let found = embedded::inspect_backup(file, &SystemClock::new()).map_err(refusal)?;
    Ok(report(&file.display().to_string(), &found))
}

/// Copies the embedded engine's store to `file`, whether it is served or not. What was done, in one line.
///
/// # Errors
/// Why there is no copy.
pub fn backup(config: &Config, file: &Path) -> Result<String, Refusal> {
    only_embedded(config, "back it up by its own means (BGSAVE, its append-only file, a replica)")?;
    let bytes = embedded::backup(&config.embedded.data_dir, file).map_err(refusal)?;
    Ok(format!("{}: {bytes} bytes; look at it with: linger verify {0}\n", file.display()))
}

/// Copies the embedded engine's store to stdout, or to whatever `out` is, whether it is served or not. What was done,
/// in one line.
///
/// # Errors
/// Why there is no copy, or only a part of one.
pub fn backup_to(config: &Config, out: &mut impl io::Write) -> Result<String, Refusal> {
    only_embedded(config, "back it up by its own means (BGSAVE, its append-only file, a replica)")?;
    // In a container the data directory may be the only place with room, or the only one that can be written to.
    let scratch_dir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
    let scratch_dir = scratch_dir.map_or_else(|| config.embedded.data_dir.clone(), PathBuf::from);
    let bytes = embedded::backup_to(&config.embedded.data_dir, &scratch_dir, out).map_err(refusal)?;
    Ok(format!("{bytes} bytes"))
}

/// Puts a backup that is sound into the configured data directory, which must be empty. What was done.
///
/// # Errors
/// Why the directory is as it was.
pub fn restore(config: &Config, file: &Path) -> Result<String, Refusal> {
    only_embedded(config, "restore it by its own means")?;
    let checked = verify_backup(file)?;
    if !checked.is_sound {
        return Err(Refusal::Failed(format!(
            "not restored, because the backup has faults\n{}",
            checked.text
        )));
    }
    let data_dir = &config.embedded.data_dir;
    embedded::restore(file, data_dir).map_err(refusal)?;
    Ok(format!("{}restored into {}\n", checked.text, data_dir.display()))
}

fn only_embedded(config: &Config, instead: &str) -> Result<(), Refusal> {
    match config.engine {
        Engine::Embedded => Ok(()),
        Engine::Redis => Err(Refusal::Wrong(format!("the store is Redis; {instead}"))),
    }
}

fn refusal(error: OpenError) -> Refusal {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
    let text = error.to_string();
    match error {
        OpenError::Locked { .. } => Refusal::Wrong(text),
        OpenError::Io { source, .. }
            if [AlreadyExists, DirectoryNotEmpty, NotFound].contains(&source.kind()) =>
        {
            Refusal::Wrong(text)
        }
        OpenError::Io { .. }
        | OpenError::Sqlite { .. }
        | OpenError::NotOurs { .. }
        | OpenError::Schema { .. }
        | OpenError::UnknownFormat { .. }
        | OpenError::Incomplete { .. } => Refusal::Failed(text),
    }
}

/// Nobody waits for jobs here.
struct Deaf;

impl Listener for Deaf {
    fn ready(&self, _: &Topic) {}

    fn due_in(&self, _: Duration) {}
}

async fn verify_connected(config: &Config) -> Result<Report, Refusal> {
    let store = wiring::open_redis_to_read(config, Arc::new(Deaf), Metrics::new().engine).await;
    let store = store.map_err(|why| Refusal::Failed(format!("cannot open the store: {why}")))?;
    let failed = |error: crate::store::Error| Refusal::Failed(format!("not verified: {error}"));
    let verified = store.verify().await.map_err(failed)?;
    let found = sums(&*store, verified).await.map_err(failed)?;
    store.close().await.map_err(failed)?;
    Ok(report(&wiring::engine(config), &found))
}

/// The jobs of all topics by state; of a moment after the verification, when others are at work.
async fn sums(store: &dyn Store, verified: Verified) -> crate::store::Result<Inspection> {
    let mut sums = Inspection { verified, ..Inspection::default() };
    let mut after = None;
    loop {
        let page = store.topics(after.as_ref(), PAGE).await?;
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

fn report(place: &str, found: &Inspection) -> Report {
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
        text.push_str(&printable::line(fault));
        text.push('\n');
    }
    Report { text, is_sound: faults.is_empty() }
}
