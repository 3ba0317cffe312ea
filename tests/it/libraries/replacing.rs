//! Adds that replace a job, holders of a job that was replaced, and adds of jobs that have ended.

use serde_json::{Value, json};

use super::{
    Language, Program, Site, calls::problem, events, foreign::job, heartbeats::LASTING, in_each_language,
};
use crate::{examples::scripted::ScriptedServer, harness::proxy::Proxy};

in_each_language! {
    an_add_says_what_it_did_to_an_older_version,
    a_replacement_without_a_revision_is_not_sent_again,
    a_replacement_with_a_revision_is_sent_again,
    a_replacement_without_a_revision_is_sent_again_if_it_cannot_have_happened,
    holders_of_a_replaced_job_are_told,
    a_heartbeat_of_a_replaced_job_stops_its_handler,
    an_end_of_a_replaced_job_comes_too_late,
    an_add_of_a_job_that_has_ended_is_a_repeat,
}

fn an_add_says_what_it_did_to_an_older_version(language: Language) {
    let site = Site::new();
    let lines = Program::start(language, &site.server.url(), &["versions"]).ends();
    let version = |body: &str, revision: Value, replayed: bool, replaced: bool| json!({ "id": "a", "body": body, "revision": revision, "replayed": replayed, "replaced": replaced });
    assert_eq!(
        lines[..6],
        [
            version("first", json!(5), false, false),
            version("first", json!(5), true, false),
            json!({ "code": "stale_revision", "revision": 5 }),
            version("second", json!(6), false, true),
            version("third", json!(null), false, true),
            json!({ "got": null }),
        ]
    );
    assert_eq!(lines[6]["unnamed"], "invalid_job", "no id is made for a job that replaces another");
    let detail = lines[6]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("/if_exists needs the id of the job"), "{detail}");
    let item = |id: &str, replayed: bool, replaced: bool, error: Value| json!({ "id": id, "replayed": replayed, "replaced": replaced, "error": error });
    assert_eq!(
        lines[7..],
        [
            item("a", false, true, json!(null)),
            item("b", false, false, json!(null)),
            item("a", true, false, json!(null)),
            item("a", false, false, json!({ "code": "stale_revision", "revision": 7 })),
        ]
    );
    assert_eq!(site.server.job("b")["revision"], 0, "the lowest one is sent, too");
}

/// How often the job `a` was replaced.
fn replacements(site: &Site) -> usize {
    let job = site.server.job("a");
    let history = job["history"].as_array().map_or(&[][..], Vec::as_slice);
    history.iter().filter(|event| event["kind"] == "replaced").count()
}

/// A late repeat would restore an older version.
fn a_replacement_without_a_revision_is_not_sent_again(language: Language) {
    let site = Site::new();
    for (way, path, times) in [("alone", "/jobs", 0), ("batch", "/batch/jobs", 1)] {
        let proxy = Proxy::start(site.server.address);
        proxy.lose_response(path);
        let lines = Program::start(language, &proxy.url(), &["replace-once", "", way]).ends();
        assert_eq!((proxy.lost(), lines), (1, vec![json!({ "failed": { "no_answer": true } })]), "{way}");
        assert_eq!(
            replacements(&site),
            times,
            "{way}: the first one made the job, the second one replaced it"
        );
    }
    // The server may have done it, and only then failed.
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["replace-once", "", "alone"]);
    server.next().respond(503, &problem(503, "unavailable"));
    assert_eq!(program.ends()[0]["failed"]["code"], "unavailable");
    assert!(server.receives_nothing_more());
}

fn a_replacement_with_a_revision_is_sent_again(language: Language) {
    for (way, path) in [("alone", "/jobs"), ("batch", "/batch/jobs")] {
        let site = Site::new();
        let proxy = Proxy::start(site.server.address);
        proxy.lose_response(path);
        let lines = Program::start(language, &proxy.url(), &["replace-once", "7", way]).ends();
        assert_eq!(proxy.lost(), 1, "{way}");
        assert!(lines.iter().all(|line| line["replayed"] == true && line["replaced"] == false), "{lines:?}");
        assert_eq!((&site.server.job("a")["revision"], replacements(&site)), (&json!(7), 0), "{way}");
    }
}

fn a_replacement_without_a_revision_is_sent_again_if_it_cannot_have_happened(language: Language) {
    for (status, code) in [(429, "too_many_requests"), (503, "not_begun")] {
        let server = ScriptedServer::new();
        let mut program = Program::start(language, &server.url(), &["replace-once", "", "alone"]);
        server.next().respond(status, &problem(status, code));
        let replaced = job("a", json!({ "body": 1 })).to_string();
        server.next().respond_with(200, "linger-replaced: true\r\n", &replaced);
        let lines = program.ends();
        assert_eq!(
            (&lines[0]["replaced"], &lines[0]["replayed"]),
            (&json!(true), &json!(false)),
            "{lines:?}"
        );
    }
}

/// Replaces a job of the topic `t`.
#[track_caller]
fn replace(site: &Site, id: &str) {
    let newer = json!({ "topic": "t", "id": id, "body": "newer", "if_exists": "replace" });
    let replaced = site.server.call("POST", "/jobs", &newer.to_string());
    assert_eq!((replaced.status, &replaced.json()["body"]), (200, &json!("newer")));
}

fn holders_of_a_replaced_job_are_told(language: Language) {
    let site = Site::new();
    let ids = ["a", "b", "c", "d"];
    ids.into_iter().for_each(|id| site.add(id, "older", json!({})));
    let mut program = Program::start(language, &site.server.url(), &["holder"]);
    program.wait_for(&json!({ "popped": ids }));
    ids.into_iter().for_each(|id| replace(&site, id));
    program.send("they are replaced");
    let lines = program.ends();
    let told = "job_replaced";
    assert_eq!(lines[1..5], [(); 4].map(|()| json!({ "touched": told })));
    let each = json!({ "touch": told, "finish": told, "release": told, "bury": told, "many": [told] });
    assert_eq!(lines[5..], [each]);
    assert_eq!(site.counts()["ready"], 4, "what they said is not about the newer versions");
}

/// The newer version is delivered once the handler has returned, before the TTR ends.
fn a_heartbeat_of_a_replaced_job_stops_its_handler(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({ "ttr": LASTING }));
    let mut worker = Program::worker(language, &site.server.url());
    worker.wait_for(&json!({ "runs": "a" }));
    replace(&site, "a");
    let lost = worker.wait_for(&json!({ "event": "lost", "id": "a" }));
    assert_eq!(lost["error"]["code"], "job_replaced");
    worker.wait_for(&json!({ "told": "a" }));
    worker.send("a");
    worker.wait_for(&json!({ "runs": "a", "body": "\"newer\"" }));
    site.server.wait_for_state("a", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["lost a"], "{lines:#?}");
    assert_eq!(site.server.metric("linger_jobs_timed_out_total{topic=\"t\"}"), None);
}

/// The first heartbeat, which would notice, is due only after 20 seconds.
fn an_end_of_a_replaced_job_comes_too_late(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker = Program::worker(language, &site.server.url());
    worker.wait_for(&json!({ "runs": "a" }));
    replace(&site, "a");
    worker.send("a");
    let late = worker.wait_for(&json!({ "event": "late", "id": "a" }));
    assert_eq!((&late["error"]["status"], &late["error"]["code"]), (&json!(409), &json!("job_replaced")));
    worker.wait_for(&json!({ "runs": "a", "body": "\"newer\"" }));
    site.server.wait_for_state("a", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["late a"], "{lines:#?}");
}

/// The server remembers its id, and no more of it than that.
fn an_add_of_a_job_that_has_ended_is_a_repeat(language: Language) {
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["ended"]);
    let mut answer = json!({ "id": "a", "topic": "t", "state": "finished" });
    // Without its end it is a part of a job, which the server would not send.
    server.next().respond_with(200, "idempotent-replayed: true\r\n", &answer.to_string());
    answer["ended"] = json!({ "how": "finished", "at": "2026-11-21T05:40:00.000Z" });
    server.next().respond_with(200, "idempotent-replayed: true\r\n", &answer.to_string());
    let result = json!({ "status": 200, "id": "a", "replayed": true, "ended": answer["ended"] });
    let results = json!({ "results": [result] });
    server.next().respond(200, &results.to_string());
    server.next().respond(409, &problem(409, "job_deleted"));
    assert_eq!(
        program.ends(),
        [
            json!({
                "id": "a", "topic": "t", "state": "finished", "replayed": true, "replaced": false, "attempts": 0, "ttr": 0,
                "has_due": false, "body": null, "raw": "", "how": "finished", "at": "2026-11-21T05:40:00.000Z",
            }),
            json!({ "id": "a", "replayed": true, "same_end": true, "error": null }),
            json!({ "code": "job_deleted" }),
        ]
    );
    assert!(server.receives_nothing_more());
}
