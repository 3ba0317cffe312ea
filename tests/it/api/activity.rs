//! Who polls for jobs and who holds them, and which endpoints are called, over all topics.

use serde_json::{Value, json};

use super::{
    calling::{Endpoint, api, job_in},
    on_every_engine,
};
use crate::harness::{api::Api, jobs::seconds, stores::Engine};

on_every_engine!(
    workers_are_shown_with_their_polls_and_jobs,
    workers_are_shown_with_their_latest_notes,
    endpoints_of_all_topics_are_shown,
);

async fn workers(api: &Api, query: &str) -> Value {
    api.get(&format!("/workers{query}")).await.expect(200).json()
}

async fn workers_are_shown_with_their_polls_and_jobs(engine: Engine) {
    let api = Api::new(engine).await;
    assert_eq!(workers(&api, "").await["workers"], json!([]));
    for id in ["a", "b"] {
        api.add(&json!({"topic": "mail", "id": id}).to_string()).await;
        api.get("/topics/mail/pop?worker=w-7").await.expect(200);
        api.advance_and_promote(seconds(5)).await;
    }
    api.get("/topics/mail/pop?worker=w-8").await.expect(204);
    let request = json!({"topics": ["mail", "order"], "worker": "w-8"}).to_string();
    assert_eq!(api.send("POST", "/batch/pop", &request).await.expect(200).json()["jobs"], json!([]));
    let held = json!({"topic": "mail", "worker": "w-7", "waiting": 0, "polled_at": "2026-11-21T05:40:05.000Z", "reserved": 2,
        "oldest_reserved_at": "2026-11-21T05:40:00.000Z", "addresses": []});
    let idle = |topic: &str| {
        json!({"topic": topic, "worker": "w-8", "waiting": 0, "polled_at": "2026-11-21T05:40:10.000Z", "reserved": 0,
            "addresses": []})
    };
    assert_eq!(workers(&api, "").await["workers"], json!([held, idle("mail"), idle("order")]));
    assert_eq!(workers(&api, "?topic=order").await["workers"], json!([idle("order")]));
    assert_eq!(workers(&api, "?topic=none").await["workers"], json!([]));
    // A worker that polls no more is shown for as long as it holds jobs.
    api.advance_and_promote(seconds(51)).await;
    let shown = workers(&api, "").await["workers"].clone();
    let brief: Vec<_> = shown
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| (&row["topic"], &row["worker"], &row["reserved"]))
        .collect();
    assert_eq!(brief.len(), 3, "{shown}");
    assert_eq!(brief[0], (&json!("mail"), &json!("w-7"), &json!(1)), "{shown}");
    api.advance_and_promote(seconds(10)).await;
    assert_eq!(workers(&api, "").await["workers"], json!([]));
}

async fn workers_are_shown_with_their_latest_notes(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..7 {
        api.add(&json!({"topic": "mail", "id": format!("job-{n}")}).to_string()).await;
        let held = api.get("/topics/mail/pop?worker=w-7").await.expect(200).json();
        if n != 3 {
            api.advance_and_promote(seconds(1)).await;
            let touch = json!({"receipt": held["receipt"], "note": format!("{n} of 7")}).to_string();
            api.send("POST", &format!("/jobs/job-{n}/touch"), &touch).await.expect(200);
        }
    }
    let shown = workers(&api, "").await["workers"].take();
    assert_eq!(shown[0]["reserved"], 7);
    let notes: Vec<_> = [6, 5, 4, 2, 1]
        .into_iter()
        .map(|n| {
            let second = if n > 3 { n } else { n + 1 };
            json!({"id": format!("job-{n}"), "note": format!("{n} of 7"), "noted_at": format!("2026-11-21T05:40:0{second}.000Z")})
        })
        .collect();
    assert_eq!(shown[0]["notes"], json!(notes));
}

async fn endpoints_of_all_topics_are_shown(engine: Engine) {
    let api = api(engine).await;
    let endpoint = Endpoint::start(vec![(503, Vec::new(), "")]).await;
    for (n, topic) in ["one", "two"].into_iter().enumerate() {
        let settings = json!({"callback": {"url": endpoint.url}}).to_string();
        api.send("PUT", &format!("/topics/{topic}"), &settings).await.expect(200);
        api.add(&json!({"topic": topic, "id": topic}).to_string()).await;
        endpoint.received(n + 1).await;
    }
    job_in(&api, "one", "delayed").await;
    job_in(&api, "two", "gone").await;
    let shown = api.get("/callbacks").await.expect(200).json();
    let [one, two] = [0, 1].map(|n| shown["endpoints"][n].clone());
    let host = endpoint.url.strip_suffix("/hook?a=b").expect("is its path");
    for (row, topic) in [(&one, "one"), (&two, "two")] {
        assert_eq!((&row["topic"], &row["host"]), (&json!(topic), &json!(host)), "{shown}");
    }
    assert_eq!(one["last_failure"]["reason"], "http_503");
    assert!(two.get("last_failure").is_none(), "{shown}");
    assert_eq!(one["minute"], json!({"calls": 1, "succeeded": 0}), "{shown}");
    assert_eq!(two["minute"], json!({"calls": 1, "succeeded": 1}), "{shown}");
    assert_eq!(api.get("/callbacks?topic=two").await.expect(200).json()["endpoints"], json!([two]));
    let of_topic = api.get("/topics/two/callbacks").await.expect(200).json();
    assert_eq!(of_topic["endpoints"], json!([two]));
    api.clock.advance(seconds(70));
    let later = api.get("/topics/two/callbacks").await.expect(200).json();
    assert_eq!(later["endpoints"][0]["minute"], json!({"calls": 0, "succeeded": 0}), "{later}");
}
