//! Callbacks beside others that fail: hosts that share an outlet, and names that hang in the DNS. With the default settings.

use std::collections::HashSet;

use linger::job::{Callback, CallbackUrl};
use serde_json::{Value, json};

use super::{
    calling::{Endpoint, api, job_in, pass},
    endpoints::Silent,
    on_every_engine,
};
use crate::harness::{
    api::Api,
    jobs::millis,
    resolver::TestResolver,
    stores::Engine,
    wait::{TimeLimit, until},
};

on_every_engine!(
    new_hosts_that_hang_leave_room_for_a_new_one_that_answers,
    a_host_that_hangs_holds_up_no_other_one_of_its_group,
    names_that_hang_take_neither_turns_nor_attempts_of_other_topics,
    a_job_that_waits_for_a_lookup_gives_way_and_uses_up_no_attempt,
    a_job_whose_topic_is_paused_while_names_are_looked_up_is_not_called,
);

fn port(url: &str) -> u16 {
    CallbackUrl::parse(url).expect("valid").origin().port
}

async fn add(api: &Api, jobs: Vec<Value>) {
    let body = json!({ "jobs": jobs }).to_string();
    let results = api.send("POST", "/batch/jobs", &body).await.expect(200).json();
    let results = results["results"].as_array().expect("results").clone();
    assert!(results.iter().all(|result| result["status"] == 201), "{results:?}");
}

async fn new_hosts_that_hang_leave_room_for_a_new_one_that_answers(engine: Engine) {
    const HANGING: usize = 100;
    let (api, silent, good) = (api(engine).await, Silent::start().await, Endpoint::start(Vec::new()).await);
    let job = |n: usize| {
        let url = format!("http://silent{}.test:{}/", n % HANGING, port(&silent.url));
        json!({"topic": format!("t{}", n % HANGING), "callback": {"url": url}})
    };
    add(&api, (0..8 * HANGING).map(job).collect()).await;
    silent.called(HANGING).await;
    add(&api, vec![json!({"topic": "good", "callback": {"url": good.url}})]).await;
    // No time passes on the clock, so no call is given up.
    good.received(1).await;
}

async fn a_host_that_hangs_holds_up_no_other_one_of_its_group(engine: Engine) {
    let (api, silent, good) = (api(engine).await, Silent::start().await, Endpoint::start(Vec::new()).await);
    let number = |url: &str| api.queue.host_number(CallbackUrl::parse(url).expect("valid").origin());
    let mut names = (0_u32..).map(|n| format!("http://good{n}.test:{}/", port(&good.url)));
    let neighbor = names.find(|url| number(url) == number(&silent.url)).expect("one of 256");
    let job = |id: String, url: &str| json!({"topic": "t", "id": id, "callback": {"url": url}});
    add(&api, (0..100).map(|n| job(format!("bad{n}"), &silent.url)).collect()).await;
    silent.called(1).await;
    add(&api, (0..18).map(|n| job(format!("good{n}"), &neighbor)).collect()).await;
    // The first calls get no answer. After that little time has to pass, so that the good calls have all they need.
    pass(&api, Callback::DEFAULT_TIMEOUT).await;
    let limit = TimeLimit::new();
    while good.calls() < 18 {
        pass(&api, millis(10)).await;
        limit.check(|| format!("{} good calls, {} bad ones", good.calls(), silent.calls()));
        limit.pause().await;
    }
    let received = good.received(18).await;
    assert!(received.iter().all(|call| call.header("linger-attempt") == "1"), "{received:?}");
    // A job that was set aside has not used up an attempt. It may be reserved at this moment, to be set aside again.
    let limit = TimeLimit::new();
    let waits = loop {
        let job = api.get("/jobs/bad99").await.expect(200).json();
        if job["state"] != "reserved" {
            break job;
        }
        limit.check(|| job.to_string());
        limit.pause().await;
    };
    assert_eq!(waits["attempts"], 0, "{waits}");
    assert!(waits["history"].as_array().is_none_or(Vec::is_empty), "{waits}");
}

/// Waits until calls of one topic have all the lookups that a topic gets.
async fn wait_until_all_lookups_are_taken(api: &Api) {
    let limit = TimeLimit::new();
    loop {
        let metrics = String::from_utf8(api.get("/metrics").await.body.to_vec()).expect("text");
        if metrics.contains("linger_callbacks_in_flight 8\n") {
            return;
        }
        limit.check(|| metrics.clone());
        limit.pause().await;
    }
}

async fn names_that_hang_take_neither_turns_nor_attempts_of_other_topics(engine: Engine) {
    let (api, good) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let job = |topic: &str, host: String| {
        let url = format!("http://{host}.test:{}/", port(&good.url));
        json!({"topic": topic, "id": host, "callback": {"url": url}})
    };
    add(&api, (0..400).map(|n| job("hostile", format!("hang{n}"))).collect()).await;
    wait_until_all_lookups_are_taken(&api).await;
    add(&api, (0..20).map(|n| job("t", format!("good{n}"))).collect()).await;
    // No time passes on the clock.
    until(|| good.calls() >= 20).await;
    let received = good.received(20).await;
    assert!(received.iter().all(|call| call.header("linger-attempt") == "1"), "{received:?}");
}

async fn a_job_that_waits_for_a_lookup_gives_way_and_uses_up_no_attempt(engine: Engine) {
    let api = api(engine).await;
    let job = |n: u32| json!({"topic": "t", "id": n.to_string(), "callback": {"url": format!("http://hang{n}.test/")}});
    add(&api, (0..60).map(job).collect()).await;
    wait_until_all_lookups_are_taken(&api).await;
    let in_state = async |state: &str| {
        let page = api.get(&format!("/jobs?topic=t&state={state}&limit=100")).await.expect(200).json();
        page["jobs"].as_array().expect("jobs").clone()
    };
    assert!(in_state("delayed").await.is_empty());
    // The calls of eight jobs have begun. The others wait for lookups, or for their turns.
    let limit = TimeLimit::new();
    let given_up = loop {
        pass(&api, millis(500)).await;
        let delayed = in_state("delayed").await;
        if !delayed.is_empty() {
            break delayed;
        }
        limit.check(|| "no job gives way".to_owned());
        limit.pause().await;
    };
    assert!(given_up.iter().all(|job| job["attempts"] == 0 && job["history"].is_null()), "{given_up:?}");
    let called: Vec<Value> =
        in_state("reserved").await.into_iter().filter(|job| job["attempts"] == 1).collect();
    assert!(called.len() >= 8, "{called:?}");
}

async fn a_job_whose_topic_is_paused_while_names_are_looked_up_is_not_called(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let gate = format!("gate-{engine:?}-").to_lowercase();
    let job = |host: &str| {
        let url = format!("http://{host}.test:{}/", port(&endpoint.url));
        json!({"topic": "t", "id": host, "callback": {"url": url}})
    };
    // A new outlet is called once at a time.
    let number = |host: &str| {
        let url = CallbackUrl::parse(&format!("http://{host}.test:{}/", port(&endpoint.url))).expect("valid");
        api.queue.host_number(url.origin())
    };
    let (mut hosts, mut numbers) = (Vec::new(), HashSet::from([number("late")]));
    for host in (0..).map(|n| format!("{gate}{n}")) {
        if numbers.insert(number(&host)) {
            hosts.push(job(&host));
        }
        if hosts.len() == 8 {
            break;
        }
    }
    add(&api, hosts).await;
    wait_until_all_lookups_are_taken(&api).await;
    add(&api, vec![job("late")]).await;
    job_in(&api, "late", "reserved").await;
    api.send("POST", "/topics/t/pause", r#"{"delivery":true}"#).await.expect(200);
    TestResolver::open(&gate);
    // The calls that had begun go on.
    endpoint.received(8).await;
    let waits = job_in(&api, "late", "ready").await;
    assert_eq!(waits["attempts"], 0, "{waits}");
    assert_eq!(endpoint.calls(), 8);
    api.send("POST", "/topics/t/resume", r#"{"delivery":true}"#).await.expect(200);
    job_in(&api, "late", "gone").await;
    endpoint.received(9).await;
}
