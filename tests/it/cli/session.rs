//! Every command once, in text and in JSON, on both engines.

use super::{Cli, matches};
use crate::harness::redis::{fresh_prefix, shared};

/// A command, and what it prints as text and as JSON. `RECEIPT` stands for the receipt that was printed last.
type Step = (&'static [&'static str], &'static str, &'static str);

const DELAYED: &str = r#"{"id":"a","topic":"mail","state":"delayed","created_at":"[..]","due_at":"[..]","ttr":60,"attempts":0,"max_attempts":16,"body":{"n":  1.0}}"#;
const RESERVED: &str = r#"{"id":"a","topic":"mail","state":"reserved","created_at":"[..]","due_at":"[..]","ttr":60,"attempts":[..],"max_attempts":16,[..]"receipt":"[..]","attempt":[..],"late":[..],"body":{"n":  1.0}}"#;
const POPPED: &str = "a  attempt [..] of 16  [..] late  until [..]  receipt [..]\n{\"n\":  1.0}";

/// A job's life, command by command.
const JOB: &[Step] = &[
    (
        &["add", "mail", "{\"n\":  1.0}", "--delay", "30m", "--id", "a"],
        "a  delayed  due in 30m ([..])",
        DELAYED,
    ),
    (
        &["add", "mail", "{\"n\":  1.0}", "--delay", "30m", "--id", "a"],
        "a  delayed  due in [..] ([..])  (was there already)",
        DELAYED,
    ),
    (
        &["get", "a"],
        "a  delayed  due in [..] ([..])
  topic     mail
  created   [..]
  due       [..]
  ttr       1m
  attempts  0 of 16
  body      {\"n\":  1.0}",
        DELAYED,
    ),
    (&["get", "a", "--body"], "{\"n\":  1.0}", "{\"n\":  1.0}"),
    (&["reschedule", "a", "--now"], "a  ready  due [..] ago", r#"{"id":"a",[..]"state":"ready",[..]}"#),
    (&["pop", "news", "mail", "--wait", "20s"], POPPED, RESERVED),
    (
        &["touch", "a", "--receipt", "RECEIPT", "--ttr", "5m", "--note", "3 of 7 files"],
        "a  reserved  until [..]",
        r#"{"id":"a",[..]"state":"reserved",[..]"note":"3 of 7 files","noted_at":"[..]",[..]}"#,
    ),
    (
        &["get", "a"],
        "a  reserved  until [..]
  topic     mail
  created   [..]
  due       [..]
  ttr       1m
  attempts  1 of 16
  note      [..]  3 of 7 files
  history   [..]  rescheduled  from [..]
  body      {\"n\":  1.0}",
        r#"{"id":"a",[..]"note":"3 of 7 files",[..]}"#,
    ),
    (
        &["release", "a", "--receipt", "RECEIPT", "--at", "2026-01-01T00:00:00Z", "--reason", "psp away"],
        "a  ready  due [..] ago",
        r#"{"id":"a",[..]"state":"ready",[..]"reason":"psp away",[..]}"#,
    ),
    (&["pop", "mail", "--wait", "20s"], POPPED, RESERVED),
    (
        &["bury", "a", "--receipt", "RECEIPT", "--reason", "exit 1: psp answered 503"],
        "a  died [..] ago  2 attempts  exit 1: psp answered 503",
        r#"{"id":"a",[..]"state":"dead",[..]"reason":"exit 1: psp answered 503",[..]}"#,
    ),
    (
        &["dead", "ls", "mail"],
        "a  died [..] ago  2 attempts  exit 1: psp answered 503",
        r#"{"id":"a",[..]"state":"dead",[..]"reason":"exit 1: psp answered 503",[..]}"#,
    ),
    (
        &["dead", "requeue", "mail", "a", "--at", "2999-01-01T09:00:00+01:00"],
        "a  delayed  due in [..]",
        r#"{"id":"a",[..]"state":"delayed",[..]"attempts":0,[..]}"#,
    ),
    (&["cancel", "a"], "a  cancelled", r#"{"status":204,"id":"a"}"#),
];

const PAUSED_MAIL: &str = "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
mail         1      1         0     0 [..]  delivery
  next due         due in [..] ([..])
  oldest ready     due [..] ago
  cause            delivery is paused since [..] by 127.0.0.1
  ttr              1m30s
  max-attempts     1";

/// Topics, and many jobs at once.
const TOPICS: &[Step] = &[
    (
        &["topic", "set", "mail", "--ttr", "90s", "--retry", "15s,3m"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
mail         0      0         0     0 [..]
  ttr              1m30s
  retry            15s,3m",
        r#"{"topic":"mail",[..]"settings":{"ttr":90,"retry":[15,180],"require_receipt":false}}"#,
    ),
    (
        &["topic", "set", "mail", "--max-attempts", "1", "--unset", "retry"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
mail         0      0         0     0 [..]
  ttr              1m30s
  max-attempts     1",
        r#"{"topic":"mail",[..]"settings":{"ttr":90,"max_attempts":1,"require_receipt":false}}"#,
    ),
    (
        &["add", "--lines", "mail", "@jobs.jsonl"],
        "3 added, 0 there already, 0 failed",
        "{\"status\":201,\"id\":\"[..]-1\"}\n{\"status\":201,\"id\":\"b\"}\n{\"status\":201,\"id\":\"[..]-2\"}",
    ),
    (
        &["add", "--lines", "mail", "@jobs.jsonl"],
        "0 added, 3 there already, 0 failed",
        "{\"status\":200,\"id\":\"[..]-1\",\"replayed\":true}\n{\"status\":200,\"id\":\"b\",\"replayed\":true}\n{\"status\":200,\"id\":\"[..]-2\",\"replayed\":true}",
    ),
    (
        &["topic", "pause", "news", "--intake", "--reason", "the bank is down", "--until", "1h"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
news         1      0         0     0 [..]  intake
  next due         due in [..]
  cause            intake is paused since [..] by 127.0.0.1 until [..] because: the bank is down",
        r#"{"topic":"news",[..]"paused":{"delivery":false,"intake":true},[..]"reason":"the bank is down",[..]}"#,
    ),
    (
        &["topics"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
mail         0      2         0     0 [..]
news         1      0         0     0 [..]  intake",
        "{\"topic\":\"mail\",[..]}\n{\"topic\":\"news\",[..]}",
    ),
    (
        &["topic", "resume", "news"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
news         1      0         0     0 [..]
  next due         due in [..]",
        r#"{"topic":"news",[..]"paused":{"delivery":false,"intake":false},[..]}"#,
    ),
    (
        &["topics", "--prefix", "ne"],
        "TOPIC  DELAYED  READY  RESERVED  DEAD  POLLS  PAUSED
news         1      0         0     0 [..]",
        r#"{"topic":"news",[..]}"#,
    ),
    (
        &["timeline", "news", "--span", "2h", "--step", "2h"],
        "news: 1 delayed, 0 of them outside of this span; 0 ready, 0 reserved
steps of 2h, as of [..]
[..]  1  ###########################################################",
        r#"{"now":"[..]","from":"[..]","step":7200,"counts":[1],"outside":0,"ready":0,"reserved":0}"#,
    ),
    (
        &["top", "--sort", "name", "--prefix", "ne"],
        "TOPIC         DELAYED  READY  RESERVED  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS
news                1      0         0     0  [..]",
        r#"{"version":{[..]},"stats":{"now":"[..]},"topics":[{"topic":"news",[..]}]}"#,
    ),
    (
        &["pop", "mail", "--wait", "20s"],
        "[..]-[..]  attempt 1 of 1  [..]\n7",
        r#"{[..]"receipt":"[..]"body":7}"#,
    ),
    (
        &["bury", "ID", "--receipt", "RECEIPT"],
        "[..]-[..]  died [..] ago  1 attempt  buried",
        r#"{[..]"state":"dead",[..]}"#,
    ),
    (
        &["dead", "requeue", "mail", "--all", "--delay", "1h"],
        "1 requeued",
        r#"{"id":"op_[..]","action":"requeue","delay":3600,[..]"state":"done",[..]"changed":1,"skipped":0}"#,
    ),
    (&["dead", "ls", "mail", "--all"], "", ""),
    (
        &["dead", "requeue", "mail", "--limit", "5", "--at", "2999-01-01T09:00:00+01:00"],
        "0 requeued",
        r#"{"id":"op_[..]","action":"requeue","at":"2999-01-01T08:00:00.000Z",[..]"state":"done",[..]}"#,
    ),
    (&["topic", "pause", "mail", "--delivery"], PAUSED_MAIL, r#"{"topic":"mail",[..]}"#),
    (&["topic", "show", "mail"], PAUSED_MAIL, r#"{"topic":"mail",[..]}"#),
    (&["topic", "purge", "mail", "--yes"], "2 jobs deleted", r#"{"deleted":2}"#),
];

/// A recurring job that has no run while the test lasts.
const SCHEDULES: &[Step] = &[
    (
        &[
            "schedule",
            "put",
            "daily",
            "--cron",
            "30 9 * * *",
            "--time-zone",
            "Asia/Tokyo",
            "--start",
            "2999-01-01T00:00:00Z",
            "--topic",
            "report",
            "--body",
            "{\"n\":  1.0}",
        ],
        "daily  active  next in [..] (2999-01-[..])  (new)",
        r#"{"name":"daily",[..]"job":{"topic":"report","body":{"n":  1.0}},"revision":1,"state":"active",[..]}"#,
    ),
    (
        &["schedule", "list"],
        "NAME   STATE   NEXT[..]TOPIC   WHEN
daily  active  in [..]  report  30 9 * * *  Asia/Tokyo",
        r#"{"name":"daily",[..]}"#,
    ),
    (
        &["schedule", "get", "daily"],
        "daily  active  next in [..] (2999-01-[..])
  cron           30 9 * * *
  time-zone      Asia/Tokyo
  start          2999-01-01 [..]
  overlap        skip
  missed         one
  next           2999-01-01T00:30:00Z  in [..] (2999-01-[..])
  next           2999-01-02T00:30:00Z  in [..] (2999-01-[..])
  next           2999-01-03T00:30:00Z  in [..] (2999-01-[..])
  runs           0 fired, 0 overlapped, 0 missed
  revision       1
  job            {\"topic\":\"report\",\"body\":{\"n\":  1.0}}",
        r#"{"name":"daily",[..]}"#,
    ),
    (
        &["schedule", "next", "daily", "--count", "2"],
        "2999-01-01T00:30:00Z  in [..]\n2999-01-02T00:30:00Z  in [..]",
        r#"{"next":["2999-01-01T00:30:00.000Z","2999-01-02T00:30:00.000Z"],"clock_changes":[]}"#,
    ),
    (
        &["schedule", "pause", "daily"],
        "daily  paused",
        r#"{"name":"daily",[..]"revision":2,"state":"paused",[..]}"#,
    ),
    (
        &["schedule", "resume", "daily"],
        "daily  active  next in [..]",
        r#"{"name":"daily",[..]"revision":3,"state":"active",[..]}"#,
    ),
    (
        &["schedule", "run", "daily", "--id", "mine"],
        "run:daily:mine  ready  due [..] ago",
        r#"{"id":"run:daily:mine","topic":"report","state":"ready",[..]"body":{"n":  1.0}}"#,
    ),
    (
        &["schedule", "run", "daily", "--id", "mine"],
        "run:daily:mine  ready  due [..] ago  (was there already)",
        r#"{"id":"run:daily:mine",[..]}"#,
    ),
    (&["schedule", "delete", "daily"], "daily  deleted", r#"{"status":204,"name":"daily"}"#),
    (&["schedule", "list"], "NAME  STATE  NEXT  TOPIC  WHEN", ""),
    (&["get", "run:daily:mine", "--body"], "{\"n\":  1.0}", "{\"n\":  1.0}"),
    (
        &["topic", "set", "alerts", "--dedup", "1h"],
        "TOPIC[..]\nalerts[..]\n  dedup            1h",
        r#"{"topic":"alerts",[..]"dedup":3600}}"#,
    ),
    (
        &["add", "alerts", "1", "--id", "n", "--delay", "1h"],
        "n  delayed  due in 1h[..]",
        r#"{"id":"n",[..]}"#,
    ),
    (
        &["add", "alerts", "2", "--id", "n", "--replace", "--revision", "2"],
        "n  ready  due [..]  (replaced an older version)",
        r#"{"id":"n",[..]"revision":2,[..]"kind":"replaced"[..]"body":2}"#,
    ),
    (
        &["add", "alerts", "2", "--id", "n", "--replace", "--revision", "2"],
        "n  ready  due [..] ago  (was there already)",
        r#"{"id":"n",[..]}"#,
    ),
    (&["pop", "alerts"], "n  [..]\n2", r#"{"id":"n",[..]"revision":2,[..]}"#),
    (&["finish", "n"], "n  finished", r#"{"status":204,"id":"n"}"#),
    (
        &["add", "alerts", "2", "--id", "n", "--replace", "--revision", "2"],
        "n  finished [..] ago  (was finished before; nothing was added)",
        r#"{"id":"n","topic":"alerts","state":"finished",[..]}"#,
    ),
];

/// The first text behind `before` that consists of the characters of ids.
fn word_after(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    Some(rest.chars().take_while(|&c| is_legal(c)).collect())
}

fn run_steps(cli: &Cli, steps: &[Step], form: &str) {
    let (mut receipt, mut id) = (String::new(), String::new());
    for (words, text, json) in steps {
        let mut line: Vec<&str> = words.to_vec();
        for word in &mut line {
            match *word {
                "RECEIPT" => *word = &receipt,
                "ID" => *word = &id,
                _ => {}
            }
        }
        line.push(form);
        let printed = cli.succeed(&line);
        let expected = if form == "--text" { text } else { json };
        assert!(matches(expected, &printed), "{line:?} printed\n{printed}\nin place of\n{expected}");
        let found = ["  receipt ", "\"receipt\":\""].iter().find_map(|before| word_after(&printed, before));
        if let Some(found) = found {
            receipt = found;
            let before = if form == "--text" { "" } else { "{\"id\":\"" };
            id = word_after(&printed, before).expect("a job has an id");
        }
    }
}

/// Runs all parts against new servers, in both forms.
fn run_session(start: impl Fn() -> Cli) {
    for form in ["--text", "--json"] {
        let cli = start();
        run_steps(&cli, JOB, form);
        let lines = "{\"body\":7}\n\n{\"id\":\"b\",\"topic\":\"news\",\"delay\":\"1h\"}\r\n{\"body\":7}";
        std::fs::write(cli.home.path().join("jobs.jsonl"), lines).expect("can be written");
        run_steps(&cli, TOPICS, form);
        run_steps(&cli, SCHEDULES, form);
        assert!(cli.server.stop().success());
    }
}

#[test]
fn every_command_prints_what_it_did_on_the_embedded_engine() {
    run_session(Cli::start);
}

#[test]
fn every_command_prints_what_it_did_on_redis() {
    run_session(|| {
        let variables = [("LINGER__REDIS__PREFIX", &*fresh_prefix())];
        Cli::start_with(&["--store", "redis", "--redis-url", &shared().url()], &variables)
    });
}

#[test]
fn setting_one_value_of_a_topic_keeps_the_others() {
    let cli = Cli::start_with(&[], &[("LINGER__CALLBACKS__ALLOW_NETWORKS", "public")]);
    let callback =
        r#"{"url":"https://shop.example/hook","headers":{"x-key":"s3cret"},"timeout":"5s","rate":2.5}"#;
    let settings = format!(r#"{{"ttr":"60s","retry":["250ms","1d"],"callback":{callback}}}"#);
    assert_eq!(cli.server.call("PUT", "/topics/mail", &settings).status, 200);
    let present = || cli.server.call("GET", "/topics/mail", "").json()["settings"].clone();
    let mut expected = present();
    assert_eq!(expected["callback"]["headers"]["x-key"], "[hidden]");
    cli.succeed(&["topic", "set", "mail", "--ttr", "90s"]);
    expected["ttr"] = 90.into();
    assert_eq!(present(), expected);
    assert!(cli.server.stop().success());
}

#[test]
fn without_a_terminal_the_output_is_json() {
    let cli = Cli::start();
    let printed = cli.succeed(&["add", "mail", "--id", "a"]);
    assert!(printed.starts_with("{\"id\":\"a\",") && printed.ends_with("\"body\":null}\n"), "{printed}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_body_comes_back_byte_for_byte() {
    let cli = Cli::start();
    let path = cli.home.path().join("body.json");
    let body = "{\n  \"n\": 12345678901234567890.10,\r\n  \"text\": \"\\u00e9é\u{9b}\"\n}";
    std::fs::write(&path, format!("\n{body}\n")).expect("can be written");
    let added = cli.succeed(&["add", "mail", "@body.json", "--id", "a"]);
    assert_eq!(added.lines().count(), 1, "line breaks of the body are blanks here: {added}");
    assert_eq!(cli.succeed(&["get", "a", "--body"]), body);
    let mut command = cli.command(&["add", "mail", "-", "--raw", "--id", "b"]);
    command.stdin(std::fs::File::open(&path).expect("can be opened"));
    assert_eq!(super::ended(command).code, Some(0));
    let text = serde_json::Value::from(format!("\n{body}\n"));
    assert_eq!(cli.job("b").expect("is there")["body"], text);
    assert!(cli.succeed(&["add", "mail", "-1.50", "--id", "c"]).contains("\"body\":-1.50}"));
    assert!(cli.server.stop().success());
}

#[test]
fn a_job_gets_a_callback_of_its_own() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a", "--delay", "1h", "--callback", "http://127.0.0.1:8080/hook"]);
    assert_eq!(cli.job("a").expect("is there")["callback"]["url"], "http://127.0.0.1:8080/hook");
    assert!(cli.server.stop().success());
}
