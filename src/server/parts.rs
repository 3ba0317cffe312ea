//! From settings to parts: which engine is opened, and what each part is told. Each part has options
//! of its own, so that none knows the configuration.

use std::sync::Arc;

use crate::{
    clock::Clock,
    config::{self, Config, Engine},
    http,
    metrics::EngineMetrics,
    queue,
    store::{self, Listener, Store},
};

/// Opens the configured engine.
pub(super) async fn open_store(
    config: &Config,
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    _metrics: EngineMetrics,
) -> store::Result<Arc<dyn Store>> {
    Ok(super::naive::Naive::new(clock, listener, config.queue.dead_retention))
}

/// Which engine and where, in words, without secrets.
pub(super) fn engine(config: &Config) -> String {
    match config.engine {
        Engine::Embedded => format!("embedded ({})", config.embedded.data_dir.display()),
        Engine::Redis => format!("redis ({})", config.redis.place()),
    }
}

/// The queue's limits.
pub(super) fn limits(config: &config::Queue) -> queue::Limits {
    queue::Limits {
        max_body: config.max_body_bytes,
        max_batch: config.max_batch,
        max_batch_pop: config.max_batch_pop,
        max_pop_topics: config.max_pop_topics,
        max_wait: config.max_wait,
        max_waiting: config.max_waiting,
        promote_batch: config.promote_batch,
    }
}

/// The HTTP service's bounds.
pub(super) fn http_options(config: &config::Server) -> http::Options {
    http::Options {
        loopback: config.listen.ip().is_loopback(),
        allowed_hosts: config.allowed_hosts.clone(),
        max_request_bytes: config.max_request_bytes,
        max_buffered_bytes: config.max_buffered_bytes,
        max_header_bytes: config.max_header_bytes,
        max_connections: config.max_connections,
        header_timeout: config.header_timeout,
        body_timeout: config.body_timeout,
        write_timeout: config.write_timeout,
        linger: config.linger_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    /// Tests of a part use its own defaults; users get those of `config/default.toml`.
    #[test]
    fn the_documented_defaults_are_those_of_the_parts() {
        let config = config::load(Sources::default()).expect("the defaults are valid").config;
        assert_eq!(limits(&config.queue), queue::Limits::default());
        assert_eq!(http_options(&config.server), http::Options::default());
    }

    #[test]
    fn engines_are_named_with_their_place_and_without_secrets() {
        let mut config = config::load(Sources::default()).expect("the defaults are valid").config;
        assert_eq!(engine(&config), "embedded (data)");
        config.engine = Engine::Redis;
        assert_eq!(engine(&config), "redis (127.0.0.1:6379)");
    }
}
