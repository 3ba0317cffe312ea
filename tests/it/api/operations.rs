//! Pages for operators, request ids, and metrics.

use linger::{http::HttpOptions, queue::Limits};

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, text},
    jobs::seconds,
    stores::{Engine, Settings},
};

on_every_engine!(
    the_server_is_ready_until_it_drains,
    requests_that_do_not_wait_work_while_the_server_drains,
    the_version_names_the_engine_and_its_durability,
    the_contract_is_served_unchanged,
    metrics_have_bounded_labels,
    metrics_are_sent_in_the_accepted_format,
    every_promotion_is_counted,
    the_wait_of_a_poll_is_counted_separately,
    a_request_id_is_accepted_or_made_and_echoed,
    a_problem_has_all_its_members,
);

async fn the_server_is_ready_until_it_drains(engine: Engine) {
    let api = Api::new(engine).await;
    assert_eq!(api.get("/readyz").await.expect(200).body, "{\"status\":\"ok\"}\n");
    let verbose = api.get("/readyz?verbose").await.expect(200).json();
    assert_eq!(verbose["checks"][1]["name"], "store");
    api.drain();
    let refused = api.get("/readyz?verbose").await;
    assert!(refused.header("retry-after").parse::<u32>().is_ok());
    let problem = refused.expect_problem(503, "draining");
    assert_eq!(problem["checks"][0]["status"], "failed");
    assert_eq!(problem["checks"][1]["status"], "ok");
    api.get("/livez").await.expect(200);
}

async fn requests_that_do_not_wait_work_while_the_server_drains(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let job = api.pop("t").await;
    api.drain();
    api.post(&format!("/jobs/a/finish?receipt={}", text(&job["receipt"]))).await.expect(204);
}

/// Only for stores that can be closed: the model cannot.
#[tokio::test]
async fn a_closed_embedded_store_is_unavailable() {
    closed_store_is_unavailable(Engine::Embedded).await;
}

#[tokio::test]
async fn a_closed_redis_store_is_unavailable() {
    closed_store_is_unavailable(Engine::Redis).await;
}

async fn closed_store_is_unavailable(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.queue.close().await.expect("closes");
    for response in [api.delete("/jobs/a").await, api.send("POST", "/jobs", r#"{"topic":"t"}"#).await] {
        assert_eq!(response.header("retry-after"), "1");
        response.expect_problem(503, "store_unavailable");
    }
}

async fn the_version_names_the_engine_and_its_durability(engine: Engine) {
    let api = Api::new(engine).await;
    let version = api.get("/version").await.expect(200).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(!text(&version["durability"]).is_empty());
    let zone_database = text(&version["zone_database"]);
    assert!(zone_database.len() == 5 && zone_database.starts_with("20"), "{zone_database}");
    let (queue, server) = (&version["limits"]["queue"], &version["limits"]["server"]);
    assert_eq!((&queue["max_body"], &queue["max_wait"]), (&262_144.into(), &60.into()));
    assert_eq!(server["max_request_bytes"], 8_388_608);
    assert_eq!(queue.get("dead_retention"), None, "they are kept forever");
    let limits = Limits { dead_retention: Some(seconds(90)), ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    assert_eq!(api.get("/version").await.expect(200).json()["limits"]["queue"]["dead_retention"], 90);
}

async fn the_contract_is_served_unchanged(engine: Engine) {
    let api = Api::new(engine).await;
    let response = api.get("/openapi.yaml").await.expect(200);
    assert_eq!(response.body, include_str!("../../../openapi.yaml"));
    let document: serde_json::Value =
        serde_saphyr::from_str(include_str!("../../../openapi.yaml")).expect("YAML");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let json = api.get("/openapi.json").await.expect(200);
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.json(), document);
}

/// The value of a metric's sample, which follows its name and labels.
fn sample<'a>(metrics: &'a str, name_and_labels: &str) -> &'a str {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name_and_labels));
    line.unwrap_or_else(|| panic!("{name_and_labels} is missing in:\n{metrics}")).trim()
}

async fn metrics_have_bounded_labels(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..50 {
        api.add(&format!(r#"{{"topic":"t","id":"{n}"}}"#)).await;
        api.get(&format!("/jobs/{n}")).await.expect(200);
        api.get(&format!("/nowhere/{n}")).await.expect(404);
        api.call(&format!("BREW{n}"), "/jobs").send().await.expect(405);
    }
    let response = api.get("/metrics").await.expect(200);
    let metrics = String::from_utf8(response.body.to_vec()).expect("text");
    let count =
        |labels: &str| sample(&metrics, &format!("linger_http_requests_total{{{labels}}}")).to_owned();
    assert_eq!(count(r#"route="/jobs",method="POST",status="201""#), "50");
    assert_eq!(count(r#"route="/jobs/{id}",method="GET",status="200""#), "50");
    assert_eq!(count(r#"route="none",method="GET",status="404""#), "50");
    assert_eq!(count(r#"route="/jobs",method="other",status="405""#), "50");
    assert_eq!(sample(&metrics, "linger_http_requests_in_flight "), "1", "this one");
    assert_eq!(sample(&metrics, r#"linger_jobs{topic="t",state="ready"} "#), "50");
}

const PROMETHEUS: &str =
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

async fn metrics_are_sent_in_the_accepted_format(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.advance_and_promote(seconds(1)).await;
    let page = async |accept: Option<&str>| {
        let call = api.call("GET", "/metrics");
        let call = if let Some(accept) = accept { call.header("accept", accept) } else { call };
        let response = call.send().await.expect(200);
        let media_type = response.header("content-type").to_owned();
        (media_type, String::from_utf8(response.body.to_vec()).expect("text"))
    };
    let (media_type, open_metrics) = page(Some(PROMETHEUS)).await;
    assert_eq!(media_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open_metrics.ends_with("# EOF\n"));
    assert!(open_metrics.contains("# TYPE linger_jobs_added counter\n"));
    for accept in [None, Some("*/*"), Some("text/plain")] {
        let (media_type, text) = page(accept).await;
        assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8");
        check_text_format(&text);
        assert_eq!(sample(&text, r#"linger_jobs{topic="t",state="ready"} "#), "1");
        assert_eq!(sample(&text, r#"linger_jobs_added_total{topic="t"} "#), "1");
    }
}

/// The embedded engine promotes by itself here, from the first call on; the others wait for calls.
async fn every_promotion_is_counted(engine: Engine) {
    let store =
        Settings { dead_retention: Some(seconds(100)), promotes_by_itself: true, ..Settings::default() };
    let api = Api::with(engine, Setup { store, no_timer: true, ..Setup::default() }).await;
    api.advance_and_promote(seconds(0)).await;
    let metrics_after = async |time| {
        api.clock.advance(time);
        if engine != Engine::Embedded {
            api.advance_and_promote(seconds(0)).await;
        }
        String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("text")
    };
    api.add(r#"{"topic":"delayed","delay":"5s"}"#).await;
    api.add(r#"{"topic":"timed-out","ttr":"5s"}"#).await;
    api.add(r#"{"topic":"died","ttr":"5s","max_attempts":1}"#).await;
    api.pop("timed-out").await;
    api.pop("died").await;
    let text = metrics_after(seconds(7)).await;
    assert_eq!(sample(&text, r#"linger_ready_lateness_seconds_count{topic="delayed"} "#), "1");
    assert_eq!(sample(&text, r#"linger_ready_lateness_seconds_sum{topic="delayed"} "#), "2.0");
    assert_eq!(sample(&text, r#"linger_jobs_timed_out_total{topic="timed-out"} "#), "1");
    assert_eq!(sample(&text, r#"linger_jobs_timed_out_total{topic="died"} "#), "1");
    assert_eq!(sample(&text, r#"linger_jobs_buried_total{topic="died"} "#), "1");
    let text = metrics_after(seconds(100)).await;
    assert_eq!(sample(&text, r#"linger_jobs_deleted_total{topic="died"} "#), "1");
}

/// The rules of `promtool check metrics`: every family has a help text and a type, its samples have its name and are
/// adjacent, counters end in `_total`, and numbers are printed in their shortest form.
fn check_text_format(text: &str) {
    let (mut family, mut seen) = ((String::new(), String::new()), std::collections::BTreeSet::new());
    let mut helped = String::new();
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, words] => {
                assert!(words.ends_with('.'), "{line}");
                name.clone_into(&mut helped);
            }
            ["#", "TYPE", name, kind] => {
                assert_eq!(helped, name, "the type follows the help text");
                assert!(seen.insert(name.to_owned()), "{name} occurs twice");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                family = (name.to_owned(), kind.to_owned());
            }
            _ => {
                let name = line.split(['{', ' ']).next().expect("a name");
                let suffixes: &[&str] =
                    if family.1 == "histogram" { &["_sum", "_count", "_bucket"] } else { &[""] };
                let rest = name.strip_prefix(&family.0).unwrap_or_else(|| panic!("{line} below {family:?}"));
                assert!(suffixes.contains(&rest), "{line} below {family:?}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                if let Some((_, bound)) = line.split_once("le=\"") {
                    let bound = bound.split('"').next().expect("a bound");
                    assert!(bound.len() <= 9, "{line}");
                }
            }
        }
    }
}

/// Each scrape refreshes the counts, and each must show all jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_scrapers_all_receive_complete_metrics() {
    let api = Api::new(Engine::Naive).await;
    for n in 0..50 {
        api.add(&format!(r#"{{"topic":"t-{n}","id":"{n}"}}"#)).await;
    }
    for _ in 0..20 {
        let mut scrapers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let api = api.clone();
            scrapers.spawn(async move {
                api.clock.advance(seconds(10));
                let page = api.get("/metrics").await.expect(200).body;
                String::from_utf8(page.to_vec()).expect("text")
            });
        }
        for page in scrapers.join_all().await {
            let shown = page
                .lines()
                .filter(|line| line.starts_with("linger_jobs{") && line.ends_with("\"ready\"} 1"));
            assert_eq!(shown.count(), 50, "{page}");
        }
    }
}

/// Clients that read the metrics slowly use bounded memory, and do not affect other responses.
#[tokio::test]
async fn unread_metrics_are_bounded() {
    let options = HttpOptions { max_answer_bytes: 1_024 * 1_024, ..HttpOptions::default() };
    let api = Api::with(Engine::Naive, Setup { options, ..Setup::default() }).await;
    api.add(&format!(r#"{{"topic":"t","id":"a","body":"{}"}}"#, "x".repeat(8 * 1_024))).await;
    let mut unread = Vec::new();
    let refused = loop {
        let response = api.call("GET", "/metrics").head().await;
        if response.status() != 200 {
            break response;
        }
        unread.push(response);
        assert!(unread.len() < 64, "a page of metrics has more than a kilobyte");
    };
    assert_eq!(refused.status(), 503);
    api.get("/jobs/a").await.expect(200);
    drop(unread);
    api.get("/metrics").await.expect(200);
}

async fn the_wait_of_a_poll_is_counted_separately(engine: Engine) {
    let api = Api::new(engine).await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.clock.advance(seconds(30));
    poll.await.expect("is answered").expect(204);
    let response = api.get("/metrics").await.expect(200);
    let metrics = String::from_utf8(response.body.to_vec()).expect("text");
    let labels = r#"{route="/topics/{topic}/pop",method="GET"} "#;
    assert_eq!(sample(&metrics, &format!("linger_http_poll_wait_seconds_sum{labels}")), "30.0");
    assert_eq!(sample(&metrics, &format!("linger_http_request_duration_seconds_sum{labels}")), "0.0");
}

async fn a_request_id_is_accepted_or_made_and_echoed(engine: Engine) {
    let api = Api::new(engine).await;
    let named = api.call("GET", "/jobs/nobody").header("x-request-id", "checkout-7f3a").send().await;
    assert_eq!(named.header("x-request-id"), "checkout-7f3a");
    assert_eq!(named.json()["request_id"], "checkout-7f3a", "the problem has the request id");
    let generated = api.get("/nowhere").await.header("x-request-id").to_owned();
    assert_eq!(generated.len(), 36);
    assert_ne!(generated, api.get("/nowhere").await.header("x-request-id"), "each request has its own id");
    let long = "x".repeat(129);
    for unfit in ["", "a b", "\"quoted\"", "<b>", &long] {
        let response = api.call("GET", "/livez").header("x-request-id", unfit).send().await.expect(200);
        assert_eq!(response.header("x-request-id").len(), 36, "{unfit}");
    }
    let twice =
        api.call("GET", "/livez").header("x-request-id", "a").header("x-request-id", "b").send().await;
    assert_eq!(twice.header("x-request-id").len(), 36);
}

async fn a_problem_has_all_its_members(engine: Engine) {
    let api = Api::new(engine).await;
    let response = api.call("GET", "/jobs/nobody").header("x-request-id", "r").send().await;
    assert_eq!(response.header("content-type"), "application/problem+json");
    let expected = r#"{"type":"about:blank","title":"Not Found","status":404,"code":"job_not_found","detail":"no job has this id: it was never added, or it is finished or deleted","request_id":"r"}"#;
    assert_eq!(response.expect(404).body, format!("{expected}\n"));
}
