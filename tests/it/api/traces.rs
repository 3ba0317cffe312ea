//! The trace context of a job: in the headers of an add or in a definition, and wherever the job goes.

use serde_json::{Value, json};

use super::{
    calling::{self, Endpoint, Received, job_in, set_url},
    on_every_engine,
};
use crate::harness::{
    api::{Api, Call, error_locations, text},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    the_headers_of_an_add_stay_with_the_job,
    a_batch_has_a_context_for_each_definition,
    a_malformed_context_is_ignored,
    a_value_of_another_type_is_a_fault,
    a_repeat_from_another_span_is_recognised,
    a_callback_is_called_in_the_context_of_its_job,
);

const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER_SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

fn add(api: &Api, definition: &str, headers: &[(&str, &str)]) -> Call {
    let call = api.call("POST", "/jobs").json(definition);
    headers.iter().fold(call, |call, (name, value)| call.header(name, value))
}

/// The context that a response shows.
fn context(job: &Value) -> (Option<&str>, Option<&str>) {
    (job.get("traceparent").map(text), job.get("tracestate").map(text))
}

async fn context_of(api: &Api, id: &str) -> (Option<String>, Option<String>) {
    let job = api.get(&format!("/jobs/{id}")).await.expect(200).json();
    let (parent, state) = context(&job);
    (parent.map(str::to_owned), state.map(str::to_owned))
}

async fn the_headers_of_an_add_stay_with_the_job(engine: Engine) {
    let api = Api::new(engine).await;
    let headers = [("traceparent", SPAN), ("tracestate", STATE)];
    let whole = (Some(SPAN), Some(STATE));
    let definition = r#"{"topic":"t","id":"a","delay":10}"#;
    let added = add(&api, definition, &headers).send().await.expect(201).json();
    assert_eq!(context(&added), whole);
    let patched = api.send("PATCH", "/jobs/a", r#"{"delay":0,"body":[1]}"#).await.expect(200).json();
    assert_eq!(context(&patched), whole);
    let popped = api.pop("t").await;
    assert_eq!(context(&popped), whole);
    let body = format!("{{\"receipt\":{},\"delay\":0}}", popped["receipt"]);
    assert_eq!(context(&api.send("POST", "/jobs/a/release", &body).await.expect(200).json()), whole);
    let popped = api.send("POST", "/batch/pop", r#"{"topics":["t"]}"#).await.expect(200).json();
    assert_eq!(context(&popped["jobs"][0]), whole);
    let body = format!("{{\"receipt\":{}}}", popped["jobs"][0]["receipt"]);
    assert_eq!(context(&api.send("POST", "/jobs/a/bury", &body).await.expect(200).json()), whole);
    assert_eq!(context(&api.get("/topics/t/dead").await.expect(200).json()["jobs"][0]), whole);
    let listed = api.get("/jobs?state=dead").await.expect(200).json();
    assert_eq!(context(&listed["jobs"][0]), (None, None), "lists leave it out, like the body");

    let own = format!(r#"{{"topic":"u","id":"own","traceparent":"{OTHER_SPAN}"}}"#);
    let own = add(&api, &own, &headers).send().await.expect(201).json();
    assert_eq!(context(&own), (Some(OTHER_SPAN), None), "a definition says more of a job than its request");
    let untraced = api.add(r#"{"topic":"v"}"#).await;
    assert_eq!(context(&untraced), (None, None));
    assert_eq!(context(&api.pop("v").await), (None, None));
}

async fn a_batch_has_a_context_for_each_definition(engine: Engine) {
    let api = Api::new(engine).await;
    let batch = format!(
        r#"{{"jobs":[
            {{"topic":"t","id":"a","traceparent":"{SPAN}","tracestate":"{STATE}"}},
            {{"topic":"t","id":"b","traceparent":"{OTHER_SPAN}"}},
            {{"topic":"t","id":"c"}}
        ]}}"#
    );
    api.send("POST", "/batch/jobs", &batch).await.expect(200);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(context_of(&api, "a").await, (some(SPAN), some(STATE)));
    assert_eq!(context_of(&api, "b").await, (some(OTHER_SPAN), None));
    assert_eq!(context_of(&api, "c").await, (None, None));
    let (batch, headers) = (batch.replace("\"id\":\"", "\"id\":\"2"), [("traceparent", OTHER_SPAN)]);
    let call = api.call("POST", "/batch/jobs").json(&batch).header(headers[0].0, headers[0].1);
    call.send().await.expect(200);
    assert_eq!(context_of(&api, "2a").await, (some(SPAN), some(STATE)));
    assert_eq!(context_of(&api, "2c").await, (some(OTHER_SPAN), None), "that of the request");
}

async fn a_malformed_context_is_ignored(engine: Engine) {
    let api = Api::new(engine).await;
    let definition = r#"{"topic":"t"}"#;
    for (headers, expected) in [
        (&[("traceparent", "00-1-2-01"), ("tracestate", STATE)][..], (None, None)),
        (&[("tracestate", STATE)], (None, None)),
        (&[("traceparent", SPAN), ("traceparent", OTHER_SPAN)], (None, None)),
        (&[("traceparent", SPAN), ("tracestate", "no list")], (Some(SPAN), None)),
        (&[("traceparent", SPAN), ("tracestate", "")], (Some(SPAN), None)),
        (
            &[("Traceparent", SPAN), ("tracestate", "b=2"), ("tracestate", "a=1")],
            (Some(SPAN), Some("b=2,a=1")),
        ),
    ] {
        let added = add(&api, definition, headers).send().await.expect(201).json();
        assert_eq!(context(&added), expected, "{headers:?}");
    }
    for malformed in ["", "soon", "\\u0000", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
        let definition =
            format!(r#"{{"topic":"t","traceparent":"{malformed}","tracestate":"{STATE}","body":1}}"#);
        assert_eq!(context(&api.add(&definition).await), (None, None), "{malformed}");
    }
    let long: Vec<String> = (0..32).map(|n| format!("k{n}=12345678901234567890")).collect();
    let added = add(&api, definition, &[("traceparent", SPAN), ("tracestate", &long.join(","))]);
    let added = added.send().await.expect(201).json();
    let kept = text(&added["tracestate"]);
    assert!(kept.len() <= 512 && long.join(",").starts_with(&format!("{kept},")), "{kept}");
}

async fn a_value_of_another_type_is_a_fault(engine: Engine) {
    let api = Api::new(engine).await;
    let definition = r#"{"topic":"t","traceparent":7,"tracestate":[]}"#;
    let problem = api.send("POST", "/jobs", definition).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/traceparent", "/tracestate"]);
    let patch = format!(r#"{{"traceparent":"{SPAN}"}}"#);
    api.add(r#"{"topic":"t","id":"a","delay":1}"#).await;
    let problem = api.send("PATCH", "/jobs/a", &patch).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/traceparent"], "a job comes from one span");
}

async fn a_repeat_from_another_span_is_recognised(engine: Engine) {
    let api = Api::new(engine).await;
    let definition = r#"{"topic":"t","id":"a","body":{"n":1}}"#;
    add(&api, definition, &[("traceparent", SPAN), ("tracestate", STATE)]).send().await.expect(201);
    for headers in [&[("traceparent", OTHER_SPAN)][..], &[]] {
        let repeated = add(&api, definition, headers).send().await.expect(200);
        assert_eq!(repeated.header("idempotent-replayed"), "true");
        assert_eq!(context(&repeated.json()), (Some(SPAN), Some(STATE)), "the first one stays");
    }
}

async fn a_callback_is_called_in_the_context_of_its_job(engine: Engine) {
    let (api, endpoint) = (calling::api(engine).await, Endpoint::start(vec![(500, Vec::new(), "")]).await);
    set_url(&api, Some(&endpoint.url)).await;
    let headers = [("traceparent", SPAN), ("tracestate", STATE)];
    add(&api, r#"{"topic":"t","id":"a"}"#, &headers).send().await.expect(201);
    endpoint.received(1).await;
    job_in(&api, "a", "delayed").await;
    calling::pass(&api, seconds(17)).await;
    endpoint.received(2).await;
    let url = json!(endpoint.url);
    let own = format!(
        r#"{{"topic":"u","id":"b","callback":{{"url":{url},"headers":{{"traceparent":"{OTHER_SPAN}"}}}}}}"#
    );
    add(&api, &own, &headers).send().await.expect(201);
    endpoint.received(3).await;
    add(&api, r#"{"topic":"t","id":"c"}"#, &[]).send().await.expect(201);
    let calls = endpoint.received(4).await;
    let sent = |call: &Received| ["traceparent", "tracestate"].map(|name| call.text(name).map(str::to_owned));
    let traced = [Some(SPAN.to_owned()), Some(STATE.to_owned())];
    assert_eq!((sent(&calls[0]), sent(&calls[1])), (traced.clone(), traced), "every attempt");
    assert_eq!(sent(&calls[2]), [Some(OTHER_SPAN.to_owned()), None], "the callback's own takes its place");
    assert_eq!(sent(&calls[3]), [None, None]);
}
