//! Settings as a whole: what wins, what is refused, what is shown.

mod callbacks;
mod compat;
mod every_key;
mod traces;
mod ui;

use std::time::Duration;

use super::*;

/// Loads with a file of this text, these variables and these flags.
fn load_with(file: &str, environment: &[(&str, &str)], flags: &[Flag]) -> Result<Loaded, ConfigFaults> {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("test.toml");
    std::fs::write(&path, file).expect("a temporary file can be written");
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    load(Sources { file: Some(path), environment, flags: flags.to_vec() }, Purpose::Serve)
}

/// The faults as `key: problem`, with the sources apart.
fn faults(file: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let Err(faults) = load_with(file, environment, &[]) else { return Vec::new() };
    faults.as_slice().iter().map(|fault| format!("{}: {}", fault.key, fault.problem)).collect()
}

fn listen(value: &str) -> Flag {
    Flag { name: "--listen", key: "server.listen", value: value.to_owned() }
}

#[test]
fn the_defaults_are_valid_and_are_what_the_contract_says() {
    let config = load(Sources::default(), Purpose::Serve).expect("the defaults are valid").config;
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:9277");
    assert_eq!(config.engine, EngineKind::Embedded);
    assert_eq!(config.embedded.durability, Durability::Always);
    assert_eq!(config.embedded.data_dir.as_os_str(), "data");
    assert_eq!(config.queue.max_body, 256 * 1024);
    assert_eq!(config.queue.max_batch, 1_000);
    assert_eq!(config.queue.max_wait, Duration::from_secs(60));
    assert_eq!(config.embedded.dead_retention, None);
    assert_eq!(config.redis.location(), "127.0.0.1:6379");
    assert_eq!(config.redis.shards, None);
}

#[test]
fn every_key_is_documented_and_read() {
    let mut unused = Vec::new();
    let layers = Layers::read(&Sources::default(), &mut unused);
    let mut reader = Reader::new(&layers, &mut unused);
    read(&mut reader, Purpose::Serve);
    let mut keys = reader.keys_read().to_vec();
    keys.sort_unstable();
    // Each engine reads `queue.dead_retention`.
    keys.dedup();
    let mut documented: Vec<String> =
        show::documented().map(|(section, key)| format!("{section}.{key}")).collect();
    documented.sort_unstable();
    assert_eq!(keys, documented);
    let lines: Vec<&str> = layers::DEFAULTS.lines().collect();
    for pair in lines.windows(2) {
        let is_key = !pair[1].is_empty() && !pair[1].starts_with(['#', '[']);
        assert!(!is_key || pair[0].starts_with("# "), "{} has no comment", pair[1]);
    }
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_the_defaults() {
    let file = "[server]\nlisten = '127.0.0.1:1'\nheader_timeout = 7\n[queue]\nmax_batch = 5";
    let environment = [("LINGER__SERVER__LISTEN", "127.0.0.1:2"), ("LINGER__QUEUE__MAX_BATCH", "6")];
    let config = load_with(file, &environment, &[listen("127.0.0.1:3")]).expect("is valid").config;
    assert_eq!(config.server.listen.port(), 3);
    assert_eq!(config.queue.max_batch, 6);
    assert_eq!(config.server.listener.header_timeout, Duration::from_secs(7));
    assert_eq!(config.server.listener.max_header_bytes, 16_384);
}

#[test]
fn all_faults_of_all_sources_are_listed_with_key_source_and_remedy() {
    let file =
        "[server]\nlisten = 'localhost'\nlisen = '127.0.0.1:1'\n[queue]\nmax_batch = 0\n[nonsense]\nx = 1";
    let environment = [
        ("LINGER__EMBEDDED__DURABILITY", "sometimes"),
        ("LINGER__SERVR__LISTEN", "127.0.0.1:2"),
        ("LINGER__REDIS", "127.0.0.1"),
        ("LINGER_PORT", "tcp://10.0.0.1:80"),
    ];
    let flags = [Flag { name: "--store", key: "store.engine", value: "mysql".to_owned() }];
    let shown = load_with(file, &environment, &flags).err().expect("has faults").to_string();
    let expected = [
        "has 8 faults",
        "nonsense.x (",
        "server.lisen (",
        "did you mean server.listen?",
        "redis (environment variable LINGER__REDIS): is a section, not a key",
        "servr.listen (environment variable LINGER__SERVR__LISTEN): is not a known key; did you mean server.listen?",
        "store.engine (flag --store): \"mysql\" must be one of \"embedded\", \"redis\"",
        "test.toml): \"localhost\" must be a port, or an IP address and a port",
        "embedded.durability (environment variable LINGER__EMBEDDED__DURABILITY): \"sometimes\" must be one of",
        "queue.max_batch (",
        "0 must be a whole number from 1 to 100000",
    ];
    for part in expected {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(!shown.contains("LINGER_PORT"), "{shown}");
}

#[test]
fn a_mistake_in_a_lower_layer_is_not_hidden_by_a_higher_one() {
    let variables = [("LINGER__REDIS__PREFIX", "mine"), ("LINGER__STORE__ENGINE", "redis")];
    let found = faults("redis = 'x'", &variables);
    assert_eq!(found, ["redis: is a section, not a key"]);
    let found = faults("[redis.url]\nhost = 'x'", &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("redis.url.host: is not a known key"), "{found:?}");
}

#[test]
fn what_cannot_be_the_name_of_a_host_is_refused() {
    for wrong in
        ["a.example:80", "http://a.example", "[\"a.example\"]", "*", "*.", "*example", "a.*.example", "a,b/c"]
    {
        let found = faults("", &[("LINGER__SERVER__ALLOWED_HOSTS", wrong)]);
        assert!(
            matches!(&found[..], [one] if one.contains("is not the name of a host")),
            "{wrong}: {found:?}"
        );
    }
    assert_eq!(
        faults("[server]\nallowed_hosts = ['queue', 'my_queue.a-b.example']", &[]),
        Vec::<String>::new()
    );
}

#[test]
fn a_secret_keeps_its_leading_zero() {
    let environment = [("LINGER__REDIS__PASSWORD", "0123"), ("LINGER__STORE__ENGINE", "redis")];
    let config = load_with("", &environment, &[]).expect("is valid").config;
    assert_eq!(config.redis.credentials.password, Some(Secret::new("0123".to_owned())));
}

#[test]
fn a_secret_may_stand_in_a_file() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("password");
    std::fs::write(&path, " s3cret \n").expect("a temporary file can be written");
    let path = path.to_str().expect("temporary paths are text");
    let from_file = [("LINGER__REDIS__PASSWORD_FILE", path), ("LINGER__STORE__ENGINE", "redis")];
    let config = load_with("", &from_file, &[]).expect("is valid").config;
    assert_eq!(config.redis.credentials.password, Some(Secret::new(" s3cret ".to_owned())));
    let both = faults("[redis]\npassword = 'x'", &from_file);
    assert_eq!(both, ["redis.password_file: and redis.password are both set; leave one of them out"]);
    // Not quoted: it may be the password.
    let missing = [("LINGER__REDIS__PASSWORD_FILE", "hunter2"), ("LINGER__STORE__ENGINE", "redis")];
    let [missing] = &faults("", &missing)[..] else { panic!("one fault") };
    assert!(
        missing.starts_with("redis.password_file: names a file that cannot be read: No such file"),
        "{missing}"
    );
}

#[test]
fn no_secret_is_ever_shown() {
    let sentinel = "[redis]\nmode = 'sentinel'\nnodes = ['db:6379']\nsentinel_master = 'm'\nsentinel_password = 'hunter2'";
    let loaded = load_with(sentinel, &[("LINGER__STORE__ENGINE", "redis")], &[]).expect("is valid");
    assert!(!loaded.show().contains("hunter2"), "{}", loaded.show());
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
    let file = "[redis]\nurl = 'redis://app:hunter2@db:6379'";
    let loaded = load_with(file, &[("LINGER__STORE__ENGINE", "redis")], &[]).expect("is valid");
    assert!(!loaded.show().contains("hunter2"), "{}", loaded.show());
    assert!(loaded.show().contains("redis://app:<redacted>@db:6379"), "{}", loaded.show());
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
    for broken in [
        "[redis]\nurl = 'redis://app:hunter2@db:99999999'",
        "[redis]\npassword = 'hunter2",
        "[redis]\npassword = ['hunter2']",
        "[redis]\nurl = 'redis://:hunter2@h'\npassword = 'hunter2'",
        "hunter2 = 1 = 2",
    ] {
        let shown = load_with(broken, &[], &[]).err().expect("has faults").to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn what_is_shown_reads_back_the_same() {
    let file = "[server]\nallowed_hosts = ['a.example', 'b']\nheader_timeout = 2.5\n[embedded]\ndata_dir = 'quo\"te\\'";
    let environment = [
        ("LINGER__QUEUE__MAX_BODY", "70000"),
        ("LINGER__STORE__ENGINE", "redis"),
        ("LINGER__REDIS__MODE", "cluster"),
        ("LINGER__REDIS__NODES", "a:1,b:2"),
        ("LINGER__LOG__LEVEL", "warn"),
    ];
    let first = load_with(file, &environment, &[listen("[::1]:80")]).expect("is valid");
    let shown = first.show();
    assert!(shown.contains("level = \"warn\"  # environment variable LINGER__LOG__LEVEL"), "{shown}");
    assert!(shown.contains("listen = \"[::1]:80\"  # flag --listen"), "{shown}");
    assert!(shown.contains("max_batch = 1000\n"), "{shown}");
    let second = load_with(&shown, &[], &[]).expect("is valid");
    assert_eq!(first.config, second.config);
}

#[test]
fn the_modes_of_redis_ask_for_what_they_need_and_refuse_the_rest() {
    let redis = |rest: &str| faults(&format!("[store]\nengine = 'redis'\n[redis]\n{rest}"), &[]);
    assert_eq!(redis(""), Vec::<String>::new());
    assert_eq!(redis("mode = 'sentinel'\nnodes = ['a:1']\nsentinel_master = 'm'"), Vec::<String>::new());
    assert_eq!(redis("mode = 'cluster'\nnodes = ['a:1', '[::1]:2']"), Vec::<String>::new());
    assert_eq!(redis("mode = 'cluster'\nnodes = ['rediss://a:1', 'rediss://[::1]:2']"), Vec::<String>::new());
    assert_eq!(redis("url = 'redis://u@h'\npassword = 'p'"), Vec::<String>::new());
    let unneeded = redis("server_name = 'a'");
    let remedy = "is for TLS, which redis.url does not ask for: write rediss:// there, or leave this key out";
    assert_eq!(unneeded, [format!("redis.server_name: {remedy}")]);
    for (rest, key) in [
        ("nodes = ['a:1']", "redis.nodes"),
        ("mode = 'cluster'", "redis.nodes"),
        ("mode = 'cluster'\nnodes = ['a:x']", "redis.nodes"),
        ("mode = 'cluster'\nnodes = ['a:1', 'b']", "redis.nodes"),
        ("mode = 'cluster'\nnodes = ['a:1']\nurl = 'redis://h'", "redis.url"),
        ("mode = 'sentinel'\nnodes = ['a:1']", "redis.sentinel_master"),
        ("sentinel_master = 'm'", "redis.sentinel_master"),
        ("url = 'redis://u@h'\nusername = 'u'", "redis.username"),
        ("url = 'redis://u@h'", "redis.url"),
        ("url = 'redis://u:@h'", "redis.url"),
        ("username = 'u'", "redis.username"),
        ("mode = 'cluster'\nnodes = ['a:1']\nusername = 'u'", "redis.username"),
        (
            "mode = 'sentinel'\nnodes = ['a:1']\nsentinel_master = 'm'\nsentinel_username = 'u'",
            "redis.sentinel_username",
        ),
        ("mode = 'cluster'\nnodes = ['rediss://a:1', 'b:2']", "redis.nodes"),
        ("mode = 'cluster'\nnodes = ['redis://a:1', 'rediss://b:2']", "redis.nodes"),
        ("mode = 'cluster'\nnodes = ['rediss://u:p@a:1']", "redis.nodes"),
        ("ca_file = 'f'", "redis.ca_file"),
        ("mode = 'cluster'\nnodes = ['a:1']\nserver_name = 'a'", "redis.server_name"),
        ("client_certificate = 'f'\nclient_key = 'f'", "redis.client_certificate"),
        ("url = 'rediss://h'\nclient_certificate = 'f'", "redis.client_key"),
        ("url = 'rediss://h'\nclient_key = 'f'", "redis.client_certificate"),
        ("url = 'rediss://h'\nserver_name = 'a b'", "redis.server_name"),
        ("prefix = 'a{b}'", "redis.prefix"),
    ] {
        let found = redis(rest);
        assert!(found.iter().any(|fault| fault.starts_with(&format!("{key}: "))), "{rest}: {found:?}");
    }
}

#[test]
fn settings_of_redis_beside_the_embedded_engine_are_refused_with_the_remedy() {
    let url = "redis://127.0.0.1:6379";
    let remedy = "is set, but store.engine is \"embedded\" and does not use it: set store.engine = \"redis\" \
                  (--store redis, LINGER__STORE__ENGINE=redis), or leave it out";
    let refused = [format!("redis.url: {remedy}")];
    // The default value too: an operator who sets it means a Redis on this machine.
    assert_eq!(faults("", &[("LINGER__REDIS__URL", url)]), refused);
    assert_eq!(faults(&format!("[redis]\nurl = '{url}'"), &[]), refused);
    assert_eq!(faults("[store]\nengine = 'embedded'\n[redis]\nurl = 'redis://10.0.0.5'", &[]), refused);
    let two = faults("[redis]\nmode = 'cluster'\nprefix = 'p'", &[]);
    assert_eq!(two, [format!("redis.mode: {remedy}"), format!("redis.prefix: {remedy}")]);
    let secret = faults("[redis]\npassword = 'hunter2'", &[]);
    assert_eq!(secret, [format!("redis.password: {remedy}")]);
    // What `config show` and `config default` print is a file that can be used.
    assert_eq!(faults(DEFAULTS, &[]), Vec::<String>::new());
    assert_eq!(faults(DEFAULTS, &[("LINGER__STORE__ENGINE", "redis")]), Vec::<String>::new());
}

#[test]
fn the_rules_about_listening_are_for_serving_only() {
    let sources = || Sources { flags: vec![listen("0.0.0.0:9277")], ..Sources::default() };
    assert!(load(sources(), Purpose::Use).is_ok());
    let refused = load(sources(), Purpose::Serve).err().expect("has a fault").to_string();
    assert!(
        refused.contains("server.listen (flag --listen): 0.0.0.0:9277 is an address that others can reach")
    );
    let file = |_: &Config| vec![FileFault { key: "tls.key", problem: "key.pem is empty".to_owned() }];
    let both = check(sources(), file).err().expect("has faults");
    let keys: Vec<_> = both.as_slice().iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["server.listen", "tls.key"]);
}

#[test]
fn the_file_is_the_named_one_or_that_of_the_variable() {
    let path = |name: &str| Some(std::path::PathBuf::from(name));
    assert_eq!(choose_file(path("a.toml"), Some("b.toml".into())), path("a.toml"));
    assert_eq!(choose_file(None, Some("b.toml".into())), path("b.toml"));
    assert_eq!(choose_file(None, Some("".into())), choose_file(None, None));
}

#[test]
fn what_a_terminal_would_obey_is_escaped_in_faults() {
    let shown = load_with("\"a\\u001b[2J\\nb\" = 1", &[], &[]).err().expect("has a fault").to_string();
    assert!(shown.contains("\n  a\\u{1b}[2J\\nb ("), "{shown:?}");
    assert!(!shown.contains('\u{1b}') && shown.lines().count() == 2, "{shown:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let sources = Sources { file: Some("/nonexistent/linger.toml".into()), ..Sources::default() };
    let shown = load(sources, Purpose::Use).err().expect("has faults").to_string();
    assert!(shown.contains("/nonexistent/linger.toml: cannot be read"), "{shown}");
    let shown = load_with("[server\nlisten = 1", &[], &[]).err().expect("has faults").to_string();
    assert!(shown.contains("is not TOML: at line 1, column 8"), "{shown}");
}

#[test]
fn dead_retention_is_for_ever_or_a_duration() {
    let read = |text: &str| load_with(&format!("[queue]\ndead_retention = {text}"), &[], &[]);
    assert_eq!(read("''").map(|l| l.config.embedded.dead_retention).ok(), Some(None));
    let week = Some(Some(Duration::from_secs(604_800)));
    assert_eq!(read("'7d'").map(|l| l.config.embedded.dead_retention).ok(), week);
    assert!(read("'never'").is_err());
}

#[test]
fn the_number_of_shards_is_one_or_is_left_to_what_is_stored() {
    let settings = |text: &str| format!("[store]\nengine = 'redis'\n[redis]\nshards = {text}");
    let read = |text: &str| load_with(&settings(text), &[], &[]);
    for unset in ["''", "'auto'"] {
        let loaded = read(unset).expect("is valid");
        assert_eq!(loaded.config.redis.shards, None);
    }
    for set in ["8", "'8'"] {
        assert_eq!(read(set).expect("is valid").config.redis.shards, Some(8));
    }
    let shown = load(Sources::default(), Purpose::Use).expect("is valid").show();
    assert!(shown.contains("\nshards = \"auto\"\n"), "{shown}");
    for wrong in ["0", "257", "-1", "'many'", "true"] {
        let found = faults(&settings(wrong), &[]);
        assert!(matches!(&found[..], [one] if one.ends_with("from 1 to 256, or \"auto\"")), "{found:?}");
    }
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let found = faults("[queue]\nmax_body = '9MiB'", &[]);
    assert_eq!(found, ["queue.max_body: must not be more than server.max_request_bytes"]);
    let found = faults("[server]\nmax_answer_bytes = '1MiB'", &[]);
    assert_eq!(found, ["queue.max_delivery: must not be more than server.max_answer_bytes"]);
    let found = faults("[server]\nmax_buffered_bytes = '1MiB'", &[]);
    assert_eq!(found, ["server.max_request_bytes: must not be more than server.max_buffered_bytes"]);
}

#[test]
fn the_host_is_unchecked_only_beyond_loopback_with_tokens_and_without_allowed_hosts() {
    let check_host = |file: &str| {
        let config = load_with(file, &[], &[]).expect("is valid").config;
        config.server.http.check_host
    };
    let tokens = "[auth]\ntokens_file = 'tokens.toml'\n";
    assert!(check_host("[server]\nlisten = '0.0.0.0:1'\n[auth]\nallow_anonymous = true"));
    assert!(check_host(tokens));
    assert!(!check_host(&format!("{tokens}[server]\nlisten = '0.0.0.0:1'")));
    assert!(check_host(&format!(
        "{tokens}[server]\nlisten = '0.0.0.0:1'\nallowed_hosts = ['queue.example']"
    )));
}
