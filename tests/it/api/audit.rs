//! The audit list: which calls are noted, what is said of them, who sees them, and what happens when they cannot be noted.

use linger::{auth::Scope, store::Error};
use serde_json::{Value, json};

use super::{
    logs::{Log, record},
    on_every_engine,
};
use crate::{
    auth::{api_with_tokens, with},
    harness::{
        api::{Api, text},
        failing::{Failure, Fault, HungCalls},
        jobs::seconds,
        stores::Engine,
    },
};

on_every_engine!(
    calls_of_admins_are_noted_with_what_came_of_them,
    secrets_are_never_kept,
    changes_from_a_page_are_noted_and_those_of_programs_are_not,
    calls_that_change_nothing_are_not_noted,
    a_call_is_noted_before_it_is_carried_out,
    pages_go_on_where_the_last_one_ended,
);

async fn calls(api: &Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/audit{query}")).await.expect(200).json();
    page["calls"].as_array().expect("a list").clone()
}

/// Method, path, topic and status of each.
fn brief(calls: &[Value]) -> Vec<Value> {
    calls.iter().map(|call| json!([call["method"], call["path"], call["topic"], call["status"]])).collect()
}

async fn calls_of_admins_are_noted_with_what_came_of_them(engine: Engine) {
    let api = Api::new(engine).await;
    assert!(calls(&api, "").await.is_empty());
    api.send("PUT", "/topics/mail", r#"{"ttr":"5s"}"#).await.expect(200);
    api.clock.advance(seconds(3));
    api.send("POST", "/topics/mail/pause", r#"{"reason":"the mail server is away"}"#).await.expect(200);
    api.add(r#"{"topic":"orders","id":"o:1"}"#).await;
    api.post("/jobs/o:1/requeue").await.expect_problem(409, "not_dead");
    api.delete("/topics/orders?confirm=orders").await.expect(200);
    let noted = calls(&api, "").await;
    let expected = json!([
        ["DELETE", "/topics/orders?confirm=orders", "orders", 200],
        ["POST", "/jobs/o:1/requeue", "orders", 409],
        ["POST", "/topics/mail/pause", "mail", 200],
        ["PUT", "/topics/mail", "mail", 200],
    ]);
    assert_eq!(json!(brief(&noted)), expected);
    let pause = json!({"number": 2, "at": "2026-11-21T05:40:03.000Z", "by": "", "from_browser": false, "method": "POST",
        "path": "/topics/mail/pause", "topic": "mail", "request": {"reason": "the mail server is away"}, "status": 200});
    assert_eq!(noted[2], pause);
    assert_eq!(brief(&calls(&api, "?topic=mail").await), brief(&noted[2..]));
}

async fn secrets_are_never_kept(engine: Engine) {
    let api = Api::new(engine).await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let with_secret = json!({"secret": secret}).to_string();
    api.send("POST", "/topics/mail/secrets", &with_secret).await.expect(201);
    api.send("POST", "/topics/mail/secrets", &with_secret.replace("secret\"", "key\"")).await.expect(422);
    let callback =
        json!({"callback": {"url": "https://hooks.example/", "headers": {"authorization": secret}}})
            .to_string();
    api.send("PUT", "/topics/mail", &callback).await.expect(200);
    api.add(r#"{"topic":"held","id":"a"}"#).await;
    let receipt = api.get("/topics/held/pop").await.expect(200).json()["receipt"].clone();
    let receipt = receipt.as_str().expect("text");
    let touch = format!("/jobs/a/touch?receipt={receipt}");
    api.call("POST", &touch).header("origin", "http://localhost").send().await.expect(200);
    let page = api.get("/audit").await.expect(200);
    assert_eq!(page.json()["calls"].as_array().map(Vec::len), Some(4));
    assert_eq!(page.json()["calls"][0]["path"], "/jobs/a/touch?receipt=…");
    let text = String::from_utf8(page.body.to_vec()).expect("text");
    assert!(!text.contains("MfKQ9r8") && !text.contains(receipt), "{text}");
}

async fn changes_from_a_page_are_noted_and_those_of_programs_are_not(engine: Engine) {
    let api = Api::new(engine).await;
    let from_page = |method: &str, path: &str| api.call(method, path).header("origin", "http://localhost");
    api.add(r#"{"topic":"mail","id":"a"}"#).await;
    api.get("/topics/mail/pop").await.expect(200);
    let job = r#"{"topic":"mail","id":"b","body":{"iban":"DE89"}}"#;
    from_page("POST", "/jobs").json(job).send().await.expect(201);
    from_page("GET", "/jobs/b").send().await.expect(200);
    from_page("PATCH", "/jobs/b").json(r#"{"delay":"1h"}"#).send().await.expect(200);
    from_page("DELETE", "/jobs/b").send().await.expect(204);
    let noted = calls(&api, "").await;
    let expected = json!([
        ["DELETE", "/jobs/b", "mail", 204],
        ["PATCH", "/jobs/b", "mail", 200],
        ["POST", "/jobs", "mail", 201],
    ]);
    assert_eq!(json!(brief(&noted)), expected);
    assert!(noted.iter().all(|call| call["from_browser"] == true), "{noted:?}");
    assert_eq!(noted[2]["request"], json!({"topic": "mail", "id": "b", "body": "…"}));
}

async fn calls_that_change_nothing_are_not_noted(engine: Engine) {
    let api = Api::new(engine).await;
    let daily = r#"{"every":"24h","job":{"topic":"mail"}}"#;
    api.send("PUT", "/schedules/daily?dry_run=true", daily).await.expect(200);
    api.send("POST", "/bulk", r#"{"action":"delete","filter":{"topic":"mail","state":"ready"}}"#)
        .await
        .expect(200);
    assert!(calls(&api, "").await.is_empty());
    // The topic of what is gone afterwards is noted, too.
    api.send("PUT", "/schedules/daily", daily).await.expect(201);
    api.delete("/schedules/daily").await.expect(204);
    let expected =
        json!([["DELETE", "/schedules/daily", "mail", 204], ["PUT", "/schedules/daily", "mail", 201]]);
    assert_eq!(json!(brief(&calls(&api, "?topic=mail").await)), expected);
}

async fn a_call_is_noted_before_it_is_carried_out(engine: Engine) {
    let api = Api::new(engine).await;
    let hung = HungCalls::new();
    let waits = hung.clone();
    api.store.choose_faults(Some(Box::new(move |called| match called {
        "purge" => Fault { hung: Some(waits.clone()), ..Fault::default() },
        _ => Fault::default(),
    })));
    let purge = tokio::spawn(api.call("DELETE", "/topics/mail?confirm=mail").send());
    api.until(|| hung.hung_calls() == 1).await;
    let noted = calls(&api, "").await;
    // The query may have a secret under a wrong name.
    assert_eq!(brief(&noted), [json!(["DELETE", "/topics/mail", "mail", null])]);
    hung.release();
    purge.await.expect("is answered").expect(200);
    let noted = calls(&api, "").await;
    assert_eq!(brief(&noted), [json!(["DELETE", "/topics/mail?confirm=mail", "mail", 200])]);
}

async fn pages_go_on_where_the_last_one_ended(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..5 {
        api.post(&format!("/topics/t{}/resume", n % 2)).await.expect(200);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..2 {
        let page = api.get(&format!("/audit?topic=t0&limit=2{cursor}")).await.expect(200).json();
        found.extend(page["calls"].as_array().expect("a list").clone());
        cursor = page["next_cursor"].as_str().map_or(String::new(), |next| format!("&cursor={next}"));
    }
    let numbers: Vec<_> = found.iter().map(|call| call["number"].clone()).collect();
    assert_eq!((numbers, &*cursor), (vec![json!(5), json!(3), json!(1)], ""));
    api.get("/audit?cursor=zz").await.expect_problem(400, "invalid_parameter");
    api.get("/audit?limit=1001").await.expect_problem(400, "invalid_parameter");
}

/// What the store cannot note is done all the same, counted, and logged without what may be secret.
#[tokio::test]
async fn a_call_that_cannot_be_noted_is_carried_out_and_counted() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::INFO);
    let api = Api::new(Engine::Naive).await;
    let gaps = async || {
        let page = api.get("/metrics").await.expect(200);
        let text = String::from_utf8(page.body.to_vec()).expect("text");
        let line = text.lines().find(|line| line.starts_with("linger_audit_gaps_total")).map(str::to_owned);
        line.expect("is there")
    };
    assert_eq!(gaps().await, "linger_audit_gaps_total 0");
    api.store.choose_faults(Some(Box::new(|called| match called {
        "put_archived" => {
            let full = Error::Full("as the test demanded".to_owned());
            Fault { failure: Some(Failure::Error(full)), ..Fault::default() }
        }
        _ => Fault::default(),
    })));
    api.post("/topics/mail/pause?access_token=s3cr3t").await.expect_problem(400, "invalid_parameter");
    let lines = log.text();
    assert!(
        lines.contains("is missing in the audit list") && lines.contains("/topics/mail/pause"),
        "{lines}"
    );
    assert!(!lines.contains("s3cr3t"), "{lines}");
    api.send("PUT", "/topics/mail", r#"{"ttr":"5s"}"#).await.expect(200);
    assert_eq!(gaps().await, "linger_audit_gaps_total 2");
    api.store.choose_faults(None);
    assert!(calls(&api, "").await.is_empty());
    assert_eq!(api.get("/topics/mail").await.expect(200).json()["settings"]["ttr"], 5);
}

#[tokio::test]
async fn a_token_sees_the_calls_about_its_topics_and_its_own_about_none() {
    let tokens: [(&str, &[Scope], &[&str]); 3] = [
        ("root", &[Scope::Admin], &[]),
        ("mail", &[Scope::Admin], &["mail"]),
        ("orders", &[Scope::Admin], &["orders"]),
    ];
    let api = api_with_tokens(Engine::Naive, &tokens).await;
    let call = |token: &str, method: &str, path: &str| with(api.call(method, path), token);
    call("root", "POST", "/topics/mail/pause").send().await.expect(200);
    call("orders", "POST", "/topics/orders/pause").send().await.expect(200);
    call("mail", "POST", "/jobs/none/requeue").send().await.expect_problem(404, "job_not_found");
    call("mail", "POST", "/topics/orders/resume").send().await.expect_problem(403, "forbidden");
    call("root", "POST", "/bulk/none/stop").send().await.expect_problem(404, "operation_not_found");
    let seen = async |token: &str, query: &str| {
        let page = call(token, "GET", &format!("/audit{query}")).send().await.expect(200).json();
        let calls = page["calls"].as_array().expect("a list").clone();
        calls.iter().map(|call| format!("{} {}", text(&call["by"]), text(&call["path"]))).collect::<Vec<_>>()
    };
    let all = [
        "root /bulk/none/stop",
        "mail /topics/orders/resume",
        "mail /jobs/none/requeue",
        "orders /topics/orders/pause",
        "root /topics/mail/pause",
    ];
    assert_eq!(seen("root", "").await, all);
    assert_eq!(seen("root", "?by=root").await, [all[0], all[4]]);
    assert_eq!(seen("mail", "").await, [all[2], all[4]]);
    assert_eq!(seen("orders", "").await, [all[1], all[3]]);
    call("mail", "GET", "/audit?topic=orders").send().await.expect_problem(403, "forbidden");
}
