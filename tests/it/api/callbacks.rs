//! Callbacks and secrets: what is accepted, what is refused, and what responses show.

use linger::{config::CallbackSettings, queue::Limits};
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations, text},
    jobs::{retry, seconds, topic},
    stores::Engine,
};

on_every_engine!(
    wrong_callbacks_of_jobs_are_refused_with_their_places,
    wrong_callbacks_of_topics_are_refused_with_their_places,
    every_header_that_the_server_sets_is_refused,
    a_topic_shows_its_callback_without_the_values_of_headers,
    a_hidden_value_keeps_the_stored_one_for_the_same_origin,
    a_hidden_value_is_the_one_that_is_stored_when_it_is_written,
    settings_of_the_server_forbid_callbacks,
    jobs_that_are_called_get_a_schedule_and_a_ttr,
    a_patch_does_not_take_a_callback,
    a_callback_is_part_of_what_a_repeat_is_compared_by,
    secrets_are_shown_once,
    a_third_secret_is_refused,
);

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

async fn assert_unchanged(api: &Api) {
    assert_eq!(api.get("/topics").await.expect(200).body, "{\"topics\":[]}\n");
}

async fn wrong_callbacks_of_jobs_are_refused_with_their_places(engine: Engine) {
    let api = Api::new(engine).await;
    let long = "v".repeat(1_025);
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("x-{n}"), json!("v"))).collect();
    let large: serde_json::Map<String, Value> =
        (0..4).map(|n| (format!("x-{n}"), json!("v".repeat(1_024)))).collect();
    for (callback, places) in [
        (json!("http://a/"), vec!["/callback"]),
        (json!({}), vec!["/callback/url"]),
        (json!({"url": "ftp://a/"}), vec!["/callback/url"]),
        (json!({"url": "http://user:s3cret@a/"}), vec!["/callback/url"]),
        (
            json!({"url": 5, "method": "post", "timeout": "500ms"}),
            vec!["/callback/url", "/callback/method", "/callback/timeout"],
        ),
        (
            json!({"url": "http://a/", "timeout": "11m", "retries": 5}),
            vec!["/callback/timeout", "/callback/retries"],
        ),
        (json!({"url": "http://a/", "rate": 5}), vec!["/callback/rate"]),
        (json!({"url": "http://a/", "headers": []}), vec!["/callback/headers"]),
        (json!({"url": "http://a/", "headers": many}), vec!["/callback/headers"]),
        (json!({"url": "http://a/", "headers": large}), vec!["/callback/headers"]),
        (
            json!({"url": "http://a/", "headers": {"host": "b", "x~a": 5, "X-B": "a\r\nb", "x-c": long, "x-d": "ok"}}),
            vec![
                "/callback/headers/host",
                "/callback/headers/x~0a",
                "/callback/headers/X-B",
                "/callback/headers/x-c",
            ],
        ),
        (json!({"url": "http://a/", "headers": {"a": "1", "A": "2"}}), vec!["/callback/headers/A"]),
        (
            json!({"url": "http://a/", "headers": {"": "1", "a b": "2"}}),
            vec!["/callback/headers", "/callback/headers/a b"],
        ),
        (json!({"url": "http://a/", "headers": {"x": "[hidden]"}}), vec!["/callback/headers/x"]),
    ] {
        let job = json!({"topic": "t", "id": "a", "callback": callback});
        let problem = api.send("POST", "/jobs", &job.to_string()).await.expect_problem(422, "invalid_job");
        let mut found = error_locations(&problem);
        let mut places: Vec<String> = places.into_iter().map(str::to_owned).collect();
        found.sort_unstable();
        places.sort_unstable();
        assert_eq!(found, places, "{callback}");
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
        let batch = json!({"jobs": [job]}).to_string();
        let results = api.send("POST", "/batch/jobs", &batch).await.expect(200).json();
        assert_eq!(results["results"][0]["problem"]["code"], "invalid_job", "{results}");
    }
    assert_unchanged(&api).await;
}

async fn wrong_callbacks_of_topics_are_refused_with_their_places(engine: Engine) {
    let api = Api::new(engine).await;
    for (callback, places) in [
        (json!({}), vec!["/callback"]),
        (json!({"method": "PUT"}), vec!["/callback/method", "/callback"]),
        (json!({"rate": 5, "timeout": 5}), vec!["/callback/timeout"]),
        (json!({"rate": 0, "concurrency": 0}), vec!["/callback/rate", "/callback/concurrency"]),
        (json!({"rate": 0.0101}), vec!["/callback/rate"]),
        (json!({"rate": "5"}), vec!["/callback/rate"]),
        (json!({"rate": 10_000.5}), vec!["/callback/rate"]),
        (
            json!({"url": "http://a/#b", "headers": {"te": "x"}}),
            vec!["/callback/url", "/callback/headers/te"],
        ),
        (json!({"url": "http://a/", "headers": {"x": "[hidden]"}}), vec!["/callback/headers/x"]),
    ] {
        let settings = json!({"callback": callback}).to_string();
        let problem = api.send("PUT", "/topics/t", &settings).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), places, "{callback}");
    }
    for secret in ["", "whsec_", "whsec_AAAA", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"] {
        let body = json!({"secret": secret}).to_string();
        let refused =
            api.send("POST", "/topics/t/secrets", &body).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&refused), ["/secret"], "{secret}");
    }
    assert_unchanged(&api).await;
}

async fn every_header_that_the_server_sets_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for name in [
        "Host",
        "expect",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "proxy-authorization",
        "Webhook-Id",
        "linger-topic",
    ] {
        let job = json!({"topic": "t", "callback": {"url": "http://a/", "headers": {name: "s3cret"}}});
        let problem = api.send("POST", "/jobs", &job.to_string()).await.expect_problem(422, "invalid_job");
        assert_eq!(error_locations(&problem), [format!("/callback/headers/{name}")]);
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
    }
    let own =
        json!({"topic": "t", "callback": {"url": "http://a/", "headers": {"Content-Type": "text/plain"}}});
    api.send("POST", "/jobs", &own.to_string()).await.expect(201);
}

async fn a_topic_shows_its_callback_without_the_values_of_headers(engine: Engine) {
    let api = Api::new(engine).await;
    let callback = json!({
        "url": "HTTP://Localhost/a?b", "method": "PUT", "headers": {"Authorization": "Bearer s3cret", "x-a": ""},
        "timeout": "20s", "rate": 0.05, "concurrency": 3,
    });
    let shown = json!({
        "url": "http://localhost/a?b", "method": "PUT", "headers": {"authorization": "[hidden]", "x-a": "[hidden]"},
        "timeout": 20, "rate": 0.05, "concurrency": 3,
    });
    let settings = json!({"callback": callback}).to_string();
    let put = api.send("PUT", "/topics/t", &settings).await.expect(200);
    assert_eq!(put.json()["settings"]["callback"], shown);
    for target in ["/topics/t", "/topics"] {
        let response = api.get(target).await.expect(200);
        assert!(!String::from_utf8_lossy(&response.body).contains("s3cret"), "{target}");
    }
    let back = api.get("/topics/t").await.json()["settings"].to_string();
    let put = api.send("PUT", "/topics/t", &back).await.expect(200).json();
    assert_eq!(put["settings"]["callback"], shown, "what is shown can be sent back");
    let stored = api.queue.topic(&topic("t")).await.expect("reads").stats.config.settings.callback;
    let headers = stored.target.expect("has a target").headers;
    assert_eq!(headers.get("authorization"), Some("Bearer s3cret"));
    let limits = api.send("PUT", "/topics/t", r#"{"callback":{"rate":5}}"#).await.expect(200).json();
    assert_eq!(limits["settings"]["callback"], json!({"rate": 5}));
    api.send("PUT", "/topics/t", "{}").await.expect(200);
    assert_unchanged(&api).await;
}

async fn a_hidden_value_keeps_the_stored_one_for_the_same_origin(engine: Engine) {
    let api = Api::new(engine).await;
    let put = async |url: &str, headers: Value| {
        let settings = json!({"callback": {"url": url, "headers": headers}}).to_string();
        api.send("PUT", "/topics/t", &settings).await
    };
    let stored = async || {
        let config = api.queue.topic(&topic("t")).await.expect("reads").stats.config;
        let target = config.settings.callback.target.expect("has a target");
        target.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    put("http://a/", json!({"x": "s3cret", "y": "old"})).await.expect(200);
    put("http://a:80/b?c", json!({"X": "[hidden]", "y": "new"})).await.expect(200);
    assert_eq!(stored().await, ["x: s3cret", "y: new"]);
    for url in ["https://a/", "http://b/", "http://a:81/"] {
        let problem = put(url, json!({"x": "[hidden]"})).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), ["/callback/headers/x"], "{url}");
        assert!(text(&problem["detail"]).contains("scheme, host or port"), "{problem}");
    }
    let problem = put("http://a/", json!({"z": "[hidden]"})).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/callback/headers/z"]);
    assert_eq!(stored().await, ["x: s3cret", "y: new"]);
}

async fn a_hidden_value_is_the_one_that_is_stored_when_it_is_written(engine: Engine) {
    let api = Api::new(engine).await;
    let put = async |url: &str, x: &str| {
        let settings = json!({"callback": {"url": url, "headers": {"x": x}}}).to_string();
        api.send("PUT", "/topics/t", &settings).await
    };
    let settings = async || api.queue.topic(&topic("t")).await.expect("reads").stats.config.settings;
    put("http://a/", "new").await.expect(200);
    let new = settings().await;
    put("http://a/", "old").await.expect(200);
    api.store.put_before_next(new);
    put("http://a/b", "[hidden]").await.expect(200);
    let target = settings().await.callback.target.expect("has a target");
    assert_eq!((target.url.as_str(), target.headers.get("x")), ("http://a/b", Some("new")));
    put("http://b/", "other").await.expect(200);
    let elsewhere = settings().await;
    put("http://a/", "old").await.expect(200);
    api.store.put_before_next(elsewhere);
    put("http://a/b", "[hidden]").await.expect_problem(422, "invalid_request");
}

async fn settings_of_the_server_forbid_callbacks(engine: Engine) {
    let defaults = CallbackSettings::default;
    let hosts = vec!["*.example.com".to_owned()];
    for (settings, key, job_only) in [
        (CallbackSettings { in_jobs: false, ..defaults() }, "callbacks.in_jobs", true),
        (CallbackSettings { allow_http: false, ..defaults() }, "callbacks.allow_http", false),
        (CallbackSettings { allow_hosts: hosts, ..defaults() }, "callbacks.allow_hosts", false),
    ] {
        let limits = Limits { callbacks: settings, ..Limits::default() };
        let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
        let job = r#"{"topic":"t","callback":{"url":"http://a/"}}"#;
        let problem = api.send("POST", "/jobs", job).await.expect_problem(422, "callback_not_allowed");
        assert!(text(&problem["detail"]).contains(key), "{problem}");
        let batch = format!("{{\"jobs\":[{job}]}}");
        let results = api.send("POST", "/batch/jobs", &batch).await.expect(200).json();
        assert_eq!(results["results"][0]["problem"]["code"], "callback_not_allowed");
        let put = api.send("PUT", "/topics/t", r#"{"callback":{"url":"http://a/"}}"#).await;
        if job_only {
            put.expect(200);
        } else {
            put.expect_problem(422, "callback_not_allowed");
            assert_unchanged(&api).await;
        }
    }
    let api = Api::new(engine).await;
    let metadata = r#"{"topic":"t","callback":{"url":"http://[::ffff:169.254.169.254]/"}}"#;
    let problem = api.send("POST", "/jobs", metadata).await.expect_problem(422, "callback_not_allowed");
    assert!(text(&problem["detail"]).contains("callbacks.allow_networks"), "{problem}");
    let limits = Limits {
        callbacks: CallbackSettings { max_timeout: seconds(60), ..defaults() },
        ..Limits::default()
    };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    let slow = r#"{"topic":"t","callback":{"url":"http://a/","timeout":"61s"}}"#;
    let problem = api.send("POST", "/jobs", slow).await.expect_problem(422, "invalid_job");
    assert!(text(&problem["detail"]).contains("60 s (callbacks.max_timeout)"), "{problem}");
    api.send("POST", "/jobs", &slow.replace("61s", "60s")).await.expect(201);
}

async fn jobs_that_are_called_get_a_schedule_and_a_ttr(engine: Engine) {
    let callbacks = CallbackSettings { retry: retry(&[15, 180]), ..CallbackSettings::default() };
    let limits = Limits { callbacks, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    let facts = |job: Value| (job["ttr"].clone(), job["retry"].clone(), job["max_attempts"].clone());
    let add = async |topic: &str, rest: &str| {
        facts(api.add(&format!(r#"{{"topic":"{topic}","delay":9{rest}}}"#)).await)
    };
    let own = r#","callback":{"url":"http://a/","timeout":"2m"}"#;
    let (plain, listed) = (Value::Null, json!([15, 180]));
    assert_eq!(add("t", "").await, (json!(60), plain.clone(), json!(16)));
    assert_eq!(add("t", own).await, (json!(130), listed.clone(), json!(3)));
    let default_timeout = r#","ttr":5,"callback":{"url":"http://a/"}"#;
    assert_eq!(add("t", default_timeout).await, (json!(40), listed.clone(), json!(3)));
    assert_eq!(
        add("t", &format!(r#"{own},"ttr":"1h","retry":[1],"max_attempts":7"#)).await,
        (json!(3600), json!([1]), json!(7))
    );
    assert_eq!(add("t", &format!(r#"{own},"retry":[]"#)).await, (json!(130), plain, json!(16)));
    api.send("PUT", "/topics/hooks", r#"{"callback":{"url":"http://a/"}}"#).await.expect(200);
    assert_eq!(add("hooks", "").await, (json!(60), listed.clone(), json!(3)));
    api.send("PUT", "/topics/hooks", r#"{"max_attempts":5,"callback":{"url":"http://a/"}}"#)
        .await
        .expect(200);
    assert_eq!(add("hooks", "").await, (json!(60), listed, json!(5)));
    api.send("PUT", "/topics/hooks", r#"{"retry":[7],"callback":{"rate":5}}"#).await.expect(200);
    assert_eq!(add("hooks", own).await, (json!(130), json!([7]), json!(2)));
}

async fn a_patch_does_not_take_a_callback(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":9}"#).await;
    let patch = r#"{"ttr":9,"callback":{"url":"http://a/"}}"#;
    let problem = api.send("PATCH", "/jobs/a", patch).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/callback"]);
    assert!(text(&problem["detail"]).contains("cannot be changed"), "{problem}");
    assert_eq!(api.get("/jobs/a").await.json()["ttr"], 60);
}

async fn a_callback_is_part_of_what_a_repeat_is_compared_by(engine: Engine) {
    let api = Api::new(engine).await;
    let job = |callback: &str| format!(r#"{{"topic":"t","id":"a","delay":9,"callback":{callback}}}"#);
    let first = job(r#"{"url":"http://a/","headers":{"x":"1","Y":"2"}}"#);
    api.send("POST", "/jobs", &first).await.expect(201);
    let same = job(r#"{"headers":{"y":"2","X":"1"},"method":"POST","url":"HTTP://A"}"#);
    for repeat in [first, same] {
        assert_eq!(
            api.send("POST", "/jobs", &repeat).await.expect(200).header("idempotent-replayed"),
            "true"
        );
    }
    let other = job(r#"{"url":"http://a/","headers":{"x":"1","y":"3"}}"#);
    api.send("POST", "/jobs", &other).await.expect_problem(409, "job_exists");
    api.send("POST", "/jobs", r#"{"topic":"t","id":"a","delay":9}"#).await.expect_problem(409, "job_exists");
    let shown = json!({"url": "http://a/", "method": "POST", "headers": {"x": "[hidden]", "y": "[hidden]"}});
    assert_eq!(api.get("/jobs/a").await.expect(200).json()["callback"], shown);
}

async fn secrets_are_shown_once(engine: Engine) {
    let api = Api::new(engine).await;
    assert_eq!(api.get("/topics/t/secrets").await.expect(200).json(), json!({"secrets": []}));
    let made = api.post("/topics/t/secrets").await.expect(201).json();
    let own = json!({"secret": SECRET}).to_string();
    let added = api.send("POST", "/topics/t/secrets", &own).await.expect(201).json();
    assert_eq!(added["secret"], SECRET);
    assert_eq!(api.send("POST", "/topics/t/secrets", &own).await.expect(200).json(), added);
    let view = |added: &Value| json!({"id": added["id"], "created_at": added["created_at"]});
    let listed = json!({"secrets": [view(&made), view(&added)]});
    api.send("PUT", "/topics/t", r#"{"ttr":5}"#).await.expect(200);
    api.send("PUT", "/topics/t", "{}").await.expect(200);
    assert_eq!(api.get("/topics/t/secrets").await.expect(200).json(), listed);
    for target in ["/topics", "/topics/t", "/topics/t/secrets", "/metrics"] {
        let body = String::from_utf8_lossy(&api.get(target).await.expect(200).body).into_owned();
        for secret in [SECRET, text(&made["secret"])] {
            assert!(!body.contains(&secret[6..]), "{target} shows a secret");
        }
    }
    let path = |added: &Value| format!("/topics/t/secrets/{}", text(&added["id"]));
    api.delete(&path(&made)).await.expect(204);
    api.delete(&path(&made)).await.expect_problem(404, "secret_not_found");
    api.delete("/topics/t/secrets/1").await.expect_problem(400, "invalid_parameter");
    api.delete(&path(&added)).await.expect(204);
    assert_unchanged(&api).await;
}

async fn a_third_secret_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let first = api.post("/topics/t/secrets").await.expect(201).json();
    api.send("POST", "/topics/t/secrets", "{}").await.expect(201);
    api.post("/topics/t/secrets").await.expect_problem(409, "too_many_secrets");
    api.post("/topics/other/secrets").await.expect(201);
    api.delete(&format!("/topics/t/secrets/{}", text(&first["id"]))).await.expect(204);
    api.post("/topics/t/secrets").await.expect(201);
}
