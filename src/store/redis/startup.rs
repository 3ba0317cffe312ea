//! What must be true of a Redis before jobs are trusted to it, and what it promises about them.

use std::collections::HashMap;

use fred::{
    clients::Client,
    error::Error as FredError,
    interfaces::{ClientLike, ConfigInterface},
    types::{ClusterHash, CustomCommand, Value},
};

use super::{
    Options,
    call::{Call, Caller},
    error::ConnectError,
    keys, options,
    reply::{Reply, unexpected},
    script::Op,
};
use crate::store::Error;

/// Oldest server: its scripts can say that they need no room (`#!lua flags=allow-oom`), so that finish
/// and delete work when memory is full, and nothing is cut in the middle.
const OLDEST: (u32, u32) = (7, 0);
/// Version of everything under a prefix.
const FORMAT: &str = "1";
/// How many shards one server is first used with: callers share calls shard by shard, so that fewer
/// shards make fewer calls. A Cluster has enough for every server to hold some.
const SHARDS: u16 = 4;
const SHARDS_IN_CLUSTER: u16 = 16;

/// Every command that is sent, or that a script calls.
const COMMANDS: [&str; 36] = [
    "eval",
    "evalsha",
    "exists",
    "hdel",
    "hexists",
    "hget",
    "hgetall",
    "hincrby",
    "hkeys",
    "hlen",
    "hmget",
    "hscan",
    "hset",
    "hsetnx",
    "info",
    "llen",
    "lpop",
    "lpush",
    "lrange",
    "ping",
    "publish",
    "rpush",
    "scan",
    "script",
    "set",
    "subscribe",
    "time",
    "unlink",
    "wait",
    "zadd",
    "zcard",
    "zrange",
    "zrangebyscore",
    "zrem",
    "zscan",
    "zscore",
];

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub version: String,
    pub durability: String,
}

/// Why a server cannot be used.
pub(super) enum Refusal {
    Unreachable(FredError),
    Unfit(String),
}

/// Checks a server and reads what it promises.
pub(super) async fn inspect(client: &Client, options: &Options) -> Result<Server, Refusal> {
    let info: String = client.info(None).await.map_err(Refusal::Unreachable)?;
    let info = parse(&info);
    let config = configuration(client).await;
    let server = judge(&info, config.as_ref(), options.wait_replicas).map_err(Refusal::Unfit)?;
    let missing = missing_commands(client).await;
    if !missing.is_empty() {
        return Err(Refusal::Unfit(format!("it lacks commands that are needed: {}", missing.join(", "))));
    }
    Ok(server)
}

/// The commands that the server does not have, or was told to hide; none where it may not be asked.
async fn missing_commands(client: &Client) -> Vec<&'static str> {
    let command = CustomCommand::new_static("COMMAND", ClusterHash::Random, false);
    let names = std::iter::once("INFO").chain(COMMANDS).map(Value::from).collect();
    match client.custom::<Value, Value>(command, names).await {
        Ok(Value::Array(found)) if found.len() == COMMANDS.len() => {
            let all = COMMANDS.into_iter().zip(found);
            all.filter(|(_, found)| found.is_null()).map(|(name, _)| name).collect()
        }
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The settings that matter; `None` where they may not be read, as with many hosted servers.
async fn configuration(client: &Client) -> Option<HashMap<String, String>> {
    let mut all = HashMap::new();
    for name in ["appendonly", "appendfsync", "save", "maxmemory-policy"] {
        let found: HashMap<String, String> = client.config_get(name).await.ok()?;
        all.extend(found);
    }
    Some(all)
}

/// Reads the lines `name:value` of `INFO`.
fn parse(info: &str) -> HashMap<&str, &str> {
    info.lines().filter_map(|line| line.trim().split_once(':')).collect()
}

fn judge(
    info: &HashMap<&str, &str>,
    config: Option<&HashMap<String, String>>,
    wait_replicas: u8,
) -> Result<Server, String> {
    let version = info.get("redis_version").copied().unwrap_or("0");
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < OLDEST {
        return Err(format!("version {version} is too old; Redis 7.0, Valkey 7.2 or later is needed"));
    }
    if let Some(role) = info.get("role").filter(|role| **role != "master") {
        return Err(format!("it is a {role}; the primary is needed"));
    }
    let setting = |name: &str| config.and_then(|config| config.get(name)).map(String::as_str);
    let policy = setting("maxmemory-policy").or_else(|| info.get("maxmemory_policy").copied());
    if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
        return Err(format!(
            "maxmemory-policy is {policy}, which throws jobs away when memory is full; set it to noeviction"
        ));
    }
    let fork = info.get("valkey_version").map(|version| format!("Valkey {version}"));
    let mut durability = durability(info, setting("appendonly"), setting("appendfsync"), setting("save"));
    if wait_replicas > 0 {
        durability = format!("{durability}, {wait_replicas} replicas");
    }
    Ok(Server { version: fork.unwrap_or_else(|| version.to_owned()), durability })
}

/// What an answer of this server means for a power cut, in a few words.
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

/// Over how many shards the jobs under the prefix are spread. The very first start decides it: what is
/// configured, or else what is best for these servers; at every later one, what is stored counts.
pub(super) async fn layout(caller: Caller<'_>) -> Result<u16, ConnectError> {
    let options = &caller.context.options;
    let first =
        options.shards.unwrap_or(if caller.routes.spans_slots() { SHARDS } else { SHARDS_IN_CLUSTER });
    let stored = stored(caller, write(options, first)).await;
    let (format, stored) = stored.map_err(|error| super::unreachable(caller.context, error))?;
    agreed(&format, &stored, options.shards)
        .map_err(|why| ConnectError::Layout { at: options.mode.to_string(), why })
}

/// Writes the layout again if the server has lost it with all else, so that a process which starts from then on
/// does not decide for another one than this process works with.
///
/// # Errors
/// [`Error::Damaged`] when another layout is stored, those of the store when that cannot be known now.
pub(super) async fn keep_layout(caller: Caller<'_>, shards: u16) -> Result<(), Error> {
    let (meta, slot) = keys::meta(&caller.context.options.prefix);
    let look = Call::new(Op::Layout, slot, vec![meta], Vec::new()).brief();
    let mut found = Reply::new(caller.insist(look).await?.value)?;
    let (format, number) = match (found.value()?, found.value()?) {
        (Value::Null, _) | (_, Value::Null) => {
            stored(caller, write(&caller.context.options, shards).once()).await?
        }
        (format, number) => (text(format)?, text(number)?),
    };
    if (format.as_str(), number.as_str()) == (FORMAT, &shards.to_string()) {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "{number} shards in format {format} are stored, and this process works with {shards} in format {FORMAT}"
    )))
}

fn text(value: Value) -> Result<String, Error> {
    value.into_string().ok_or_else(|| unexpected("a text"))
}

/// The call that writes the layout where there is none, and tells what it is.
fn write(options: &Options, shards: u16) -> Call {
    let (meta, slot) = keys::meta(&options.prefix);
    Call::new(Op::Start, slot, vec![meta], Vec::new()).arg(FORMAT).arg(shards.to_string())
}

/// The format and the number of shards that `call` finds.
async fn stored(caller: Caller<'_>, call: Call) -> Result<(String, String), Error> {
    let mut reply = Reply::new(caller.insist(call).await?.value)?;
    Ok((reply.text()?, reply.text()?))
}

/// The number of shards that is stored, unless this version or these options are for another layout.
fn agreed(format: &str, stored: &str, configured: Option<u16>) -> Result<u16, String> {
    if format != FORMAT {
        return Err(format!("it has format {format}, this version reads {FORMAT}"));
    }
    let Some(shards) = stored.parse().ok().filter(|shards| options::SHARDS.contains(shards)) else {
        let (least, most) = options::SHARDS.into_inner();
        return Err(format!(
            "its number of shards is {stored:?}, which should lie between {least} and {most}"
        ));
    };
    match configured {
        Some(configured) if configured != shards => Err(format!(
            "it was first used with {shards} shards and {configured} are configured; the number cannot \
             change, or jobs would not be found again"
        )),
        Some(_) | None => Ok(shards),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\n\r\n# Replication\r\nrole:master\r\n\
                        maxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    fn judged(info: &str, config: &[(&str, &str)]) -> Result<Server, String> {
        let config: HashMap<String, String> =
            config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        judge(&parse(info), (!config.is_empty()).then_some(&config), 0)
    }

    #[test]
    fn the_durability_class_is_read_from_the_settings() {
        let class = |config: &[(&str, &str)]| judged(INFO, config).map(|server| server.durability);
        let always = [("appendonly", "yes"), ("appendfsync", "always"), ("save", "")];
        assert_eq!(class(&always), Ok("aof always".to_owned()));
        let everysec = [("appendonly", "yes"), ("appendfsync", "everysec"), ("save", "3600 1")];
        assert_eq!(class(&everysec), Ok("aof everysec".to_owned()));
        let snapshots = [("appendonly", "no"), ("appendfsync", "everysec"), ("save", "3600 1")];
        assert_eq!(class(&snapshots), Ok("snapshots only".to_owned()));
        let none = [("appendonly", "no"), ("appendfsync", "everysec"), ("save", "")];
        assert_eq!(class(&none), Ok("none".to_owned()));
        assert_eq!(class(&[]), Ok("aof, sync unknown".to_owned()), "INFO still tells of an append-only file");
        let bare = INFO.replace("aof_enabled:1", "aof_enabled:0");
        assert_eq!(judged(&bare, &[]).map(|server| server.durability), Ok("unknown".to_owned()));
    }

    #[test]
    fn what_is_stored_counts_unless_it_is_something_else() {
        assert_eq!(agreed("1", "16", None), Ok(16));
        assert_eq!(agreed("1", "8", Some(8)), Ok(8));
        assert_eq!(agreed("1", "256", None), Ok(256));
        let said = agreed("1", "16", Some(8)).expect_err("another number");
        assert!(said.contains("first used with 16 shards and 8 are configured"), "{said}");
        for odd in ["0", "257", "-1", "", "many", "70000"] {
            let said = agreed("1", odd, None).expect_err(odd);
            assert!(said.contains("between 1 and 256"), "{said}");
        }
        assert!(agreed("2", "16", None).expect_err("a later format").contains("format 2"));
    }

    #[test]
    fn what_would_lose_jobs_is_refused() {
        assert!(judged(&INFO.replace("7.0.15", "6.2.14"), &[]).is_err());
        assert!(judged(&INFO.replace("role:master", "role:slave"), &[]).is_err());
        assert!(judged(&INFO.replace("noeviction", "allkeys-lru"), &[]).is_err());
        assert!(judged(INFO, &[("maxmemory-policy", "volatile-ttl")]).is_err());
        assert!(judged("", &[]).is_err());
        let valkey = format!("{INFO}valkey_version:8.1.0\r\n");
        assert_eq!(judged(&valkey, &[]).map(|server| server.version), Ok("Valkey 8.1.0".to_owned()));
    }
}
