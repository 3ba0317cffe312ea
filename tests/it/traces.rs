//! Spans of traced jobs: the real program sends them to a collector of the tests.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::harness::{
    process::Server,
    redis::{free_port, fresh_prefix, shared},
    wait::TimeLimit,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector of spans, which is an endpoint for callbacks, too.
struct Collector {
    url: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("has an address"));
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let log = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log) = (stream.expect("connects"), log.clone());
                std::thread::spawn(move || answer(stream, &log));
            }
        });
        Self { url, requests }
    }

    /// The spans that were received, each with the attributes by their names.
    fn spans(&self) -> Vec<Value> {
        let requests = self.requests.lock().expect("not poisoned");
        let sent = requests.iter().filter(|(path, _)| path == "/v1/traces");
        let scopes = sent.flat_map(|(_, request)| list(&request["resourceSpans"]).iter());
        let scopes = scopes.flat_map(|resource| {
            assert_eq!(named(&resource["resource"]["attributes"])["service.name"], "linger");
            list(&resource["scopeSpans"]).iter()
        });
        let spans = scopes.flat_map(|scope| list(&scope["spans"]).iter().cloned());
        spans
            .map(|mut span| {
                span["attributes"] = named(&span["attributes"]);
                span
            })
            .collect()
    }

    /// The only span with this name for this job.
    #[track_caller]
    fn span(&self, name: &str, job: &str) -> Value {
        let mut found = self.spans();
        found.retain(|span| span["name"] == name && span["attributes"]["messaging.message.id"] == job);
        assert_eq!(found.len(), 1, "{name} of {job}: {:#?}", self.spans());
        found.remove(0)
    }
}

/// Answers the requests of a connection, and records their paths and bodies.
fn answer(stream: TcpStream, log: &Mutex<Vec<(String, Value)>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("can be cloned"));
    let mut stream = stream;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).is_err() || first.is_empty() {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("is a head");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name == "content-length" {
                length = value.parse().expect("is a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("is whole");
        let path = first.split(' ').nth(1).expect("has a path").to_owned();
        let body = serde_json::from_slice(&body).expect("is JSON");
        log.lock().expect("not poisoned").push((path, body));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("is read");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// Attributes as an object.
fn named(attributes: &Value) -> Value {
    let values = list(attributes).iter().map(|attribute| {
        let value = &attribute["value"];
        let text = value.get("stringValue").or(value.get("intValue")).cloned();
        (attribute["key"].as_str().expect("a name").to_owned(), text.expect("a text or a number"))
    });
    Value::Object(values.collect())
}

fn add(server: &Server, job: &Value) {
    let added = server.call("POST", "/jobs", &job.to_string());
    assert_eq!(added.status, 201, "{added:?}");
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

/// Pops a job and ends its reservation in this way.
fn pop_and(server: &Server, how: &str) {
    let job = server.call("GET", "/topics/t/pop?wait=30s", "").json();
    let id = job["id"].as_str().expect("an id");
    let body = json!({ "receipt": job["receipt"] }).to_string();
    let settled = server.call("POST", &format!("/jobs/{id}/{how}"), &body);
    assert!(settled.status < 300, "{settled:?}");
}

/// Has jobs with and without a trace live on a server, stops it, and checks the spans.
fn run(settings: &str) {
    let (collector, directory) = (Collector::start(), tempfile::tempdir().expect("a directory"));
    let settings = format!("{settings}[traces]\nendpoint = \"{}/v1/traces\"\n", collector.url);
    fs::write(directory.path().join("linger.toml"), settings).expect("can be written");
    let server = Server::serve(&[], &[], directory.path());
    add(&server, &json!({"topic": "t", "id": "a", "traceparent": traceparent("01"), "tracestate": "x=1"}));
    // A repeat is no add.
    let repeat = json!({"topic": "t", "id": "a", "traceparent": traceparent("01")});
    assert_eq!(server.call("POST", "/jobs", &repeat.to_string()).status, 200);
    pop_and(&server, "finish");
    for (id, parent) in [("unrecorded", Some(traceparent("00"))), ("untraced", None)] {
        add(&server, &json!({"topic": "t", "id": id, "traceparent": parent.unwrap_or_default()}));
        pop_and(&server, "finish");
    }
    add(&server, &json!({"topic": "t", "id": "b", "traceparent": traceparent("01")}));
    pop_and(&server, "bury");
    let callback = json!({ "url": format!("{}/hook", collector.url) });
    let batch = json!({"jobs": [
        {"topic": "t", "id": "c", "traceparent": traceparent("01"), "callback": callback, "body": 1}
    ]});
    assert_eq!(server.call("POST", "/batch/jobs", &batch.to_string()).status, 200);
    let limit = TimeLimit::new();
    while server.call("GET", "/jobs/c", "").status != 404 {
        limit.check(|| "the callback is not called".to_owned());
        limit.pause_thread();
    }
    let closed = json!({ "url": format!("http://127.0.0.1:{}/", free_port()) });
    add(&server, &json!({"topic": "t", "id": "d", "traceparent": traceparent("01"), "callback": closed}));
    while server.call("GET", "/jobs/d", "").json()["state"] != "delayed" {
        limit.check(|| "the call has not failed".to_owned());
        limit.pause_thread();
    }
    assert!(server.stop().success(), "what is left is sent");
    check(&collector);
}

fn check(collector: &Collector) {
    for (id, how) in [("a", "finish"), ("b", "bury"), ("c", "finish"), ("d", "release")] {
        let added = collector.span("add t", id);
        assert_eq!((&added["traceId"], &added["parentSpanId"]), (&json!(TRACE), &json!(SPAN)));
        let state = if id == "a" { json!("x=1") } else { Value::Null };
        assert_eq!((&added["traceState"], &added["kind"]), (&state, &json!(2)));
        let delivered = collector.span("deliver t", id);
        assert_ne!(delivered["traceId"], TRACE, "a trace of its own");
        assert_eq!(delivered.get("parentSpanId"), None);
        let link = &delivered["links"][0];
        assert_eq!((&link["traceId"], &link["spanId"]), (&json!(TRACE), &json!(SPAN)));
        assert_eq!(link["traceState"], state);
        assert_eq!(delivered["attributes"]["linger.attempt"], "1");
        let settled = collector.span(&format!("{how} t"), id);
        assert_eq!(settled["traceId"], delivered["traceId"]);
        assert_eq!(settled["parentSpanId"], delivered["spanId"]);
        for span in [added, delivered, settled] {
            let nanoseconds =
                |name: &str| span[name].as_str().expect("a text").parse::<u64>().expect("a number");
            assert!(nanoseconds("startTimeUnixNano") <= nanoseconds("endTimeUnixNano"), "{span}");
            assert_eq!(span["attributes"]["messaging.destination.name"], "t");
        }
    }
    let (called, delivered) = (collector.span("call t", "c"), collector.span("deliver t", "c"));
    assert_eq!((&called["traceId"], &called["parentSpanId"]), (&delivered["traceId"], &delivered["spanId"]));
    assert_eq!((&called["kind"], called.get("status")), (&json!(3), None));
    let failed = collector.span("call t", "d");
    assert_eq!(failed["status"], json!({ "code": 2, "message": "connect" }));
    assert_eq!(collector.spans().len(), 14, "{:#?}", collector.spans());
    let ids: std::collections::BTreeSet<String> =
        collector.spans().iter().map(|span| span["spanId"].to_string()).collect();
    assert_eq!(ids.len(), 14);
}

#[test]
fn spans_reach_the_collector_from_the_embedded_engine() {
    run("");
}

#[test]
fn spans_reach_the_collector_from_the_redis_engine() {
    let (url, prefix) = (shared().url(), fresh_prefix());
    run(&format!("[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n"));
}

#[test]
fn a_collector_that_is_away_delays_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = format!("http://127.0.0.1:{}/v1/traces", free_port());
    let server = Server::serve(&[], &[("LINGER__TRACES__ENDPOINT", &endpoint)], directory.path());
    for n in 0..100 {
        add(&server, &json!({"topic": "t", "id": n.to_string(), "traceparent": traceparent("01")}));
        pop_and(&server, "finish");
    }
    let limit = TimeLimit::new();
    while !server.call("GET", "/metrics", "").body.contains("linger_spans_total{outcome=\"lost\"} 300\n") {
        limit.check(|| "300 spans are not counted as lost".to_owned());
        limit.pause_thread();
    }
    assert!(server.stop().success());
}
