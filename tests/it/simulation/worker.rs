//! Workers: they pop jobs in every way, and do with them whatever a holder may do.

use std::time::Duration;

use linger::{clock::Clock, job::Timestamp};
use rand::RngExt;
use serde_json::{Value, json};

use super::{
    client::{Client, Waits},
    producer::item,
    world::{Moment, topic_name},
};
use crate::checker::{Action, Outcome};

/// A job that a worker has reserved.
struct ReservedJob {
    number: usize,
    id: String,
    receipt: String,
    ttr: Duration,
}

/// Pops and works until the run is over.
pub async fn work(mut client: Client) {
    while !client.world.is_over() {
        let jobs = pop(&mut client).await;
        if jobs.is_empty() {
            client.sleep(100, 2_500).await;
        }
        if jobs.len() > 1 && client.chance(0.5) {
            finish_batch(&mut client, &jobs).await;
            continue;
        }
        for job in jobs {
            job.work(&mut client).await;
        }
    }
}

async fn pop(client: &mut Client) -> Vec<ReservedJob> {
    let topics = client.world.plan.topics;
    let topic = topic_name(client.random.random_range(0..topics));
    let wait_ms = if client.chance(0.4) { 0 } else { client.random.random_range(1..3_000) };
    let waits = if wait_ms == 0 { Waits::No } else { Waits::ForJobs };
    let mut ttr = None;
    let sent = client.world.now();
    let answer = match client.random.random_range(0..4) {
        0 => {
            let names: Vec<&str> = (0..topics).map(topic_name).collect();
            let max = client.random.random_range(1..4);
            let json = json!({ "topics": names, "max": max, "wait": format!("{wait_ms}ms") });
            client.call(waits, "POST", "/batch/pop", Some(&json)).await
        }
        1 => {
            ttr = Some(1.0);
            let target = format!("/topics/{topic}/pop?wait={wait_ms}ms&ttr=1s");
            client.call(waits, "POST", &target, None).await
        }
        _ => client.call(waits, "GET", &format!("/topics/{topic}/pop?wait={wait_ms}ms"), None).await,
    };
    let jobs = match answer {
        None => return Vec::new(),
        Some(answer) if answer.status == 204 => return Vec::new(),
        Some(answer) if answer.status == 200 => match answer.json["jobs"].as_array() {
            Some(jobs) => jobs.clone(),
            None => vec![answer.json],
        },
        Some(answer) => {
            client.world.report(format!("pop: {answer:?}"));
            return Vec::new();
        }
    };
    jobs.iter().map(|job| ReservedJob::new(client, sent, job, ttr)).collect()
}

async fn finish_batch(client: &mut Client, jobs: &[ReservedJob]) {
    let items: Vec<Value> = jobs.iter().map(|job| json!({ "id": job.id, "receipt": job.receipt })).collect();
    let sent = client.world.now();
    let answer = client.call(Waits::No, "POST", "/batch/finish", Some(&json!({ "jobs": items }))).await;
    for (index, job) in jobs.iter().enumerate() {
        let answer = answer.as_ref().map(|answer| item(answer, Some(index)));
        let action = Action::Finish { receipt: job.receipt.clone() };
        client.world.record(job.number, sent, action, client.outcome("finish", answer.as_ref()));
    }
}

impl ReservedJob {
    /// `ttr` is what the pop asked for in place of the job's own.
    fn new(client: &Client, sent: Moment, job: &Value, ttr: Option<f64>) -> Self {
        let text = |member: &str| job[member].as_str().unwrap_or_else(|| panic!("no {member} in {job}"));
        let number = job["body"]["job"].as_u64().and_then(|number| usize::try_from(number).ok());
        let number = number.expect("the body is the one that was sent");
        let attempt = job["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
        let ttr = Duration::from_secs_f64(ttr.or(job["ttr"].as_f64()).expect("a TTR"));
        let reserved = Self { number, id: text("id").to_owned(), receipt: text("receipt").to_owned(), ttr };
        client.world.jobs()[number].id = Some(reserved.id.clone());
        let until = Timestamp::parse(text("reserved_until")).expect("a timestamp");
        if client.world.clock.now() >= until {
            client.world.report(format!("a reservation had ended before it was delivered: {job}"));
        }
        let action = Action::Deliver {
            receipt: reserved.receipt.clone(),
            revision: job["body"]["revision"].as_u64().expect("the body is the one that was sent"),
            attempt: attempt.expect("an attempt"),
            ttr,
        };
        client.world.record(number, sent, action, Outcome::Done);
        reserved
    }

    /// Does one of the things that a worker may do, mostly finish.
    async fn work(self, client: &mut Client) {
        let choice = if client.world.is_draining() { 0 } else { client.random.random_range(0..100) };
        match choice {
            0..40 => self.finish(client).await,
            40..52 => {
                let delay_ms = client.random.random_range(0..800);
                let json = json!({ "receipt": self.receipt, "delay": format!("{delay_ms}ms") });
                let (receipt, delay) = (self.receipt.clone(), Duration::from_millis(delay_ms));
                self.call(client, "/release", &json, Action::Release { receipt, delay }).await;
            }
            52..62 => {
                client.sleep(0, 900).await;
                let json = json!({ "receipt": self.receipt, "ttr": 1 });
                let (receipt, ttr) = (self.receipt.clone(), Duration::from_secs(1));
                self.call(client, "/touch", &json, Action::Touch { receipt, ttr }).await;
                client.sleep(0, 900).await;
                self.finish(client).await;
            }
            62..72 => {
                let json = json!({ "receipt": self.receipt });
                let receipt = self.receipt.clone();
                self.call(client, "/bury", &json, Action::Bury { receipt }).await;
            }
            // The worker dies without a further call.
            72..80 => {}
            80..85 => self.remove_by_id(client).await,
            // The worker is slow: it finishes at about the end of the TTR.
            _ => {
                let ttr_ms = u64::try_from(self.ttr.as_millis()).expect("fits");
                client.sleep(ttr_ms * 9 / 10, ttr_ms * 12 / 10).await;
                self.finish(client).await;
            }
        }
    }

    async fn finish(&self, client: &mut Client) {
        let json = json!({ "receipt": self.receipt });
        self.call(client, "/finish", &json, Action::Finish { receipt: self.receipt.clone() }).await;
    }

    async fn call(&self, client: &mut Client, operation: &str, json: &Value, action: Action) {
        let target = format!("/jobs/{}{operation}", self.id);
        client.call_until_known(self.number, "POST", &target, Some(json), action).await;
    }

    /// Deletes the job, or finishes it without its receipt: both remove it also while another worker has it.
    async fn remove_by_id(&self, client: &mut Client) {
        if !client.world.jobs()[self.number].is_added {
            return self.finish(client).await;
        }
        let (method, operation) = if client.chance(0.5) { ("DELETE", "") } else { ("POST", "/finish") };
        let target = format!("/jobs/{}{operation}", self.id);
        client.call_until_known(self.number, method, &target, None, Action::Delete).await;
    }
}
