//! Lists of topics: pages by name, prefixes, other orders.

use linger::queue::Limits;
use serde_json::Value;

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations, text},
    jobs::{millis, seconds},
    stores::Engine,
    wait::StepLimit,
};

on_every_engine!(
    pages_list_all_topics,
    pages_list_the_topics_that_begin_with_a_prefix,
    the_topics_with_most_jobs_in_a_state_come_first,
    the_longest_overdue_topics_come_first,
    viewers_share_a_reading_for_two_seconds,
    few_viewers_read_all_topics_at_the_same_time,
    searches_wait_for_each_other_and_for_nothing_else,
    invalid_queries_are_refused,
    invalid_cursors_and_limits_are_refused,
);

fn names(page: &Value) -> Vec<&str> {
    page["topics"].as_array().expect("topics").iter().map(|topic| text(&topic["topic"])).collect()
}

/// The names on the only page of a list.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("/topics?{query}")).await.expect(200).json();
    assert!(page.get("next_cursor").is_none(), "{query}");
    names(&page).into_iter().map(str::to_owned).collect()
}

async fn pages_list_all_topics(engine: Engine) {
    let api = Api::new(engine).await;
    let names = ["a", "b:1", "b:2", "c-x", "z"];
    for name in names {
        api.add(&format!(r#"{{"topic":"{name}"}}"#)).await;
    }
    let (mut found, mut target) = (Vec::new(), "/topics?limit=2".to_owned());
    let (mut pages, mut step_limit) = (0, StepLimit::new());
    loop {
        step_limit.step();
        let page = api.get(&target).await.expect(200).json();
        let topics = page["topics"].as_array().expect("topics");
        found.extend(topics.iter().map(|topic| text(&topic["topic"]).to_owned()));
        pages += 1;
        let Some(cursor) = page.get("next_cursor") else { break };
        target = format!("/topics?limit=2&cursor={}", text(cursor));
    }
    assert_eq!((found, pages), (names.map(str::to_owned).to_vec(), 3));
    let all = api.get("/topics?limit=5").await.expect(200).json();
    assert!(all.get("next_cursor").is_none(), "a full last page has no cursor");
}

async fn pages_list_the_topics_that_begin_with_a_prefix(engine: Engine) {
    let api = Api::new(engine).await;
    for name in ["mail", "mail.b", "mail.a", "mail.c", "mails", "mai", "n", "..x"] {
        api.add(&format!(r#"{{"topic":"{name}"}}"#)).await;
    }
    let first = api.get("/topics?prefix=mail.&limit=2").await.expect(200).json();
    assert_eq!(names(&first), ["mail.a", "mail.b"]);
    let cursor = text(&first["next_cursor"]);
    assert_eq!(listed(&api, &format!("prefix=mail.&limit=2&cursor={cursor}")).await, ["mail.c"]);
    assert_eq!(listed(&api, "prefix=mail.&limit=3").await, ["mail.a", "mail.b", "mail.c"]);
    assert_eq!(listed(&api, "prefix=mail&limit=5").await, ["mail", "mail.a", "mail.b", "mail.c", "mails"]);
    assert_eq!(listed(&api, "prefix=..").await, ["..x"]);
    assert_eq!(listed(&api, "prefix=nobody").await, [""; 0]);
    // A cursor of another list continues by name.
    assert_eq!(listed(&api, &format!("prefix=m&cursor={cursor}")).await, ["mail.c", "mails"]);
    assert_eq!(listed(&api, "prefix=mail&sort=ready&limit=2").await, ["mail", "mail.a"]);
}

/// Adds ready, delayed and dead jobs to a topic.
async fn fill(api: &Api, name: &str, [dead, ready, delayed]: [usize; 3]) {
    for _ in 0..dead {
        api.add(&format!(r#"{{"topic":"{name}"}}"#)).await;
        api.bury(name).await;
    }
    for _ in 0..ready {
        api.add(&format!(r#"{{"topic":"{name}"}}"#)).await;
    }
    for _ in 0..delayed {
        api.add(&format!(r#"{{"topic":"{name}","delay":"1h"}}"#)).await;
    }
}

async fn the_topics_with_most_jobs_in_a_state_come_first(engine: Engine) {
    let api = Api::new(engine).await;
    for (name, counts) in [("a", [0, 1, 3]), ("b", [2, 1, 0]), ("c", [1, 0, 3]), ("d", [0, 4, 1])] {
        fill(&api, name, counts).await;
    }
    api.send("PUT", "/topics/aa", r#"{"ttr":9}"#).await.expect(200);
    assert_eq!(listed(&api, "sort=name").await, ["a", "aa", "b", "c", "d"]);
    assert_eq!(listed(&api, "sort=ready").await, ["d", "a", "b", "aa", "c"]);
    assert_eq!(listed(&api, "sort=delayed").await, ["a", "c", "d", "aa", "b"]);
    assert_eq!(listed(&api, "sort=dead").await, ["b", "c", "a", "aa", "d"]);
    for limit in 1..=6 {
        let all = ["a", "c", "d", "aa", "b"];
        assert_eq!(listed(&api, &format!("sort=delayed&limit={limit}")).await, all[..limit.min(5)]);
    }
    let page = api.get("/topics?sort=ready&limit=1").await.expect(200).json();
    let sole = api.get("/topics/d").await.expect(200).json();
    assert_eq!(
        (&page["topics"][0]["counts"], &page["topics"][0]["settings"]),
        (&sole["counts"], &sole["settings"])
    );
}

async fn the_longest_overdue_topics_come_first(engine: Engine) {
    let api = Api::new(engine).await;
    for (name, delay) in [("late", 2), ("later", 9), ("latest", 5), ("waits", 900)] {
        api.add(&format!(r#"{{"topic":"{name}","delay":{delay}}}"#)).await;
    }
    fill(&api, "dead", [1, 0, 0]).await;
    // Its oldest job has a callback of its own.
    let call = r#"{"topic":"called","delay":1,"callback":{"url":"https://one.example/"}}"#;
    api.add(call).await;
    api.advance_and_promote(seconds(20)).await;
    fill(&api, "called", [0, 3, 0]).await;
    let expected = ["called", "late", "latest", "later", "dead", "waits"];
    assert_eq!(listed(&api, "sort=overdue").await, expected);
    assert_eq!(listed(&api, "sort=overdue&limit=3").await, expected[..3]);
    let page = api.get("/topics?sort=overdue").await.expect(200).json();
    let shown: Vec<_> =
        page["topics"].as_array().expect("topics").iter().map(|topic| &topic["oldest_overdue_at"]).collect();
    assert_eq!(
        shown[..3],
        ["2026-11-21T05:40:01.000Z", "2026-11-21T05:40:02.000Z", "2026-11-21T05:40:05.000Z"]
    );
    assert!(shown[4..].iter().all(|oldest| oldest.is_null()));
}

async fn viewers_share_a_reading_for_two_seconds(engine: Engine) {
    let api = Api::new(engine).await;
    fill(&api, "a", [0, 1, 0]).await;
    let hung = api.store.hang_topics();
    let viewers: Vec<_> = (0..10)
        .map(|n| {
            let api = api.clone();
            let prefix = ["", "&prefix=a", "&limit=3"][n % 3];
            let sort = ["ready", "dead"][n % 2];
            tokio::spawn(async move { listed(&api, &format!("sort={sort}{prefix}")).await })
        })
        .collect();
    api.until(|| hung.hung_calls() == 1).await;
    hung.release();
    for viewer in viewers {
        assert_eq!(viewer.await.expect("is answered"), ["a"]);
    }
    fill(&api, "b", [0, 2, 0]).await;
    api.clock.advance(millis(1_999));
    assert_eq!(listed(&api, "sort=ready").await, ["a"]);
    assert_eq!(hung.hung_calls(), 1, "all of them share one reading");
    assert_eq!(listed(&api, "sort=overdue").await, ["a", "b"]);
    assert_eq!(listed(&api, "sort=name").await, ["a", "b"], "which is always read");
    api.clock.advance(millis(1));
    assert_eq!(listed(&api, "sort=ready").await, ["b", "a"]);
}

async fn few_viewers_read_all_topics_at_the_same_time(engine: Engine) {
    let limits = Limits { max_looks: 1, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    fill(&api, "a", [0, 1, 0]).await;
    let hung = api.store.hang_lists();
    let other = tokio::spawn({
        let api = api.clone();
        async move { api.get("/jobs?topic=a").await }
    });
    api.until(|| hung.hung_calls() == 1).await;
    let sorted = tokio::spawn({
        let api = api.clone();
        async move { api.get("/topics?sort=dead").await }
    });
    assert_eq!(listed(&api, "limit=9").await, ["a"], "a page by name needs no permit");
    api.advance_until_answered(seconds(5), sorted).await.expect_problem(503, "busy");
    hung.release();
    other.await.expect("is answered").expect(200);
    assert_eq!(listed(&api, "sort=dead").await, ["a"]);
}

async fn searches_wait_for_each_other_and_for_nothing_else(engine: Engine) {
    let api = Api::new(engine).await;
    fill(&api, "a", [0, 1, 0]).await;
    let hung = api.store.hang_lists();
    let get = |path: &'static str| {
        let api = api.clone();
        tokio::spawn(async move { api.get(path).await })
    };
    let searches = [get("/jobs"), get("/jobs?topic=a&id_prefix=zzzz")];
    api.until(|| hung.hung_calls() == 2).await;
    let of_topic = get("/jobs?topic=a");
    api.until(|| hung.hung_calls() == 3).await;
    assert_eq!(listed(&api, "prefix=a").await, ["a"]);
    let third = get("/jobs?state=dead&topic=a&reason_prefix=x");
    let refused = api.advance_until_answered(seconds(5), third).await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.expect_problem(503, "busy");
    assert_eq!(hung.hung_calls(), 3, "the store was not asked");
    hung.release();
    for answer in searches.into_iter().chain([of_topic]) {
        answer.await.expect("is answered").expect(200);
    }
}

async fn invalid_queries_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (query, parameter) in [
        ("sort=reserved", "sort"),
        ("sort=", "sort"),
        ("sort=Name", "sort"),
        ("sort=ready&sort=ready", "sort"),
        ("prefix=", "prefix"),
        ("prefix=a*", "prefix"),
        ("prefix=a+b", "prefix"),
        ("prefix=%c3%a9", "prefix"),
        ("sort=ready&cursor=61", "cursor"),
        ("sort=overdue&prefix=a&cursor=61", "cursor"),
        ("order=name", "order"),
    ] {
        let problem = api.get(&format!("/topics?{query}")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), [parameter], "{query}");
    }
    let long = "x".repeat(129);
    api.get(&format!("/topics?prefix={long}")).await.expect_problem(400, "invalid_parameter");
    api.get(&format!("/topics?prefix={}", &long[1..])).await.expect(200);
    api.get("/topics?sort=name&cursor=61").await.expect(200);
}

async fn invalid_cursors_and_limits_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for query in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=1.0",
        "cursor=zz",
        "cursor=7",
        "cursor=2f",
        "cursor=",
    ] {
        api.get(&format!("/topics?{query}")).await.expect_problem(400, "invalid_parameter");
    }
    for query in ["limit=0", "limit=101", "cursor=zz", "cursor=61", "cursor=2d312f61", "cursor=312f6120"] {
        api.get(&format!("/topics/t/dead?{query}")).await.expect_problem(400, "invalid_parameter");
    }
}
