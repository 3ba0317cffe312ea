//! Answers that are not Linger's, such as the page of a proxy: neither a success nor a refusal, whatever their status.

use serde_json::{Value, json};

use super::{Language, Program, events, heartbeats::LASTING, in_each_language};
use crate::examples::scripted::ScriptedServer;

in_each_language! {
    a_success_of_something_else_is_no_success,
    an_error_of_something_else_is_temporary,
    a_batch_of_something_else_is_no_success,
    a_call_that_is_not_sent_again_names_an_answer_of_something_else,
    a_worker_goes_on_after_answers_of_something_else,
    a_report_is_sent_again_after_answers_of_something_else,
    a_report_is_given_up_when_its_reservation_ends,
}

const PAGE: &str = "<html>Welcome to the hotel</html>";

/// What an error says about an answer of something else.
const FOREIGN: &str = "did not come from Linger";

/// A job as the server shows it, with more members.
pub fn job(id: &str, more: Value) -> Value {
    let mut job = json!({
        "id": id, "topic": "t", "state": "ready", "created_at": "2026-11-21T05:40:00.000Z",
        "due_at": "2026-11-21T05:40:00.000Z", "ttr": 60, "attempts": 0, "max_attempts": 16, "body": null,
    });
    job.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    job
}

/// The answer to a pop that gets the job `a`.
fn popped(more: Value) -> String {
    let mut job = job(
        "a",
        json!({ "state": "reserved", "reserved_until": "2026-11-21T05:41:00.000Z", "receipt": "r", "late": 0 }),
    );
    job.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ "jobs": [job] }).to_string()
}

fn problem(status: u16) -> String {
    let code = "unauthorized";
    json!({ "type": "about:blank", "title": "t", "status": status, "code": code, "detail": "d" }).to_string()
}

/// The id of the job that an add adds.
pub fn added_id(body: &str) -> String {
    let body: Value = serde_json::from_str(body).expect("is JSON");
    body["id"].as_str().expect("has an id").to_owned()
}

/// Pages, other statuses, other jobs and parts of jobs.
fn a_success_of_something_else_is_no_success(language: Language) {
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["add"]);
    program.send("{}");
    let request = server.next();
    let id = added_id(&request.body);
    let whole = job(&id, json!({})).to_string();
    request.respond(200, PAGE);
    server.next().respond(204, "");
    server.next().respond(202, &whole);
    server.next().respond(201, &job("another", json!({})).to_string());
    server.next().respond(201, &json!({ "id": id, "body": null }).to_string());
    server.next().respond(201, &whole);
    assert_eq!(program.ends(), [json!({ "id": id, "replayed": false, "body": "null" })]);
    assert!(server.receives_nothing_more());
}

fn an_error_of_something_else_is_temporary(language: Language) {
    let pages = [302, 400, 401, 403, 404, 405, 413, 503].map(|status| (status, PAGE.to_owned()));
    let documents = [json!({ "code": 403 }), json!({ "code": "forbidden", "message": "maintenance" })];
    for (status, body) in pages.into_iter().chain(documents.map(|document| (403, document.to_string()))) {
        let server = ScriptedServer::new();
        let mut program = Program::start(language, &server.url(), &["add"]);
        program.send("{}");
        server.next().respond(status, &body);
        let request = server.next();
        let id = added_id(&request.body);
        request.respond(201, &job(&id, json!({})).to_string());
        let lines = program.ends();
        assert_eq!(lines, [json!({ "id": id, "replayed": false, "body": "null" })], "{status} {body}");
    }
}

fn a_batch_of_something_else_is_no_success(language: Language) {
    let results = |result: Value| json!({ "results": vec![result; 3] }).to_string();
    for body in [
        PAGE.to_owned(),
        json!({ "results": [{ "status": 201 }] }).to_string(),
        results(json!({ "status": 204 })),
        results(json!({ "status": 201, "id": "another" })),
        results(json!({ "status": 422, "problem": { "code": 422 } })),
    ] {
        let server = ScriptedServer::new();
        let mut program = Program::start(language, &server.url(), &["add-many"]);
        server.next().respond(200, &body);
        server.next().respond(200, &results(json!({ "status": 201 })));
        let lines = program.ends();
        assert!(lines.iter().all(|line| line["failed"].is_null()), "{body}: {lines:#?}");
    }
}

/// A pop whose answer may be lost is not sent again. What refuses it in the server's place has not passed it on.
fn a_call_that_is_not_sent_again_names_an_answer_of_something_else(language: Language) {
    let not_reserved = json!({ "jobs": [job("a", json!({}))] }).to_string();
    for (status, body) in [
        (200, PAGE),
        (204, ""),
        (502, PAGE),
        (200, r#"{"jobs":{}}"#),
        (200, r#"{"jobs":[{"id":"a","body":1}]}"#),
        (200, r#"{"jobs":[]}<!-- from a cache -->"#),
        (200, not_reserved.as_str()),
    ] {
        let server = ScriptedServer::new();
        let mut program = Program::start(language, &server.url(), &["pop"]);
        server.next().respond(status, body);
        let lines = program.ends();
        let text = lines[0]["failed"]["text"].as_str().unwrap_or_default();
        assert!(text.contains(FOREIGN) && text.contains(&status.to_string()), "{status} {body}: {lines:#?}");
        assert!(server.receives_nothing_more());
    }
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["pop"]);
    server.next().respond(403, PAGE);
    server.next().respond(200, r#"{"jobs":[]}"#);
    assert_eq!(program.ends(), [json!({ "jobs": 0 })]);
}

/// Until the server itself refuses the token.
fn a_worker_goes_on_after_answers_of_something_else(language: Language) {
    let server = ScriptedServer::new();
    let mut worker = Program::worker(language, &server.url());
    let mut expected = Vec::new();
    let pages = [200, 302, 400, 401, 403, 404, 405, 413, 502].map(|status| (status, PAGE.to_owned()));
    // The last one has another status than the answer that it is in.
    let documents = [json!({ "code": 401 }).to_string(), problem(403)];
    for (status, body) in pages.into_iter().chain(documents.map(|document| (401, document))) {
        server.next().respond(status, &body);
        let poll = server.next();
        assert_eq!(poll.line, "POST /batch/pop", "{status} {body}");
        poll.respond(200, r#"{"jobs":[]}"#);
        expected.extend(["away -", "back -"]);
        worker.wait_for_number(expected.len() / 2, &json!({ "event": "back" }));
    }
    server.next().respond(401, &problem(401));
    let lines = worker.ends();
    assert_eq!(events(&lines), expected);
    let mut away = lines.iter().filter(|line| line["event"] == "away");
    let is_named = |line: &Value| line["error"]["text"].as_str().is_some_and(|text| text.contains(FOREIGN));
    assert!(away.all(is_named), "{lines:#?}");
    assert_eq!(lines.last().map(|line| &line["ended"]["code"]), Some(&json!("unauthorized")));
}

fn a_report_is_sent_again_after_answers_of_something_else(language: Language) {
    let server = ScriptedServer::new();
    let worker = Program::worker(language, &server.url());
    server.next().respond(200, &popped(json!({})));
    for (status, body) in [(403, PAGE), (404, PAGE), (200, PAGE), (401, r#"{"code":401}"#), (204, "")] {
        let report = server.next();
        assert_eq!(report.line, "POST /jobs/a/finish", "before {status} {body}");
        report.respond(status, body);
    }
    let poll = server.next();
    assert_eq!(poll.line, "POST /batch/pop");
    let lines = worker.stop();
    assert_eq!(events(&lines), [""; 0], "{lines:#?}");
}

/// Then the worker takes the next job.
fn a_report_is_given_up_when_its_reservation_ends(language: Language) {
    let server = ScriptedServer::new();
    let worker = Program::worker(language, &server.url());
    // Long enough for two reports, also on a machine that stands still.
    server.next().respond(200, &popped(json!({ "ttr": LASTING })));
    let mut reports = 0;
    let _poll = loop {
        let request = server.next();
        if request.line == "POST /batch/pop" {
            break request;
        }
        assert_eq!(request.line, "POST /jobs/a/finish");
        reports += 1;
        request.respond(403, PAGE);
    };
    assert!(reports > 1, "{reports}");
    let lines = worker.stop();
    assert_eq!(events(&lines), ["unanswered a"], "{lines:#?}");
}
