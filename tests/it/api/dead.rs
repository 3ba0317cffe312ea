//! Dead letters: list, requeue, delete.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    a_dead_letter_shows_when_and_why_it_died,
    a_requeued_job_starts_again,
    only_dead_jobs_are_requeued,
    pages_list_all_dead_letters_oldest_first,
    a_bulk_requeue_moves_the_oldest_up_to_its_limit,
    a_bulk_delete_removes_only_dead_letters,
    invalid_requests_are_refused,
);

/// Dead letters `1` to `n` of topic `t`, a second apart.
async fn add_dead_letters(api: &Api, n: usize) {
    for id in 1..=n {
        api.add(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
        api.bury("t").await;
        api.advance_and_promote(seconds(1)).await;
    }
}

async fn listed(api: &Api, target: &str) -> Vec<String> {
    let page = api.get(target).await.expect(200).json();
    page["jobs"].as_array().expect("jobs").iter().map(|job| text(&job["id"]).to_owned()).collect()
}

async fn a_dead_letter_shows_when_and_why_it_died(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","max_attempts":1,"body":{"a": 1}}"#).await;
    api.pop("t").await;
    api.advance_and_promote(seconds(60)).await;
    let page = api.get("/topics/t/dead").await.expect(200);
    assert!(page.body.ends_with(b"\"body\":{\"a\": 1}}]}\n"));
    let job = &page.json()["jobs"][0];
    assert_eq!(
        (&job["state"], &job["reason"], &job["attempts"]),
        (&json!("dead"), &json!("ttr_expired"), &json!(1))
    );
    assert_eq!(job["dead_at"], "2026-11-21T05:41:00.000Z");
}

async fn a_requeued_job_starts_again(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 2).await;
    let now = api.post("/jobs/1/requeue").await.expect(200).json();
    assert_eq!((&now["state"], &now["attempts"]), (&json!("ready"), &json!(0)));
    assert!(now.get("reason").is_none() && now.get("dead_at").is_none());
    let later = api.send("POST", "/jobs/2/requeue", r#"{"delay":"1m"}"#).await.expect(200).json();
    assert_eq!((&later["state"], &later["due_at"]), (&json!("delayed"), &json!("2026-11-21T05:41:02.000Z")));
    assert_eq!(api.pop("t").await["attempt"], 1);
}

async fn only_dead_jobs_are_requeued(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let problem = api.post("/jobs/a/requeue").await.expect_problem(409, "not_dead");
    assert_eq!(problem["state"], "ready");
}

async fn pages_list_all_dead_letters_oldest_first(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 5).await;
    let (mut found, mut target) = (Vec::new(), "/topics/t/dead?limit=2".to_owned());
    loop {
        let page = api.get(&target).await.expect(200).json();
        found.extend(page["jobs"].as_array().expect("jobs").iter().map(|job| text(&job["id"]).to_owned()));
        let Some(cursor) = page.get("next_cursor") else { break };
        target = format!("/topics/t/dead?limit=2&cursor={}", text(cursor));
    }
    assert_eq!(found, ["1", "2", "3", "4", "5"]);
}

async fn a_bulk_requeue_moves_the_oldest_up_to_its_limit(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 3).await;
    let some = api.send("POST", "/topics/t/dead/requeue", r#"{"limit":2}"#).await.expect(200);
    assert_eq!(some.body, "{\"requeued\":2}\n");
    assert_eq!(listed(&api, "/topics/t/dead").await, ["3"]);
    assert_eq!(api.post("/topics/t/dead/requeue").await.expect(200).body, "{\"requeued\":1}\n");
    assert_eq!(api.get("/topics/t").await.json()["counts"]["ready"], 3);
}

async fn a_bulk_delete_removes_only_dead_letters(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 3).await;
    api.add(r#"{"topic":"t","id":"alive"}"#).await;
    assert_eq!(api.delete("/topics/t/dead").await.expect(200).body, "{\"deleted\":3}\n");
    assert!(listed(&api, "/topics/t/dead").await.is_empty());
    api.get("/jobs/alive").await.expect(200);
}

async fn invalid_requests_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 1).await;
    for bad in [r#"{"limit":0}"#, r#"{"limit":-1}"#, r#"{"limit":"all"}"#, r#"{"limit":1000001}"#] {
        let problem =
            api.send("POST", "/topics/t/dead/requeue", bad).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), ["/limit"]);
    }
    let problem =
        api.send("POST", "/jobs/1/requeue", r#"{"delay":-1}"#).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/delay"]);
    assert_eq!(listed(&api, "/topics/t/dead").await, ["1"]);
}
