//! The calls of a client: their repeats, their errors, and bodies that are kept byte for byte.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Language, Program, Site, TOKEN,
    foreign::{added_id, job},
    in_each_language, serve_tls,
};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{proxy::Proxy, wait::TimeLimit},
};

in_each_language! {
    every_call_works,
    an_add_whose_answer_is_lost_makes_one_job,
    a_batch_whose_answer_is_lost_makes_each_job_once,
    a_requeue_whose_answer_is_lost_has_happened,
    a_body_is_kept_byte_for_byte,
    a_late_finish_is_told,
    an_add_waits_as_long_as_the_server_asks_for,
    an_add_is_not_sent_again_after_a_refusal,
    an_add_is_not_sent_again_after_its_time,
    an_answer_that_is_cut_off_is_no_success,
    a_certificate_is_checked,
}

fn every_call_works(language: Language) {
    let site = Site::new();
    let mut program = Program::start(language, &site.server.url(), &["calls"]);
    program.wait_for(&json!({ "touched": "a:+=@~" }));
    let job = site.server.job("a:+=@~");
    assert_eq!((&job["state"], &job["reserved_by"]), (&json!("reserved"), &json!("w 1")));
    assert_eq!((&job["ttr"], &job["retry"]), (&json!(90.5), &json!([3600, 5400])));
    assert_eq!(job["note"], "3 of 7", "the touch without a note has kept it");
    let hour = |name: &str| job[name].as_str().expect("is a moment")[..13].to_owned();
    assert_ne!(hour("reserved_at"), hour("reserved_until"), "the touch was for an hour");
    program.send("go on");
    program.wait_for(&json!({ "buried": "a:+=@~" }));
    let job = site.server.job("a:+=@~");
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("no such order")));
    let history = job["history"].as_array().expect("has attempts");
    let reasons: Vec<_> = history.iter().filter_map(|event| event["reason"].as_str()).collect();
    assert_eq!(reasons, ["later", "much later", "in 2100", "no such order"]);
    program.send("go on");
    let lines = program.ends();
    assert!(site.server.job("a:+=@~").is_null());
    // What each call returned, in the order of the calls in the program.
    let added = |replayed| json!({ "id": "a:+=@~", "replayed": replayed, "state": "delayed", "ttr": 90.5, "expires": 604_800.5 });
    assert_eq!(lines[..2], [added(false), added(true)], "add, and the same add again");
    let other = &lines[2]["other"];
    assert_eq!((&other["status"], &other["code"]), (&json!(409), &json!("job_exists")), "add another body");
    assert_eq!(lines[3], json!({ "at": true }), "reschedule to a moment");
    assert_eq!(
        lines[4],
        json!({ "state": "ready", "body": r#"{"n":1}"#, "max_attempts": 0 }),
        "reschedule, get"
    );
    assert_eq!(lines[5], json!({ "missing": "job_not_found" }), "get a job that is not there");
    assert_eq!(lines[6], json!({ "jobs": 0 }), "pop from an empty topic");
    assert_eq!(lines[7], json!({ "touched": "a:+=@~" }), "pop and touch");
    assert_eq!(lines[8]["kept"]["code"], "job_reserved", "delete unless reserved");
    assert_eq!(lines[9], json!({ "reason": "later", "note": "3 of 7", "noted": true }), "release");
    assert_eq!(lines[10], json!({ "at": true }), "release until a moment");
    assert_eq!(lines[11], json!({ "buried": "a:+=@~" }), "bury");
    assert_eq!(lines[12], json!({ "state": "delayed", "at": true }), "requeue at a moment");
    assert_eq!(lines[13..], [json!({ "cancelled": true }), json!({ "cancelled": false })], "delete, twice");
}

fn an_add_whose_answer_is_lost_makes_one_job(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    proxy.lose_response("/jobs");
    let mut program = Program::start(language, &proxy.url(), &["add"]);
    program.send("{}");
    let added = program.ends().remove(0);
    assert_eq!((proxy.lost(), &added["replayed"]), (1, &json!(true)), "{added}");
    assert_eq!(site.counts()["ready"], 1);
    assert_eq!(site.server.job(added["id"].as_str().expect("has an id"))["state"], "ready");
}

fn a_requeue_whose_answer_is_lost_has_happened(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    site.server.call("POST", "/jobs", r#"{"topic":"t","id":"a"}"#);
    let held: Value =
        serde_json::from_str(&site.server.call("GET", "/topics/t/pop", "").body).expect("is JSON");
    let receipt = json!({ "receipt": held["receipt"] }).to_string();
    assert_eq!(site.server.call("POST", "/jobs/a/bury", &receipt).status, 200);
    proxy.lose_response("/jobs/a/requeue");
    let requeued = Program::start(language, &proxy.url(), &["requeue"]).ends().remove(0);
    assert_eq!((proxy.lost(), requeued), (1, json!({ "state": "ready" })));
}

fn a_batch_whose_answer_is_lost_makes_each_job_once(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    proxy.lose_response("/batch/jobs");
    let lines = Program::start(language, &proxy.url(), &["add-many"]).ends();
    assert_eq!(proxy.lost(), 1);
    let replayed: Vec<_> = lines.iter().map(|line| &line["replayed"]).collect();
    assert_eq!(replayed, [&json!(true), &json!(false), &json!(true)]);
    let codes: Vec<_> = lines.iter().map(|line| &line["failed"]["code"]).collect();
    assert_eq!(codes, [&json!(null), &json!("invalid_job"), &json!(null)]);
    assert_eq!(site.counts()["ready"], 2);
    for (line, body) in [(&lines[0], json!(1)), (&lines[2], json!("two"))] {
        assert_eq!(site.server.job(line["id"].as_str().expect("has an id"))["body"], body);
    }
}

/// With numbers, spaces and escapes that few readers of JSON keep.
fn a_body_is_kept_byte_for_byte(language: Language) {
    let site = Site::new();
    let digits = "9".repeat(5_000);
    let body =
        format!(r#"{{"n":12345678901234567890.10,  "b" : [1e400,-0.0, {digits}], "s":"\u00e9<&>\/é"}}"#);
    let mut program = Program::start(language, &site.server.url(), &["add"]);
    program.send(&body);
    let added = program.ends().remove(0);
    let stored =
        site.server.call("GET", &format!("/jobs/{}", added["id"].as_str().expect("has an id")), "").body;
    assert!(stored.contains(&format!("\"body\":{body}")), "{stored}");
    assert_eq!(added["body"], *body);
    let worker = Program::worker(language, &site.server.url());
    assert_eq!(worker.wait_for(&json!({ "runs": added["id"] }))["body"], *body);
    worker.stop();
    assert_eq!(site.counts(), json!(null), "it is finished");
}

fn a_late_finish_is_told(language: Language) {
    let site = Site::new();
    site.add("a", "", json!({ "ttr": 1 }));
    let mut program = Program::start(language, &site.server.url(), &["late"]);
    program.wait_for(&json!({ "popped": "a" }));
    site.server.wait_for_state("a", &json!("delayed"));
    // Otherwise the finish would still count.
    assert_eq!(site.server.call("PATCH", "/jobs/a", r#"{"ttr":60}"#).status, 200);
    program.send("go on");
    let failed = program.ends().remove(1)["failed"].take();
    assert_eq!((&failed["status"], &failed["code"]), (&json!(409), &json!("lease_lost")), "{failed}");
    assert_eq!(failed["type"], "about:blank");
    for name in ["detail", "request_id"] {
        assert!(failed[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {failed}");
    }
    assert!(failed["text"].as_str().is_some_and(|text| text.contains("lease_lost")), "{failed}");
    assert_eq!(site.server.job("a")["state"], "delayed", "the finish changed nothing");
}

pub fn problem(status: u16, code: &str) -> String {
    json!({ "type": "about:blank", "title": "t", "status": status, "code": code, "detail": "d" }).to_string()
}

fn an_add_waits_as_long_as_the_server_asks_for(language: Language) {
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["add"]);
    program.send("{}");
    let mut first = None;
    for status in [503, 429, 422] {
        let request = server.next();
        assert_eq!(request.line, "POST /jobs");
        let (body, received_us) =
            first.get_or_insert((request.body.clone(), request.received_us - 1_000_000));
        assert_eq!(*body, request.body, "a repeat is the same add");
        assert!(request.received_us - *received_us >= 1_000_000, "{status} came too early");
        *received_us = server.now_us();
        request.respond_with(status, "retry-after: 1\r\n", &problem(status, "x"));
    }
    assert_eq!(program.ends().remove(0)["failed"]["status"], 422);
    assert!(server.receives_nothing_more());
}

fn an_add_is_not_sent_again_after_a_refusal(language: Language) {
    let server = ScriptedServer::new();
    // A slash at the end of the URL is a common mistake.
    let mut program = Program::start(language, &format!("{}/", server.url()), &["add"]);
    program.send("{}");
    let request = server.next();
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    request.respond(401, &problem(401, "unauthorized"));
    let failed = program.ends().remove(0)["failed"].take();
    assert_eq!((&failed["status"], &failed["code"]), (&json!(401), &json!("unauthorized")));
    assert!(server.receives_nothing_more());
}

/// A program that was stopped during a pause tells of the answer before it.
fn an_add_is_not_sent_again_after_its_time(language: Language) {
    const TIMEOUT_US: i64 = 10_000_000;
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["add"]);
    program.send("{}");
    let request = server.next();
    let ends_us = request.received_us + TIMEOUT_US;
    request.respond_until_read(503, "retry-after: 9\r\n", &problem(503, "x"));
    program.signal(Signal::STOP);
    let time_limit = TimeLimit::new();
    while server.now_us() < ends_us {
        time_limit.check(|| "time stands still".to_owned());
        time_limit.pause_thread();
    }
    program.signal(Signal::CONT);
    assert_eq!(program.ends().remove(0)["failed"]["status"], 503);
    assert!(server.receives_nothing_more());
}

fn an_answer_that_is_cut_off_is_no_success(language: Language) {
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["add"]);
    program.send("{}");
    let request = server.next();
    let id = added_id(&request.body);
    let whole = job(&id, json!({})).to_string();
    request.cut_off(201, &whole);
    server.next().close();
    server.next().respond(201, &whole);
    assert_eq!(program.ends(), [json!({ "id": id, "replayed": false, "body": "null" })]);
    assert!(server.receives_nothing_more());
}

fn a_certificate_is_checked(language: Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let (_server, url) = serve_tls(directory.path());

    let mut program = Program::start(language, &url, &["add"]);
    program.send("{}");
    let failed = program.ends().remove(0)["failed"].take();
    assert_eq!((&failed["no_answer"], &failed["unsent"]), (&json!(true), &json!(true)), "{failed}");

    let trusted = directory.path().join("cert.pem");
    let start = |case| Program::start_with(language, &url, &[case], &[("SSL_CERT_FILE", &trusted)]);
    let worker = start("worker");
    let mut program = start("add");
    program.send("{}");
    let id = program.ends().remove(0)["id"].take();
    worker.wait_for(&json!({ "returns": id }));
    // A poll over TLS is dropped, too.
    worker.stop();
}
