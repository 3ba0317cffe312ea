//! The state that the writer publishes to other threads and to callers: why the engine failed, if it did, the
//! topics' configuration, and which topics have ready jobs. The writer's own state needs no lock and is not here.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    job::{Outlet, Topic},
    store::{Degraded, Error, TopicConfig, embedded::disk::disk_space::SpaceLevel},
};

/// Why nothing is written while another program, perhaps the `sqlite3` shell, has the file's write lock.
pub(crate) const LOCKED: &str = "the database file is locked by another program";

#[derive(Debug, Default)]
pub(crate) struct PublishedState {
    /// Set once and never cleared: after it no write may be acknowledged.
    failure: Mutex<Option<Error>>,
    /// The same as a flag, because every commit checks it.
    failed: AtomicBool,
    /// Whether the writer is to close the store cleanly when it ends.
    stop_cleanly: AtomicBool,
    /// As of the last group that read it.
    space: Mutex<SpaceLevel>,
    /// That another program keeps the log from being emptied, if one does.
    blocked_log: Mutex<Option<Degraded>>,
    configs: RwLock<HashMap<Topic, Arc<TopicConfig>>>,
    /// That of every topic without one of its own.
    default_config: Arc<TopicConfig>,
    /// The outlets with ready jobs, as of the last commit, and published before that commit is announced.
    ready: RwLock<HashSet<Outlet>>,
}

impl PublishedState {
    /// Stops all writes for good. The first reason stays.
    pub fn fail(&self, what: &str, error: &dyn std::fmt::Display) -> Error {
        let mut failure = self.failure();
        let error = failure.get_or_insert_with(|| {
            tracing::error!(%error, "{what}; no more writes until a restart");
            Error::Stopped(format!("{what}: {error}"))
        });
        self.failed.store(true, Ordering::Release);
        error.clone()
    }

    /// Fails when writes have been stopped.
    pub fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) { Err(self.stop_error()) } else { Ok(()) }
    }

    /// The error for callers that get no reply.
    pub fn stop_error(&self) -> Error {
        self.failure().clone().unwrap_or_else(|| Error::Unavailable("it is closed".to_owned()))
    }

    /// Makes the writer close the store cleanly when it ends.
    pub fn request_clean_stop(&self) {
        self.stop_cleanly.store(true, Ordering::Release);
    }

    pub fn stops_cleanly(&self) -> bool {
        self.stop_cleanly.load(Ordering::Acquire)
    }

    /// How much disk space was left when it was last read.
    pub fn space(&self) -> SpaceLevel {
        *self.level()
    }

    /// Publishes how much disk space is left.
    pub fn set_space(&self, level: SpaceLevel) {
        *self.level() = level;
    }

    /// That another program keeps the log from being emptied, if one does.
    pub fn blocked_log(&self) -> Option<Degraded> {
        self.log().clone()
    }

    pub fn set_blocked_log(&self, blocked: Option<Degraded>) {
        *self.log() = blocked;
    }

    fn log(&self) -> MutexGuard<'_, Option<Degraded>> {
        self.blocked_log.lock().expect("no code panics while it holds the text")
    }

    fn level(&self) -> MutexGuard<'_, SpaceLevel> {
        self.space.lock().expect("no code panics while it holds the level")
    }

    pub fn config(&self, topic: &Topic) -> Arc<TopicConfig> {
        let configs = self.configs.read().expect("no code panics while it holds the configurations");
        configs.get(topic).unwrap_or(&self.default_config).clone()
    }

    /// Publishes a committed configuration.
    pub fn set_config(&self, topic: Topic, config: Arc<TopicConfig>) {
        let mut configs = self.configs.write().expect("no code panics while it holds the configurations");
        if config.is_default() {
            configs.remove(&topic);
        } else {
            configs.insert(topic, config);
        }
    }

    /// Whether a reservation may succeed, or would return the error that stopped the engine.
    pub fn may_have_ready(&self, outlet: &Outlet) -> bool {
        let ready = || self.ready.read().expect("no code panics while it holds the ready outlets");
        self.failed.load(Ordering::Acquire) || ready().contains(outlet)
    }

    /// The outlets with ready jobs.
    pub fn ready_outlets(&self) -> Vec<Outlet> {
        let ready = self.ready.read().expect("no code panics while it holds the ready outlets");
        ready.iter().cloned().collect()
    }

    /// Publishes whether `outlet` has ready jobs.
    pub fn set_ready(&self, outlet: &Outlet, has_ready: bool) {
        let mut ready = self.ready.write().expect("no code panics while it holds the ready outlets");
        if !has_ready {
            ready.remove(outlet);
        } else if !ready.contains(outlet) {
            ready.insert(outlet.clone());
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().expect("no code panics while it holds the failure")
    }
}
