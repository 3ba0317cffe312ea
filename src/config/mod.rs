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
mod variables;

pub use fault::{Fault, Faults, FileFault};
pub use layers::{DEFAULTS, Flag, Sources, USUAL_FILES, choose_file};
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

/// What the settings are read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To serve with them. The rules about listening count, and so does `RUST_LOG`.
    Serve,
    /// For anything else, such as a backup. A server may run with other flags, so that what is wrong with listening
    /// says nothing here. `RUST_LOG`, which other programs heed too, does not either: only a server logs.
    Use,
}

/// A configuration and how it came to be.
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Variables of the environment that look like settings and are none, each in a sentence.
    pub warnings: Vec<String>,
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
pub fn load(sources: Sources, purpose: Purpose) -> Result<Loaded, Faults> {
    load_with(sources, purpose, |_| Vec::new())
}

/// Reads and checks the settings for serving, and the files that they name by `inspect`.
///
/// # Errors
/// Every fault found, in the settings and in the files.
pub fn check(sources: Sources, inspect: impl FnOnce(&Config) -> Vec<FileFault>) -> Result<Loaded, Faults> {
    load_with(sources, Purpose::Serve, inspect)
}

fn load_with(
    sources: Sources,
    purpose: Purpose,
    inspect: impl FnOnce(&Config) -> Vec<FileFault>,
) -> Result<Loaded, Faults> {
    let mut faults = Vec::new();
    let layers = Layers::read(&sources, &mut faults);
    let mut reader = Reader::new(&layers, &mut faults);
    let mut config = read(&mut reader, purpose);
    for FileFault { key, problem } in inspect(&config) {
        reader.refuse(key, problem);
    }
    match purpose {
        Purpose::Serve => config.log.heed_rust_log(&sources.environment, &mut faults),
        Purpose::Use => {}
    }
    Faults::check(faults)?;
    let warnings = variables::warnings(&sources.environment, &layers.defaults);
    Ok(Loaded { config, warnings, layers, sources })
}

fn read(reader: &mut Reader<'_>, purpose: Purpose) -> Config {
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
    check_limits(&config, reader);
    check_unused_redis(reader);
    match purpose {
        Purpose::Serve => check_listening(&config, reader),
        Purpose::Use => {}
    }
    config
}

/// Who may call a server with these settings.
fn check_listening(config: &Config, reader: &mut Reader<'_>) {
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
}

/// Refuses settings of Redis beside the embedded engine: whoever sets them means to use them, and would find the jobs
/// in a directory instead. A file that names the engine may hold Redis's defaults, as what `linger config show`
/// prints does.
fn check_unused_redis(reader: &mut Reader<'_>) {
    if !reader.is_text("store.engine", "embedded") {
        return;
    }
    let is_chosen = reader.is_set("store.engine");
    for (_, key) in show::documented().filter(|(section, _)| *section == "redis") {
        let key = format!("redis.{key}");
        if reader.is_set(&key) && !(is_chosen && reader.is_default(&key)) {
            reader.refuse(
                &key,
                "is set, but store.engine is \"embedded\" and does not use it: set store.engine = \"redis\" \
                 (--store redis, LINGER__STORE__ENGINE=redis), or leave it out",
            );
        }
    }
}

/// What is possible alone, but not beside another value.
fn check_limits(config: &Config, reader: &mut Reader<'_>) {
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
