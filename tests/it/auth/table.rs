//! Every operation of the contract, called without a token, with each scope alone, and with tokens for other topics. The
//! contract's `x-scope` and `x-topics` define the expected results.

use std::collections::BTreeSet;

use linger::{
    auth::Scope,
    job::{SecretId, SigningKey},
    store::TopicUpdates,
};
use serde_json::Value;

use super::{api_with_tokens, with};
use crate::harness::{
    api::{Api, Response, text},
    jobs::{signing_secret, topic},
    openapi::{Operation, contract},
    stores::Engine,
};

/// Where a request names its topic.
#[derive(Clone, Copy, PartialEq)]
enum TopicSource {
    /// In the path or the body. Another topic is answered 403.
    Topic,
    /// By a job's id. A job of another topic is answered 404.
    Job,
    /// By the id of a bulk operation. One of another topic is answered 404.
    Bulk,
    /// By the name of a schedule. One whose jobs go to another topic is answered 404.
    Schedule,
    /// In items, each of which has its own status.
    Items(u16),
    /// Nowhere: it concerns no topic, or all of them.
    None,
}
use TopicSource::{Bulk, Items, Job, None as NoTopic, Schedule, Topic};

/// One request per operation, all of the topic `orders`. `RECEIPT` stands for the receipt of the job `held`.
const CALLS: [(&str, &str, &str, TopicSource); 60] = [
    ("addJob", "/jobs", r#"{"topic":"orders","id":"new"}"#, Topic),
    ("listJobs", "/jobs?topic=orders", "", Topic),
    ("getJob", "/jobs/held", "", Job),
    ("patchJob", "/jobs/waiting", r#"{"ttr":"5s"}"#, Job),
    ("deleteJob", "/jobs/waiting", "", Job),
    ("finishJob", "/jobs/held/finish?receipt=RECEIPT", "", Job),
    ("releaseJob", "/jobs/held/release", r#"{"receipt":"RECEIPT"}"#, Job),
    ("touchJob", "/jobs/held/touch", r#"{"receipt":"RECEIPT"}"#, Job),
    ("buryJob", "/jobs/held/bury", r#"{"receipt":"RECEIPT"}"#, Job),
    ("revokeJob", "/jobs/held/revoke", "", Job),
    ("requeueJob", "/jobs/dead/requeue", "", Job),
    ("listWorkers", "/workers?topic=orders", "", Topic),
    ("callEndpointsNow", "/topics/orders/callbacks/call", "", Topic),
    ("listAudit", "/audit?topic=orders", "", Topic),
    ("listAllEndpoints", "/callbacks?topic=orders", "", Topic),
    ("popJob", "/topics/orders/pop", "", Topic),
    ("popJobByPost", "/topics/orders/pop", "", Topic),
    ("addJobs", "/batch/jobs", r#"{"jobs":[{"topic":"orders","id":"new"}]}"#, Items(403)),
    ("popJobs", "/batch/pop", r#"{"topics":["mail","orders"]}"#, Topic),
    ("finishJobs", "/batch/finish", r#"{"jobs":[{"id":"held","receipt":"RECEIPT"}]}"#, Items(404)),
    ("releaseJobs", "/batch/release", r#"{"jobs":[{"id":"held","receipt":"RECEIPT"}]}"#, Items(404)),
    ("touchJobs", "/batch/touch", r#"{"jobs":[{"id":"held","receipt":"RECEIPT"}]}"#, Items(404)),
    ("buryJobs", "/batch/bury", r#"{"jobs":[{"id":"held","receipt":"RECEIPT"}]}"#, Items(404)),
    ("deleteJobs", "/batch/delete", r#"{"ids":["waiting"]}"#, Items(404)),
    ("startBulkOperation", "/bulk", r#"{"action":"requeue","filter":{"topic":"orders"}}"#, Topic),
    ("listBulkOperations", "/bulk", "", NoTopic),
    ("getBulkOperation", "/bulk/known", "", Bulk),
    ("stopBulkOperation", "/bulk/known/stop", "", Bulk),
    ("listSchedules", "/schedules", "", NoTopic),
    ("getSchedule", "/schedules/known", "", Schedule),
    ("putSchedule", "/schedules/known", r#"{"every":"1h","job":{"topic":"orders","body":1}}"#, Topic),
    ("deleteSchedule", "/schedules/known", "", Schedule),
    ("listNextRuns", "/schedules/known/next", "", Schedule),
    ("pauseSchedule", "/schedules/known/pause", "", Schedule),
    ("resumeSchedule", "/schedules/known/resume", "", Schedule),
    ("runSchedule", "/schedules/known/run", "", Schedule),
    ("getTimeline", "/timeline?topic=orders", "", Topic),
    ("getStats", "/stats", "", NoTopic),
    ("listTopics", "/topics", "", NoTopic),
    ("getTopic", "/topics/orders", "", Topic),
    ("putTopic", "/topics/orders", r#"{"ttr":"5s"}"#, Topic),
    ("purgeTopic", "/topics/orders?confirm=orders", "", Topic),
    ("pauseTopic", "/topics/orders/pause", "", Topic),
    ("resumeTopic", "/topics/orders/resume", "", Topic),
    ("listEndpoints", "/topics/orders/callbacks", "", Topic),
    ("addSecret", "/topics/orders/secrets", "", Topic),
    ("listSecrets", "/topics/orders/secrets", "", Topic),
    ("deleteSecret", "/topics/orders/secrets/0101010101010101", "", Topic),
    ("listDead", "/topics/orders/dead", "", Topic),
    ("listDeadReasons", "/topics/orders/dead/reasons", "", Topic),
    ("listAllDeadReasons", "/dead/reasons", "", NoTopic),
    ("requeueDead", "/topics/orders/dead/requeue", "", Topic),
    ("deleteDead", "/topics/orders/dead", "", Topic),
    ("getCaller", "/whoami", "", NoTopic),
    ("getLiveness", "/livez", "", NoTopic),
    ("getReadiness", "/readyz", "", NoTopic),
    ("getVersion", "/version", "", NoTopic),
    ("getMetrics", "/metrics", "", NoTopic),
    ("getOpenapi", "/openapi.yaml", "", NoTopic),
    ("getOpenapiJson", "/openapi.json", "", NoTopic),
];

/// One token per scope for all topics, one for topics that include `orders`, and one for other topics.
const TOKENS: [(&str, &[Scope], &[&str]); 12] = [
    ("add", &[Scope::Add], &[]),
    ("work", &[Scope::Work], &[]),
    ("read", &[Scope::Read], &[]),
    ("admin", &[Scope::Admin], &[]),
    ("add-orders", &[Scope::Add], &["mail", "ord*"]),
    ("work-orders", &[Scope::Work], &["mail", "ord*"]),
    ("read-orders", &[Scope::Read], &["mail", "ord*"]),
    ("admin-orders", &[Scope::Admin], &["mail", "ord*"]),
    ("add-mail", &[Scope::Add], &["mail", "order"]),
    ("work-mail", &[Scope::Work], &["mail", "order"]),
    ("read-mail", &[Scope::Read], &["mail", "order"]),
    ("admin-mail", &[Scope::Admin], &["mail", "order"]),
];

#[tokio::test]
async fn every_operation_admits_exactly_the_callers_that_the_contract_names() {
    let known: BTreeSet<_> = CALLS.iter().map(|(id, ..)| (*id).to_owned()).collect();
    let documented: BTreeSet<_> = contract().operations().iter().map(|of| of.id.clone()).collect();
    assert_eq!(known, documented, "every operation has its row in this table");
    for (id, target, body, topic_source) in CALLS {
        let operation = contract().operations().iter().find(|of| of.id == id).expect("is documented");
        let row = Row { operation, target, body, topic_source };
        let mut server = TestServer::new().await;
        row.refuses_unknown_callers(&server).await;
        for (token, scopes, topics) in TOKENS {
            if row.is_done_for(&server, token, scopes[0], topics).await {
                server = TestServer::new().await;
            }
        }
    }
}

/// One row of the table.
struct Row<'a> {
    operation: &'a Operation,
    target: &'a str,
    body: &'a str,
    topic_source: TopicSource,
}

impl Row<'_> {
    async fn refuses_unknown_callers(&self, server: &TestServer) {
        for (token, challenge) in [(None, "Bearer"), (Some("nobody"), "Bearer error=\"invalid_token\"")] {
            let response = self.send(server, token).await;
            if self.operation.scope.is_none() {
                response.expect(200);
                continue;
            }
            assert_eq!(response.header("www-authenticate"), challenge, "{}", self.operation.id);
            response.expect_problem(401, "unauthorized");
        }
        assert_eq!(server.jobs().await, server.before, "{} changed something", self.operation.id);
    }

    /// Compares the response to one token, with one scope and these topics, with the contract. Returns whether the
    /// call was carried out; a refused one changed nothing.
    async fn is_done_for(&self, server: &TestServer, token: &str, scope: Scope, topics: &[&str]) -> bool {
        let response = self.send(server, Some(token)).await;
        let (status, body) = (response.status.as_u16(), String::from_utf8_lossy(&response.body).into_owned());
        let context = format!("{} by {token}: {status} {body}", self.operation.id);
        let needed = self.operation.scope.as_deref();
        let has_scope =
            needed.is_none_or(|needed| needed == "any" || scope == Scope::Admin || scope.as_str() == needed);
        let is_foreign = topics.contains(&"order");
        if !has_scope || (self.operation.every_topic && !topics.is_empty()) {
            assert!(status == 403 && body.contains(r#""code":"forbidden""#), "{context}");
        } else if is_foreign && self.topic_source != NoTopic {
            match self.topic_source {
                Topic => assert!(status == 403 && body.contains(r#""code":"forbidden""#), "{context}"),
                Job => assert!(status == 404 && body.contains(r#""code":"job_not_found""#), "{context}"),
                Bulk => {
                    assert!(status == 404 && body.contains(r#""code":"operation_not_found""#), "{context}")
                }
                Schedule => {
                    assert!(status == 404 && body.contains(r#""code":"schedule_not_found""#), "{context}")
                }
                Items(item) => assert_eq!(response.json()["results"][0]["status"], item, "{context}"),
                NoTopic => {}
            }
        } else {
            let answer: Value = serde_json::from_str(&body).unwrap_or_default();
            let items = answer.get("results").and_then(Value::as_array);
            let refused = items.is_some_and(|items| items.iter().any(|item| item.get("problem").is_some()));
            assert!(response.status.is_success() && !refused, "{context}");
            return true;
        }
        assert_eq!(server.jobs().await, server.before, "{context}: the call changed something");
        false
    }

    async fn send(&self, server: &TestServer, token: Option<&str>) -> Response {
        let with_receipt = |text: &str| text.replace("RECEIPT", &server.receipt);
        let call = server.api.call(&self.operation.method, &with_receipt(self.target));
        let call = if self.body.is_empty() { call } else { call.json(&with_receipt(self.body)) };
        match token {
            Some(token) => with(call, token),
            None => call,
        }
        .send()
        .await
    }
}

/// A server with a job of `orders` in each state, and a schedule of such jobs.
struct TestServer {
    api: Api,
    /// The receipt of the job `held`.
    receipt: String,
    /// All jobs and schedules before the first call.
    before: Vec<Value>,
}

impl TestServer {
    async fn new() -> Self {
        let api = api_with_tokens(Engine::Naive, &TOKENS).await;
        let mut server = Self { api, receipt: String::new(), before: Vec::new() };
        for id in ["dead", "held"] {
            server.post("/jobs", &format!(r#"{{"topic":"orders","id":"{id}"}}"#)).await;
            server.receipt = text(&server.post("/topics/orders/pop", "").await["receipt"]).to_owned();
            if id == "dead" {
                let held = format!(r#"{{"receipt":"{}"}}"#, server.receipt);
                server.post("/jobs/dead/bury", &held).await;
            }
        }
        server.post("/jobs", r#"{"topic":"orders","id":"ready"}"#).await;
        server.post("/jobs", r#"{"topic":"orders","id":"waiting","delay":"1h"}"#).await;
        let known = r#"{"id":"known","action":"requeue","filter":{"topic":"orders","id_prefix":"none"},
            "dry_run":false,"limit":1}"#;
        server.post("/bulk", known).await;
        let schedule = r#"{"every":"1h","job":{"topic":"orders"}}"#;
        let made = with(server.api.call("PUT", "/schedules/known"), "admin").json(schedule).send().await;
        made.expect(201);
        let (orders, id) = (topic("orders"), SecretId([1; 8]));
        server.api.store.add_secret(&orders, signing_secret(id, SigningKey::generate())).await.expect("adds");
        server.before = server.jobs().await;
        server
    }

    async fn post(&self, target: &str, body: &str) -> Value {
        let call = with(self.api.call("POST", target), "admin");
        let response = if body.is_empty() { call } else { call.json(body) }.send().await;
        assert!(response.status.is_success(), "{response:?}");
        response.json()
    }

    /// All members of every job that can exist, and of every schedule.
    async fn jobs(&self) -> Vec<Value> {
        let mut jobs = Vec::new();
        for target in
            ["/jobs/dead", "/jobs/held", "/jobs/ready", "/jobs/waiting", "/jobs/new", "/topics", "/schedules"]
        {
            let mut job = with(self.api.call("GET", target), "admin").send().await.json();
            if let Some(problem) = job.as_object_mut() {
                problem.remove("request_id");
            }
            jobs.push(job);
        }
        jobs
    }
}
