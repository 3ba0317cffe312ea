//! Translates settings into the options of the parts, and opens the configured engine. No part knows the whole
//! configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    clock::Clock,
    config::{Config, EngineKind, FileFault},
    metrics::{EngineMetrics, Metrics},
    push::{Callbacks, Caller, SystemResolver},
    queue::Queue,
    store::{
        Listener, Store, embedded,
        redis::{self, RedisTls},
    },
};

/// Longest pause before a Redis that is not usable yet is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Opens the configured engine. A Redis that is not usable yet is tried again for `redis.start_timeout`. `redis_tls` is
/// what [`redis_tls`] returned.
///
/// # Errors
/// The address or directory and what is wrong, in one line.
pub(super) async fn open_store(
    config: &Config,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    metrics: &Metrics,
    redis_tls: Option<RedisTls>,
) -> Result<Arc<dyn Store>, String> {
    match config.engine {
        EngineKind::Embedded => {
            let mut options = embedded_options(config);
            options.data_dir = absolute(&options.data_dir);
            metrics.queue.set_limit("min_free_bytes", options.min_free_bytes);
            metrics.queue.set_limit("dedup_max", options.dedup_max);
            let opened = embedded::open(options, clock, listener, metrics.engine.clone()).await;
            opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string())
        }
        EngineKind::Redis => {
            let timeout = config.redis.start_timeout;
            metrics.queue.set_limit("dedup_max", config.redis.dedup_max);
            let (options, metrics) = (config.redis.clone(), metrics.engine.clone());
            open_redis(options, redis_tls, &*clock, listener, metrics, timeout).await
        }
    }
    .map_err(|why| why.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

/// Connects to Redis. Retries after problems that may resolve themselves, such as a server that is starting or loading
/// its data, or a Cluster with an unavailable server. Logs such a problem when it begins and when it changes.
async fn open_redis(
    options: redis::Options,
    tls: Option<RedisTls>,
    clock: &dyn Clock,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
    timeout: Duration,
) -> Result<Arc<dyn Store>, String> {
    let now = || Duration::from_micros(clock.now_micros().unsigned_abs());
    let (end, mut logged) = (now() + timeout, String::new());
    loop {
        let time = redis::TimeSource::Server;
        let (options, tls, metrics) = (options.clone(), tls.clone(), metrics.clone());
        let error = match redis::connect_with_tls(options, tls, time, listener.clone(), metrics).await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        let (why, left) = (error.to_string(), end.saturating_sub(now()));
        if !error.is_transient() || timeout.is_zero() {
            return Err(why);
        }
        if left.is_zero() {
            return Err(format!("{why} (waited {timeout:?}, redis.start_timeout)"));
        }
        if why != logged {
            tracing::warn!(%why, give_up_in_s = left.as_secs(), "waiting for Redis");
            logged = why;
        }
        clock.sleep(RETRY_PAUSE.min(left)).await;
    }
}

/// Reads the files of TLS to Redis, if the engine uses it. Blocks for as long as their file systems do.
///
/// # Errors
/// Every file that cannot be used, and why.
pub(super) fn redis_tls(config: &Config) -> Result<Option<RedisTls>, Vec<FileFault>> {
    match config.engine {
        EngineKind::Embedded => Ok(None),
        EngineKind::Redis => config.redis.tls.as_ref().map(RedisTls::read).transpose(),
    }
}

/// The callbacks of `queue`; `None` if callbacks are disabled in this process.
///
/// # Errors
/// What is wrong with the trusted certificates.
pub(super) fn callbacks(
    config: &Config,
    queue: &Arc<Queue>,
    clock: &Arc<dyn Clock>,
    metrics: &Metrics,
) -> Result<Option<Callbacks>, FileFault> {
    let settings = config.callbacks.clone();
    if settings.max_calls == 0 {
        return Ok(None);
    }
    metrics.queue.set_limit("max_calls", settings.max_calls as u64);
    if settings.has_auto_networks {
        let allowed = settings.networks.to_string();
        tracing::info!(
            allowed,
            setting = "callbacks.allow_networks",
            "callbacks may reach these addresses, because the setting is \"auto\""
        );
    }
    let caller = Caller::new(settings.clone(), clock.clone(), Arc::new(SystemResolver))
        .map_err(|problem| FileFault { key: "callbacks.ca_file", problem })?;
    Ok(Some(Callbacks::new(queue.clone(), caller, settings, clock.clone(), metrics.queue.clone())))
}

/// Connects to the configured Redis without writing to it.
///
/// # Errors
/// The address or directory and what is wrong, in one line.
pub(super) async fn open_redis_to_read(
    config: &Config,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<dyn Store>, String> {
    let opened =
        redis::open_offline(redis::OpenMode::ReadOnly, config.redis.clone(), listener, metrics).await;
    let opened = opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string());
    opened.map_err(|why| why.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

/// The options of the embedded engine.
pub(super) fn embedded_options(config: &Config) -> embedded::Options {
    config.embedded.clone().into()
}

/// Describes the engine and its location, without secrets.
pub(super) fn engine(config: &Config) -> String {
    match config.engine {
        EngineKind::Embedded => format!("embedded ({})", absolute(&config.embedded.data_dir).display()),
        EngineKind::Redis => format!("redis ({})", config.redis.location()),
    }
}

/// The absolute path, or the path unchanged if the current directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Purpose, Sources};

    #[test]
    fn engines_are_described_with_their_location_and_without_secrets() {
        let mut config =
            config::load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
        let here = std::env::current_dir().expect("is known");
        assert_eq!(engine(&config), format!("embedded ({})", here.join("data").display()));
        config.engine = EngineKind::Redis;
        assert_eq!(engine(&config), "redis (127.0.0.1:6379)");
    }
}
