//! Every call about jobs that succeeds.

use serde_json::{Value, json};

use super::{Engine, Site, error, on_each_engine, payload};

on_each_engine! {
    a_job_is_published_consumed_and_acknowledged,
    a_payload_comes_back_byte_for_byte,
    a_delayed_job_is_consumed_when_it_is_due,
    a_job_expires_with_its_ttl,
    a_bulk_has_a_job_for_each_value,
    a_job_is_republished_under_another_id,
    earlier_queues_come_first,
    several_jobs_are_consumed_at_once,
    a_job_is_shown_without_being_consumed,
    a_queue_is_destroyed,
    a_job_is_found_in_its_queue_only,
    a_consume_waits,
}

const NO_JOB: &str = r#"{"msg":"no job available"}"#;

/// With the default settings.
fn a_job_is_published_consumed_and_acknowledged(engine: Engine) {
    let site = Site::new(engine);
    let published = site.call("PUT", "orders/close?tries=3", "hello");
    assert_eq!(published.status(), 201);
    assert!(published.head.contains("content-type: application/json; charset=utf-8\r\n"), "{published:?}");
    assert!(published.head.contains("x-request-id: "), "{published:?}");
    let job: Value = serde_json::from_str(&published.body).expect("is JSON");
    let id = job["job_id"].as_str().expect("has an id").to_owned();
    assert!(
        id.len() == 26 && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        "{id}"
    );

    let consumed = site.expect(200, "GET", "orders/close?ttr=30", "");
    let parsed: Value = serde_json::from_str(&consumed).expect("is JSON");
    let (elapsed, ttl) = (&parsed["elapsed_ms"], &parsed["ttl"]);
    assert!(ttl.as_u64().is_some_and(|ttl| (86_000..=86_400).contains(&ttl)), "{consumed}");
    assert_eq!(
        consumed,
        format!(
            r#"{{"attributes":null,"data":"aGVsbG8=","elapsed_ms":{elapsed},"job_id":"{id}","msg":"new job","namespace":"orders","queue":"close","remain_tries":2,"ttl":{ttl}}}"#
        )
    );
    let native = site.server.job(&id);
    assert_eq!((&native["state"], &native["topic"]), (&"reserved".into(), &"orders:close".into()));
    assert_eq!((native["max_attempts"].as_u64(), &native["on_expiry"]), (Some(3), &"delete".into()));
    assert_eq!(site.expect(404, "GET", "orders/close", ""), NO_JOB);
    for _ in 0..2 {
        assert_eq!(site.expect(204, "DELETE", &format!("orders/close/job/{id}"), ""), "");
    }
    assert_eq!(site.server.job(&id), json!(null));
}

fn a_payload_comes_back_byte_for_byte(engine: Engine) {
    let site = Site::new(engine);
    for sent in [&b""[..], b"\xff\x00\r\n", b"{\"linger:text\":\"a\"}", b" {\"a\" : 1} ", "订单".as_bytes()]
    {
        let id = site.publish("n/q", sent);
        let job = site.consume("n/q");
        assert_eq!((payload(&job), &job["job_id"]), (sent.to_vec(), &json!(id)));
    }
}

fn a_delayed_job_is_consumed_when_it_is_due(engine: Engine) {
    let site = Site::new(engine);
    let id = site.publish("n/q?delay=3600", "x");
    assert_eq!(site.expect(404, "GET", "n/q", ""), NO_JOB);
    site.native("PATCH", &format!("/jobs/{id}"), r#"{"delay":"0s"}"#, 200);
    assert_eq!(site.consume("n/q?timeout=60")["job_id"], id);
    let id = site.publish("n/soon?delay=1", "x");
    assert_eq!(site.consume("n/soon?timeout=60")["job_id"], id);
    // Longer than any delay of the native API.
    let id = site.publish("n/q?delay=4294967295&ttl=0", "x");
    let job = site.server.job(&id);
    assert!(job["due_at"].as_str().is_some_and(|due| due.starts_with("216")), "{job}");
    assert_eq!(job["expires_at"], json!(null));
}

fn a_job_expires_with_its_ttl(engine: Engine) {
    let site = Site::new(engine);
    let id = site.publish("n/q?delay=3600&ttl=3601", "x");
    let job = site.server.job(&id);
    let moment = |name: &str| {
        let text = job[name].as_str().unwrap_or_else(|| panic!("{job} has no {name}"));
        linger::job::Timestamp::parse(text).expect("is a moment").as_millis()
    };
    assert_eq!(moment("expires_at") - moment("due_at"), 1_000);
    let gone = site.publish("n/gone?ttl=1", "x");
    site.server.wait_for_state(&gone, &Value::Null);
    assert_eq!(site.expect(404, "GET", "n/gone", ""), NO_JOB);
    assert_eq!(site.size("n/gone/deadletter/size"), 0);
}

fn a_bulk_has_a_job_for_each_value(engine: Engine) {
    let site = Site::new(engine);
    let published = site.expect(201, "PUT", "n/q/bulk?tries=2", r#"[{"a" : 1}, "x" ,null]"#);
    let parsed: Value = serde_json::from_str(&published).expect("is JSON");
    assert_eq!(published, format!(r#"{{"job_ids":{},"msg":"published"}}"#, parsed["job_ids"]));
    let mut payloads: Vec<_> = (0..3).map(|_| payload(&site.consume("n/q"))).collect();
    payloads.sort();
    assert_eq!(payloads, [&br#""x""#[..], b"null", br#"{"a" : 1}"#]);
    assert_eq!(parsed["job_ids"].as_array().map(Vec::len), Some(3));
}

fn a_job_is_republished_under_another_id(engine: Engine) {
    let site = Site::new(engine);
    let first = site.publish("n/q?delay=3600", "old");
    let second = site.publish(&format!("n/q/job/{first}?delay=0"), "new");
    assert_ne!(first, second);
    assert_eq!(site.server.job(&first), json!(null));
    assert_eq!(payload(&site.consume("n/q")), b"new");
    // A job of another queue stays, and so does the old job if the new one is refused.
    let other = site.publish("n/other", "x");
    site.publish(&format!("n/q/job/{other}"), "x");
    site.expect(400, "PUT", &format!("n/other/job/{other}?delay=x"), "x");
    assert_eq!(site.server.job(&other)["state"], "ready");
    site.native("PUT", "/topics/n:strict", r#"{"require_receipt":true}"#, 200);
    let held = site.publish("n/strict", "x");
    let refused = site.call("PUT", &format!("n/strict/job/{held}"), "x");
    assert!(refused.body.contains("the receipt that came with the reservation"), "{refused:?}");
    assert_eq!(site.size("n/strict/size"), 1, "no copy is added");
}

fn earlier_queues_come_first(engine: Engine) {
    let site = Site::new(engine);
    for queue in ["a", "b"] {
        site.publish(&format!("n/{queue}"), queue);
    }
    assert_eq!(site.consume("n/c,b,,a")["queue"], "b");
    assert_eq!(site.consume("n/c,b,a?timeout=60")["queue"], "a");
}

fn several_jobs_are_consumed_at_once(engine: Engine) {
    let site = Site::new(engine);
    for number in 0..3 {
        site.publish("n/q", number.to_string());
    }
    let jobs = site.consume("n/q?count=2&timeout=60");
    assert_eq!(jobs.as_array().map(Vec::len), Some(2));
    assert_eq!(site.consume("n/q?count=100").as_array().map(Vec::len), Some(1));
    assert_eq!(site.expect(404, "GET", "n/q?count=2", ""), NO_JOB);
}

fn a_job_is_shown_without_being_consumed(engine: Engine) {
    let site = Site::new(engine);
    assert_eq!(site.expect(404, "GET", "n/q/peek", ""), error("the queue is empty"));
    assert_eq!(site.expect(200, "GET", "n/q/size", ""), r#"{"namespace":"n","queue":"q","size":0}"#);
    let id = site.publish("n/q?tries=5&ttl=0", "x");
    let shown = |path: &str| {
        let job = site.expect(200, "GET", path, "");
        let age = serde_json::from_str::<Value>(&job).expect("is JSON")["elapsed_ms"].to_string();
        job.replace(&format!(r#""elapsed_ms":{age},"#), "")
    };
    let job = |tries: u32| {
        format!(
            r#"{{"attributes":null,"data":"eA==","job_id":"{id}","namespace":"n","queue":"q","remain_tries":{tries},"ttl":0}}"#
        )
    };
    assert_eq!(shown("n/q/peek"), job(5));
    // lmstfy does not read how many tries it has left.
    assert_eq!(shown(&format!("n/q/job/{id}")), job(0));
    assert_eq!(site.size("n/q/size"), 1);
    site.consume("n/q");
    assert_eq!(shown(&format!("n/q/job/{id}")), job(0));
    assert_eq!(site.expect(404, "GET", "n/q/job/x", ""), error("job not found"));
}

fn a_queue_is_destroyed(engine: Engine) {
    let site = Site::new(engine);
    let delayed = site.publish("n/q?delay=3600", "x");
    let reserved = (site.publish("n/q", "x"), site.consume("n/q")).0;
    for _ in 0..3 {
        site.publish("n/q", "x");
    }
    assert_eq!(site.size("n/q/size"), 3);
    assert_eq!(site.expect(204, "DELETE", "n/q", ""), "");
    assert_eq!(site.size("n/q/size"), 0);
    // As there, only what could be consumed goes.
    assert_eq!(site.server.job(&delayed)["state"], "delayed");
    assert_eq!(site.server.job(&reserved)["state"], "reserved");
}

fn a_job_is_found_in_its_queue_only(engine: Engine) {
    let site = Site::new(engine);
    let id = site.publish("n/q", "x");
    for path in ["n/other", "other/q"] {
        assert_eq!(site.expect(404, "GET", &format!("{path}/job/{id}"), ""), error("job not found"));
        site.expect(204, "DELETE", &format!("{path}/job/{id}"), "");
    }
    assert_eq!(site.server.job(&id)["state"], "ready");
}

/// For as long as the client says, up to a limit that is not that of the native API.
fn a_consume_waits(engine: Engine) {
    let limits = [("LINGER__QUEUE__MAX_WAIT", "0s"), ("LINGER__COMPAT__LMSTFY__MAX_WAIT", "60s")];
    let site = Site::with(engine, &limits);
    let waiting = |path: &str| {
        std::thread::scope(|scope| {
            let consume = scope.spawn(|| site.consume(path));
            site.server.wait_for_parked_polls(1);
            site.publish("n/b", "x");
            consume.join().expect("is answered")
        })
    };
    assert_eq!(waiting("n/b?timeout=60")["queue"], "b");
    assert_eq!(waiting("n/a,b?timeout=4294967295")["queue"], "b");
    assert_eq!(site.expect(404, "GET", "n/b?timeout=1", ""), NO_JOB);
}
