//! Calls for many jobs at once, and patches.

use serde_json::{Value, json};

use super::{Language, Program, Site, heartbeats::hand_out, in_each_language};
use crate::examples::scripted::ScriptedServer;

in_each_language! {
    each_job_of_a_batch_has_its_own_result,
    an_answer_of_something_else_to_a_batch_is_none,
    a_patch_changes_what_it_has_and_no_more,
}

fn each_job_of_a_batch_has_its_own_result(language: Language) {
    let site = Site::new();
    let ids = ["a", "b", "c"];
    ids.into_iter().for_each(|id| site.add(id, "x", json!({})));
    let mut program = Program::start(language, &site.server.url(), &["many"]);
    program.wait_for(&json!({ "touched": ["done", "done", "done", "lease_lost"] }));
    let hour = |job: &Value, name: &str| job[name].as_str().expect("is a moment")[..13].to_owned();
    for job in ids.map(|id| site.server.job(id)) {
        assert_ne!(
            hour(&job, "reserved_at"),
            hour(&job, "reserved_until"),
            "the touch was for an hour: {job}"
        );
    }
    program.send("go on");
    let lines = program.ends();
    let done = json!(["done"]);
    assert_eq!(
        lines[1..],
        [
            json!({ "buried": done }),
            json!({ "released": done }),
            json!({ "released": done }),
            json!({ "late": ["lease_lost", "lease_lost", "lease_lost"] }),
        ]
    );
    let found = ids.map(|id| site.server.job(id));
    for (state, reason) in [("dead", "no such order"), ("delayed", "later"), ("delayed", "in 2100")] {
        let job = found.iter().find(|job| job["reason"] == reason);
        assert_eq!(job.expect("each has its reason")["state"], state, "{reason}");
    }
    assert!(found.iter().any(|job| job["due_at"] == "2100-01-01T00:00:00.000Z"), "{found:#?}");
}

/// It is sent again.
fn an_answer_of_something_else_to_a_batch_is_none(language: Language) {
    let server = ScriptedServer::new();
    let program = Program::start(language, &server.url(), &["many"]);
    hand_out(server.next(), 0..3);
    let done = json!({ "status": 200 });
    for results in [json!("<html>"), json!([done]), json!([{ "status": 200, "id": "x" }, done, done, done])] {
        let touch = server.next();
        assert_eq!(touch.line, "POST /batch/touch", "{results}");
        touch.respond(200, &json!({ "results": results }).to_string());
    }
    server.next().respond(200, &json!({ "results": [done, done, done, done] }).to_string());
    program.wait_for(&json!({ "touched": ["done", "done", "done", "done"] }));
}

fn a_patch_changes_what_it_has_and_no_more(language: Language) {
    let site = Site::new();
    site.add("a", "x", json!({ "delay": "1h" }));
    let lines = Program::start(language, &site.server.url(), &["patches"]).ends();
    let mut job = json!({
        "state": "delayed", "ttr": 90.5, "max_attempts": 3, "body": r#"{"n": 1e400}"#, "expires": null, "at": true,
    });
    assert_eq!(lines[0], job);
    job["expires"] = json!(3600.5);
    assert_eq!(lines[1], job);
    job["expires"] = json!(null);
    job["body"] = json!("null");
    assert_eq!(lines[2], job);
    for (name, value) in [("state", json!("ready")), ("max_attempts", json!(0)), ("at", json!(false))] {
        job[name] = value;
    }
    assert_eq!(lines[3..], [job, json!({ "code": "invalid_job" })], "and a patch without a field");
    let stored = site.server.job("a");
    assert_eq!(
        (&stored["ttr"], &stored["retry"], &stored["body"]),
        (&json!(90.5), &json!(null), &json!(null))
    );
}
