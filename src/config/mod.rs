//! Settings: defaults, one file, the environment and flags, checked as a whole, with every fault at once.
//!
//! It defines one struct per section, which the part concerned uses as its options, and knows nothing else of the
//! parts. From `job` it uses the types and the parser of durations, so that settings and API accept the same
//! values.
//!
//! The purpose of a command decides which rules count (`Purpose`): rules about listening apply only to the server,
//! because a health check or a backup beside a running server does not see the flags of the server.

mod callbacks;
mod compat;
mod embedded;
mod fault;
mod layers;
mod log;
mod queue;
mod reader;
mod redis;
mod redis_tls;
mod redis_url;
mod secret;
mod sections;
mod server;
mod show;
#[cfg(test)]
mod tests;
mod traces;
mod ui;
mod values;
mod variables;

use std::net::SocketAddr;

pub use callbacks::CallbackSettings;
pub use compat::{LmstfySettings, OuqiangSettings};
pub use embedded::{Durability, EmbeddedSettings};
pub use fault::{ConfigFault, ConfigFaults, FileFault};
pub use layers::{DEFAULTS, Flag, Sources, USUAL_FILES, choose_file};
pub use log::{LogFormat, LogSettings};
pub use queue::Limits;
pub use redis::{Credentials, Mode, RedisSettings, SHARDS};
pub use redis_tls::RedisTlsSettings;
pub use redis_url::Node;
pub use secret::Secret;
pub use sections::{AuthSettings, EngineKind, TlsFiles};
pub use server::{HttpOptions, ListenerOptions, ServerSettings};
pub use traces::TraceSettings;
pub use ui::UiSettings;

use layers::Layers;
use reader::Reader;

/// All settings, valid as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listening, and the options of the HTTP layer.
    pub server: ServerSettings,
    /// Who may call.
    pub auth: AuthSettings,
    /// The certificate and its key; plain HTTP without them.
    pub tls: Option<TlsFiles>,
    /// Which engine stores the jobs.
    pub engine: EngineKind,
    /// The embedded engine's settings, also when it is not in use.
    pub embedded: EmbeddedSettings,
    /// Redis's settings, also when it is not in use.
    pub redis: RedisSettings,
    /// Limits of the queue.
    pub queue: Limits,
    /// Callbacks.
    pub callbacks: CallbackSettings,
    /// Traces.
    pub traces: TraceSettings,
    /// The dashboard.
    pub ui: UiSettings,
    /// The dialect of lmstfy.
    pub lmstfy: LmstfySettings,
    /// The dialect of ouqiang/delay-queue.
    pub ouqiang: OuqiangSettings,
    /// The log.
    pub log: LogSettings,
}

/// What the settings are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// For a server. The rules about listening and `RUST_LOG` are checked.
    Serve,
    /// For any other command, such as a backup. The rules about listening are not checked, since the server may run with
    /// other flags. `RUST_LOG`, which other programs use too, is not checked either, since only a server logs.
    Use,
}

/// A configuration and its sources.
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// One sentence for each variable of the environment that looks like a setting but is none.
    pub warnings: Vec<String>,
    layers: Layers,
    sources: Sources,
}

impl Loaded {
    /// The settings in force as TOML, with secrets redacted, and with the source of each that is not the default.
    #[must_use]
    pub fn show(&self) -> String {
        show::show(&self.layers, &self.sources)
    }
}

/// Reads and checks the settings.
///
/// # Errors
/// Every fault found.
pub fn load(sources: Sources, purpose: Purpose) -> Result<Loaded, ConfigFaults> {
    load_with(sources, purpose, |_| Vec::new())
}

/// Reads and checks the settings for a server, and checks the files that they name with `check_files`.
///
/// # Errors
/// Every fault found, in the settings and in the files.
pub fn check(
    sources: Sources,
    check_files: impl FnOnce(&Config) -> Vec<FileFault>,
) -> Result<Loaded, ConfigFaults> {
    load_with(sources, Purpose::Serve, check_files)
}

fn load_with(
    sources: Sources,
    purpose: Purpose,
    check_files: impl FnOnce(&Config) -> Vec<FileFault>,
) -> Result<Loaded, ConfigFaults> {
    let mut faults = Vec::new();
    let layers = Layers::read(&sources, &mut faults);
    let mut reader = Reader::new(&layers, &mut faults);
    let mut config = read(&mut reader, purpose);
    for FileFault { key, problem } in check_files(&config) {
        reader.refuse(key, problem);
    }
    match purpose {
        Purpose::Serve => config.log.apply_rust_log(&sources.environment, &mut faults),
        Purpose::Use => {}
    }
    ConfigFaults::check(faults)?;
    let warnings = variables::warnings(&sources.environment, &layers.defaults);
    Ok(Loaded { config, warnings, layers, sources })
}

fn read(reader: &mut Reader<'_>, purpose: Purpose) -> Config {
    let engine = EngineKind::read(reader);
    let (server, auth) = (ServerSettings::read(reader), AuthSettings::read(reader));
    let is_local = server.listen.ip().is_loopback() && auth.tokens_file.is_none();
    let callbacks = CallbackSettings::read(reader, is_local);
    let mut config = Config {
        server,
        auth,
        tls: TlsFiles::read(reader),
        engine,
        embedded: EmbeddedSettings::read(reader),
        redis: RedisSettings::read(reader, engine == EngineKind::Redis),
        queue: Limits::read(reader, callbacks.clone()),
        callbacks,
        traces: TraceSettings::read(reader),
        ui: UiSettings::read(reader),
        lmstfy: LmstfySettings::read(reader),
        ouqiang: OuqiangSettings::read(reader),
        log: LogSettings::read(reader),
    };
    config.server.http.check_host = must_check_host(&config);
    // The settings of both engines have the same one; a second reading would report a fault twice.
    config.queue.dead_retention = config.embedded.dead_retention;
    check_limits(&config, reader);
    check_unused_redis(reader);
    match purpose {
        Purpose::Serve => {
            check_listening(&config, reader);
            compat::check_listening(&config, reader);
        }
        Purpose::Use => {}
    }
    config
}

/// Without tokens, only the `Host` header reveals requests that a web page makes: a web page has no token.
fn must_check_host(Config { server, auth, .. }: &Config) -> bool {
    auth.tokens_file.is_none() || server.listen.ip().is_loopback() || !server.http.allowed_hosts.is_empty()
}

/// Checks who could call a server with these settings.
fn check_listening(config: &Config, reader: &mut Reader<'_>) {
    if config.auth.tokens_file.is_some() && config.auth.allow_anonymous {
        reader.refuse("auth.allow_anonymous", "and auth.tokens_file are both set; leave one of them out");
    }
    check_tokens(config, ("server.listen", config.server.listen), reader);
}

/// Refuses an address that others can reach where no token is required, unless the operator allows that.
fn check_tokens(config: &Config, (key, listen): (&str, SocketAddr), reader: &mut Reader<'_>) {
    if config.auth.tokens_file.is_none() && !config.auth.allow_anonymous && !listen.ip().is_loopback() {
        let remedy = "is an address that others can reach, and no token is required: set \
                      auth.tokens_file, or auth.allow_anonymous = true if something else keeps strangers out";
        reader.refuse(key, format!("{listen} {remedy}"));
    }
}

/// Refuses settings of Redis with the embedded engine: an operator who sets them wants to use Redis, but the jobs would
/// be stored in a directory. A file that names the engine may contain the defaults of Redis, as the output of
/// `linger config show` does.
fn check_unused_redis(reader: &mut Reader<'_>) {
    if !reader.is_text("store.engine", "embedded") {
        return;
    }
    let names_engine = reader.is_set("store.engine");
    for (_, key) in show::documented().filter(|(section, _)| *section == "redis") {
        let key = format!("redis.{key}");
        if reader.is_set(&key) && !(names_engine && reader.is_default(&key)) {
            reader.refuse(
                &key,
                "is set, but store.engine is \"embedded\" and does not use it: set store.engine = \"redis\" \
                 (--store redis, LINGER__STORE__ENGINE=redis), or leave it out",
            );
        }
    }
}

/// Checks limits against each other.
fn check_limits(config: &Config, reader: &mut Reader<'_>) {
    let http = &config.server.http;
    if config.queue.max_body > http.max_request_bytes {
        reader.refuse("queue.max_body", "must not be more than server.max_request_bytes");
    }
    if config.queue.max_delivery > http.max_answer_bytes {
        reader.refuse("queue.max_delivery", "must not be more than server.max_answer_bytes");
    }
    if http.max_request_bytes > http.max_buffered_bytes {
        reader.refuse("server.max_request_bytes", "must not be more than server.max_buffered_bytes");
    }
    if http.max_request_bytes > http.max_buffered_bytes_per_caller {
        let problem = "must not be more than server.max_buffered_bytes_per_caller";
        reader.refuse("server.max_request_bytes", problem);
    }
}
