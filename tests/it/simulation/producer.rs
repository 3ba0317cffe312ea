//! Producers: they add jobs, singly and in batches, and change some of them.

use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};

use super::{
    client::{Answer, Client, Waits},
    world::{name, topic_name},
};
use crate::checker::{Action, Add, Outcome};

/// The retry schedule of some jobs.
const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A job to add.
#[derive(Clone)]
struct NewJob {
    number: usize,
    /// Whether the producer chooses the id, so that it may send the add again.
    has_id: bool,
    add: Add,
    json: Value,
}

impl NewJob {
    fn new(client: &mut Client) -> Self {
        let topic = client.random.random_range(0..client.world.plan.topics);
        let number = client.world.new_job(topic);
        let delay_ms = if client.chance(0.4) { 0 } else { client.random.random_range(1..3_000) };
        let max_attempts = client.random.random_range(0..4);
        let mut json = json!({
            "topic": topic_name(topic), "delay": format!("{delay_ms}ms"), "max_attempts": max_attempts,
            "ttr": client.random.random_range(1..3), "body": { "job": number, "revision": 0 },
        });
        let has_id = client.chance(0.75);
        if has_id {
            json["id"] = name(number).into();
        }
        // Without its own schedule, a job has that of its topic, which the operator may have changed.
        let retry: &[Duration] = if client.chance(0.2) { &RETRY } else { &[] };
        if !retry.is_empty() {
            json["retry"] = json!(["100ms", "1s"]);
        }
        let is_remembered = client.world.plan.remembering[topic];
        let delay = Duration::from_millis(delay_ms);
        let add = Add { delay, max_attempts, retry, is_remembered, ..Add::default() };
        let first = Self { number, has_id, add, json };
        if has_id && client.chance(0.4) { first.next_version(client) } else { first }
    }

    /// The next version of the job, with another due time.
    fn next_version(&self, client: &mut Client) -> Self {
        let mut next = self.clone();
        let delay_ms = client.random.random_range(0..2_000);
        next.add.delay = Duration::from_millis(delay_ms);
        next.add.revision += 1;
        next.json["delay"] = format!("{delay_ms}ms").into();
        next.json["body"]["revision"] = next.add.revision.into();
        next.json["revision"] = next.add.revision.into();
        next.json["if_exists"] = "replace".into();
        next
    }
}

/// Adds jobs until the plan is fulfilled.
pub async fn produce(mut client: Client) {
    let world = client.world.clone();
    for _ in 0..world.plan.adds {
        client.sleep(0, 1_500).await;
        let count = if client.chance(0.3) { 3 } else { 1 };
        let jobs: Vec<NewJob> = (0..count).map(|_| NewJob::new(&mut client)).collect();
        {
            let _adding = world.adding.read().await;
            add_until_known(&mut client, jobs.clone()).await;
        }
        for job in jobs {
            change(&mut client, &job).await;
        }
    }
}

/// Adds jobs until each is acknowledged. One without an id is sent only once.
async fn add_until_known(client: &mut Client, mut jobs: Vec<NewJob>) {
    let world = client.world.clone();
    for job in &jobs {
        let known = &mut world.jobs()[job.number];
        (known.revision, known.is_added) = (job.add.revision, false);
    }
    while !jobs.is_empty() {
        let sent = world.now();
        let answer = match &jobs[..] {
            [job] => client.call(Waits::No, "POST", "/jobs", Some(&job.json)).await,
            jobs => {
                let jobs: Vec<&Value> = jobs.iter().map(|job| &job.json).collect();
                client.call(Waits::No, "POST", "/batch/jobs", Some(&json!({ "jobs": jobs }))).await
            }
        };
        let is_batch = jobs.len() > 1;
        let mut left = Vec::new();
        for (index, job) in jobs.into_iter().enumerate() {
            let answer = answer.as_ref().map(|answer| item(answer, is_batch.then_some(index)));
            let code = answer.as_ref().map(|answer| answer.json["code"].clone()).unwrap_or_default();
            let outcome = match answer.as_ref().is_some_and(|answer| answer.json.get("ended").is_some()) {
                true if job.add.is_remembered && code != "job_exists" => Outcome::Gone,
                _ => client.outcome("add", answer.as_ref()),
            };
            if outcome == Outcome::Refused && code != "intake_paused" {
                world.report(format!("the add of {} met another job: {answer:?}", name(job.number)));
            }
            world.record(job.number, sent, Action::Add(job.add.clone()), outcome);
            if outcome == Outcome::Gone {
                world.jobs()[job.number].id = Some(name(job.number));
            } else if outcome == Outcome::Done {
                let id = answer.and_then(|answer| answer.json["id"].as_str().map(str::to_owned));
                world.jobs()[job.number].id = id;
            } else if outcome == Outcome::Refused || job.has_id {
                // Paused, or unknown.
                left.push(job);
                continue;
            }
            world.jobs()[job.number].is_added = true;
        }
        jobs = left;
        client.sleep(0, 500).await;
    }
}

/// The answer for one item of a batch.
pub fn item(answer: &Answer, index: Option<usize>) -> Answer {
    let Some(index) = index else { return Answer { status: answer.status, json: answer.json.clone() } };
    let result = &answer.json["results"][index];
    let status = result["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let json = if result["problem"].is_null() { result.clone() } else { result["problem"].clone() };
    Answer { status: status.expect("a status"), json }
}

/// Changes a job that the producer has added, or leaves it alone.
async fn change(client: &mut Client, added: &NewJob) {
    let job = added.number;
    let Some(id) = client.world.jobs()[job].id.clone() else { return };
    if client.world.is_draining() {
        return;
    }
    let target = format!("/jobs/{id}");
    match client.random.random_range(0..10) {
        0 => drop(client.call_until_known(job, "DELETE", &target, None, Action::Delete).await),
        1 => {
            let json = json!({ "ids": [id] });
            let sent = client.world.now();
            let answer = client.call(Waits::No, "POST", "/batch/delete", Some(&json)).await;
            let answer = answer.map(|answer| item(&answer, Some(0)));
            client.world.record(job, sent, Action::Delete, client.outcome("delete", answer.as_ref()));
        }
        2 | 3 => {
            client.sleep(0, 500).await;
            let delay = client.random.random_range(0..2_000);
            let json = json!({ "delay": format!("{delay}ms") });
            let action = Action::Reschedule { delay: Duration::from_millis(delay) };
            client.call_until_known(job, "PATCH", &target, Some(&json), action).await;
        }
        4 => drop(client.read(job, &id).await),
        5.. if added.add.revision > 0 => {
            client.sleep(0, 3_000).await;
            let newer = added.next_version(client);
            let world = client.world.clone();
            let _adding = world.adding.read().await;
            add_until_known(client, vec![newer]).await;
        }
        _ => {}
    }
}
