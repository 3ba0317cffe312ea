//! The examples against a server that refuses requests, cuts responses off and closes connections.

use super::{
    BASH, GO, JAVA_CLASSES, Language, NODE, PHP, PYTHON, Program, TOKEN,
    scripted::{Request, ScriptedServer},
};

/// The shortest pause of a worker after a poll that returned neither a job nor `204`.
const PAUSE_US: i64 = 1_000_000;

const POLL: &str = "GET /topics/work/pop?wait=20s";

fn job(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","topic":"work","receipt":"r-{id}","attempt":1,"ttr":60,"body":{{"of":"{id}","id":"a \"b","list":[1,{{"x":"}}"}}]}}}}"#
    )
}

fn problem(status: u16, code: &str) -> String {
    format!(r#"{{"type":"about:blank","title":"t","status":{status},"code":"{code}","detail":"the detail"}}"#)
}

/// Asserts that the next request is this one and has the token.
#[track_caller]
fn expect(server: &ScriptedServer, line: &str) -> Request {
    let request = server.next();
    assert_eq!(request.line, line);
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()), "{line}");
    request
}

fn finish(id: &str) -> String {
    format!("POST /jobs/{id}/finish?receipt=r-{id}")
}

#[track_caller]
fn assert_body(line: &str, id: &str) {
    let body: serde_json::Value = serde_json::from_str(line).expect("a body per line");
    assert_eq!(body["of"], id);
    assert_eq!(body["id"], "a \"b");
}

/// Answers polls with faults. After each, the worker must process no job, print an error, and pause before the next poll.
fn answer_polls_with_faults(server: &ScriptedServer, worker: &Program, silent_repeats: usize) {
    let whole = job("never");
    let faults: [(&str, &dyn Fn(Request)); 8] = [
        ("401", &|poll| poll.respond(401, &problem(401, "unauthorized"))),
        ("404", &|poll| poll.respond(404, &problem(404, "not_found"))),
        ("503", &|poll| poll.respond(503, &problem(503, "store_unavailable"))),
        ("cut off", &|poll| poll.cut_off(200, &whole)),
        ("no answer", &|poll| {
            poll.close();
            (0..silent_repeats).for_each(|_| expect(server, POLL).close());
        }),
        ("HTML", &|poll| poll.respond(200, "<html>Welcome to the hotel</html>")),
        ("no job", &|poll| poll.respond(200, "{}")),
        ("null", &|poll| poll.respond(200, "null")),
    ];
    let mut answered_us = None;
    let mut paused = |what: &str, received_us: i64, answered: Option<i64>| {
        if let Some(since) = answered_us {
            assert!(received_us - since >= PAUSE_US, "no pause before {what}");
        }
        answered_us = answered;
    };
    for (what, answer) in faults {
        let lines = worker.errors().lines().count();
        let poll = expect(server, POLL);
        paused(what, poll.received_us, Some(server.now_us()));
        answer(poll);
        let time_limit = crate::harness::wait::TimeLimit::new();
        while worker.errors().lines().count() == lines {
            time_limit.check(|| format!("{what}: the worker prints no error"));
            std::thread::park_timeout(std::time::Duration::from_millis(2));
        }
    }
    let poll = expect(server, POLL);
    paused("the next poll", poll.received_us, None);
    poll.respond(204, "");
}

/// A worker handles every fault of a server, processes each complete job once, and shuts down in order.
fn survives_faults(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = ScriptedServer::new();
    // A slash at the end of the URL is a common mistake.
    let mut worker = language.worker(&format!("{}/", server.url()), directory.path());
    answer_polls_with_faults(&server, &worker, language.silent_repeats);

    // A finish is repeated until it is answered; 404 then means that an earlier attempt took effect.
    expect(&server, POLL).respond(200, &job("one"));
    assert_body(&worker.line(), "one");
    expect(&server, &finish("one")).respond(503, &problem(503, "store_unavailable"));
    expect(&server, &finish("one")).close();
    expect(&server, &finish("one")).respond(404, &problem(404, "job_not_found"));

    // If the job is reserved by another worker by now, the finish is not repeated.
    expect(&server, POLL).respond(200, &job("two"));
    assert_body(&worker.line(), "two");
    expect(&server, &finish("two")).respond(409, &problem(409, "lease_lost"));

    // After SIGTERM during a job, the worker finishes the job and does not poll again.
    expect(&server, POLL).respond(200, &job("three"));
    assert_body(&worker.line(), "three");
    let first = expect(&server, &finish("three"));
    worker.terminate();
    first.respond(503, &problem(503, "draining"));
    expect(&server, &finish("three")).respond(204, "");
    let (status, rest, errors) = worker.wait();
    assert!(!rest.contains("of"), "the worker processed {rest}");
    assert!(server.receives_nothing_more(), "the worker polled after SIGTERM");
    // A Java program that shuts down in order after SIGTERM has the status 143.
    assert!(status.success() || status.code() == Some(143), "{status}: {errors}");
    for word in ["401", "404", "503", "409"] {
        assert!(errors.contains(word), "no error mentions {word}: {errors}");
    }
}

/// After SIGTERM during a poll, the worker closes the connection, so that another worker receives the job, and ends.
fn leaves_its_poll(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = ScriptedServer::new();
    let worker = language.worker(&server.url(), directory.path());
    expect(&server, POLL).respond(204, "");
    let poll = expect(&server, POLL);
    worker.terminate();
    poll.wait_until_closed();
    worker.wait();
    assert!(server.receives_nothing_more(), "the worker polled after SIGTERM");
}

/// A worker releases a job whose processing failed.
fn releases(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = ScriptedServer::new();
    let worker = language.failing_worker(&server.url(), directory.path());
    expect(&server, POLL).respond(200, &job("one"));
    let release = expect(&server, "POST /jobs/one/release");
    let body: serde_json::Value = serde_json::from_str(&release.body).expect("JSON");
    assert_eq!(body["receipt"], "r-one");
    release.respond(200, "{}");
    expect(&server, POLL);
    drop(worker);
}

/// A producer sends exactly the same job until it is answered, and prints the response.
fn repeats_an_add(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = ScriptedServer::new();
    let producer = language.producer(&format!("{}/", server.url()), directory.path());
    let add = |server: &ScriptedServer| expect(server, "POST /jobs");
    let first = add(&server);
    let sent: serde_json::Value = serde_json::from_str(&first.body).expect("JSON");
    assert_eq!(sent["id"], "orders:1001:close");
    assert_eq!((&sent["topic"], &sent["delay"]), (&"work".into(), &"15m".into()));
    assert_eq!(sent["body"]["order"], "1001");
    let text = first.body.clone();
    first.close();
    let answers: [&dyn Fn(Request); 3] = [
        &|add| add.respond(503, &problem(503, "store_unavailable")),
        &|add| add.cut_off(201, &job("orders:1001:close")),
        &|add| add.respond(200, &job("orders:1001:close")),
    ];
    for answer in answers {
        let again = add(&server);
        assert_eq!(again.body, text, "the producer sent another job");
        answer(again);
    }
    let (status, printed, errors) = producer.wait();
    assert!(status.success(), "{status}: {errors}");
    assert!(printed.contains("orders:1001:close"), "{printed}");
    assert!(errors.contains("503"), "{errors}");
}

/// A producer does not repeat a request that cannot succeed.
fn gives_up_after_a_refusal(language: &Language) {
    for (status, code) in [(401, "unauthorized"), (409, "job_exists"), (422, "invalid_job")] {
        let directory = tempfile::tempdir().expect("a directory");
        let server = ScriptedServer::new();
        let producer = language.producer(&server.url(), directory.path());
        expect(&server, "POST /jobs").respond(status, &problem(status, code));
        let (ended, printed, errors) = producer.wait();
        assert_eq!(ended.code(), Some(1), "{errors}");
        assert_eq!(printed, "");
        assert!(errors.contains(code), "{errors}");
        assert!(server.receives_nothing_more(), "the producer repeated the request after {status}");
    }
}

macro_rules! each_language {
    ($($name:ident $language:ident,)*) => {
        $(mod $name {
            #[test]
            fn worker_survives_faults() {
                super::survives_faults(&super::$language);
            }

            #[test]
            fn worker_leaves_its_poll_at_sigterm() {
                super::leaves_its_poll(&super::$language);
            }

            #[test]
            fn worker_releases_failed_work() {
                super::releases(&super::$language);
            }

            #[test]
            fn producer_repeats_an_add() {
                super::repeats_an_add(&super::$language);
            }

            #[test]
            fn producer_gives_up_after_a_refusal() {
                super::gives_up_after_a_refusal(&super::$language);
            }
        })*
    };
}

each_language! {
    bash BASH,
    python PYTHON,
    node NODE,
    php PHP,
    go GO,
    java JAVA_CLASSES,
}
