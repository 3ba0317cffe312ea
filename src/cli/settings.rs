//! The flags that set something, in the groups that commands accept. A flag is one more source of settings.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use crate::config::Flag;

/// The flag that names the configuration file.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct FileFlag {
    /// Read this file instead of ./linger.toml or /etc/linger/linger.toml
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The flag that says where the server listens.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct ListenFlag {
    /// Where to listen (server.listen): an address and a port, or a port of 127.0.0.1; port 0 picks a free one [default:
    /// 127.0.0.1:9277]
    #[arg(long, value_name = "[ADDR:]PORT")]
    listen: Option<String>,
}

/// The flag that names the data directory.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct DirectoryFlag {
    /// Directory of the embedded engine (embedded.data_dir) [default: data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

/// The flags that choose the engine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct EngineFlags {
    /// Where jobs are kept (store.engine): embedded or redis [default: embedded]
    #[arg(long, value_name = "ENGINE")]
    store: Option<String>,
    /// The Redis server (redis.url); implies --store redis. Better without a password, which other users could see in
    /// the list of processes
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
}

/// All flags that set something.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Settings {
    #[command(flatten)]
    pub file: FileFlag,
    #[command(flatten)]
    pub listen: ListenFlag,
    #[command(flatten)]
    pub directory: DirectoryFlag,
    #[command(flatten)]
    pub engine: EngineFlags,
}

impl Settings {
    /// The settings of a command that opens a store.
    pub(super) fn for_store(file: &FileFlag, directory: &DirectoryFlag, engine: &EngineFlags) -> Self {
        let listen = ListenFlag::default();
        Self { file: file.clone(), listen, directory: directory.clone(), engine: engine.clone() }
    }

    /// The configuration file, if `--config` names one.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        self.file.config.clone()
    }

    /// The data directory, if `--data-dir` names one.
    pub(super) fn data_dir(&self) -> Option<PathBuf> {
        self.directory.data_dir.clone().map(PathBuf::from)
    }

    /// The flags other than `--config`, as settings.
    pub(super) fn flags(&self) -> Vec<Flag> {
        let EngineFlags { store, redis_url } = &self.engine;
        // A user who names a Redis wants its jobs to be stored there.
        let implied = redis_url.as_ref().filter(|_| store.is_none()).map(|_| "redis".to_owned());
        let flag = |name, key, value: &Option<String>| Some(Flag { name, key, value: value.clone()? });
        [
            flag("--listen", "server.listen", &self.listen.listen),
            flag("--data-dir", "embedded.data_dir", &self.directory.data_dir),
            flag("--store", "store.engine", store),
            flag("--redis-url", "store.engine", &implied),
            flag("--redis-url", "redis.url", redis_url),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// `--config` and the engine's flags, as arguments for another process.
    pub(super) fn file_and_engine_arguments(&self) -> Vec<OsString> {
        let EngineFlags { store, redis_url } = &self.engine;
        let [store, redis_url] = [store, redis_url].map(|value| value.as_ref().map(OsString::from));
        let file = self.file.config.as_ref().map(OsString::from);
        [("--config", file), ("--store", store), ("--redis-url", redis_url)]
            .into_iter()
            .filter_map(|(name, value)| Some([OsString::from(name), value?]))
            .flatten()
            .collect()
    }

    /// Names of the flags that were given.
    pub(super) fn given_flags(&self) -> Vec<&'static str> {
        let file = self.file.config.iter().map(|_| "--config");
        let mut given: Vec<_> = file.chain(self.flags().iter().map(|flag| flag.name)).collect();
        given.dedup();
        given
    }

    /// These settings, and `others` where one is missing here.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            file: FileFlag { config: self.file.config.or(others.file.config) },
            listen: ListenFlag { listen: self.listen.listen.or(others.listen.listen) },
            directory: DirectoryFlag { data_dir: self.directory.data_dir.or(others.directory.data_dir) },
            engine: EngineFlags {
                store: self.engine.store.or(others.engine.store),
                redis_url: self.engine.redis_url.or(others.engine.redis_url),
            },
        }
    }
}
