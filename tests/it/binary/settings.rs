//! Settings of the real program: which commands check them, where they are read from, and which cause warnings.

use std::{fs, path::Path, process::Output};

use linger::auth::{Scope, token_entry};

use crate::harness::{
    process::{Server, linger, refused, stderr, stdout},
    redis::{RedisServer, fresh_prefix, shared},
    resp::Resp,
};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn run(words: &[&str], variables: &[(&str, &str)], directory: &Path) -> Output {
    linger(words, directory).envs(variables.iter().copied()).output().expect("linger runs")
}

/// The exit code and the message with which `linger serve` refuses these variables.
fn serve_refused(listen: &str, variables: &[(&str, &str)], directory: &Path) -> (Option<i32>, String) {
    let mut command = linger(&["serve", "--listen", listen], directory);
    command.envs(variables.iter().copied());
    let refused = Server::try_spawn(command).err().expect("is refused");
    (refused.status.code(), refused.log)
}

/// As in the image: the environment sets a public address, and a flag names the file with the tokens.
#[test]
fn commands_without_the_flag_that_names_the_tokens_file_accept_the_settings() {
    let directory = directory();
    fs::write(directory.path().join("tokens"), token_entry("a", "a", &[Scope::Admin], &[]))
        .expect("can be written");
    fs::write(directory.path().join("c.toml"), "[auth]\ntokens_file = 'tokens'").expect("can be written");
    let mut command = linger(&["--config", "c.toml"], directory.path());
    let server = Server::spawn({
        command.env("LINGER__SERVER__LISTEN", "0.0.0.0:0");
        command
    });
    let listen = format!("0.0.0.0:{}", server.address.port());
    let variables = [("LINGER__SERVER__LISTEN", listen.as_str())];
    let health = run(&["health"], &variables, directory.path());
    assert_eq!((health.status.code(), stderr(&health)), (Some(0), String::new()));
    for words in [&["backup", "copy"][..], &["verify", "copy"], &["restore", "copy", "--data-dir", "new"]] {
        let output = run(words, &variables, directory.path());
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }
    for words in
        [&["verify", "--data-dir", "new"][..], &["config", "show"], &["token", "new", "--scope", "add"]]
    {
        let output = run(words, &variables, directory.path());
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }
    let bench = ["bench", "backlog", "--jobs", "20", "--connections", "2", "--data-dir", "."];
    let output = run(&bench, &variables, directory.path());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(server.stop().success());
    let checked = run(&["config", "check"], &variables, directory.path());
    let served = serve_refused("0.0.0.0:0", &[], directory.path());
    for ((code, message), expected) in [((checked.status.code(), stderr(&checked)), 1), (served, 2)] {
        assert_eq!(code, Some(expected), "{message}");
        assert!(message.contains("no token is required"), "{message}");
    }
}

/// Docker reserves 2 for its own use of health checks.
#[test]
fn health_fails_with_1_for_every_fault() {
    let directory = directory();
    for words in [
        &["--listen", "127.0.0.1:1"][..],
        &["--listen", "127.0.0.1:0"],
        &["--listen", "nowhere"],
        &["--url", "localhost:9277"],
        &["--config", "missing.toml"],
        &["--store", "redis"],
        &["--timeout", "soon"],
    ] {
        let health = linger(&["health"], directory.path()).args(words).output().expect("linger runs");
        assert_eq!(health.status.code(), Some(1), "{words:?}: {}", stderr(&health));
        assert_ne!(stderr(&health), "", "{words:?}");
    }
}

#[test]
fn a_variable_may_name_the_file() {
    let directory = directory();
    fs::write(directory.path().join("linger.toml"), "[queue]\nmax_batch = 1").expect("can be written");
    fs::write(directory.path().join("variable.toml"), "[queue]\nmax_batch = 2").expect("can be written");
    fs::write(directory.path().join("flag.toml"), "[queue]\nmax_batch = 3").expect("can be written");
    let variable = ("LINGER_CONFIG", "variable.toml");
    for (words, variables, expected) in [
        (&["config", "show"][..], &[][..], "max_batch = 1  # linger.toml"),
        (&["config", "show"], &[variable], "max_batch = 2  # variable.toml"),
        (&["config", "show", "--config", "flag.toml"], &[variable], "max_batch = 3  # flag.toml"),
    ] {
        let shown = stdout(&run(words, variables, directory.path()));
        assert!(shown.lines().any(|line| line == expected), "{expected} is not in {shown}");
    }
    let missing = run(&["config", "show"], &[("LINGER_CONFIG", "missing.toml")], directory.path());
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("missing.toml: cannot be read"), "{}", stderr(&missing));
}

#[test]
fn the_url_of_a_redis_is_enough_to_serve_on_it() {
    let (directory, prefix) = (directory(), fresh_prefix());
    let url = shared().url();
    let server =
        Server::serve(&["--redis-url", &url], &[("LINGER__REDIS__PREFIX", &prefix)], directory.path());
    assert!(server.line.contains("engine redis ("), "{}", server.line);
    assert!(!directory.path().join("data").exists());
    assert!(server.stop().success());
}

#[test]
fn settings_of_redis_without_the_redis_engine_are_refused() {
    let directory = directory();
    let remedy = "store.engine is \"embedded\" and does not use it: set store.engine = \"redis\"";
    let variables = [("LINGER__REDIS__URL", "redis://10.0.0.5:6379")];
    let [checked, copied] = [["config", "check"], ["backup", "copy"]].map(|words| {
        let output = run(&words, &variables, directory.path());
        (output.status.code(), stderr(&output))
    });
    let served = serve_refused("127.0.0.1:0", &variables, directory.path());
    for ((code, message), expected) in [(served, 2), (checked, 1), (copied, 2)] {
        assert_eq!(code, Some(expected), "{message}");
        assert!(message.contains("redis.url (environment variable LINGER__REDIS__URL)"), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
    let both = refused(&["--store", "embedded", "--redis-url", "redis://10.0.0.5"], directory.path());
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("redis.url (flag --redis-url)"), "{}", stderr(&both));
    assert!(!directory.path().join("data").exists());
}

#[test]
fn faults_of_settings_and_of_the_files_they_name_are_listed_together() {
    let directory = directory();
    let file = "[auth]\ntokens_file = 'no-tokens'\n[tls]\ncertificate = 'no-cert'\nkey = 'no-key'\n\
                [callbacks]\nca_file = 'no-ca'\n[queue]\nmax_batch = 0\n[redis]\nnodes = ['a:1', 'b']";
    fs::write(directory.path().join("linger.toml"), file).expect("can be written");
    let checked = run(&["config", "check", "--store", "redis"], &[], directory.path());
    assert_eq!((checked.status.code(), stdout(&checked)), (Some(1), String::new()));
    for fault in [
        "the configuration has 6 faults:",
        "queue.max_batch (linger.toml): 0 must be",
        "redis.nodes (linger.toml): item 2: must be host:port",
        "auth.tokens_file (linger.toml): the file of tokens no-tokens cannot be read",
        "tls.certificate (linger.toml): no-cert cannot be read",
        "tls.key (linger.toml): no-key cannot be read",
        "callbacks.ca_file (linger.toml): no-ca cannot be read",
        "flags        --store\n",
    ] {
        assert!(stderr(&checked).contains(fault), "{fault:?} is not in:\n{}", stderr(&checked));
    }
    fs::write(directory.path().join("files.toml"), file.split("[queue]").next().expect("a part"))
        .expect("can be written");
    let served = refused(&["--config", "files.toml", "--listen", "127.0.0.1:0"], directory.path());
    assert_eq!(served.status.code(), Some(1));
    for key in ["auth.tokens_file: ", "tls.certificate: ", "tls.key: "] {
        assert!(stderr(&served).contains(key), "{key}: {}", stderr(&served));
    }
}

#[test]
fn config_check_lists_the_sources_that_it_read() {
    let directory = directory();
    let variables = [("LINGER__QUEUE__MAX_BATCH", "7"), ("LINGER__LOG__FORMAT", "json"), ("OTHER", "x")];
    let none = "file         none (there is neither linger.toml nor /etc/linger/linger.toml)\n";
    let checked = run(&["config", "check", "--listen", "127.0.0.1:1"], &variables, directory.path());
    assert!(checked.status.success(), "{}", stderr(&checked));
    let rest = "environment  LINGER__LOG__FORMAT, LINGER__QUEUE__MAX_BATCH\nflags        --listen\n\
                the configuration is valid\n";
    assert_eq!(stdout(&checked), format!("{none}{rest}"));
    fs::write(directory.path().join("linger.toml"), "").expect("can be written");
    let checked = stdout(&run(&["config", "check"], &[], directory.path()));
    assert_eq!(
        checked,
        "file         linger.toml\nenvironment  none\nflags        none\nthe configuration is valid\n"
    );
}

#[test]
fn the_defaults_are_printed_with_their_documentation() {
    let directory = directory();
    let printed = stdout(&run(&["config", "default"], &[], directory.path()));
    assert_eq!(printed, include_str!("../../../config/default.toml"));
    fs::write(directory.path().join("linger.toml"), printed).expect("can be written");
    let checked = run(&["config", "check"], &[], directory.path());
    assert!(checked.status.success(), "{}", stderr(&checked));
}

#[test]
fn a_variable_with_one_underscore_causes_a_warning() {
    let directory = directory();
    let variables = [("LINGER_SERVER_LISTEN", "127.0.0.1:1"), ("LINGER_PORT", "tcp://10.0.0.1:9277")];
    let warning = "the variable LINGER_SERVER_LISTEN is not a setting; did you mean LINGER__SERVER__LISTEN?";
    for words in [["config", "check"], ["config", "show"]] {
        let output = run(&words, &variables, directory.path());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), format!("linger: warning: {warning}\n"), "{words:?}");
    }
    let server = Server::serve(&[], &variables, directory.path());
    server.wait_for_log(warning);
    assert!(!server.log().contains("LINGER_PORT"), "{}", server.log());
    assert!(server.stop().success());
}

/// A client that can write to Redis must not be able to send control sequences to an operator's terminal.
#[test]
fn control_sequences_are_never_printed() {
    let (directory, redis) = (directory(), RedisServer::start());
    let url = redis.url();
    let server = Server::serve(&["--redis-url", &url], &[], directory.path());
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).status, 201);
    assert!(server.stop().success());
    let mut client = Resp::connect(redis.address()).expect("connects");
    let shards: Vec<String> =
        client.call(&["KEYS", "*:jobs"]).list().into_iter().map(|key| key.text()).collect();
    for shard in shards {
        client.call(&["HSET", &shard, "evil\u{1b}[2J\u{1b}]0;x\u{7}", "no record"]);
    }
    let verified = run(&["verify", "--redis-url", &url], &[], directory.path());
    let unknown = "\"evil\\u001b[2J\" = 1";
    fs::write(directory.path().join("evil.toml"), unknown).expect("can be written");
    let checked = run(&["config", "check", "--config", "evil.toml"], &[], directory.path());
    for (output, part) in [(verified, "NOT SOUND"), (checked, "is not a known key")] {
        let message = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(part) && message.contains("evil\\u{1b}[2J"), "{message}");
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}
