//! Schedules over HTTP: what clients make of them, what their runs are, and what answers show.

use linger::{
    http::read_template,
    job::{JobId, ScheduleName, TopicFilter},
    queue::Error,
    store::{ScheduleChange, ScheduleContent, ScheduleStore},
};
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, Response, text},
    jobs::{millis, seconds},
    stores::Engine,
};

on_every_engine!(
    a_schedule_is_made_changed_and_deleted,
    a_put_can_name_the_revision_that_it_replaces,
    a_change_of_the_job_keeps_the_next_run,
    schedules_are_listed_in_pages_by_name,
    the_next_runs_are_listed,
    a_dry_run_shows_the_schedule_and_makes_none,
    a_paused_schedule_does_not_run_and_does_not_catch_up,
    a_client_runs_a_schedule_now,
    a_run_is_a_job_that_names_its_occurrence,
    an_occurrence_gives_way_to_a_run_that_is_not_over,
    a_run_waits_while_the_intake_is_paused,
    a_job_that_is_refused_since_a_setting_changed_waits,
    answers_hide_the_headers_of_a_callback,
    a_schedule_that_cannot_be_read_can_be_replaced_and_deleted,
);

const REPORT: &str = r#"{"cron":"30 9 * * MON-FRI","time_zone":"Europe/Berlin","jitter":"5m","job":{"topic":"report","body":{"kind":"daily"}}}"#;
/// At the full hours. The clock of each test begins at 05:40.
const HOURLY: &str = r#"{"every":"1h","job":{"topic":"t"}}"#;

async fn put(api: &Api, name: &str, body: &str) -> Response {
    api.send("PUT", &format!("/schedules/{name}"), body).await
}

async fn get(api: &Api, name: &str) -> Value {
    api.get(&format!("/schedules/{name}")).await.expect(200).json()
}

/// Lets time pass, and runs the schedules that are then due.
async fn run_after(api: &Api, minutes: u64) {
    api.clock.advance(seconds(60 * minutes));
    api.queue.run_due_schedules(read_template).await.expect("runs");
}

async fn a_schedule_is_made_changed_and_deleted(engine: Engine) {
    let api = Api::new(engine).await;
    let made = put(&api, "daily-report", REPORT).await.expect(201);
    assert_eq!((made.header("etag"), made.header("location")), ("\"1\"", "/schedules/daily-report"));
    let expected = json!({
        "name": "daily-report", "cron": "30 9 * * MON-FRI", "time_zone": "Europe/Berlin", "jitter": 300,
        "overlap": "skip", "missed": "one", "job": {"topic": "report", "body": {"kind": "daily"}},
        "revision": 1, "state": "active",
        "next": ["2026-11-23T08:30:00.000Z", "2026-11-24T08:30:00.000Z", "2026-11-25T08:30:00.000Z"],
        "runs": {"fired": 0, "overlap": 0, "missed": 0},
    });
    assert_eq!(made.json(), expected);
    let unchanged = put(&api, "daily-report", REPORT).await.expect(200);
    assert_eq!((unchanged.header("etag"), unchanged.json()), ("\"1\"", expected.clone()));
    let read = api.get("/schedules/daily-report").await.expect(200);
    assert_eq!((read.header("etag"), read.json()), ("\"1\"", expected));
    let other = r#"{"every":90,"start":"2026-11-21T06:00:00+00:00","end":"2026-11-21T06:02:00Z","overlap":"allow",
        "missed":"all","missed_within":"2h","job":{"topic":"u","ttr":"5m","expire":"1h"}}"#;
    let changed = put(&api, "daily-report", other).await.expect(200);
    let expected = json!({
        "name": "daily-report", "every": 90, "start": "2026-11-21T06:00:00.000Z",
        "end": "2026-11-21T06:02:00.000Z", "overlap": "allow", "missed": "all", "missed_within": 7200,
        "job": {"topic": "u", "ttr": "5m", "expire": "1h"}, "revision": 2, "state": "active",
        "next": ["2026-11-21T06:00:00.000Z", "2026-11-21T06:01:30.000Z"],
        "runs": {"fired": 0, "overlap": 0, "missed": 0},
    });
    assert_eq!((changed.header("etag"), changed.json()), ("\"2\"", expected));
    run_after(&api, 23).await;
    assert_eq!(get(&api, "daily-report").await["state"], "ended");
    api.delete("/schedules/daily-report").await.expect(204);
    for method in ["GET", "DELETE"] {
        let gone = api.call(method, "/schedules/daily-report").send().await;
        gone.expect_problem(404, "schedule_not_found");
    }
}

async fn a_put_can_name_the_revision_that_it_replaces(engine: Engine) {
    let api = Api::new(engine).await;
    let put_if = async |revision: &str, body: &str| {
        api.call("PUT", "/schedules/s").header("if-match", revision).json(body).send().await
    };
    put_if("\"1\"", HOURLY).await.expect_problem(412, "revision_differs");
    put_if("\"0\"", HOURLY).await.expect(201);
    put_if("\"0\"", HOURLY).await.expect_problem(412, "revision_differs");
    put_if("\"1\"", HOURLY).await.expect(200);
    put_if("\"1\"", REPORT).await.expect(200);
    let problem = put_if("\"1\"", HOURLY).await.expect_problem(412, "revision_differs");
    assert!(text(&problem["detail"]).contains("has revision 2, not 1"), "{problem}");
    assert_eq!(get(&api, "s").await["cron"], "30 9 * * MON-FRI");
    for wrong in ["*", "W/\"2\"", "two", ""] {
        put_if(wrong, HOURLY).await.expect_problem(400, "malformed_request");
    }
}

async fn a_change_of_the_job_keeps_the_next_run(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", r#"{"every":3600,"start":"2026-11-21T05:00:00Z","job":{"topic":"t"}}"#).await.expect(201);
    run_after(&api, 20).await;
    let before = get(&api, "s").await;
    let other = r#"{"every":3600,"start":"2026-11-21T05:00:00Z","job":{"topic":"t","body":2}}"#;
    let after = put(&api, "s", other).await.expect(200).json();
    for member in ["next", "last", "last_job", "runs"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    assert_eq!((&after["runs"]["fired"], &after["revision"]), (&json!(1), &json!(2)));
}

async fn schedules_are_listed_in_pages_by_name(engine: Engine) {
    let api = Api::new(engine).await;
    assert_eq!(api.get("/schedules").await.expect(200).json(), json!({"schedules": []}));
    for name in ["c", "a", "e", "B", "d"] {
        put(&api, name, HOURLY).await.expect(201);
    }
    let page = async |query: &str| {
        let page = api.get(&format!("/schedules?{query}")).await.expect(200).json();
        let names = page["schedules"].as_array().expect("a list").iter();
        let names: Vec<_> = names.map(|schedule| text(&schedule["name"]).to_owned()).collect();
        (names, page.get("next_cursor").map(|cursor| text(cursor).to_owned()))
    };
    assert_eq!(page("").await, (["B", "a", "c", "d", "e"].map(str::to_owned).to_vec(), None));
    let (first, cursor) = page("limit=2").await;
    let (second, further) = page(&format!("limit=2&cursor={}", cursor.expect("there is more"))).await;
    let (third, end) = page(&format!("limit=2&cursor={}", further.expect("there is more"))).await;
    assert_eq!(
        (first, second, third, end),
        (vec!["B".into(), "a".into()], vec!["c".into(), "d".into()], vec!["e".into()], None)
    );
    let one = api.get("/schedules?limit=1").await.expect(200).json();
    assert_eq!(one["schedules"][0], get(&api, "B").await);
    for query in ["limit=0", "limit=101", "cursor=x", "cursor=2f", "topic=t"] {
        api.get(&format!("/schedules?{query}")).await.expect_problem(400, "invalid_parameter");
    }
}

async fn the_next_runs_are_listed(engine: Engine) {
    let api = Api::new(engine).await;
    // Over the end of summer time in Berlin, in the year after.
    let weekly = r#"{"cron":"0 8 * * SUN","time_zone":"Europe/Berlin","start":"2027-10-20T00:00:00Z","job":{"topic":"t"}}"#;
    put(&api, "weekly", weekly).await.expect(201);
    let next = api.get("/schedules/weekly/next?count=3").await.expect(200).json();
    let expected = ["2027-10-24T06:00:00.000Z", "2027-10-31T07:00:00.000Z", "2027-11-07T07:00:00.000Z"];
    assert_eq!(next, json!({ "next": expected, "clock_changes": [] }));
    let many = async |query: &str| {
        let next = api.get(&format!("/schedules/weekly/next{query}")).await.expect(200).json();
        next["next"].as_array().expect("a list").len()
    };
    assert_eq!((many("").await, many("?count=1000").await), (10, 1_000));
    let ends = r#"{"cron":"@daily","end":"2026-11-23T00:00:00Z","job":{"topic":"t"}}"#;
    put(&api, "weekly", ends).await.expect(200);
    assert_eq!(many("").await, 2);
    for count in ["0", "1001", "x"] {
        let target = format!("/schedules/weekly/next?count={count}");
        api.get(&target).await.expect_problem(400, "invalid_parameter");
    }
    api.get("/schedules/none/next").await.expect_problem(404, "schedule_not_found");
}

async fn a_dry_run_shows_the_schedule_and_makes_none(engine: Engine) {
    let api = Api::new(engine).await;
    let preview = async |name: &str, query: &str, body: &str| {
        api.send("PUT", &format!("/schedules/{name}?{query}"), body).await
    };
    let nightly = r#"{"cron":"30 2 * * *","time_zone":"Europe/Berlin","job":{"topic":"t"}}"#;
    let shown = preview("nightly", "dry_run=true&count=2", nightly).await.expect(200).json();
    assert_eq!(shown["next"], json!(["2026-11-22T01:30:00.000Z", "2026-11-23T01:30:00.000Z"]));
    let changes = json!([
        {"at": "2027-03-28T01:00:00.000Z", "time": "2027-03-28T02:30:00", "effect": "skipped"},
        {"at": "2027-10-31T00:30:00.000Z", "time": "2027-10-31T02:30:00", "effect": "repeated"},
    ]);
    assert_eq!((&shown["clock_changes"], &shown["revision"]), (&changes, &json!(1)));
    api.get("/schedules/nightly").await.expect_problem(404, "schedule_not_found");
    put(&api, "nightly", nightly).await.expect(201);
    assert_eq!(api.get("/schedules/nightly/next").await.expect(200).json()["clock_changes"], changes);
    let before = get(&api, "nightly").await;
    let other = preview("nightly", "dry_run=true", HOURLY).await.expect(200).json();
    assert_eq!((&other["revision"], &other["clock_changes"]), (&json!(2), &json!([])));
    assert_eq!(other["next"].as_array().map(Vec::len), Some(10));
    let same = preview("nightly", "dry_run=true", nightly).await.expect(200).json();
    assert_eq!((&same["revision"], &same["next"][0]), (&json!(1), &before["next"][0]));
    assert_eq!(get(&api, "nightly").await, before, "nothing has changed");
    preview("nightly", "dry_run=true", r#"{"cron":"x","job":{"topic":"t"}}"#)
        .await
        .expect_problem(422, "invalid_request");
    preview("nightly", "count=3", nightly).await.expect_problem(400, "invalid_parameter");
    preview("nightly", "dry_run=1", nightly).await.expect_problem(400, "invalid_parameter");
}

async fn a_paused_schedule_does_not_run_and_does_not_catch_up(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", HOURLY).await.expect(201);
    for _ in 0..2 {
        let paused = api.post("/schedules/s/pause").await.expect(200);
        assert_eq!(paused.header("etag"), "\"2\"", "a repeat changes nothing");
        assert_eq!(paused.json()["state"], "paused");
    }
    run_after(&api, 150).await;
    api.get("/topics/t/pop").await.expect(204);
    for _ in 0..2 {
        let resumed = api.post("/schedules/s/resume").await.expect(200).json();
        assert_eq!((&resumed["state"], &resumed["revision"]), (&json!("active"), &json!(3)));
        assert_eq!(resumed["next"][0], "2026-11-21T09:00:00.000Z");
    }
    run_after(&api, 0).await;
    api.get("/topics/t/pop").await.expect(204);
    run_after(&api, 50).await;
    assert_eq!(api.pop("t").await["due_at"], "2026-11-21T09:00:00.000Z");
    for step in ["pause", "resume"] {
        api.post(&format!("/schedules/none/{step}")).await.expect_problem(404, "schedule_not_found");
    }
}

async fn a_client_runs_a_schedule_now(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "daily-report", REPORT).await.expect(201);
    let before = get(&api, "daily-report").await;
    let run = async |body: &str| api.send("POST", "/schedules/daily-report/run", body).await;
    let first = run(r#"{"id":"again"}"#).await.expect(201);
    assert_eq!(first.header("location"), "/jobs/run:daily-report:again");
    let job = first.json();
    assert_eq!((&job["id"], &job["topic"]), (&json!("run:daily-report:again"), &json!("report")));
    assert_eq!((&job["state"], &job["body"]), (&json!("ready"), &json!({"kind": "daily"})));
    let repeated = run(r#"{"id":"again"}"#).await.expect(200);
    assert_eq!((repeated.header("idempotent-replayed"), repeated.json()), ("true", job));
    let ids = [
        api.post("/schedules/daily-report/run").await.expect(201).json()["id"].clone(),
        run("{}").await.expect(201).json()["id"].clone(),
    ];
    assert!(ids.iter().all(|id| text(id).starts_with("run:daily-report:")) && ids[0] != ids[1], "{ids:?}");
    assert_eq!(get(&api, "daily-report").await, before, "the schedule does not change");
    let longest = |len: usize| format!(r#"{{"id":"{}"}}"#, "x".repeat(len));
    run(&longest(50)).await.expect(201);
    run(&longest(51)).await.expect_problem(422, "invalid_request");
    api.post("/schedules/none/run").await.expect_problem(404, "schedule_not_found");
    let other = REPORT.replace("daily\"}", "weekly\"}");
    put(&api, "daily-report", &other).await.expect(200);
    run(r#"{"id":"again"}"#).await.expect_problem(409, "job_exists");
    api.send("POST", "/topics/report/pause", r#"{"intake":true}"#).await.expect(200);
    run(r#"{"id":"new"}"#).await.expect_problem(409, "intake_paused");
}

async fn a_run_is_a_job_that_names_its_occurrence(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", r#"{"every":"1h","job":{"topic":"t","ttr":90,"expire":"30m","body":[1]}}"#)
        .await
        .expect(201);
    run_after(&api, 19).await;
    api.get("/topics/t/pop").await.expect(204);
    run_after(&api, 1).await;
    api.clock.advance(millis(1_500));
    let job = api.pop("t").await;
    assert!(text(&job["id"]).starts_with("cron:s:20261121T060000Z."), "{job}");
    assert_eq!(
        (&job["due_at"], &job["expires_at"], &job["late"], &job["ttr"], &job["body"]),
        (
            &json!("2026-11-21T06:00:00.000Z"),
            &json!("2026-11-21T06:30:00.000Z"),
            &json!(1.5),
            &json!(90),
            &json!([1])
        )
    );
    let schedule = get(&api, "s").await;
    assert_eq!(
        (&schedule["last"], &schedule["last_job"], &schedule["next"][0]),
        (&json!("2026-11-21T06:00:00.000Z"), &job["id"], &json!("2026-11-21T07:00:00.000Z"))
    );
    let metrics = String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("text");
    for line in [
        r#"linger_schedule_runs_total{schedule="s",outcome="fired"} 1"#,
        r#"linger_schedule_late_seconds_sum{schedule="s"} 1.5"#,
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line}: {metrics}");
    }
}

async fn an_occurrence_gives_way_to_a_run_that_is_not_over(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", HOURLY).await.expect(201);
    run_after(&api, 20).await;
    let last_job = get(&api, "s").await["last_job"].clone();
    run_after(&api, 60).await;
    let schedule = get(&api, "s").await;
    assert_eq!(schedule["runs"], json!({"fired": 1, "overlap": 1, "missed": 0}));
    assert_eq!((&schedule["last_job"], &schedule["last"]), (&last_job, &json!("2026-11-21T07:00:00.000Z")));
    run_after(&api, 125).await;
    assert_eq!(get(&api, "s").await["runs"]["missed"], 1, "the latest of two gave way");
}

async fn a_run_waits_while_the_intake_is_paused(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", HOURLY).await.expect(201);
    api.send("POST", "/topics/t/pause", r#"{"intake":true}"#).await.expect(200);
    run_after(&api, 20).await;
    let waiting = get(&api, "s").await;
    let expected = json!({"since": "2026-11-21T06:00:00.000Z", "reason": "intake_paused"});
    assert_eq!((&waiting["state"], &waiting["waiting"]), (&json!("waiting"), &expected));
    run_after(&api, 30).await;
    assert_eq!(get(&api, "s").await["waiting"], expected, "it began then");
    api.post("/topics/t/resume").await.expect(200);
    run_after(&api, 1).await;
    assert_eq!(api.pop("t").await["due_at"], "2026-11-21T06:00:00.000Z", "waiting is no outage");
    let after = get(&api, "s").await;
    assert_eq!((&after["state"], after.get("waiting")), (&json!("active"), None));
    assert_eq!(after["runs"], json!({"fired": 1, "overlap": 0, "missed": 0}));
}

async fn a_job_that_is_refused_since_a_setting_changed_waits(engine: Engine) {
    let api = Api::new(engine).await;
    put(&api, "s", HOURLY).await.expect(201);
    let (name, id) = (ScheduleName::parse("s").expect("a name"), JobId::generate());
    let refused =
        api.queue.run_schedule(&TopicFilter::ALL, &name, &id, |_, _| Err("/ttr is too long".into()));
    let error = refused.await.expect_err("is refused");
    assert_eq!(error, Error::TemplateRefused("/ttr is too long".into()));
    api.clock.advance(seconds(1_200));
    let run = api.queue.run_due_schedules(|_, _| Err("/ttr is too long".into()));
    run.await.expect("waits");
    assert_eq!(get(&api, "s").await["waiting"]["reason"], "invalid_job");
}

async fn answers_hide_the_headers_of_a_callback(engine: Engine) {
    let api = Api::new(engine).await;
    let body = |value: &str| {
        format!(
            r#"{{"every":"1h","job":{{"topic":"t","callback":{{"url":"http://shop.example/a","timeout":"5s",
                "headers":{{"authorization":"{value}"}}}},"body":{{"headers":{{"authorization":"as it is"}}}}}}}}"#
        )
    };
    let made = put(&api, "s", &body("secret")).await.expect(201);
    let callback = json!({
        "url": "http://shop.example/a", "timeout": "5s", "headers": {"authorization": "[hidden]"}
    });
    assert_eq!(made.json()["job"]["callback"], callback);
    assert_eq!(made.json()["job"]["body"], json!({"headers": {"authorization": "as it is"}}));
    for answer in [
        made,
        put(&api, "s", &body("secret")).await.expect(200),
        api.get("/schedules/s").await,
        api.get("/schedules").await,
        api.post("/schedules/s/pause").await,
        api.post("/schedules/s/run").await,
    ] {
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{answer:?}");
    }
    put(&api, "s", &body("[hidden]")).await.expect_problem(422, "invalid_job");
}

async fn a_schedule_that_cannot_be_read_can_be_replaced_and_deleted(engine: Engine) {
    let api = Api::new(engine).await;
    let spoil = async || {
        let name = ScheduleName::parse("s").expect("a name");
        let expected = api.store.schedule(&name).await.expect("reads").schedules.pop();
        let content = Some(ScheduleContent { next: None, text: "?".into() });
        let expected = expected.map(|schedule| schedule.content);
        let changes = vec![ScheduleChange { name, expected, content, run: None }];
        api.store.change_schedules(changes).await.expect("stores")[0].as_ref().expect("is as expected");
    };
    spoil().await;
    api.get("/schedules/s").await.expect_problem(503, "store_unavailable");
    assert_eq!(api.get("/schedules").await.expect(200).json(), json!({"schedules": []}));
    put(&api, "s", HOURLY).await.expect(201);
    spoil().await;
    api.delete("/schedules/s").await.expect(204);
    api.get("/schedules/s").await.expect_problem(404, "schedule_not_found");
}
