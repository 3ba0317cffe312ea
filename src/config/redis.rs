//! How to reach Redis: section `[redis]`. The URL, the modes and the credentials say the same thing
//! in several places; here they become one answer, and contradictions are faults.

use std::time::Duration;

use config::ValueKind;

use super::{
    reader::{MILLISECOND, MINUTE, Reader},
    redis_url::{Node, RedisUrl},
    secret::Secret,
    values,
};

/// Which servers there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone(Node),
    /// A primary that sentinels know.
    Sentinel {
        /// The sentinels.
        nodes: Vec<Node>,
        /// Name of the primary.
        master: String,
        /// For the sentinels themselves.
        credentials: Credentials,
    },
    /// A cluster, of which these are some nodes.
    Cluster(Vec<Node>),
}

/// What a server asks for. `Debug` shows no password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The user, if any.
    pub username: Option<String>,
    /// The password, if any.
    pub password: Option<Secret>,
}

/// Section `[redis]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// Which servers.
    pub topology: Topology,
    /// For those servers.
    pub credentials: Credentials,
    /// Number of the database; 0 in a cluster.
    pub database: u8,
    /// First part of every key.
    pub prefix: String,
    /// Number of shards; `None` for what is stored, or suits at first use.
    pub shards: Option<u16>,
    /// For making a connection.
    pub connect_timeout: Duration,
    /// For one command.
    pub command_timeout: Duration,
    /// For a Redis that cannot be used yet when the server starts.
    pub start_timeout: Duration,
    /// For an operation, all its attempts together.
    pub retry_for: Duration,
    /// For a server of a cluster, before the jobs of the others no longer wait for it.
    pub prompt_timeout: Duration,
    /// For an answer that a connection owes.
    pub unresponsive_timeout: Duration,
    /// Before the first attempt to connect again.
    pub reconnect_min_delay: Duration,
    /// Between later ones.
    pub reconnect_max_delay: Duration,
    /// Replicas that must have a change before it is acknowledged.
    pub wait_replicas: u8,
    /// How long to wait for them.
    pub wait_timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Standalone,
    Sentinel,
    Cluster,
}

impl Redis {
    /// Reads the section. `in_use` is whether the engine is Redis: an incomplete section does not
    /// hinder another engine, a value that means nothing always does.
    pub(super) fn read(reader: &mut Reader<'_>, in_use: bool) -> Self {
        let url = reader.get("redis.url", |kind| RedisUrl::parse(&values::text(kind)?));
        let credentials = credentials(reader, &url);
        let topology = topology(reader, &url, in_use);
        let redis = Self {
            topology,
            credentials,
            database: url.database.unwrap_or_default(),
            prefix: reader.get("redis.prefix", |kind| prefix(&values::text(kind)?)),
            shards: reader.get("redis.shards", shards),
            connect_timeout: reader.duration("redis.connect_timeout", 10 * MILLISECOND, MINUTE),
            command_timeout: reader.duration("redis.command_timeout", 10 * MILLISECOND, MINUTE),
            start_timeout: reader.duration("redis.start_timeout", Duration::ZERO, 60 * MINUTE),
            retry_for: reader.duration("redis.retry_for", Duration::ZERO, 5 * MINUTE),
            prompt_timeout: reader.duration("redis.prompt_timeout", MILLISECOND, MINUTE),
            unresponsive_timeout: reader.duration("redis.unresponsive_timeout", 10 * MILLISECOND, 5 * MINUTE),
            reconnect_min_delay: reader.duration("redis.reconnect_min_delay", MILLISECOND, MINUTE),
            reconnect_max_delay: reader.duration("redis.reconnect_max_delay", MILLISECOND, 5 * MINUTE),
            wait_replicas: reader.count("redis.wait_replicas", 0, 100),
            wait_timeout: reader.duration("redis.wait_timeout", MILLISECOND, MINUTE),
        };
        if redis.reconnect_max_delay < redis.reconnect_min_delay {
            reader.refuse("redis.reconnect_max_delay", "must not be less than redis.reconnect_min_delay");
        }
        redis
    }

    /// Where it connects to, in words, without secrets.
    #[must_use]
    pub fn place(&self) -> String {
        let listed = |nodes: &[Node]| nodes.iter().map(Node::to_string).collect::<Vec<_>>().join(",");
        match &self.topology {
            Topology::Standalone(node) if self.database == 0 => node.to_string(),
            Topology::Standalone(node) => format!("{node}/{}", self.database),
            Topology::Sentinel { nodes, master, .. } => format!("sentinel {master} at {}", listed(nodes)),
            Topology::Cluster(nodes) => format!("cluster {}", listed(nodes)),
        }
    }
}

fn credentials(reader: &mut Reader<'_>, url: &RedisUrl) -> Credentials {
    let username = reader.text("redis.username");
    let password = reader.secret("redis.password", "redis.password_file");
    if username.is_some() && url.username.is_some() {
        reader.refuse("redis.username", "and the user in redis.url are both set; leave one of them out");
    }
    if password.is_some() && url.password.is_some() {
        reader.refuse("redis.url", "has a password while redis.password or redis.password_file is set too");
    }
    Credentials {
        username: username.or_else(|| url.username.clone()),
        password: password.or_else(|| url.password.clone()),
    }
}

fn topology(reader: &mut Reader<'_>, url: &RedisUrl, in_use: bool) -> Topology {
    let modes = [("standalone", Mode::Standalone), ("sentinel", Mode::Sentinel), ("cluster", Mode::Cluster)];
    let mode = reader.choice("redis.mode", &modes);
    let nodes = reader.get("redis.nodes", nodes);
    let master = reader.text("redis.sentinel_master");
    let credentials = Credentials {
        username: reader.text("redis.sentinel_username"),
        password: reader.secret("redis.sentinel_password", "redis.sentinel_password_file"),
    };
    if in_use {
        check_mode(reader, mode, &nodes, master.as_deref());
    }
    match mode {
        Mode::Standalone => Topology::Standalone(url.node.clone()),
        Mode::Sentinel => Topology::Sentinel { nodes, master: master.unwrap_or_default(), credentials },
        Mode::Cluster => Topology::Cluster(nodes),
    }
}

/// A list of `host:port`. A problem tells which item is wrong and does not quote it, since it may hold a password.
fn nodes(kind: &ValueKind) -> Result<Vec<Node>, values::ValueProblem> {
    let parse = |(at, node): (usize, &String)| {
        Node::parse(node, None).map_err(|problem| format!("item {}: {problem}", at + 1))
    };
    values::list(kind)?.iter().enumerate().map(parse).collect()
}

/// Refuses what the mode lacks and what it would silently pass over.
fn check_mode(reader: &mut Reader<'_>, mode: Mode, nodes: &[Node], master: Option<&str>) {
    if mode == Mode::Standalone {
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
    match (mode, master) {
        (Mode::Sentinel, None) => {
            reader.refuse("redis.sentinel_master", "must name the primary in the mode sentinel");
        }
        (Mode::Standalone | Mode::Cluster, Some(_)) => {
            reader.refuse("redis.sentinel_master", "is for the mode sentinel only");
        }
        (Mode::Sentinel, Some(_)) | (Mode::Standalone | Mode::Cluster, None) => {}
    }
}

/// A number, or `None` when what is stored decides.
fn shards(kind: &ValueKind) -> Result<Option<u16>, values::ValueProblem> {
    match values::optional_text(kind) {
        Ok(None) => Ok(None),
        Ok(Some(text)) if text == "auto" => Ok(None),
        _ => values::count(kind, 1, 256)
            .map(|shards| u16::try_from(shards).ok())
            .map_err(|problem| format!("{problem}, or \"auto\"")),
    }
}

/// The prefix becomes part of keys beside a hash tag, so that braces in it would move the keys of a
/// shard apart.
fn prefix(text: &str) -> Result<String, values::ValueProblem> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(legal) {
        return Err(format!("{} must be 1 to 64 of A-Z a-z 0-9 . _ : -", values::quoted(text)));
    }
    Ok(text.to_owned())
}
