//! Calls that their clients gave up: nothing is done for a client that has left, and nothing that a client may have
//! repeated elsewhere while the process was stopped.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    path::Path,
    time::Duration,
};

use linger::clock::{Clock, SystemClock};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    process::Server,
    redis::{fresh_prefix, shared},
};

/// A server on the embedded engine with the default settings, and one on Redis.
fn on_both_engines(mut test: impl FnMut(&Server)) {
    let directory = tempfile::tempdir().expect("a directory");
    test(&Server::serve(&[], &[], directory.path()));
    test(&on_redis(directory.path()));
}

fn on_redis(directory: &Path) -> Server {
    let (url, prefix) = (shared().url(), fresh_prefix());
    let variables = [
        ("LINGER__STORE__ENGINE", "redis"),
        ("LINGER__REDIS__URL", url.as_str()),
        ("LINGER__REDIS__PREFIX", prefix.as_str()),
    ];
    Server::serve(&[], &variables, directory)
}

/// Sends a call on a connection of its own.
fn send(server: &Server, method: &str, path: &str, body: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.address).expect("connects");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    client.write_all(request.as_bytes()).expect("is sent");
    client
}

/// Sends a call and closes the sending side.
fn send_and_close(server: &Server, method: &str, path: &str, body: &str) -> TcpStream {
    let client = send(server, method, path, body);
    client.shutdown(Shutdown::Write).expect("is closed");
    client
}

/// The status and the text of an answer; `None` if the connection ends without one.
fn answer(mut client: TcpStream) -> Option<(u16, String)> {
    let mut bytes = Vec::new();
    let _ = client.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("is text");
    let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().expect("a status");
    Some((status, text))
}

/// Reserves the only ready job of `topic` and returns its receipt.
fn reserve(server: &Server, id: &str) -> String {
    let topic = format!("of-{id}");
    let added = server.call("POST", "/jobs", &json!({"topic": topic, "id": id, "body": 1}).to_string());
    assert_eq!(added.status, 201);
    let popped = server.call("GET", &format!("/topics/{topic}/pop?ttr=1h"), "");
    assert_eq!(popped.status, 200);
    popped.json()["receipt"].as_str().expect("a receipt").to_owned()
}

/// A call of every kind that changes something, each for a job of its own.
fn changing_calls(server: &Server) -> Vec<(&'static str, String, String)> {
    let delayed = |id: &str| {
        let job = json!({"topic": "t", "id": id, "delay": "1h", "body": 1});
        assert_eq!(server.call("POST", "/jobs", &job.to_string()).status, 201);
    };
    ["deleted", "deleted-in-batch", "patched", "purged"].iter().for_each(|id| delayed(id));
    server.call("POST", "/jobs", r#"{"topic":"waiting","id":"popped","body":1}"#);
    let dead = reserve(server, "requeued");
    let buried = server.call("POST", "/jobs/requeued/bury", &json!({"receipt": dead}).to_string());
    assert_eq!(buried.status, 200, "{buried:?}");
    let mut calls: Vec<(&str, String, String)> = ["finish", "release", "touch", "bury"]
        .into_iter()
        .map(|step| {
            let id = format!("to-{step}");
            let receipt = reserve(server, &id);
            ("POST", format!("/jobs/{id}/{step}"), json!({"receipt": receipt, "ttr": "2h"}).to_string())
        })
        .collect();
    calls[..2].iter_mut().for_each(|(_, _, body)| *body = body.replace(r#","ttr":"2h""#, ""));
    calls[3].2 = calls[3].2.replace(r#","ttr":"2h""#, "");
    let further = [
        ("POST", "/jobs", r#"{"topic":"t","id":"added","body":1}"#),
        ("POST", "/batch/jobs", r#"{"jobs":[{"topic":"t","id":"added-in-batch","body":1}]}"#),
        ("DELETE", "/jobs/deleted", ""),
        ("POST", "/batch/delete", r#"{"ids":["deleted-in-batch"]}"#),
        ("PATCH", "/jobs/patched", r#"{"delay":"2h"}"#),
        ("POST", "/jobs/requeued/requeue", ""),
        ("GET", "/topics/waiting/pop", ""),
        ("POST", "/batch/pop", r#"{"topics":["waiting"]}"#),
        ("DELETE", "/topics/t?confirm=t", ""),
        ("PUT", "/topics/t", r#"{"ttr":"5m"}"#),
        ("POST", "/topics/t/pause", ""),
    ];
    calls.extend(further.map(|(method, path, body)| (method, path.to_owned(), body.to_owned())));
    calls
}

/// Everything that a call could have changed. Times of the moment are left out.
fn everything(server: &Server) -> Value {
    let mut jobs = server.call("GET", "/jobs?limit=200", "").json();
    jobs.as_object_mut().expect("an object").remove("now");
    let topic = server.call("GET", "/topics/t", "").json();
    json!({"jobs": jobs, "settings": topic["settings"], "paused": topic["paused"]})
}

#[test]
fn calls_that_clients_gave_up_while_the_process_was_stopped_are_not_carried_out() {
    on_both_engines(|server| {
        let calls = changing_calls(server);
        let before = everything(server);
        server.suspend();
        let clients: Vec<TcpStream> =
            calls.iter().map(|(method, path, body)| send_and_close(server, method, path, body)).collect();
        server.signal(Signal::CONT);
        for (client, (method, path, _)) in clients.into_iter().zip(&calls) {
            let answer = answer(client);
            let refused = answer
                .as_ref()
                .is_none_or(|(status, text)| *status == 503 && text.contains(r#""code":"not_begun""#));
            assert!(refused, "{method} {path}: {answer:?}");
        }
        assert_eq!(everything(server), before);
        for (method, path, body) in &calls {
            let answer = server.call(method, path, body);
            assert!(answer.status < 300, "{method} {path} works otherwise: {answer:?}");
        }
    });
}

#[test]
fn calls_that_arrived_while_the_process_was_stopped_for_over_a_second_are_refused_once() {
    on_both_engines(|server| {
        let job = r#"{"topic":"t","id":"patient","body":1}"#;
        server.suspend();
        let client = send(server, "POST", "/jobs", job);
        pass(Duration::from_millis(1_300));
        server.signal(Signal::CONT);
        // It would also end by itself, much later.
        client.shutdown(Shutdown::Write).expect("is closed");
        let (status, text) = answer(client).expect("is answered");
        assert!(status == 503 && text.contains(r#""code":"not_begun""#), "{text}");
        assert_eq!(server.call("GET", "/jobs/patient", "").status, 404);
        pass(Duration::from_millis(1_300));
        assert_eq!(server.call("POST", "/jobs", job).status, 201);
    });
}

/// As `nc -N` does it.
#[test]
fn a_client_that_ends_its_sending_side_gets_its_answer_or_nothing_was_done() {
    on_both_engines(|server| {
        let mut known = 0;
        for number in 0..50 {
            let job = format!(r#"{{"topic":"t","id":"half-{number}","body":1}}"#);
            let answer = answer(send_and_close(server, "POST", "/jobs", &job));
            let found = server.call("GET", &format!("/jobs/half-{number}"), "").status;
            let (status, text) = answer.expect("every call is answered");
            match (status, found) {
                (201, 200) => {}
                (503, 404) if text.contains("not_begun") => {}
                _ => panic!("{status}, and the job: {found}: {text}"),
            }
            known += 1;
        }
        assert_eq!(known, 50);
        // Their connections end.
        server.wait_for_metric("linger_http_connections", 1.0);
    });
}

/// Lets real time pass. How long the process is paused is what these tests are about, and it gives no signal.
fn pass(time: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(SystemClock::new().sleep(time));
}
