//! Settings: defaults, one file, the environment, flags; checked as a whole, every fault at once.
//!
//! Knows no engine and no HTTP: it hands out plain values, one struct per concern. Its only borrowing
//! from above is the domain's pure parser of durations, so that settings and API read them alike.

mod fault;
mod layers;
mod log;
mod reader;
mod redis;
mod redis_url;
mod secret;
mod sections;
mod show;
#[cfg(test)]
mod tests;
mod values;

pub use fault::{Fault, Faults};
pub use layers::{Flag, Sources, USUAL_FILES, choose_file};
pub use log::{Log, LogFormat};
pub use redis::{Credentials, Redis, Topology};
pub use redis_url::Node;
pub use secret::Secret;
pub use sections::{Auth, Durability, Embedded, Engine, Queue, Server, Tls};

use layers::Layers;
use reader::Reader;

/// Everything that can be set, valid as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listening, and limits of connections.
    pub server: Server,
    /// Who may call.
    pub auth: Auth,
    /// The certificate to serve with; plain HTTP without.
    pub tls: Option<Tls>,
    /// Which engine.
    pub engine: Engine,
    /// The embedded engine's settings, also when it is not in use.
    pub embedded: Embedded,
    /// Redis's settings, also when it is not in use.
    pub redis: Redis,
    /// Limits of the queue.
    pub queue: Queue,
    /// Log lines.
    pub log: Log,
}

/// A configuration and how it came to be.
pub struct Loaded {
    /// The settings.
    pub config: Config,
    layers: Layers,
    sources: Sources,
}

impl Loaded {
    /// The settings in force as TOML, secrets redacted, with the source of each that is no default.
    #[must_use]
    pub fn show(&self) -> String {
        show::show(&self.layers, &self.sources)
    }
}

/// Reads and checks the settings.
///
/// # Errors
/// Every fault found, when there is one.
pub fn load(sources: Sources) -> Result<Loaded, Faults> {
    let mut faults = Vec::new();
    let layers = Layers::read(&sources, &mut faults);
    let mut config = read(&mut Reader::new(&layers, &mut faults));
    config.log.heed_rust_log(&sources.environment, &mut faults);
    Faults::check(faults)?;
    Ok(Loaded { config, layers, sources })
}

fn read(reader: &mut Reader<'_>) -> Config {
    let engine = Engine::read(reader);
    let config = Config {
        server: Server::read(reader),
        auth: Auth::read(reader),
        tls: Tls::read(reader),
        engine,
        embedded: Embedded::read(reader),
        redis: Redis::read(reader, engine == Engine::Redis),
        queue: Queue::read(reader),
        log: Log::read(reader),
    };
    check_together(&config, reader);
    config
}

/// What is possible alone, but not beside another value.
fn check_together(config: &Config, reader: &mut Reader<'_>) {
    match (&config.auth.tokens_file, config.auth.allow_anonymous) {
        (Some(_), true) => {
            reader.refuse("auth.allow_anonymous", "and auth.tokens_file are both set; leave one of them out");
        }
        (None, false) if !config.server.listen.ip().is_loopback() => {
            let remedy = "is an address that others can reach, and nothing asks them for a token: set \
                          auth.tokens_file, or auth.allow_anonymous = true if something else keeps strangers out";
            reader.refuse("server.listen", format!("{} {remedy}", config.server.listen));
        }
        (Some(_), false) | (None, _) => {}
    }
    if config.queue.max_body_bytes > config.server.max_request_bytes {
        reader.refuse("queue.max_body", "must not be more than server.max_request_bytes");
    }
    if config.queue.max_delivery_bytes > config.server.max_answer_bytes {
        reader.refuse("queue.max_delivery", "must not be more than server.max_answer_bytes");
    }
    if config.server.max_request_bytes > config.server.max_buffered_bytes {
        reader.refuse("server.max_request_bytes", "must not be more than server.max_buffered_bytes");
    }
    if config.server.max_request_bytes > config.server.max_buffered_bytes_per_caller {
        let problem = "must not be more than server.max_buffered_bytes_per_caller";
        reader.refuse("server.max_request_bytes", problem);
    }
}
