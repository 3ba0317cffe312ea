//! Every exit code by its real cause.

use std::net::TcpListener;

use linger::auth::{Scope, token_entry};
use rustix::process::{Pid, Signal, kill_process};

use super::{Cli, Ended, command_in, ended, home};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{redis::free_port, wait::join},
};

/// Panics unless a command ended with this code, an error that contains this text and, in JSON, this code of a problem.
#[track_caller]
fn assert_ended(cli: &Cli, words: &[&str], code: i32, message: &str, problem: &str) {
    let text = cli.run(&[words, &["--text"]].concat());
    assert_eq!((text.code, text.stdout.as_str()), (Some(code), ""), "{words:?}: {text:?}");
    assert!(text.stderr.starts_with("linger: ") && text.stderr.contains(message), "{words:?}: {text:?}");
    let json = cli.run(&[words, &["--json"]].concat());
    assert_eq!((json.code, json.stdout.as_str()), (Some(code), ""), "{words:?}: {json:?}");
    let document: serde_json::Value = serde_json::from_str(&json.stderr).expect("is one problem document");
    assert_eq!(document["code"], problem, "{words:?}: {document}");
}

#[test]
fn a_recognised_repeat_is_0_and_a_conflict_4() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "1", "--id", "a"]);
    cli.succeed(&["add", "mail", "1", "--id", "a"]);
    assert_ended(&cli, &["add", "mail", "2", "--id", "a"], 4, "job_exists", "job_exists");
    assert_ended(&cli, &["finish", "a"], 4, "not_reserved", "not_reserved");
    let stale = "0".repeat(32);
    assert_ended(&cli, &["touch", "a", "--receipt", &stale], 4, "lease_lost", "lease_lost");
    assert_ended(
        &cli,
        &["dead", "requeue", "mail", "a"],
        4,
        "dead requeue: a: the server answers 409: not_dead",
        "not_dead",
    );
    assert_ended(&cli, &["dead", "delete", "mail", "a"], 4, "a: is no dead letter, but ready", "conflict");
    assert_eq!(cli.job("a").expect("is unchanged")["body"], 1);
    assert!(cli.server.stop().success());
}

/// The server calls a URL for the jobs of such a topic: they are for no worker.
#[test]
fn a_topic_with_a_callback_is_4_for_a_pop_and_for_a_worker() {
    let cli = Cli::start();
    let settings = r#"{"callback":{"url":"http://127.0.0.1:8080/hook"}}"#;
    assert_eq!(cli.server.call("PUT", "/topics/mail", settings).status, 200);
    assert_ended(&cli, &["pop", "mail"], 4, "topic_has_callback", "topic_has_callback");
    let worked = cli.run(&["work", "mail", "--until-empty", "--exec", "true", "--text"]);
    assert_eq!(worked.code, Some(4), "{worked:?}");
    assert!(worked.stderr.contains("topic_has_callback"), "{worked:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn nothing_due_and_no_such_job_are_3() {
    let cli = Cli::start();
    let popped = cli.run(&["pop", "mail", "--json"]);
    assert_eq!((popped.code, popped.stdout.as_str(), popped.stderr.as_str()), (Some(3), "", ""));
    let popped = cli.run(&["pop", "mail", "--text", "--wait", "50ms"]);
    assert_eq!((popped.code, popped.stderr.as_str()), (Some(3), "linger: no job is due\n"));
    for words in [&["get", "a"][..], &["finish", "a"], &["cancel", "a"], &["reschedule", "a", "--now"]] {
        assert_ended(&cli, words, 3, "job_not_found", "job_not_found");
    }
    for words in [&["topic", "show", "mail"][..], &["timeline", "mail"]] {
        assert_ended(&cli, words, 3, "topic_not_found", "topic_not_found");
    }
    for verb in ["get", "next", "pause", "resume", "run", "delete"] {
        assert_ended(
            &cli,
            &["schedule", verb, "daily"],
            3,
            "no schedule has this name",
            "schedule_not_found",
        );
    }
    cli.succeed(&["add", "mail", "--id", "a"]);
    assert_ended(&cli, &["dead", "requeue", "news", "a"], 3, "news has no such job", "absent");
    assert!(cli.server.stop().success());
}

#[test]
fn some_of_many_is_1() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a"]);
    let cancelled = cli.run(&["cancel", "none", "a", "--text"]);
    assert_eq!((cancelled.code, cancelled.stdout.as_str()), (Some(1), "a  cancelled\n"));
    assert!(cancelled.stderr.starts_with("linger: cancel: none: "), "{cancelled:?}");
    cli.succeed(&["add", "mail", "--id", "held"]);
    cli.succeed(&["pop", "mail"]);
    let spared = cli.run(&["cancel", "held", "--unless-reserved", "--text"]);
    assert!(spared.stderr.contains("job_reserved") && spared.stdout.is_empty(), "{spared:?}");
    cli.succeed(&["cancel", "held"]);
    assert!(cli.server.stop().success());
}

#[test]
fn one_bad_line_of_many_is_named_and_the_others_are_added() {
    let cli = Cli::start();
    let write = |bytes: &[u8]| std::fs::write(cli.home.path().join("jobs"), bytes).expect("can be written");
    // More than a request may have.
    let large = format!("{{\"id\":\"large\",\"body\":\"{}\"}}", "x".repeat(9 << 20));
    let lines =
        ["\u{feff}{\"id\":\"b\"}", "no JSON", "{\"id\":\"c\",\"delays\":1}", "[7]", &large, "{\"id\":\"d\"}"];
    write(lines.join("\n").as_bytes());
    let added = cli.run(&["add", "--lines", "mail", "@jobs", "--text"]);
    assert_eq!(
        (added.code, added.stdout.as_str()),
        (Some(1), "2 added, 0 there already, 4 failed\n"),
        "{added:?}"
    );
    for line in [
        "linger: add: jobs, line 2: is no definition of a job: expected ident at column 2\n",
        "linger: add: jobs, line 3: the server answers 422: invalid_job, /delays is not a field",
        "linger: add: jobs, line 4: is no definition of a job: ",
        "linger: add: jobs, line 5: the server answers 413: body_too_large, ",
    ] {
        assert!(added.stderr.contains(line), "{line}: {}", added.stderr);
    }
    assert_eq!(
        ["b", "d"].map(|id| cli.state(id)),
        [Some(("ready".to_owned(), 0)), Some(("ready".to_owned(), 0))]
    );
    let again = cli.run(&["add", "--lines", "mail", "@jobs", "--json"]);
    assert_eq!((again.code, again.stdout.lines().count()), (Some(1), 2), "{again:?}");
    let problems = again.stderr.lines().map(|line| serde_json::from_str(line).expect("is JSON"));
    let of_line_3 = problems.filter(|problem: &serde_json::Value| problem["line"] == 3).collect::<Vec<_>>();
    assert_eq!(of_line_3.len(), 1, "{again:?}");
    assert_eq!(of_line_3[0]["errors"][0]["pointer"], "/delays");
    for (bytes, message) in
        [(&b"\x1f\x8b\x08\0"[..], "jobs: it is compressed"), (b"\xff\xfe{\0", "jobs: it is UTF-16")]
    {
        write(bytes);
        assert_ended(&cli, &["add", "--lines", "mail", "@jobs"], 2, message, "usage");
        assert_ended(&cli, &["add", "mail", "@jobs"], 2, message, "usage");
    }
    write("\u{feff}{\"n\":1}".as_bytes());
    assert!(cli.succeed(&["add", "mail", "@jobs"]).contains(r#""body":{"n":1}"#));
    assert!(cli.server.stop().success());
}

#[test]
fn wrong_usage_and_refused_values_are_2() {
    let cli = Cli::start();
    for (words, message) in [
        (&["add", "mail", "{"][..], "the body is not JSON"),
        (&["add", "mail", "@none"], "none: No such file"),
        (&["add", "--lines", "mail", "{}"], "--lines reads @FILE, or stdin"),
        (&["get", "a", "--url", "ftp://a"], "--url: \"ftp://a\" must be like"),
        (&["get", "a", "--profile", "prod"], "there is no profile \"prod\" (profiles: there are none)"),
        (&["get", "a", "--token-file", "none"], "the file of the token, none: No such file"),
        (&["topic", "purge", "mail"], "this needs --yes"),
    ] {
        assert_ended(&cli, words, 2, message, "usage");
    }
    assert_ended(&cli, &["add", "mail", "--ttr", "31d"], 2, "invalid_job", "invalid_job");
    assert_ended(&cli, &["add", "bad topic"], 2, "invalid_job", "invalid_job");
    let never = ["schedule", "put", "daily", "--cron", "0 0 30 2 *", "--topic", "mail"];
    assert_ended(&cli, &never, 2, "invalid_request, /cron never matches in the zone UTC", "invalid_request");
    for words in [&["timeline", "--span", "5000d"][..], &["timeline", "--step", "90s"], &["timeline", "a b"]]
    {
        assert_ended(&cli, words, 2, "invalid_parameter", "invalid_parameter");
    }
    let secure = cli.server.url().replace("http:", "https:");
    assert_ended(&cli, &["get", "a", "--url", &secure], 2, "use http://", "usage");
    for (words, message) in [
        (&["add"][..], "<TOPIC>"),
        (&["add", "mail", "--delay", "soon"], "soon"),
        (&["add", "mail", "--at", "soon"], "soon"),
        (&["add", "mail", "--delay", "1s", "--at", "2027-01-01T00:00:00Z"], "--at"),
        (&["get", "a", "--text", "--json"], "--json"),
        (&["reschedule", "a"], "--delay"),
        (&["pop", "mail", "--max", "0"], "--max"),
        (&["timeline", "--span", "soon"], "--span"),
        (&["top", "--every", "99ms"], "must be at least 100ms"),
        (&["top", "--sort", "size"], "possible values: ready, overdue, delayed, dead, name"),
        (&["touch", "a"], "--receipt"),
        (&["dead", "delete", "mail"], "--all"),
        (&["schedule", "put", "daily"], "--topic <TOPIC>"),
        (&["schedule", "put", "daily", "{}", "--every", "1h"], "--every"),
        (&["schedule", "put", "daily", "{}", "--ttr", "1h"], "--ttr"),
        (&["schedule", "next", "daily", "--count", "1001"], "--count"),
        (&["add", "--lines", "--ttr", "1m"], "--ttr"),
        (&["get", "a", "--token", "secret"], "--token"),
        (&["topic", "mail"], "tip: `linger topic show mail`"),
        (&["add", "mail", "--listen", "127.0.0.1:0"], "--listen"),
        (&["--data-dir", "x", "add", "mail"], "--data-dir does not apply to `linger add`"),
        (&["--redis-url", "redis://h", "topic", "show", "mail"], "does not apply to `linger topic show`"),
    ] {
        let Ended { code, stdout, stderr } = cli.run(words);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    let json = cli.run(&["get", "a", "--json", "--lisen", "x"]);
    let document: serde_json::Value = serde_json::from_str(&json.stderr).expect("is a problem document");
    assert_eq!((json.code, document["code"].as_str()), (Some(2), Some("usage")));
    assert!(cli.server.stop().success());
}

#[test]
fn a_token_that_is_missing_wrong_or_too_weak_is_5() {
    let tokens = tempfile::NamedTempFile::new().expect("a file");
    let entries =
        token_entry("app", "adds", &[Scope::Add], &[]) + &token_entry("ops", "reads", &[Scope::Read], &[]);
    std::fs::write(tokens.path(), entries).expect("can be written");
    let variables = [("LINGER__AUTH__TOKENS_FILE", tokens.path().to_str().expect("is text"))];
    let cli = Cli::start_with(&[], &variables);
    assert_ended(&cli, &["add", "mail"], 5, "401: unauthorized", "unauthorized");
    for (token, code, message) in [
        ("adds", 0, ""),
        ("wrong", 5, "401: unauthorized"),
        ("reads", 5, "403: forbidden"),
        ("a\nb", 2, "more than one line"),
    ] {
        let mut command = cli.command(&["add", "mail"]);
        command.env("LINGER_TOKEN", token);
        let ended = ended(command);
        assert_eq!(ended.code, Some(code), "{token:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{token:?}: {ended:?}");
        assert!(!ended.stderr.contains("wrong"), "the token is shown: {ended:?}");
    }
    assert!(cli.server.stop().success());
}

/// The error of an add that must end with code 6.
#[track_caller]
fn error_of_add(url: &str, timeout: &str) -> String {
    let home = home();
    let words = ["add", "mail", "--url", url, "--timeout", timeout, "--json"];
    let add = ended(command_in(home.path(), &words));
    assert_eq!(add.code, Some(6), "{add:?}");
    add.stderr
}

#[test]
fn a_server_that_is_away_is_6() {
    let error = error_of_add(&format!("http://127.0.0.1:{}", free_port()), "300ms");
    assert!(error.contains("\"no_answer\"") && error.contains("Connection refused"), "{error}");
}

#[test]
fn no_answer_until_the_timeout_is_6() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let error = error_of_add(&format!("http://{}", silent.local_addr().expect("has an address")), "300ms");
    assert!(error.contains("no answer within 300ms"), "{error}");
}

#[test]
fn a_server_that_stays_unavailable_is_called_again_and_is_6() {
    let server = ScriptedServer::new();
    let url = server.url();
    let add = std::thread::spawn(move || error_of_add(&url, "60s"));
    // The last answer asks for more time than there is.
    for headers in ["", "", "retry-after: 3600\r\n"] {
        server.next().respond_with(503, headers, "");
    }
    let error = join("the command", add);
    assert!(error.contains("503"), "{error}");
    assert!(server.receives_nothing_more());
}

#[test]
fn a_signal_is_130_or_143_and_takes_no_job() {
    let cli = Cli::start();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = cli.command(&["pop", "mail", "--wait", "60s"]).spawn().expect("linger starts");
        cli.server.wait_for_parked_polls(1);
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        cli.server.wait_for_parked_polls(0);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", silent.local_addr().expect("has an address"));
        let mut child = cli.command(&["get", "a", "--url", &url]).spawn().expect("linger starts");
        let _unanswered = silent.accept().expect("is called");
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
    }
    cli.succeed(&["add", "mail", "--id", "a"]);
    assert_eq!(cli.state("a"), Some(("ready".to_owned(), 0)));
    assert!(cli.server.stop().success());
}
