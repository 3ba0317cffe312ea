//! Every key is given a value of its own, and is found where it belongs. Two keys that are mixed up would be correct
//! otherwise: many defaults are equal, and few tests set more than one key.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::job::{AddressPolicy, CallbackUrl, Delay, RetrySchedule, TopicFilter, TopicPattern};

/// All keys but those that another one of these excludes.
const MOST: &str = r#"
[server]
listen = "192.0.2.1:1001"
allowed_hosts = ["host-1.example"]
header_timeout = "102s"
keep_alive_timeout = "103s"
body_timeout = "104s"
write_timeout = "105s"
max_header_bytes = 10003
max_request_bytes = 1000005
max_buffered_bytes = 5000007
max_buffered_bytes_per_caller = 3000008
max_answer_bytes = 4000009
max_connections = 1010
max_connections_per_address = 1011
drain_delay = "106s"
shutdown_grace = "107s"
[auth]
tokens_file = "tokens-1"
[tls]
certificate = "certificate-1"
key = "key-1"
[store]
engine = "redis"
[embedded]
data_dir = "data-1"
durability = "interval"
sync_interval = "5s"
min_free = 1012
ballast = 1013
[redis]
mode = "sentinel"
nodes = ["rediss://node-1:1014"]
sentinel_master = "primary-1"
sentinel_username = "user-1"
sentinel_password = "password-1"
username = "user-2"
password = "password-2"
ca_file = "authorities-2"
client_certificate = "certificate-2"
client_key = "key-2"
server_name = "name-1.example"
prefix = "prefix-1"
shards = 15
connect_timeout = "6s"
command_timeout = "7s"
start_timeout = "108s"
retry_for = "109s"
accept_empty = true
wait_replicas = 16
wait_timeout = "10s"
[queue]
max_body = 1017
max_batch = 1018
max_batch_pop = 1019
max_delivery = 1020
max_delay = "112s"
max_wait = "113s"
max_waiting = 1022
dead_retention = "114s"
dedup_max = 1023
[callbacks]
max_calls = 1025
max_calls_per_host = 1026
max_timeout = "115s"
retry = ["116s", "117s"]
allow_networks = ["10.0.1.0/24"]
deny_networks = ["10.0.2.0/24"]
allow_hosts = ["host-2.example"]
allow_http = false
in_jobs = false
ca_file = "authorities-1"
[traces]
endpoint = "http://collector-1.example:1028/v1/traces"
[ui]
enabled = false
title = "title-1"
hide_bodies = true
[compat.lmstfy]
listen = "127.0.0.1:1030"
max_wait = "119s"
[compat.ouqiang]
listen = "127.0.0.1:1029"
topics = ["topic-1", "topic-2-*"]
allow_anonymous = true
max_wait = "118s"
[log]
format = "text"
level = "debug"
"#;

/// The others, which need no Sentinel and no tokens. `@` is the folder of the files with the passwords.
const REST: &str = r#"
[server]
listen = "192.0.2.2:2001"
[auth]
allow_anonymous = true
[store]
engine = "redis"
[redis]
url = "redis://user-3@node-2:2002/3"
password_file = "@/password"
sentinel_password_file = "@/sentinel"
"#;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn password(text: &str) -> Option<Secret> {
    Some(Secret::new(text))
}

/// The keys of a file as `section.key`, with their values.
fn keys(file: &str) -> BTreeMap<String, toml::Value> {
    let table: toml::Table = file.parse().expect("is TOML");
    let mut found = BTreeMap::new();
    let mut unread: Vec<(String, toml::Value)> = table.into_iter().collect();
    while let Some((key, value)) = unread.pop() {
        match value {
            // Sections may have sections.
            toml::Value::Table(keys) => {
                unread.extend(keys.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            value => {
                found.insert(key, value);
            }
        }
    }
    found
}

#[test]
fn every_key_has_a_value_that_no_other_key_and_no_default_has() {
    let (most, rest, defaults) = (keys(MOST), keys(REST), keys(DEFAULTS));
    let both: BTreeSet<&String> = most.keys().chain(rest.keys()).collect();
    assert_eq!(both, defaults.keys().collect(), "a new key belongs into MOST, and into the test below");
    let mut values = BTreeSet::new();
    for (key, value) in most.iter().chain(&rest) {
        assert_ne!(Some(value), defaults.get(key), "{key} has its default");
        let has_others = value.as_bool().is_none() && key != "store.engine";
        assert!(!has_others || values.insert(format!("{value:?}")), "{key} has the value of another key");
    }
}

#[test]
fn every_key_is_found_where_it_belongs() {
    let callbacks = CallbackSettings {
        max_calls: 1_025,
        max_calls_per_host: 1_026,
        max_timeout: secs(115),
        retry: RetrySchedule::new(vec![secs(116), secs(117)]).expect("a schedule"),
        networks: AddressPolicy::new(
            &["10.0.1.0/24".parse().expect("a network")],
            &["10.0.2.0/24".parse().expect("a network")],
        ),
        has_auto_networks: false,
        allow_hosts: vec!["host-2.example".to_owned()],
        allow_http: false,
        in_jobs: false,
        ca_file: Some("authorities-1".into()),
    };
    let expected = Config {
        server: ServerSettings {
            listen: "192.0.2.1:1001".parse().expect("an address"),
            listener: ListenerOptions {
                max_header_bytes: 10_003,
                max_connections: 1_010,
                max_connections_per_address: 1_011,
                header_timeout: secs(102),
                keep_alive_timeout: secs(103),
                write_timeout: secs(105),
                ..ListenerOptions::default()
            },
            http: HttpOptions {
                check_host: true,
                allowed_hosts: vec!["host-1.example".to_owned()],
                max_request_bytes: 1_000_005,
                max_buffered_bytes: 5_000_007,
                max_buffered_bytes_per_caller: 3_000_008,
                max_answer_bytes: 4_000_009,
                body_timeout: secs(104),
            },
            drain_delay: secs(106),
            shutdown_grace: secs(107),
        },
        auth: AuthSettings { tokens_file: Some("tokens-1".into()), allow_anonymous: false },
        tls: Some(TlsFiles { certificate: "certificate-1".into(), key: "key-1".into() }),
        engine: EngineKind::Redis,
        embedded: EmbeddedSettings {
            data_dir: "data-1".into(),
            durability: Durability::Interval(secs(5)),
            min_free_bytes: 1_012,
            ballast_bytes: 1_013,
            dead_retention: Some(secs(114)),
            dedup_max: 1_023,
        },
        redis: RedisSettings {
            mode: Mode::Sentinel {
                nodes: vec![Node { host: "node-1".to_owned(), port: 1_014 }],
                service: "primary-1".to_owned(),
                credentials: Credentials {
                    username: Some("user-1".to_owned()),
                    password: password("password-1"),
                },
            },
            credentials: Credentials {
                username: Some("user-2".to_owned()),
                password: password("password-2"),
            },
            tls: Some(RedisTlsSettings {
                ca_file: Some("authorities-2".into()),
                client: Some(TlsFiles { certificate: "certificate-2".into(), key: "key-2".into() }),
                server_name: Some("name-1.example".to_owned()),
            }),
            prefix: "prefix-1".to_owned(),
            shards: Some(15),
            connect_timeout: secs(6),
            command_timeout: secs(7),
            start_timeout: secs(108),
            retry_for: secs(109),
            accept_empty: true,
            wait_replicas: 16,
            wait_timeout: secs(10),
            dead_retention: Some(secs(114)),
            dedup_max: 1_023,
            ..RedisSettings::default()
        },
        queue: Limits {
            max_body: 1_017,
            max_batch: 1_018,
            max_batch_pop: 1_019,
            max_delivery: 1_020,
            max_delay: Delay::new(secs(112)).expect("a delay"),
            max_wait: secs(113),
            max_waiting: 1_022,
            dead_retention: Some(secs(114)),
            callbacks: callbacks.clone(),
            ..Limits::default()
        },
        callbacks,
        traces: TraceSettings {
            endpoint: CallbackUrl::parse("http://collector-1.example:1028/v1/traces").ok(),
        },
        ui: UiSettings { enabled: false, title: "title-1".to_owned(), hide_bodies: true },
        lmstfy: LmstfySettings { listen: "127.0.0.1:1030".parse().ok(), max_wait: secs(119) },
        ouqiang: OuqiangSettings {
            listen: "127.0.0.1:1029".parse().ok(),
            topics: TopicFilter::only(
                ["topic-1", "topic-2-*"].map(|text| TopicPattern::parse(text).expect("a pattern")).into(),
            ),
            allow_anonymous: true,
            max_wait: secs(118),
        },
        log: LogSettings { format: LogFormat::Text, filter: "debug".to_owned() },
    };
    assert_eq!(load_with(MOST, &[], &[]).expect("is valid").config, expected);
}

#[test]
fn the_keys_that_exclude_others_are_found_where_they_belong() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["password", "sentinel"] {
        std::fs::write(directory.path().join(name), format!("{name}-3")).expect("writes");
    }
    let file = REST.replace("\"@/", &format!("\"{}/", directory.path().display()));
    let (sentinels, standalone): (Vec<&str>, Vec<&str>) =
        file.lines().partition(|line| line.starts_with("sentinel_password_file"));
    assert_eq!(sentinels.len(), 1);
    let refused = faults(&file, &[]);
    let expected = "redis.sentinel_password_file: is for the mode sentinel only";
    assert!(refused.iter().any(|fault| fault.starts_with(expected)), "{refused:?}");
    let config = load_with(&standalone.join("\n"), &[], &[]).expect("is valid").config;
    assert!(config.auth.allow_anonymous);
    assert_eq!(
        config.redis.mode,
        Mode::Standalone { node: Node { host: "node-2".to_owned(), port: 2_002 }, database: 3 }
    );
    let credentials = Credentials { username: Some("user-3".to_owned()), password: password("password-3") };
    assert_eq!(config.redis.credentials, credentials);
    let sentinel = "mode = 'sentinel'\nnodes = ['node-3:2003']\nsentinel_master = 'primary-3'";
    let file = file.replace("url = \"redis://user-3@node-2:2002/3\"", sentinel);
    let Mode::Sentinel { credentials, .. } = load_with(&file, &[], &[]).expect("is valid").config.redis.mode
    else {
        panic!("the mode is sentinel")
    };
    assert_eq!(credentials, Credentials { username: None, password: password("sentinel-3") });
}
