//! The timeline: parameters, steps, what it shows, and how long it is kept.

use linger::store::Error;
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations},
    failing::Failure,
    jobs::seconds,
    stores::Engine,
    wait::let_others_run,
};

on_every_engine!(
    a_timeline_shows_delayed_jobs_by_due_time,
    a_span_without_a_step_is_divided_sensibly,
    the_topics_with_most_delayed_jobs_are_counted_apart,
    a_timeline_is_kept_for_two_seconds,
    invalid_parameters_of_a_timeline_are_named,
    a_failed_read_is_not_kept,
    callers_share_one_reading_and_few_read_at_once,
    callers_who_waited_for_a_reading_share_its_error,
);

async fn timeline(api: &Api, query: &str) -> Value {
    api.get(&format!("/timeline{query}")).await.expect(200).json()
}

async fn a_timeline_shows_delayed_jobs_by_due_time(engine: Engine) {
    let api = Api::new(engine).await;
    for delay in ["30s", "90s", "95s", "1h", "2h"] {
        api.add(&format!(r#"{{"topic":"t","delay":"{delay}"}}"#)).await;
    }
    api.add(r#"{"topic":"t"}"#).await;
    api.add(r#"{"topic":"t"}"#).await;
    api.pop("t").await;
    let seen = timeline(&api, "?topic=t&span=3m").await;
    let expected = json!({
        "now": "2026-11-21T05:40:00.000Z", "from": "2026-11-21T05:40:00.000Z", "step": 60,
        "counts": [1, 2, 0], "outside": 2, "ready": 1, "reserved": 1,
    });
    assert_eq!(seen, expected);
    assert_eq!(timeline(&api, "?span=3m").await, expected, "there is only one topic");
    let seen = timeline(&api, "?topic=t&from=2026-11-21T06:39:59Z&span=90m&step=1h").await;
    assert_eq!((&seen["from"], &seen["step"]), (&json!("2026-11-21T06:39:00.000Z"), &json!(3_600)));
    assert_eq!((&seen["counts"], &seen["outside"]), (&json!([1, 1]), &json!(3)), "the last step is whole");
    let empty = timeline(&api, "?topic=nobody&span=1m").await;
    assert_eq!((&empty["counts"], &empty["outside"]), (&json!([0]), &json!(0)));
}

async fn a_span_without_a_step_is_divided_sensibly(engine: Engine) {
    let api = Api::new(engine).await;
    for (query, step, steps) in [
        ("", 60, 60),
        ("?span=24h", 900, 96),
        ("?span=PT2H", 60, 120),
        ("?span=7d", 10_800, 56),
        ("?span=3652d", 28 * 86_400, 131),
        ("?span=1s", 60, 1),
        ("?span=5m&step=1h", 300, 1),
        ("?span=4000d&step=2200d", 2_200 * 86_400, 2),
        ("?span=4015d&step=4014d", 4_014 * 86_400, 2),
    ] {
        let seen = timeline(&api, query).await;
        let counts = seen["counts"].as_array().expect("a list").len();
        assert_eq!((seen["step"].as_i64(), counts), (Some(step), steps), "{query}");
    }
}

async fn the_topics_with_most_delayed_jobs_are_counted_apart(engine: Engine) {
    let api = Api::new(engine).await;
    for number in 1..=9 {
        for _ in 0..number {
            api.add(&format!(r#"{{"topic":"t{number}","delay":"70s"}}"#)).await;
        }
    }
    let seen = timeline(&api, "?by=topic&span=2m").await;
    assert_eq!(seen["counts"], json!([0, 45]));
    let topics = seen["topics"].as_array().expect("a list");
    let names: Vec<_> = topics.iter().map(|topic| topic["topic"].as_str().expect("a name")).collect();
    assert_eq!(names, ["t9", "t8", "t7", "t6", "t5", "t4", "t3", "t2"]);
    assert_eq!(topics[0]["counts"], json!([0, 9]));
}

async fn a_timeline_is_kept_for_two_seconds(engine: Engine) {
    let api = Api::new(engine).await;
    let count = async |span: &str| timeline(&api, span).await["counts"].to_string();
    let (near, far) = ("?span=1h&step=1h", "?span=25h&step=25h");
    assert_eq!((count(near).await, count(far).await), ("[0]".to_owned(), "[0]".to_owned()));
    api.add(r#"{"topic":"t","delay":"40m"}"#).await;
    api.advance_and_promote(seconds(1)).await;
    assert_eq!((count(near).await, count(far).await), ("[0]".to_owned(), "[0]".to_owned()));
    api.advance_and_promote(seconds(1)).await;
    assert_eq!((count(near).await, count(far).await), ("[1]".to_owned(), "[0]".to_owned()));
    api.advance_and_promote(seconds(28)).await;
    assert_eq!(count(far).await, "[1]");
}

async fn invalid_parameters_of_a_timeline_are_named(engine: Engine) {
    let api = Api::new(engine).await;
    for (query, parameters) in [
        ("topic=a/b", &["topic"][..]),
        ("from=now", &["from"]),
        ("span=0", &["span"]),
        ("span=12y", &["span"]),
        ("span=4400d", &["span"]),
        ("step=90s", &["step"]),
        ("step=0", &["step"]),
        ("span=401m&step=1m", &["step"]),
        ("by=host", &["by"]),
        ("by=topic&topic=t", &["by"]),
        ("topics=t&spam=1h", &["topics", "spam"]),
    ] {
        let response = api.get(&format!("/timeline?{query}")).await;
        let problem = response.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), parameters, "{query}");
    }
}

async fn a_failed_read_is_not_kept(engine: Engine) {
    let api = Api::new(engine).await;
    api.store.fail(Some(Failure::Error(Error::Unavailable("gone".to_owned()))));
    api.get("/timeline").await.expect_problem(503, "store_unavailable");
    api.store.fail(None);
    timeline(&api, "").await;
}

async fn callers_share_one_reading_and_few_read_at_once(engine: Engine) {
    let api = Api::new(engine).await;
    let hung = api.store.hang_timelines();
    let read = |span: &str| tokio::spawn(api.call("GET", &format!("/timeline?span={span}")).send());
    let shared = [read("1h"), read("1h"), read("1h")];
    let others = [read("2h"), read("3h"), read("4h")];
    api.until(|| hung.hung_calls() >= 4).await;
    let last = read("5h");
    api.advance_until_answered(seconds(5), last).await.expect_problem(503, "busy");
    assert_eq!(hung.hung_calls(), 4, "calls for the same span share one reading");
    hung.release();
    for reading in shared.into_iter().chain(others) {
        reading.await.expect("answers").expect(200);
    }
}

async fn callers_who_waited_for_a_reading_share_its_error(engine: Engine) {
    let api = Api::new(engine).await;
    let hung = api.store.hang_timelines();
    let read = || tokio::spawn(api.call("GET", "/timeline").send());
    let callers = [read(), read(), read(), read()];
    api.until(|| hung.hung_calls() >= 1).await;
    let_others_run().await;
    api.store.fail(Some(Failure::Error(Error::Unavailable("gone".to_owned()))));
    hung.release();
    for caller in callers {
        caller.await.expect("answers").expect_problem(503, "store_unavailable");
    }
    assert_eq!(hung.hung_calls(), 1, "the store was read once");
}
