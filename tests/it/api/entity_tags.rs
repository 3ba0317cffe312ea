//! A client that has an answer already is not sent it again.

use std::collections::BTreeSet;

use super::bulk::ended;
use crate::harness::{
    api::{Api, Response},
    openapi::contract,
    stores::Engine,
};

async fn known(api: &Api, target: &str, tag: &str) -> Response {
    api.call("GET", target).header("if-none-match", tag).send().await
}

/// A job of each kind and a bulk operation, so that no answer is empty.
async fn fill(api: &Api) {
    let callback = r#"{"callback":{"url":"http://127.0.0.1:59999/hook"}}"#;
    api.send("PUT", "/topics/hooks", callback).await.expect(200);
    api.add(r#"{"topic":"hooks","id":"h","delay":"1h"}"#).await;
    api.add(r#"{"topic":"mail","id":"m","delay":"1h"}"#).await;
    api.add(r#"{"topic":"mail","id":"dead"}"#).await;
    api.bury("mail").await;
    let daily = r#"{"cron":"0 6 * * *","job":{"topic":"mail"}}"#;
    api.send("PUT", "/schedules/daily", daily).await.expect(201);
    let shift = r#"{"id":"b","action":"reschedule","filter":{"topic":"mail"},"shift":"1m","dry_run":false,"limit":1}"#;
    api.send("POST", "/bulk", shift).await.expect(202);
    ended(api, "b").await;
}

const TARGETS: [&str; 14] = [
    "/jobs?topic=mail",
    "/jobs/m",
    "/bulk",
    "/bulk/b",
    "/schedules",
    "/topics",
    "/topics/mail",
    "/topics/hooks/callbacks",
    "/topics/mail/dead",
    "/topics/mail/dead/reasons",
    "/dead/reasons",
    "/workers",
    "/audit",
    "/callbacks",
];

#[tokio::test]
async fn an_answer_is_sent_again_only_if_it_has_changed() {
    let api = Api::new(Engine::Naive).await;
    fill(&api).await;
    for target in TARGETS {
        let first = api.get(target).await.expect(200);
        let tag = first.header("etag").to_owned();
        let same = known(&api, target, &tag).await.expect(304);
        assert_eq!((same.header("etag"), &same.body[..]), (&*tag, &b""[..]), "{target}");
        let other = known(&api, target, "W/\"00\"").await.expect(200);
        assert_eq!((other.header("etag"), &other.body), (&*tag, &first.body), "{target}");
    }
    let documented = contract().operations().iter().filter(|operation| operation.statuses.contains(&304));
    let documented: BTreeSet<_> = documented.map(|operation| (operation.id.clone(), 304)).collect();
    let unchanged: BTreeSet<_> = api.exercised().into_iter().filter(|(_, status)| *status == 304).collect();
    assert_eq!(unchanged, documented);
}

#[tokio::test]
async fn a_change_gives_an_answer_another_tag() {
    let api = Api::new(Engine::Naive).await;
    fill(&api).await;
    let tag = api.get("/jobs/m").await.header("etag").to_owned();
    api.send("PATCH", "/jobs/m", r#"{"delay":"2h"}"#).await.expect(200);
    let changed = known(&api, "/jobs/m", &tag).await.expect(200);
    assert_ne!(changed.header("etag"), tag);
    api.delete("/jobs/m").await.expect(204);
    let gone = known(&api, "/jobs/m", changed.header("etag")).await;
    assert!(!gone.headers.contains_key("etag"));
    gone.expect_problem(404, "job_not_found");
}

/// A tag would tell whether two jobs are the same.
#[tokio::test]
async fn jobs_to_work_on_have_no_tag() {
    let api = Api::new(Engine::Naive).await;
    api.add(r#"{"topic":"t"}"#).await;
    assert!(!api.get("/topics/t/pop").await.expect(200).headers.contains_key("etag"));
}
