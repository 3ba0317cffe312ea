//! Dead letters: list, requeue, delete.

use linger::store::Steps;
use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::{ALL, after, id, seconds},
    stores::Engine,
    wait::{StepLimit, TimeLimit},
};

on_every_engine!(
    a_dead_letter_shows_when_and_why_it_died,
    a_requeued_job_starts_again,
    only_dead_jobs_are_requeued,
    pages_list_all_dead_letters_oldest_first,
    dead_letters_of_one_moment_are_listed_by_id,
    a_page_leaves_out_what_moves_while_it_is_read,
    a_bulk_requeue_moves_the_oldest_up_to_its_limit,
    bulk_steps_change_more_than_one_slice,
    a_bulk_requeue_leaves_those_that_die_again,
    a_bulk_delete_removes_only_dead_letters,
    a_bulk_delete_spares_those_that_die_meanwhile,
    a_bulk_delete_deletes_none_in_place_of_one_that_moved,
    a_page_of_large_bodies_is_short,
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
    api.bury("t").await;
    let at = r#"{"at":"2026-11-21T09:00:00+01:00"}"#;
    let morning = api.send("POST", "/jobs/1/requeue", at).await.expect(200).json();
    assert_eq!(
        (&morning["state"], &morning["due_at"]),
        (&json!("delayed"), &json!("2026-11-21T08:00:00.000Z"))
    );
    api.advance_and_promote(seconds(60)).await;
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
    assert_eq!(pages(&api, 2).await, [vec!["1", "2"], vec!["3", "4"], vec!["5"]]);
}

/// The ids on each page, and the cursor of the last one.
async fn pages(api: &Api, limit: usize) -> Vec<Vec<String>> {
    let (mut found, mut target) = (Vec::new(), format!("/topics/t/dead?limit={limit}"));
    let mut step_limit = StepLimit::new();
    loop {
        step_limit.step();
        let page = api.get(&target).await.expect(200).json();
        let jobs = page["jobs"].as_array().expect("jobs").iter();
        found.push(jobs.map(|job| text(&job["id"]).to_owned()).collect());
        let Some(cursor) = page.get("next_cursor") else { return found };
        target = format!("/topics/t/dead?limit={limit}&cursor={}", text(cursor));
    }
}

/// Makes dead letters of all these jobs in the same millisecond.
async fn die_together(api: &Api, ids: &[String]) {
    for id in ids {
        let body = format!(r#"{{"topic":"t","id":"{id}","max_attempts":1,"body":"body of {id}"}}"#);
        api.add(&body).await;
    }
    let time_limit = TimeLimit::new();
    while api.get("/topics/t").await.json()["counts"]["ready"] != 0 {
        time_limit.check(|| "jobs are still ready".to_owned());
        api.send("POST", "/batch/pop", r#"{"topics":["t"],"max":100}"#).await.expect(200);
    }
    api.advance_and_promote(seconds(60)).await;
}

async fn dead_letters_of_one_moment_are_listed_by_id(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 1).await;
    die_together(&api, &["d", "b", "e", "c", "a"].map(str::to_owned)).await;
    let all = ["1", "a", "b", "c", "d", "e"];
    for limit in 1..=7 {
        let pages = pages(&api, limit).await;
        assert_eq!(pages.concat(), all, "in pages of {limit}");
        assert_eq!(pages.len(), all.len().div_ceil(limit), "no page is short but the last one");
    }
    let page = api.get("/topics/t/dead?limit=2").await.json();
    assert_eq!(page["jobs"][1]["body"], "body of a");
}

async fn a_page_of_large_bodies_is_short(engine: Engine) {
    let api = Api::new(engine).await;
    let body = "x".repeat(256 * 1_024 - 2);
    for n in 0..34 {
        api.add(&format!(r#"{{"topic":"t","id":"{n:02}","body":"{body}"}}"#)).await;
        api.bury("t").await;
    }
    let page = api.get("/topics/t/dead?limit=100").await.expect(200).json();
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(32), "8 MiB of bodies");
    let rest = listed(&api, &format!("/topics/t/dead?limit=100&cursor={}", text(&page["next_cursor"]))).await;
    assert_eq!(rest, ["32", "33"]);
}

async fn a_page_leaves_out_what_moves_while_it_is_read(engine: Engine) {
    for (count, first, second) in [(5, ["1", "4", "5"], Some(["2"])), (4, ["1", "4", "2"], None)] {
        let api = Api::new(engine).await;
        add_dead_letters(&api, count).await;
        let hung = api.store.hang_gets();
        let page = tokio::spawn({
            let api = api.clone();
            async move { api.get("/topics/t/dead?limit=3").await.expect(200).json() }
        });
        api.until(|| hung.hung_calls() == 3).await;
        // When they are read, the second one is a dead letter of another moment and the third one is gone.
        api.store
            .requeue(ALL, &id("2"), after(seconds(0)), None)
            .await
            .expect("requeues")
            .expect("is not refused");
        api.bury("t").await;
        api.delete("/jobs/3").await.expect(204);
        hung.release();
        let page = page.await.expect("is answered");
        let ids: Vec<_> = page["jobs"].as_array().expect("jobs").iter().map(|job| text(&job["id"])).collect();
        assert_eq!(ids, first);
        match second {
            None => assert!(page.get("next_cursor").is_none()),
            Some(second) => {
                let cursor = text(&page["next_cursor"]);
                assert_eq!(listed(&api, &format!("/topics/t/dead?cursor={cursor}")).await, second);
            }
        }
    }
}

async fn bulk_steps_change_more_than_one_slice(engine: Engine) {
    let api = Api::new(engine).await;
    let ids: Vec<String> = (0..230).map(|n| format!("{n:03}")).collect();
    die_together(&api, &ids).await;
    let some = api.send("POST", "/topics/t/dead/requeue", r#"{"limit":101}"#).await.expect(200);
    assert_eq!(some.body, "{\"requeued\":101,\"skipped\":0}\n");
    assert_eq!(listed(&api, "/topics/t/dead?limit=100").await, ids[101..201]);
    assert_eq!(api.delete("/topics/t/dead").await.expect(200).body, "{\"deleted\":129}\n");
    let counts = &api.get("/topics/t").await.json()["counts"];
    assert_eq!((&counts["dead"], &counts["ready"]), (&json!(0), &json!(101)));
}

async fn a_bulk_requeue_leaves_those_that_die_again(engine: Engine) {
    let api = Api::new(engine).await;
    let ids: Vec<String> = (0..150).map(|n| format!("{n:03}")).collect();
    die_together(&api, &ids).await;
    let first = api.store.hang_lists();
    let requeue = tokio::spawn({
        let api = api.clone();
        async move { api.post("/topics/t/dead/requeue").await.expect(200).body }
    });
    api.until(|| first.hung_calls() == 1).await;
    let second = api.store.hang_lists();
    first.release();
    api.until(|| second.hung_calls() == 1).await;
    // One of the first slice dies again, behind all others.
    api.clock.advance(seconds(1));
    let again = text(&api.bury("t").await["id"]).to_owned();
    second.release();
    assert_eq!(requeue.await.expect("is answered"), "{\"requeued\":150,\"skipped\":0}\n");
    assert_eq!(listed(&api, "/topics/t/dead").await, [again]);
}

async fn a_bulk_delete_spares_those_that_die_meanwhile(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 3).await;
    api.add(r#"{"topic":"t","id":"later"}"#).await;
    let hung = api.store.hang_lists();
    let delete = tokio::spawn({
        let api = api.clone();
        async move { api.delete("/topics/t/dead").await.expect(200).body }
    });
    api.until(|| hung.hung_calls() == 1).await;
    api.bury("t").await;
    hung.release();
    assert_eq!(delete.await.expect("is answered"), "{\"deleted\":3}\n");
    assert_eq!(listed(&api, "/topics/t/dead").await, ["later"]);
}

async fn a_bulk_delete_deletes_none_in_place_of_one_that_moved(engine: Engine) {
    let api = Api::new(engine).await;
    let ids: Vec<String> = (0..120).map(|n| format!("{n:03}")).collect();
    die_together(&api, &ids).await;
    let hung = api.store.hang_changes();
    let delete = tokio::spawn({
        let api = api.clone();
        async move { api.delete("/topics/t/dead").await.expect(200).body }
    });
    api.until(|| hung.hung_calls() == 1).await;
    // It is the last one now.
    api.clock.advance(seconds(1));
    api.post("/jobs/007/requeue").await.expect(200);
    api.bury("t").await;
    hung.release();
    assert_eq!(delete.await.expect("is answered"), "{\"deleted\":119}\n");
    assert_eq!(listed(&api, "/topics/t/dead").await, ["007"]);
}

async fn a_bulk_requeue_moves_the_oldest_up_to_its_limit(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 3).await;
    let some = api.send("POST", "/topics/t/dead/requeue", r#"{"limit":2}"#).await.expect(200);
    assert_eq!(some.body, "{\"requeued\":2,\"skipped\":0}\n");
    assert_eq!(listed(&api, "/topics/t/dead").await, ["3"]);
    assert_eq!(api.post("/topics/t/dead/requeue").await.expect(200).body, "{\"requeued\":1,\"skipped\":0}\n");
    assert_eq!(api.get("/topics/t").await.json()["counts"]["ready"], 3);
    let again = api.pop("t").await;
    assert_eq!((&again["attempt"], again.get("reason")), (&json!(1), None));
}

async fn a_bulk_delete_removes_only_dead_letters(engine: Engine) {
    let api = Api::new(engine).await;
    add_dead_letters(&api, 3).await;
    api.add(r#"{"topic":"t","id":"alive"}"#).await;
    assert_eq!(api.delete("/topics/t/dead").await.expect(200).body, "{\"deleted\":3}\n");
    assert!(listed(&api, "/topics/t/dead").await.is_empty());
    api.get("/jobs/alive").await.expect(200);
    api.delete("/jobs/alive").await.expect(204);
    assert_eq!(api.delete("/topics/t/dead").await.expect(200).body, "{\"deleted\":0}\n");
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
