//! What a Redis server must offer before it may hold jobs, and what it promises about them.

use std::collections::HashMap;

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, ConfigInterface},
    types::{ClusterHash, CustomCommand, Value},
};

use super::error::{UNFIT, describe_error};
use crate::store::redis::{
    options::{Mode, Options},
    scripts::all_commands,
};

/// Oldest server version: its scripts can declare that they need no memory (`#!lua flags=allow-oom`), so that finish
/// and delete work when memory is full, and no script is stopped in the middle.
const OLDEST: (u32, u32) = (7, 0);

/// Why a replica is not fit, where the address is the user's own. Its name may lead to the primary again.
pub const IS_REPLICA: &str = "it is a replica; the primary is needed";

/// What a server reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    pub version: String,
    pub durability: String,
    pub memory: MemoryUse,
}

/// The memory that counts against the limit of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    pub used_bytes: Option<u64>,
    /// `maxmemory`; `None` if there is no limit.
    pub limit_bytes: Option<u64>,
}

impl MemoryUse {
    fn parse(info: &HashMap<&str, &str>) -> Self {
        let number = |name: &str| info.get(name)?.parse::<u64>().ok();
        // The buffers of replicas and of the append-only file do not count.
        let not_counted = number("mem_not_counted_for_evict").unwrap_or(0);
        Self {
            used_bytes: number("used_memory").map(|used| used.saturating_sub(not_counted)),
            limit_bytes: number("maxmemory").filter(|limit| *limit > 0),
        }
    }

    /// What is left below the limit.
    pub fn free_bytes(self) -> Option<u64> {
        Some(self.limit_bytes?.saturating_sub(self.used_bytes?))
    }
}

/// Why a server cannot be used.
#[derive(Debug, Clone)]
pub enum Unusable {
    Unreachable(FredError),
    Unfit(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(error) => f.write_str(&describe_error(error)),
            Self::Unfit(why) => write!(f, "it is not fit to hold jobs: {why}"),
        }
    }
}

impl From<Unusable> for FredError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Unreachable(error) => error,
            Unusable::Unfit(why) => unfit_error(&why),
        }
    }
}

/// The error for calls to a server that is not fit to hold jobs.
pub fn unfit_error(why: &str) -> FredError {
    FredError::new(ErrorKind::Config, format!("{UNFIT}: {why}"))
}

/// Checks a server and reads what it promises.
pub async fn inspect(client: &Client, options: &Options) -> Result<ServerReport, Unusable> {
    let info: String = client.info(None).await.map_err(Unusable::Unreachable)?;
    let info = parse_info(&info);
    if let Some(why) = not_ready(&info, &options.mode) {
        return Err(Unusable::Unreachable(FredError::new(ErrorKind::Cluster, why)));
    }
    let config = read_config(client).await;
    let report = evaluate(&info, config.as_ref(), options.wait_replicas).map_err(Unusable::Unfit)?;
    let missing = missing_commands(client).await;
    if !missing.is_empty() {
        return Err(Unusable::Unfit(format!("it lacks required commands: {}", missing.join(", "))));
    }
    Ok(report)
}

/// Why a server cannot be used at the moment: it is reading its data, or Sentinel or the Cluster named a replica, as
/// happens in the middle of a failover.
fn not_ready(info: &HashMap<&str, &str>, mode: &Mode) -> Option<String> {
    if info.get("loading") == Some(&"1") {
        return Some("LOADING: the server is reading its data from disk".to_owned());
    }
    let is_discovered = !matches!(mode, Mode::Standalone { .. });
    let is_replica = is_discovered && info.get("role").is_some_and(|role| *role != "master");
    is_replica.then(|| "it is still a replica; the primary is needed".to_owned())
}

/// The commands that the server does not have, or that are renamed; none if `COMMAND` is not allowed.
async fn missing_commands(client: &Client) -> Vec<String> {
    let command = CustomCommand::new_static("COMMAND", ClusterHash::Random, false);
    let all = all_commands();
    let names = std::iter::once("INFO").chain(all.iter().copied()).map(Value::from).collect();
    match client.custom::<Value, Value>(command, names).await {
        Ok(Value::Array(details)) if details.len() == all.len() => {
            let all = all.into_iter().zip(details);
            all.filter(|(_, details)| details.is_null()).map(|(name, _)| name.to_lowercase()).collect()
        }
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The settings that matter; `None` if they may not be read, as on many hosted servers.
async fn read_config(client: &Client) -> Option<HashMap<String, String>> {
    let mut all = HashMap::new();
    for name in ["appendonly", "appendfsync", "save", "maxmemory-policy"] {
        let values: HashMap<String, String> = client.config_get(name).await.ok()?;
        all.extend(values);
    }
    Some(all)
}

/// The number of replicas that are connected, by `INFO`.
pub fn connected_replicas(info: &str) -> i64 {
    parse_info(info).get("connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Which server it is, by `INFO`: its run, and its history as a primary, which a new one begins.
pub fn server_id(info: &str) -> Option<String> {
    let info = parse_info(info);
    Some(format!("{} {}", info.get("run_id")?, info.get("master_replid")?))
}

/// Parses the lines `name:value` of `INFO`.
fn parse_info(info: &str) -> HashMap<&str, &str> {
    info.lines().filter_map(|line| line.trim().split_once(':')).collect()
}

fn evaluate(
    info: &HashMap<&str, &str>,
    config: Option<&HashMap<String, String>>,
    wait_replicas: u8,
) -> Result<ServerReport, String> {
    let version = info.get("redis_version").copied().unwrap_or("0");
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < OLDEST {
        return Err(format!("version {version} is too old; Redis 7.0, Valkey 7.2 or later is needed"));
    }
    if info.get("role").is_some_and(|role| *role != "master") {
        return Err(IS_REPLICA.to_owned());
    }
    let setting = |name: &str| config.and_then(|config| config.get(name)).map(String::as_str);
    let policy = setting("maxmemory-policy").or_else(|| info.get("maxmemory_policy").copied());
    if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
        return Err(format!(
            "maxmemory-policy is {policy}, which deletes jobs when memory is full; set it to noeviction"
        ));
    }
    let fork = info.get("valkey_version").map(|version| format!("Valkey {version}"));
    let mut durability = durability(info, setting("appendonly"), setting("appendfsync"), setting("save"));
    if wait_replicas > 0 {
        durability = format!("{durability}, {wait_replicas} replicas");
    }
    let memory = MemoryUse::parse(info);
    Ok(ServerReport { version: fork.unwrap_or_else(|| version.to_owned()), durability, memory })
}

/// What an acknowledgement of this server is worth after a power cut, in a few words.
fn durability(
    info: &HashMap<&str, &str>,
    appendonly: Option<&str>,
    appendfsync: Option<&str>,
    save: Option<&str>,
) -> String {
    let aof = appendonly.map_or(info.get("aof_enabled") == Some(&"1"), |appendonly| appendonly == "yes");
    match (aof, appendfsync, save) {
        (true, Some(sync), _) => format!("aof {sync}"),
        (true, None, _) => "aof, sync unknown".to_owned(),
        (false, _, Some("")) => "none".to_owned(),
        (false, _, Some(_)) => "snapshots only".to_owned(),
        (false, _, None) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\n\r\n# Replication\r\nrole:master\r\n\
                        maxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    fn evaluated(info: &str, config: &[(&str, &str)]) -> Result<ServerReport, String> {
        let config: HashMap<String, String> =
            config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        evaluate(&parse_info(info), (!config.is_empty()).then_some(&config), 0)
    }

    #[test]
    fn the_durability_class_is_read_from_the_settings() {
        let class = |config: &[(&str, &str)]| evaluated(INFO, config).map(|server| server.durability);
        let always = [("appendonly", "yes"), ("appendfsync", "always"), ("save", "")];
        assert_eq!(class(&always), Ok("aof always".to_owned()));
        let everysec = [("appendonly", "yes"), ("appendfsync", "everysec"), ("save", "3600 1")];
        assert_eq!(class(&everysec), Ok("aof everysec".to_owned()));
        let snapshots = [("appendonly", "no"), ("appendfsync", "everysec"), ("save", "3600 1")];
        assert_eq!(class(&snapshots), Ok("snapshots only".to_owned()));
        let none = [("appendonly", "no"), ("appendfsync", "everysec"), ("save", "")];
        assert_eq!(class(&none), Ok("none".to_owned()));
        assert_eq!(class(&[]), Ok("aof, sync unknown".to_owned()), "INFO still reports an append-only file");
        let bare = INFO.replace("aof_enabled:1", "aof_enabled:0");
        assert_eq!(evaluated(&bare, &[]).map(|server| server.durability), Ok("unknown".to_owned()));
    }

    #[test]
    fn memory_counts_as_it_does_against_the_limit() {
        let memory = |info: &str| evaluated(&format!("{INFO}{info}"), &[]).expect("is fit").memory;
        let limited = memory("used_memory:1000\r\nmaxmemory:5000\r\nmem_not_counted_for_evict:100\r\n");
        assert_eq!(limited, MemoryUse { used_bytes: Some(900), limit_bytes: Some(5_000) });
        assert_eq!(limited.free_bytes(), Some(4_100));
        assert_eq!(memory("used_memory:6000\r\nmaxmemory:5000\r\n").free_bytes(), Some(0));
        let unlimited = memory("used_memory:1000\r\nmaxmemory:0\r\n");
        assert_eq!(unlimited, MemoryUse { used_bytes: Some(1_000), limit_bytes: None });
        assert_eq!(unlimited.free_bytes(), None);
    }

    #[test]
    fn a_server_that_would_lose_jobs_is_refused() {
        assert!(evaluated(&INFO.replace("7.0.15", "6.2.14"), &[]).is_err());
        assert!(evaluated(&INFO.replace("role:master", "role:slave"), &[]).is_err());
        assert!(evaluated(&INFO.replace("noeviction", "allkeys-lru"), &[]).is_err());
        assert!(evaluated(INFO, &[("maxmemory-policy", "volatile-ttl")]).is_err());
        assert!(evaluated("", &[]).is_err());
        let valkey = format!("{INFO}valkey_version:8.1.0\r\n");
        assert_eq!(evaluated(&valkey, &[]).map(|server| server.version), Ok("Valkey 8.1.0".to_owned()));
    }
}
