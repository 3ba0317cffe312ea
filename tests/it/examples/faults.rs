//! The examples against a server that refuses, cuts answers off and goes away.

use super::{
    BASH, GO, JAVA, Language, NODE, PHP, PYTHON, Program, TOKEN,
    scripted::{Request, Scripted},
};

/// Shortest pause of a worker after a poll that brought neither a job nor `204`.
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

/// The next request, which has to be this one and to carry the token.
#[track_caller]
fn expect(server: &Scripted, line: &str) -> Request {
    let request = server.next();
    assert_eq!(request.line, line);
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()), "{line}");
    request
}

fn finish(id: &str) -> String {
    format!("POST /jobs/{id}/finish?receipt=r-{id}")
}

#[track_caller]
fn is_body(line: &str, id: &str) {
    let body: serde_json::Value = serde_json::from_str(line).expect("a body per line");
    assert_eq!(body["of"], id);
    assert_eq!(body["id"], "a \"b");
}

/// Each of these answers to a poll is a fault: the worker works on nothing, says so, and waits before the next.
fn polls(server: &Scripted, worker: &Program) {
    let whole = job("never");
    let faults: [(&str, &dyn Fn(Request)); 8] = [
        ("401", &|poll| poll.answer(401, &problem(401, "unauthorized"))),
        ("404", &|poll| poll.answer(404, &problem(404, "not_found"))),
        ("503", &|poll| poll.answer(503, &problem(503, "store_unavailable"))),
        ("cut off", &|poll| poll.cut_off(200, &whole)),
        ("no answer", &|poll| poll.close()),
        ("HTML", &|poll| poll.answer(200, "<html>Welcome to the hotel</html>")),
        ("no job", &|poll| poll.answer(200, "{}")),
        ("null", &|poll| poll.answer(200, "null")),
    ];
    let mut answered_us = None;
    let mut paused = |what: &str, at_us: i64, answered: Option<i64>| {
        if let Some(since) = answered_us {
            assert!(at_us - since >= PAUSE_US, "no pause before {what}");
        }
        answered_us = answered;
    };
    for (what, answer) in faults {
        let lines = worker.errors().lines().count();
        let poll = expect(server, POLL);
        paused(what, poll.at_us, Some(server.now_us()));
        answer(poll);
        let time_limit = crate::harness::wait::TimeLimit::new();
        while worker.errors().lines().count() == lines {
            time_limit.check(|| format!("{what}: the worker says nothing"));
            std::thread::park_timeout(std::time::Duration::from_millis(2));
        }
    }
    let poll = expect(server, POLL);
    paused("the next poll", poll.at_us, None);
    poll.answer(204, "");
}

/// A worker meets every fault of a server, works on each whole job once, and ends in order.
fn meets_faults(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Scripted::new();
    // A slash at the end is everybody's mistake.
    let mut worker = language.worker(&format!("{}/", server.url()), directory.path());
    polls(&server, &worker);

    // A finish is repeated until it is answered; 404 then means that it was done.
    expect(&server, POLL).answer(200, &job("one"));
    is_body(&worker.line(), "one");
    expect(&server, &finish("one")).answer(503, &problem(503, "store_unavailable"));
    expect(&server, &finish("one")).close();
    expect(&server, &finish("one")).answer(404, &problem(404, "job_not_found"));

    // A job that has another holder by now is not finished again.
    expect(&server, POLL).answer(200, &job("two"));
    is_body(&worker.line(), "two");
    expect(&server, &finish("two")).answer(409, &problem(409, "lease_lost"));

    // SIGTERM in the middle of a job: the job is finished, and there is no other poll.
    expect(&server, POLL).answer(200, &job("three"));
    is_body(&worker.line(), "three");
    let first = expect(&server, &finish("three"));
    worker.terminate();
    first.answer(503, &problem(503, "draining"));
    expect(&server, &finish("three")).answer(204, "");
    let (status, rest, errors) = worker.end();
    assert!(!rest.contains("of"), "worked on {rest}");
    assert!(server.is_left_alone(), "polled after SIGTERM");
    // A Java program that ends in order after SIGTERM has this status.
    assert!(status.success() || status.code() == Some(143), "{status}: {errors}");
    for word in ["401", "404", "503", "409"] {
        assert!(errors.contains(word), "no line names {word}: {errors}");
    }
}

/// SIGTERM during a poll: the connection closes, so that the job goes to another worker, and the worker ends.
fn leaves_its_poll(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Scripted::new();
    let worker = language.worker(&server.url(), directory.path());
    expect(&server, POLL).answer(204, "");
    let poll = expect(&server, POLL);
    worker.terminate();
    poll.left();
    worker.end();
    assert!(server.is_left_alone(), "polled after SIGTERM");
}

/// Work that fails gives its job back.
fn releases(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Scripted::new();
    let worker = language.failing_worker(&server.url(), directory.path());
    expect(&server, POLL).answer(200, &job("one"));
    let release = expect(&server, "POST /jobs/one/release");
    let body: serde_json::Value = serde_json::from_str(&release.body).expect("JSON");
    assert_eq!(body["receipt"], "r-one");
    release.answer(200, "{}");
    expect(&server, POLL);
    drop(worker);
}

/// A producer sends the very same job until it is answered, and prints what it got.
fn repeats_an_add(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Scripted::new();
    let producer = language.producer(&format!("{}/", server.url()), directory.path());
    let add = |server: &Scripted| expect(server, "POST /jobs");
    let first = add(&server);
    let sent: serde_json::Value = serde_json::from_str(&first.body).expect("JSON");
    assert_eq!(sent["id"], "orders:1001:close");
    assert_eq!((&sent["topic"], &sent["delay"]), (&"work".into(), &"15m".into()));
    assert_eq!(sent["body"]["order"], "1001");
    let text = first.body.clone();
    first.close();
    let answers: [&dyn Fn(Request); 3] = [
        &|add| add.answer(503, &problem(503, "store_unavailable")),
        &|add| add.cut_off(201, &job("orders:1001:close")),
        &|add| add.answer(200, &job("orders:1001:close")),
    ];
    for answer in answers {
        let again = add(&server);
        assert_eq!(again.body, text, "another job");
        answer(again);
    }
    let (status, printed, errors) = producer.end();
    assert!(status.success(), "{status}: {errors}");
    assert!(printed.contains("orders:1001:close"), "{printed}");
    assert!(errors.contains("503"), "{errors}");
}

/// A producer does not repeat what cannot succeed.
fn gives_up_what_is_refused(language: &Language) {
    for (status, code) in [(401, "unauthorized"), (409, "job_exists"), (422, "invalid_job")] {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Scripted::new();
        let producer = language.producer(&server.url(), directory.path());
        expect(&server, "POST /jobs").answer(status, &problem(status, code));
        let (ended, printed, errors) = producer.end();
        assert_eq!(ended.code(), Some(1), "{errors}");
        assert_eq!(printed, "");
        assert!(errors.contains(code), "{errors}");
        assert!(server.is_left_alone(), "repeated after {status}");
    }
}

macro_rules! each_language {
    ($($name:ident $language:ident,)*) => {
        $(mod $name {
            #[test]
            fn worker_meets_faults() {
                super::meets_faults(&super::$language);
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
            fn producer_gives_up_what_is_refused() {
                super::gives_up_what_is_refused(&super::$language);
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
    java JAVA,
}
