//! Jobs that expire, with the default settings of a server.

use super::Cli;
use crate::harness::wait::TimeLimit;

/// Waits until a job is a dead letter, and returns why.
fn reason(cli: &Cli, id: &str) -> String {
    let time_limit = TimeLimit::new();
    loop {
        let job = cli.job(id).expect("is there");
        if job["state"] == "dead" {
            return job["reason"].as_str().expect("has a reason").to_owned();
        }
        time_limit.check(|| job.to_string());
        time_limit.pause_thread();
    }
}

#[test]
fn a_job_expires_and_is_requeued_on_purpose() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a", "--expire", "10ms"]);
    cli.succeed(&["add", "mail", "--id", "b", "--expire", "10ms"]);
    assert_eq!([reason(&cli, "a"), reason(&cli, "b")], ["expired", "expired"]);
    let refused = cli.run(&["dead", "requeue", "mail", "a"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("job_expired"), "{refused:?}");
    let skipped = cli.succeed(&["dead", "requeue", "mail", "--all", "--text"]);
    assert_eq!(skipped, "0 requeued, 2 changed meanwhile or have expired\n");
    cli.succeed(&["dead", "requeue", "mail", "a", "--clear-expire"]);
    let requeued = cli.succeed(&["dead", "requeue", "mail", "--all", "--expire", "1h", "--text"]);
    assert_eq!(requeued, "1 requeued\n");
    let [a, b] = ["a", "b"].map(|id| cli.job(id).expect("is there"));
    assert_eq!((&a["state"], a["expires_at"].is_null()), (&b["state"], true));
    assert!(b["expires_at"].is_string(), "{b}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_job_that_is_deleted_at_its_expiry_is_told_so() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a", "--expire", "10ms", "--on-expiry", "delete"]);
    let time_limit = TimeLimit::new();
    while cli.job("a").is_some() {
        time_limit.check(String::new);
        time_limit.pause_thread();
    }
    let gone = cli.run(&["get", "a"]);
    assert_eq!(gone.code, Some(3), "{gone:?}");
    assert!(gone.stderr.contains("this job expired and was deleted at 2"), "{gone:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_job_gets_another_expiry_with_or_without_another_due_time() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a", "--at", "2100-01-01T00:00:00Z"]);
    let expires_at = |arguments: &[&str]| {
        cli.succeed(&[&["reschedule", "a"], arguments].concat());
        cli.job("a").expect("is there")["expires_at"].clone()
    };
    assert_eq!(expires_at(&["--expire", "5m"]), "2100-01-01T00:05:00.000Z");
    assert_eq!(expires_at(&["--at", "2100-01-01T01:00:00Z"]), "2100-01-01T01:05:00.000Z");
    assert_eq!(expires_at(&["--at", "2100-01-01T02:00:00Z", "--expire", "1m"]), "2100-01-01T02:01:00.000Z");
    assert!(expires_at(&["--clear-expire"]).is_null());
    for wrong in [&["reschedule", "a"][..], &["reschedule", "a", "--expire", "5m", "--clear-expire"]] {
        assert_eq!(cli.run(wrong).code, Some(2), "{wrong:?}");
    }
    let early = cli.run(&["reschedule", "a", "--expire", "2099-01-01T00:00:00Z"]);
    assert_eq!(early.code, Some(2), "{early:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_topic_gives_its_jobs_an_expiry_until_it_is_unset() {
    let cli = Cli::start();
    let topic = cli.succeed(&["topic", "set", "mail", "--expire", "5m", "--on-expiry", "delete", "--text"]);
    assert!(topic.contains("expire           5m") && topic.contains("on-expiry        delete"), "{topic}");
    cli.succeed(&["add", "mail", "--id", "a"]);
    cli.succeed(&["add", "mail", "--id", "b", "--expire", "2100-01-01T00:00:00Z", "--on-expiry", "dead"]);
    let [a, b] = ["a", "b"].map(|id| cli.job(id).expect("is there"));
    assert_eq!((&a["on_expiry"], &b["on_expiry"]), (&"delete".into(), &"dead".into()));
    assert_eq!(b["expires_at"], "2100-01-01T00:00:00.000Z");
    assert!(cli.succeed(&["get", "b", "--text"]).contains("expires   2100-"));
    cli.succeed(&["topic", "set", "mail", "--unset", "expire,on-expiry"]);
    cli.succeed(&["add", "mail", "--id", "c"]);
    assert!(cli.job("c").expect("is there")["expires_at"].is_null());
    for words in
        [&["--expire", "soon"][..], &["--on-expiry", "dead"], &["--expire", "1h", "--on-expiry", "bury"]]
    {
        let refused = cli.run(&[&["add", "mail"], words].concat());
        assert_eq!(refused.code, Some(2), "{words:?}: {refused:?}");
    }
    assert!(cli.server.stop().success());
}
