//! Lists of jobs and the reasons of dead letters.

use serde_json::{Value, json};

use super::{bulk, on_every_engine};
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::seconds,
    stores::Engine,
    wait::{StepLimit, TimeLimit},
};

on_every_engine!(
    jobs_are_listed_by_state_and_moment,
    filters_of_a_list_are_applied_together,
    reserved_jobs_are_listed_by_worker,
    jobs_of_one_worker_are_counted_and_deleted,
    a_walk_by_cursor_meets_every_job_once,
    a_cursor_works_only_for_its_own_list,
    invalid_parameters_of_a_list_are_named,
    reasons_of_dead_letters_are_grouped,
    deaths_are_counted_by_time_until_the_present,
    reasons_over_all_topics_are_grouped_by_topic,
    few_callers_list_at_the_same_time,
);

async fn list(api: &Api, query: &str) -> Value {
    api.get(&format!("/jobs?{query}")).await.expect(200).json()
}

fn ids(page: &Value) -> Vec<String> {
    page["jobs"].as_array().expect("a list").iter().map(|job| text(&job["id"]).to_owned()).collect()
}

async fn jobs_are_listed_by_state_and_moment(engine: Engine) {
    let api = Api::new(engine).await;
    for (id, delay) in [("a", "2m"), ("b", "1m"), ("c", "3m")] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}","delay":"{delay}","body":{{"n":1}}}}"#)).await;
    }
    let page = list(&api, "").await;
    assert_eq!((ids(&page), &page["examined"]), (vec!["b".into(), "a".into(), "c".into()], &json!(3)));
    let first = &page["jobs"][0];
    assert_eq!((&first["body_bytes"], first.get("body")), (&json!(7), None));
    let mut whole = api.get("/jobs/b").await.json();
    whole.as_object_mut().expect("a job").remove("body");
    whole["body_bytes"] = json!(7);
    assert_eq!(*first, whole, "all but the body is as in the job");
    assert_eq!(ids(&list(&api, "order=desc&limit=2").await), ["c", "a"]);
    api.advance_and_promote(seconds(120)).await;
    let mut ready = ids(&list(&api, "state=ready").await);
    ready.sort();
    assert_eq!(ready, ["a", "b"]);
    let popped = api.pop("t").await;
    let reserved = list(&api, "state=reserved").await;
    assert_eq!(ids(&reserved), [text(&popped["id"])]);
    assert_eq!(reserved["jobs"][0]["reserved_until"], popped["reserved_until"]);
    let dead = api.bury("t").await;
    assert_eq!(ids(&list(&api, "state=dead").await), [text(&dead["id"])]);
    assert_eq!(ids(&list(&api, "state=delayed").await), ["c"]);
}

async fn filters_of_a_list_are_applied_together(engine: Engine) {
    let api = Api::new(engine).await;
    for (topic, id, delay) in [("t", "o:1", 60), ("t", "o:2", 120), ("t", "p:1", 120), ("u", "o:3", 120)] {
        api.add(&format!(r#"{{"topic":"{topic}","id":"{id}","delay":{delay}}}"#)).await;
    }
    for (query, expected) in [
        ("topic=t", &["o:1", "o:2", "p:1"][..]),
        ("topic=u", &["o:3"]),
        ("topic=nobody", &[]),
        ("topic=t&id_prefix=o:", &["o:1", "o:2"]),
        ("id_prefix=o:3", &["o:3"]),
        ("topic=t&from=2026-11-21T05:42:00Z&id_prefix=o:", &["o:2"]),
        ("topic=t&to=2026-11-21T05:42:00Z", &["o:1"]),
        ("from=2026-11-21T05:42:00.001Z", &[]),
    ] {
        let mut found = ids(&list(&api, query).await);
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
}

/// The first search examines as many jobs as one call may, and has the embedded engine read all ids.
#[tokio::test]
async fn after_a_long_search_ids_are_found_at_once() {
    let api = Api::new(Engine::Embedded).await;
    let add = async |ids: &mut dyn Iterator<Item = usize>| {
        let jobs: Vec<_> =
            ids.map(|n| json!({"topic": "t", "id": format!("order-{n:05}"), "delay": "1h"})).collect();
        api.send("POST", "/batch/jobs", &json!({ "jobs": jobs }).to_string()).await.expect(200);
    };
    for first in (0..21_000).step_by(1_000) {
        add(&mut (first..first + 1_000)).await;
    }
    let page = list(&api, "id_prefix=order-2099").await;
    assert_eq!((ids(&page).len(), &page["examined"]), (0, &json!(20_000)));
    let limit = TimeLimit::new();
    let page = loop {
        let page = list(&api, "id_prefix=order-2099").await;
        if page["examined"] == 10 {
            break page;
        }
        limit.check(|| page.to_string());
        limit.pause().await;
    };
    let expected: Vec<_> = (20_990..21_000).map(|n| format!("order-{n}")).collect();
    assert_eq!((ids(&page), page.get("next_cursor")), (expected, None));
    add(&mut (209_900..209_902)).await;
    let page = list(&api, "id_prefix=order-2099&limit=11").await;
    assert_eq!((ids(&page).len(), &page["examined"]), (11, &json!(11)), "later ones are known");
    let rest =
        list(&api, &format!("id_prefix=order-2099&limit=11&cursor={}", text(&page["next_cursor"]))).await;
    assert_eq!(ids(&rest), ["order-209901"]);
}

async fn reserved_jobs_are_listed_by_worker(engine: Engine) {
    let api = Api::new(engine).await;
    for (topic, worker) in [("t", "w 1"), ("t", "w 2"), ("u", "w 1")] {
        api.add(&format!(r#"{{"topic":"{topic}","id":"{topic}:{}"}}"#, worker.replace(' ', "-"))).await;
        let worker = worker.replace(' ', "%20");
        api.get(&format!("/topics/{topic}/pop?worker={worker}")).await.expect(200);
        api.advance_and_promote(seconds(1)).await;
    }
    for (query, expected) in [
        ("reserved_by=w%201", &["t:w-1", "u:w-1"][..]),
        ("reserved_by=w%201&topic=t", &["t:w-1"]),
        ("reserved_by=w%201&order=desc&limit=1", &["u:w-1"]),
        ("reserved_by=w%202", &["t:w-2"]),
        ("reserved_by=w", &[]),
    ] {
        let page = list(&api, &format!("state=reserved&{query}")).await;
        assert_eq!(ids(&page), expected, "{query}");
        let named = |job: &Value| query.contains(&text(&job["reserved_by"]).replace(' ', "%20"));
        assert!(page["jobs"].as_array().expect("a list").iter().all(named), "{page}");
    }
}

async fn jobs_of_one_worker_are_counted_and_deleted(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..6 {
        api.add(&format!(r#"{{"topic":"t","id":"job-{n}"}}"#)).await;
        api.get(&format!("/topics/t/pop?worker=w-{}", n % 2)).await.expect(200);
    }
    let filter = json!({ "state": "reserved", "topic": "t", "reserved_by": "w-1" });
    let mut request = json!({ "action": "delete", "filter": filter });
    let counted = api.send("POST", "/bulk", &request.to_string()).await.expect(200).json();
    assert_eq!(counted["matched"], 3, "not all reserved jobs");
    (request["dry_run"], request["limit"]) = (json!(false), json!(9));
    let started = api.send("POST", "/bulk", &request.to_string()).await.expect(202).json();
    let operation = bulk::ended(&api, text(&started["id"])).await;
    assert_eq!((&operation["changed"], &operation["filter"]), (&json!(3), &filter));
    let left = list(&api, "state=reserved").await;
    let holders: Vec<&str> =
        left["jobs"].as_array().expect("a list").iter().map(|job| text(&job["reserved_by"])).collect();
    assert_eq!(holders, ["w-0"; 3]);
}

async fn a_walk_by_cursor_meets_every_job_once(engine: Engine) {
    let api = Api::new(engine).await;
    let jobs: Vec<String> =
        (0..30).map(|n| format!(r#"{{"topic":"t","id":"job-{n}","delay":60}}"#)).collect();
    api.send("POST", "/batch/jobs", &format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).await.expect(200);
    for order in ["asc", "desc"] {
        let (mut met, mut query) = (Vec::new(), format!("limit=7&order={order}"));
        let mut step_limit = StepLimit::new();
        loop {
            step_limit.step();
            let page = list(&api, &query).await;
            met.extend(ids(&page));
            let Some(cursor) = page.get("next_cursor") else { break };
            query = format!("limit=7&order={order}&cursor={}", text(cursor));
            // A job that is finished meanwhile is no reason to lose others.
            api.delete("/jobs/job-0").await;
        }
        met.retain(|id| id != "job-0");
        met.sort();
        let mut expected: Vec<String> = (1..30).map(|n| format!("job-{n}")).collect();
        expected.sort();
        assert_eq!(met, expected, "{order}");
    }
}

async fn a_cursor_works_only_for_its_own_list(engine: Engine) {
    let api = Api::new(engine).await;
    for id in ["a", "b"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}","delay":60}}"#)).await;
    }
    let cursor = list(&api, "topic=t&limit=1").await["next_cursor"].clone();
    for query in ["limit=1", "topic=u&limit=1", "topic=t&limit=1&order=desc", "topic=t&state=ready"] {
        let response = api.get(&format!("/jobs?{query}&cursor={}", text(&cursor))).await;
        assert_eq!(
            error_locations(&response.expect_problem(400, "invalid_parameter")),
            ["cursor"],
            "{query}"
        );
    }
    assert_eq!(ids(&list(&api, &format!("topic=t&limit=200&cursor={}", text(&cursor))).await).len(), 1);
}

async fn invalid_parameters_of_a_list_are_named(engine: Engine) {
    let api = Api::new(engine).await;
    let long = "x".repeat(1_025);
    for (query, parameters) in [
        ("state=done", &["state"][..]),
        ("topic=a/b", &["topic"]),
        ("from=yesterday", &["from"]),
        ("from=2026-11-21T05:42:00Z&to=2026-11-21T05:42:00Z", &["to"]),
        ("id_prefix=", &["id_prefix"]),
        ("id_prefix=a/b", &["id_prefix"]),
        ("reason_prefix=x", &["reason_prefix"]),
        (&format!("state=dead&reason_prefix={long}"), &["reason_prefix"]),
        ("reserved_by=w", &["reserved_by"]),
        ("state=dead&reserved_by=w", &["reserved_by"]),
        ("state=reserved&reserved_by=", &["reserved_by"]),
        ("state=reserved&reserved_by=a%00", &["reserved_by"]),
        ("state=ready&order=desc", &["order"]),
        ("order=up", &["order"]),
        ("limit=0", &["limit"]),
        ("limit=201", &["limit"]),
        ("cursor=00", &["cursor"]),
        ("states=ready&form=x", &["states", "form"]),
    ] {
        let response = api.get(&format!("/jobs?{query}")).await;
        let problem = response.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), parameters, "{query}");
    }
}

/// Adds a job to a topic, buries it for this reason, and lets a time pass. Returns its id.
async fn bury_for(api: &Api, topic: &str, reason: &str, then: u64) -> String {
    api.add(&json!({ "topic": topic }).to_string()).await;
    let held = api.pop(topic).await;
    let id = text(&held["id"]).to_owned();
    let body = json!({ "receipt": held["receipt"], "reason": reason }).to_string();
    api.send("POST", &format!("/jobs/{id}/bury"), &body).await.expect(200);
    api.advance_and_promote(seconds(then)).await;
    id
}

async fn reasons(api: &Api, target: &str) -> Value {
    api.get(target).await.expect(200).json()
}

async fn reasons_of_dead_letters_are_grouped(engine: Engine) {
    let api = Api::new(engine).await;
    for reason in ["http_503 from 10.0.0.7", "http_503 from 10.0.0.8", "http_404 from 10.0.0.7"] {
        bury_for(&api, "t", reason, 1).await;
    }
    let seen = reasons(&api, "/topics/t/dead/reasons").await;
    assert_eq!((&seen["examined"], &seen["complete"]), (&json!(3), &json!(true)));
    let groups = seen["reasons"].as_array().expect("a list");
    assert_eq!(groups.len(), 2);
    let unavailable = json!({
        "topic": "t", "reason": "http_503 from #.#.#.#", "prefix": "http_503 from 10.0.0.", "count": 2, "deaths": [2],
        "first_dead_at": "2026-11-21T05:40:00.000Z", "last_dead_at": "2026-11-21T05:40:01.000Z",
        "job_id": groups[0]["job_id"],
    });
    assert_eq!(groups[0], unavailable, "another status is another group");
    let found = list(&api, "state=dead&reason_prefix=http_503%20from%2010.0.0.").await;
    assert_eq!(found["jobs"].as_array().map(Vec::len), Some(2));
    assert_eq!(ids(&found)[1], text(&unavailable["job_id"]), "the one that died last");
    let empty = json!({
        "reasons": [], "from": "2026-11-21T05:40:00.000Z", "step": 60, "deaths": [0], "examined": 0, "complete": true,
    });
    assert_eq!(reasons(&api, "/topics/none/dead/reasons").await, empty);
}

async fn deaths_are_counted_by_time_until_the_present(engine: Engine) {
    let api = Api::new(engine).await;
    for (reason, then) in [("order 7", 1), ("no", 119), ("order 8", 60)] {
        bury_for(&api, "t", reason, then).await;
    }
    let seen = reasons(&api, "/topics/t/dead/reasons").await;
    let over_time = |seen: &Value| json!([seen["from"], seen["step"], seen["deaths"]]);
    assert_eq!(over_time(&seen), json!(["2026-11-21T05:40:00.000Z", 60, [2, 0, 1, 0]]));
    let of_groups = |seen: &Value| json!([seen["reasons"][0]["deaths"], seen["reasons"][1]["deaths"]]);
    assert_eq!(of_groups(&seen), json!([[1, 0, 1, 0], [1, 0, 0, 0]]));
    // An hour later the minutes are too many, so the steps have five; they begin at 05:40.
    api.advance_and_promote(seconds(3_600)).await;
    let seen = reasons(&api, "/topics/t/dead/reasons").await;
    let mut deaths = vec![0; 13];
    deaths[0] = 3;
    assert_eq!(over_time(&seen), json!(["2026-11-21T05:40:00.000Z", 300, deaths]));
}

async fn reasons_over_all_topics_are_grouped_by_topic(engine: Engine) {
    let api = Api::new(engine).await;
    for (topic, reason) in [("b", "order 7"), ("a", "order 7"), ("b", "unknown"), ("b", "order 8")] {
        bury_for(&api, topic, reason, 60).await;
    }
    let last = bury_for(&api, "a", "unknown", 0).await;
    let seen = reasons(&api, "/dead/reasons").await;
    let groups = seen["reasons"].as_array().expect("a list").iter();
    let groups: Vec<_> = groups
        .map(|group| json!([group["topic"], group["reason"], group["count"], group["deaths"]]))
        .collect();
    let expected = json!([
        ["b", "order #", 2, [1, 0, 0, 1, 0]],
        ["a", "order #", 1, [0, 1, 0, 0, 0]],
        ["a", "unknown", 1, [0, 0, 0, 0, 1]],
        ["b", "unknown", 1, [0, 0, 1, 0, 0]],
    ]);
    assert_eq!(Value::Array(groups), expected);
    assert_eq!(seen["reasons"][2]["job_id"], last);
    assert_eq!(
        json!([seen["deaths"], seen["examined"], seen["complete"]]),
        json!([[1, 1, 1, 1, 1], 5, true])
    );
    let of_b = reasons(&api, "/topics/b/dead/reasons").await;
    assert_eq!(of_b["reasons"][0]["deaths"], json!([1, 0, 0, 1, 0]));
    assert_eq!(json!([of_b["deaths"], of_b["examined"]]), json!([[1, 0, 1, 1, 0], 3]));
}

async fn few_callers_list_at_the_same_time(engine: Engine) {
    let api = Api::new(engine).await;
    let hung = api.store.hang_lists();
    let read = || tokio::spawn(api.call("GET", "/jobs?topic=t").send());
    let readers = [read(), read(), read(), read()];
    api.until(|| hung.hung_calls() >= 4).await;
    for target in ["/topics/t/dead/reasons", "/dead/reasons"] {
        let last = tokio::spawn(api.call("GET", target).send());
        api.advance_until_answered(seconds(5), last).await.expect_problem(503, "busy");
    }
    hung.release();
    for reader in readers {
        reader.await.expect("answers").expect(200);
    }
}
