//! How to reach Redis: section `[redis]`. The URL, the modes and the credentials can say the same thing in several
//! places; here they become one answer, and contradictions are faults.

use std::{ops::RangeInclusive, time::Duration};

use config::ValueKind;

use super::{
    queue::{dead_retention, dedup_max},
    reader::{self, MILLISECOND, MINUTE, Reader, SECOND},
    redis_tls::RedisTlsSettings,
    redis_url::{Node, RedisUrl, scheme},
    secret::Secret,
    values,
};

/// How many shards there can be.
pub const SHARDS: RangeInclusive<u16> = 1..=256;

/// Which servers to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// One server.
    Standalone {
        /// Its address.
        node: Node,
        /// Number of the database.
        database: u8,
    },
    /// A primary that Sentinels monitor.
    Sentinel {
        /// The Sentinels.
        nodes: Vec<Node>,
        /// Name of the primary.
        service: String,
        /// Credentials for the Sentinels themselves.
        credentials: Credentials,
    },
    /// A Cluster, found through any of these nodes.
    Cluster(Vec<Node>),
}

impl Mode {
    /// The nodes to connect to first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        match self {
            Self::Standalone { node, .. } => std::slice::from_ref(node),
            Self::Sentinel { nodes, .. } | Self::Cluster(nodes) => nodes,
        }
    }
}

/// User and password of a server. `Debug` redacts the password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The user, if any.
    pub username: Option<String>,
    /// The password, if any.
    pub password: Option<Secret>,
}

/// Section `[redis]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// Which servers to use.
    pub mode: Mode,
    /// Credentials for these servers.
    pub credentials: Credentials,
    /// TLS, if the URLs ask for it.
    pub tls: Option<RedisTlsSettings>,
    /// Prefix of every key and channel, so that several queues can share a server: 1 to 64 of `A-Z a-z 0-9 . _ : -`.
    pub prefix: String,
    /// Number of shards. It is fixed when the prefix is first used. `None` takes the stored number, or at first use
    /// the one that suits the mode.
    pub shards: Option<u16>,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for the reply to one command.
    pub command_timeout: Duration,
    /// How long the server waits at start for a Redis that is not usable yet.
    pub start_timeout: Duration,
    /// How long an operation is retried, with the same arguments, before it fails.
    pub retry_for: Duration,
    /// Whether the loss of a Redis that was emptied or replaced is accepted at once, not only once an operator does.
    pub accept_empty: bool,
    /// How long a server of a Cluster may owe a reply before the jobs of the other servers no longer wait for it. This and
    /// the following three are not settings; only tests change them.
    pub prompt_timeout: Duration,
    /// How long a connection may owe a reply before it counts as dead and is replaced.
    pub unresponsive_timeout: Duration,
    /// First pause before reconnecting.
    pub reconnect_min: Duration,
    /// Longest pause before reconnecting.
    pub reconnect_max: Duration,
    /// How many replicas must have a change before it is acknowledged; 0 does not wait for any.
    pub wait_replicas: u8,
    /// How long to wait for the replicas.
    pub wait_timeout: Duration,
    /// How long dead letters are kept; `None` keeps them forever.
    pub dead_retention: Option<Duration>,
    /// Maximum number of remembered ids, over all shards.
    pub dedup_max: u64,
}

/// The words for `redis.mode`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModeName {
    Standalone,
    Sentinel,
    Cluster,
}

impl Default for RedisSettings {
    fn default() -> Self {
        reader::read_defaults(|reader| Self::read(reader, true))
    }
}

impl RedisSettings {
    /// The default settings for one server.
    ///
    /// # Panics
    /// If `url` is invalid.
    #[must_use]
    pub fn new(url: &str) -> Self {
        let RedisUrl { tls, node, database, username, password } =
            RedisUrl::parse(url).expect("the caller passes a valid URL");
        Self {
            mode: Mode::Standalone { node, database: database.unwrap_or_default() },
            credentials: Credentials { username, password },
            tls: tls.then(RedisTlsSettings::default),
            ..Self::default()
        }
    }

    /// Reads the section. An incomplete section is a fault only if it is `in_use`; an invalid value always is.
    pub(super) fn read(reader: &mut Reader<'_>, in_use: bool) -> Self {
        let url = reader.get("redis.url", |kind| RedisUrl::parse(&values::text(kind)?));
        let (nodes, nodes_ask_for_tls) = reader.get("redis.nodes", nodes);
        let credentials = credentials(reader, &url, in_use);
        let mode = mode(reader, &url, nodes, in_use);
        let (asks_for_tls, place) = match &mode {
            Mode::Standalone { .. } => (url.tls, "redis.url"),
            Mode::Sentinel { .. } | Mode::Cluster(_) => (nodes_ask_for_tls, "redis.nodes"),
        };
        Self {
            credentials,
            mode,
            tls: RedisTlsSettings::read(reader, asks_for_tls, place, in_use),
            prefix: reader.get("redis.prefix", |kind| prefix(&values::text(kind)?)),
            shards: reader.get("redis.shards", shards),
            connect_timeout: reader.duration("redis.connect_timeout", 10 * MILLISECOND, MINUTE),
            command_timeout: reader.duration("redis.command_timeout", 10 * MILLISECOND, MINUTE),
            start_timeout: reader.duration("redis.start_timeout", Duration::ZERO, 60 * MINUTE),
            retry_for: reader.duration("redis.retry_for", Duration::ZERO, 5 * MINUTE),
            accept_empty: reader.flag("redis.accept_empty"),
            prompt_timeout: 150 * MILLISECOND,
            unresponsive_timeout: 4 * SECOND,
            reconnect_min: 20 * MILLISECOND,
            reconnect_max: SECOND,
            wait_replicas: reader.count("redis.wait_replicas", 0, 100),
            wait_timeout: reader.duration("redis.wait_timeout", MILLISECOND, MINUTE),
            dead_retention: dead_retention(reader),
            dedup_max: dedup_max(reader),
        }
    }

    /// Describes the servers, without secrets.
    #[must_use]
    pub fn location(&self) -> String {
        let nodes = self.mode.nodes().iter().map(Node::to_string).collect::<Vec<_>>().join(",");
        let tls = if self.tls.is_some() { ", TLS" } else { "" };
        match &self.mode {
            Mode::Standalone { database: 0, .. } => format!("{nodes}{tls}"),
            Mode::Standalone { database, .. } => format!("{nodes}/{database}{tls}"),
            Mode::Sentinel { service, .. } => format!("sentinel {service} at {nodes}{tls}"),
            Mode::Cluster(_) => format!("cluster {nodes}{tls}"),
        }
    }

    /// The URLs that are connected to first, for messages, without secrets.
    #[must_use]
    pub fn address(&self) -> String {
        let scheme = scheme(self.tls.is_some());
        let urls: Vec<String> = self.mode.nodes().iter().map(|node| format!("{scheme}{node}")).collect();
        let urls = urls.join(", ");
        match &self.mode {
            Mode::Standalone { database: 0, .. } => urls,
            Mode::Standalone { database, .. } => format!("{urls}/{database}"),
            Mode::Sentinel { service, .. } => format!("{urls} (Sentinel, {service})"),
            Mode::Cluster(_) => format!("{urls} (Cluster)"),
        }
    }
}

fn credentials(reader: &mut Reader<'_>, url: &RedisUrl, in_use: bool) -> Credentials {
    let username = reader.text("redis.username");
    let password = reader.secret("redis.password", "redis.password_file");
    if username.is_some() && url.username.is_some() {
        reader.refuse("redis.username", "and the user in redis.url are both set; leave one of them out");
    }
    if password.is_some() && url.password.is_some() {
        reader.refuse("redis.url", "has a password while redis.password or redis.password_file is set too");
    }
    let user_key = if username.is_some() { "redis.username" } else { "redis.url" };
    let credentials = Credentials {
        username: username.or_else(|| url.username.clone()),
        password: password.or_else(|| url.password.clone()),
    };
    if in_use && url.password.is_none() {
        check_user(reader, user_key, &credentials, ["redis.password", "redis.password_file"]);
    }
    credentials
}

/// Refuses a user without a password, because Redis knows no login by the name alone: Linger would be the default user.
fn check_user(reader: &mut Reader<'_>, key: &str, credentials: &Credentials, passwords: [&str; 2]) {
    // A password that is set but cannot be read is a fault of its own.
    if credentials.username.is_some() && passwords.iter().all(|password| reader.is_default(password)) {
        let [password, file] = passwords;
        let remedy = format!("set {file} or {password}, to anything for a user that needs none");
        reader.refuse(key, format!("names a user, and no password is set: {remedy}, or leave the user out"));
    }
}

fn mode(reader: &mut Reader<'_>, url: &RedisUrl, nodes: Vec<Node>, in_use: bool) -> Mode {
    let names = [
        ("standalone", ModeName::Standalone),
        ("sentinel", ModeName::Sentinel),
        ("cluster", ModeName::Cluster),
    ];
    let name = reader.choice("redis.mode", &names);
    let service = reader.text("redis.sentinel_master");
    let credentials = Credentials {
        username: reader.text("redis.sentinel_username"),
        password: reader.secret("redis.sentinel_password", "redis.sentinel_password_file"),
    };
    if in_use {
        check_mode(reader, name, &nodes, service.as_deref());
        let passwords = ["redis.sentinel_password", "redis.sentinel_password_file"];
        check_user(reader, "redis.sentinel_username", &credentials, passwords);
    }
    match name {
        ModeName::Standalone => {
            Mode::Standalone { node: url.node.clone(), database: url.database.unwrap_or_default() }
        }
        ModeName::Sentinel => Mode::Sentinel { nodes, service: service.unwrap_or_default(), credentials },
        ModeName::Cluster => Mode::Cluster(nodes),
    }
}

/// A list of `host:port` or of URLs, and whether these ask for TLS. A problem names the number of the item and does not
/// quote it, since it may contain a password.
fn nodes(kind: &ValueKind) -> Result<(Vec<Node>, bool), values::ValueProblem> {
    let parse = |(index, node): (usize, &String)| {
        Node::parse_with_scheme(node).map_err(|problem| format!("item {}: {problem}", index + 1))
    };
    let items = values::list(kind)?;
    let parsed: Vec<_> = items.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    let (nodes, tls): (Vec<Node>, Vec<bool>) = parsed.into_iter().unzip();
    let first = tls.first().copied().unwrap_or_default();
    if tls.iter().any(|tls| *tls != first) {
        return Err("must begin with rediss://, for TLS, in every item or in none".to_owned());
    }
    Ok((nodes, first))
}

const SENTINEL_ONLY: &str = "is for the mode sentinel only";

/// Refuses settings that the mode lacks or would silently ignore.
fn check_mode(reader: &mut Reader<'_>, mode: ModeName, nodes: &[Node], service: Option<&str>) {
    if mode == ModeName::Standalone {
        if !nodes.is_empty() {
            reader
                .refuse("redis.nodes", "is for the modes sentinel and cluster; set redis.mode, or redis.url");
        }
    } else {
        if nodes.is_empty() {
            reader.refuse("redis.nodes", "must list at least one host:port in this redis.mode");
        }
        if reader.is_set("redis.url") && !reader.is_default("redis.url") {
            reader.refuse("redis.url", "is for the mode standalone; this redis.mode uses redis.nodes");
        }
    }
    for key in ["redis.sentinel_username", "redis.sentinel_password", "redis.sentinel_password_file"] {
        if mode != ModeName::Sentinel && reader.is_set(key) && !reader.is_default(key) {
            reader.refuse(key, SENTINEL_ONLY);
        }
    }
    match (mode, service) {
        (ModeName::Sentinel, None) => {
            reader.refuse("redis.sentinel_master", "must name the primary in the mode sentinel");
        }
        (ModeName::Standalone | ModeName::Cluster, Some(_)) => {
            reader.refuse("redis.sentinel_master", SENTINEL_ONLY);
        }
        (ModeName::Sentinel, Some(_)) | (ModeName::Standalone | ModeName::Cluster, None) => {}
    }
}

/// A number of shards, or `None` for `auto`.
fn shards(kind: &ValueKind) -> Result<Option<u16>, values::ValueProblem> {
    match values::optional_text(kind) {
        Ok(None) => Ok(None),
        Ok(Some(text)) if text == "auto" => Ok(None),
        _ => values::count(kind, (*SHARDS.start()).into(), (*SHARDS.end()).into())
            .map(|shards| u16::try_from(shards).ok())
            .map_err(|problem| format!("{problem}, or \"auto\"")),
    }
}

/// The prefix is part of the hash tag of keys. Braces in it would put the keys of a shard into different slots.
fn prefix(text: &str) -> Result<String, values::ValueProblem> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(legal) {
        return Err(format!("{} must be 1 to 64 of A-Z a-z 0-9 . _ : -", values::quoted(text)));
    }
    Ok(text.to_owned())
}
