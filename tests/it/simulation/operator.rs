//! The operator: pauses and resumes topics, changes their settings, requeues and deletes dead letters, purges.

use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};

use super::{
    client::{Answer, Client, Waits},
    world::{name, topic_name},
};
use crate::checker::{Action, Outcome};

/// Works until the run is over. It is the only one that requeues jobs.
pub async fn operate(mut client: Client) {
    while !client.world.is_draining() {
        client.sleep(100, 2_000).await;
        let topic = client.random.random_range(0..client.world.plan.topics);
        let target = format!("/topics/{}", topic_name(topic));
        let choice = if client.world.is_draining() { 100 } else { client.random.random_range(0..100) };
        match choice {
            0..15 => {
                let json = json!({ "delivery": true, "intake": client.chance(0.3) });
                client.call(Waits::No, "POST", &format!("{target}/pause"), Some(&json)).await;
            }
            15..40 => drop(client.call(Waits::No, "POST", &format!("{target}/resume"), None).await),
            40..50 => {
                let require_receipt = client.chance(0.5);
                let others = json!({ "require_receipt": require_receipt, "retry": ["200ms"] });
                change_settings(&mut client, topic, others).await;
            }
            50..85 => requeue_one(&mut client, topic).await,
            85..93 => delete_dead(&mut client, topic).await,
            93..98 => purge(&mut client, topic).await,
            _ => {}
        }
    }
}

/// Changes the settings of a topic, all but what it remembers.
pub async fn change_settings(client: &mut Client, topic: usize, mut settings: Value) {
    if client.world.plan.remembering[topic] {
        settings["dedup"] = "7d".into();
    }
    let target = format!("/topics/{}", topic_name(topic));
    client.call(Waits::No, "PUT", &target, Some(&settings)).await;
}

/// Sends a call until it is answered.
async fn call_until_answered(
    client: &mut Client,
    method: &str,
    target: &str,
    json: Option<&Value>,
) -> Answer {
    loop {
        if let Some(answer) = client.call(Waits::No, method, target, json).await {
            return answer;
        }
        client.sleep(0, 300).await;
    }
}

/// The dead letters of a topic, with their attempts.
pub async fn dead_letters(client: &mut Client, topic: usize) -> Vec<(usize, u32)> {
    let target = format!("/topics/{}/dead?limit=100", topic_name(topic));
    let answer = call_until_answered(client, "GET", &target, None).await;
    let jobs = answer.json["jobs"].as_array().expect("jobs");
    let number = |job: &Value, pointer: &str| job.pointer(pointer).and_then(Value::as_u64).expect("a number");
    let dead = jobs.iter().map(|job| (number(job, "/body/job") as usize, number(job, "/attempts") as u32));
    let dead: Vec<_> = dead.collect();
    for (job, (number, _)) in jobs.iter().zip(&dead) {
        client.world.jobs()[*number].id = job["id"].as_str().map(str::to_owned);
    }
    dead
}

async fn requeue_one(client: &mut Client, topic: usize) {
    let before = client.world.jobs().clone();
    let dead = dead_letters(client, topic).await;
    let Some((job, _)) = dead.first().copied() else { return };
    let known = client.world.jobs()[job].clone();
    let Some(id) = known.id.filter(|_| known.is_added) else { return };
    let delay_ms = client.random.random_range(0..1_000);
    let json = json!({ "delay": format!("{delay_ms}ms") });
    // After an unknown outcome only a look at the job tells whether it is dead, so that the call may be repeated.
    loop {
        let sent = client.world.now();
        let target = format!("/jobs/{id}/requeue");
        let answer = client.call(Waits::No, "POST", &target, Some(&json)).await;
        let outcome = client.outcome(&target, answer.as_ref());
        // It may have been replaced meanwhile.
        let revision = client.world.jobs()[job].revision;
        let is_same = before.get(job).is_some_and(|known| known.is_added && known.revision == revision);
        if outcome == Outcome::Refused && is_same {
            client.world.report(format!("{} was dead and was not requeued: {answer:?}", name(job)));
        }
        let action = Action::Requeue { delay: Duration::from_millis(delay_ms) };
        client.world.record(job, sent, action, outcome);
        if outcome != Outcome::Unknown || client.read(job, &id).await.as_deref() != Some("dead") {
            return;
        }
    }
}

/// Requeues all dead letters of a topic, which the caller has just read. No other client uses the topic now.
pub async fn requeue_all(client: &mut Client, topic: usize, dead: &[(usize, u32)]) {
    let sent = client.world.now();
    let target = format!("/topics/{}/dead/requeue", topic_name(topic));
    let answer = call_until_answered(client, "POST", &target, None).await;
    if answer.json["requeued"] != dead.len() {
        client.world.report(format!("{} dead letters were to be requeued: {answer:?}", dead.len()));
    }
    for (job, _) in dead {
        client.world.record(*job, sent, Action::Requeue { delay: Duration::ZERO }, Outcome::Done);
    }
}

/// Deletes the dead letters of a topic, whichever they are.
async fn delete_dead(client: &mut Client, topic: usize) {
    let world = client.world.clone();
    let Ok(_no_adds) = world.adding.try_write() else { return };
    let sent = world.now();
    client.call(Waits::No, "DELETE", &format!("/topics/{}/dead", topic_name(topic)), None).await;
    for job in jobs_of(client, topic) {
        world.record(job, sent, Action::Delete, Outcome::Unknown);
    }
}

/// Deletes all jobs of a topic. No job is added meanwhile, so that none of them exists afterwards. A purge goes on without its
/// caller, which repeats the call until it knows that none runs any more.
async fn purge(client: &mut Client, topic: usize) {
    let world = client.world.clone();
    let Ok(_no_adds) = world.adding.try_write() else { return };
    let sent = world.now();
    let target = format!("/topics/{0}?confirm={0}", topic_name(topic));
    let answer = call_until_answered(client, "DELETE", &target, None).await;
    if answer.status != 200 {
        world.report(format!("a topic was to be purged: {answer:?}"));
    }
    for job in jobs_of(client, topic) {
        world.record(job, sent, Action::Delete, Outcome::Unknown);
        world.record(job, world.now(), Action::Read, Outcome::Gone);
    }
}

/// The jobs of a topic whose adds have all been answered.
fn jobs_of(client: &Client, topic: usize) -> Vec<usize> {
    let jobs = client.world.jobs();
    let added = jobs.iter().enumerate().filter(|(_, job)| job.topic == topic && job.is_added);
    added.map(|(number, _)| number).collect()
}

/// Resumes every paused topic, for the end of a run.
pub async fn resume_all(client: &mut Client) {
    for topic in 0..client.world.plan.topics {
        if client.world.is_paused(topic) {
            let target = format!("/topics/{}/resume", topic_name(topic));
            call_until_answered(client, "POST", &target, None).await;
        }
    }
}
