//! Translates settings into the options of the parts, and opens the configured engine. No part knows the whole
//! configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    clock::Clock,
    config::{self, Config, Credentials, Engine, Node, Topology},
    http,
    metrics::EngineMetrics,
    queue,
    store::{Listener, Store, embedded, redis},
};

/// Longest pause before a Redis that is not usable yet is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Opens the configured engine. A Redis that is not usable yet is tried again for `redis.start_timeout`.
///
/// # Errors
/// The address or directory and what is wrong, in one line.
pub(super) async fn open_store(
    config: &Config,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<dyn Store>, String> {
    match config.engine {
        Engine::Embedded => {
            let mut options = embedded_options(config);
            options.data_dir = absolute(&options.data_dir);
            let opened = embedded::open(options, clock, listener, metrics).await;
            opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string())
        }
        Engine::Redis => {
            let timeout = config.redis.start_timeout;
            open_redis(redis_options(config), &*clock, listener, metrics, timeout).await
        }
    }
    .map_err(|why| why.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

/// Connects to Redis. Retries after problems that may resolve themselves, such as a server that is starting or loading
/// its data, or a Cluster with an unavailable server. Logs such a problem when it begins and when it changes.
async fn open_redis(
    options: redis::Options,
    clock: &dyn Clock,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
    timeout: Duration,
) -> Result<Arc<dyn Store>, String> {
    let now = || Duration::from_micros(clock.now_micros().unsigned_abs());
    let (end, mut logged) = (now() + timeout, String::new());
    loop {
        let time = redis::TimeSource::Server;
        let error = match redis::connect(options.clone(), time, listener.clone(), metrics.clone()).await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        let (why, left) = (error.to_string(), end.saturating_sub(now()));
        if !error.may_pass() || timeout.is_zero() {
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

/// Connects to the configured Redis without writing to it.
///
/// # Errors
/// The address or directory and what is wrong, in one line.
pub(super) async fn open_redis_to_read(
    config: &Config,
    listener: Arc<dyn Listener>,
    metrics: EngineMetrics,
) -> Result<Arc<dyn Store>, String> {
    let opened = redis::open_to_read(redis_options(config), listener, metrics).await;
    let opened = opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string());
    opened.map_err(|why| why.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

pub(super) fn embedded_options(config: &Config) -> embedded::Options {
    let settings = &config.embedded;
    let mut options = embedded::Options::new(&settings.data_dir);
    options.durability = match settings.durability {
        config::Durability::Always => embedded::Durability::Always,
        config::Durability::Interval(every) => embedded::Durability::Interval(every),
        config::Durability::Os => embedded::Durability::Os,
    };
    options.min_free_bytes = settings.min_free_bytes;
    options.ballast_bytes = settings.ballast_bytes;
    options.look_ahead = settings.look_ahead;
    options.dead_retention = config.queue.dead_retention;
    options
}

fn redis_options(config: &Config) -> redis::Options {
    let settings = &config.redis;
    let (username, password) = credentials(&settings.credentials);
    redis::Options {
        mode: redis_mode(settings),
        username,
        password,
        prefix: settings.prefix.clone(),
        shards: settings.shards,
        command_timeout: settings.command_timeout,
        connect_timeout: settings.connect_timeout,
        unresponsive_timeout: settings.unresponsive_timeout,
        retry_for: settings.retry_for,
        prompt_timeout: settings.prompt_timeout,
        reconnect_min: settings.reconnect_min_delay,
        reconnect_max: settings.reconnect_max_delay,
        wait_replicas: settings.wait_replicas,
        wait_timeout: settings.wait_timeout,
        dead_retention: config.queue.dead_retention,
    }
}

fn redis_mode(settings: &config::Redis) -> redis::Mode {
    let urls = |nodes: &[Node]| nodes.iter().map(|node| format!("redis://{node}")).collect();
    match &settings.topology {
        Topology::Standalone(node) if settings.database == 0 => {
            redis::Mode::Standalone { url: format!("redis://{node}") }
        }
        Topology::Standalone(node) => {
            redis::Mode::Standalone { url: format!("redis://{node}/{}", settings.database) }
        }
        Topology::Sentinel { nodes, master, credentials: for_sentinels } => {
            let (username, password) = credentials(for_sentinels);
            redis::Mode::Sentinel { urls: urls(nodes), service: master.clone(), username, password }
        }
        Topology::Cluster(nodes) => redis::Mode::Cluster { urls: urls(nodes) },
    }
}

fn credentials(credentials: &Credentials) -> (Option<String>, Option<redis::Secret>) {
    let password = credentials.password.as_ref().map(|password| redis::Secret::new(password.expose()));
    (credentials.username.clone(), password)
}

/// Describes the engine and its location, without secrets.
pub(super) fn engine(config: &Config) -> String {
    match config.engine {
        Engine::Embedded => format!("embedded ({})", absolute(&config.embedded.data_dir).display()),
        Engine::Redis => format!("redis ({})", config.redis.place()),
    }
}

/// The absolute path, or the path unchanged if the current directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The queue's limits.
pub(super) fn limits(config: &config::Queue) -> queue::Limits {
    queue::Limits {
        max_body: config.max_body_bytes,
        max_batch: config.max_batch,
        max_batch_pop: config.max_batch_pop,
        max_delivery: config.max_delivery_bytes,
        max_pop_topics: config.max_pop_topics,
        max_delay: config.max_delay,
        max_wait: config.max_wait,
        max_waiting: config.max_waiting,
        promote_batch: config.promote_batch,
    }
}

/// The options of the HTTP layer.
pub(super) fn http_options(config: &Config) -> http::Options {
    let is_anonymous = config.auth.tokens_file.is_none();
    let config = &config.server;
    http::Options {
        // A web page has no token. Without tokens, only the Host header reveals requests of web pages.
        check_host: is_anonymous || config.listen.ip().is_loopback() || !config.allowed_hosts.is_empty(),
        allowed_hosts: config.allowed_hosts.clone(),
        max_request_bytes: config.max_request_bytes,
        max_small_request_bytes: config.max_small_request_bytes,
        max_buffered_bytes: config.max_buffered_bytes,
        max_buffered_bytes_per_caller: config.max_buffered_bytes_per_caller,
        max_answer_bytes: config.max_answer_bytes,
        max_header_bytes: config.max_header_bytes,
        max_headers: config.max_headers,
        max_connections: config.max_connections,
        max_connections_per_address: config.max_connections_per_address,
        first_byte_timeout: config.first_byte_timeout,
        header_timeout: config.header_timeout,
        keep_alive_timeout: config.keep_alive_timeout,
        body_timeout: config.body_timeout,
        min_body_rate: config.min_body_rate,
        write_timeout: config.write_timeout,
        linger: config.linger_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Purpose, Sources};

    /// Tests of a part use its own defaults; users get those of `config/default.toml`.
    #[test]
    fn the_documented_defaults_are_those_of_the_parts() {
        let config = config::load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
        assert_eq!(limits(&config.queue), queue::Limits::default());
        assert_eq!(http_options(&config), http::Options::default());
        let embedded = embedded::Options::new("data");
        assert_eq!(format!("{:?}", embedded_options(&config)), format!("{embedded:?}"));
        let redis = redis::Options::new("redis://127.0.0.1:6379");
        assert_eq!(format!("{:?}", redis_options(&config)), format!("{redis:?}"));
    }

    #[test]
    fn the_host_is_unchecked_only_beyond_loopback_and_with_tokens() {
        let mut config =
            config::load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
        config.server.listen = "0.0.0.0:1".parse().expect("an address");
        config.auth.allow_anonymous = true;
        assert!(http_options(&config).check_host);
        config.auth.allow_anonymous = false;
        config.auth.tokens_file = Some("tokens.toml".into());
        assert!(!http_options(&config).check_host);
        config.server.allowed_hosts = vec!["queue.example".to_owned()];
        assert!(http_options(&config).check_host);
    }

    #[test]
    fn engines_are_described_with_their_location_and_without_secrets() {
        let mut config =
            config::load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
        let here = std::env::current_dir().expect("is known");
        assert_eq!(engine(&config), format!("embedded ({})", here.join("data").display()));
        config.engine = Engine::Redis;
        assert_eq!(engine(&config), "redis (127.0.0.1:6379)");
    }
}
