//! Producers and workers, which record what they send and receive in the history.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hyper::Method;
use linger::{
    clock::{Clock, SystemClock},
    job::Timestamp,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{
    caller::{Caller, call_once, call_until_known, read_until_known},
    job::{Job, add_outcome, milliseconds},
    run::{Run, TOPICS},
};
use crate::checker::{Action, Outcome, SentAt};

/// The number of jobs in a batch of adds, and the most in a batch of pops.
const BATCH: usize = 4;
/// The number of open jobs above which producers wait.
pub const OPEN_LIMIT: usize = 1_000;
pub const PAUSE: Duration = Duration::from_millis(5);
/// The most jobs that a producer keeps to add them again later.
const EARLIER: usize = 20;

/// Whether this client adds or pops several jobs at a time.
fn uses_batches(number: usize) -> bool {
    number % 2 == 1
}

/// Adds jobs as long as the run wants more, each until it is acknowledged, and replaces, reschedules or deletes some of them.
pub async fn produce(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + number as u64);
    let size = if uses_batches(number) { BATCH } else { 1 };
    let mut earlier: Vec<Job> = Vec::new();
    for n in 0.. {
        while run.open_jobs() > OPEN_LIMIT {
            SystemClock::new().sleep(PAUSE).await;
        }
        if !run.wants_more(size) {
            break;
        }
        let names = (0..size).map(|k| format!("{number}-{n}-{k}"));
        let jobs: Vec<Job> = names.map(|name| Job::new(&name, &run, &mut random)).collect();
        add(&run, &mut caller, &jobs).await;
        run.jobs_added(&jobs);
        earlier.extend(jobs.iter().filter(|job| job.may_be_added_again()).cloned());
        if !earlier.is_empty() && (random.random_bool(0.3) || earlier.len() > EARLIER) {
            let job = earlier.swap_remove(random.random_range(0..earlier.len()));
            let again = job.again(&run, &mut random);
            add(&run, &mut caller, std::slice::from_ref(&again)).await;
            earlier.extend(random.random_bool(0.5).then_some(again));
        }
        let id = &jobs[0].id;
        if run.plan.changes && random.random_bool(0.1) {
            let delay = run.random_delay(&mut random);
            let (json, action) = (json!({ "delay": milliseconds(delay) }), Action::Reschedule { delay });
            call_until_known(&run.history, &mut caller, Method::PATCH, id, "", Some(json), action).await;
        }
        if run.plan.mixed && random.random_bool(0.03) {
            let outcome =
                call_until_known(&run.history, &mut caller, Method::DELETE, id, "", None, Action::Delete)
                    .await;
            run.job_ended(id, outcome == Outcome::Done);
        }
        if !run.plan.pause.is_zero() {
            SystemClock::new().sleep(run.plan.pause).await;
        }
    }
    let last: Vec<Job> = earlier.iter().map(|job| job.again(&run, &mut random)).collect();
    if !last.is_empty() {
        add(&run, &mut caller, &last).await;
    }
}

/// Sends an add, single or as a batch, until the outcome is known for each of its jobs.
async fn add(run: &Run, caller: &mut Caller, jobs: &[Job]) {
    loop {
        let sent = run.history.sent_now();
        let answer = match jobs {
            [job] => caller.call(Method::POST, "/jobs", Some(&job.json(run))).await,
            jobs => {
                let jobs: Vec<Value> = jobs.iter().map(|job| job.json(run)).collect();
                caller.call(Method::POST, "/batch/jobs", Some(&json!({ "jobs": jobs }))).await
            }
        };
        let mut is_known = true;
        for (index, job) in jobs.iter().enumerate() {
            let outcome = add_outcome(answer.as_ref(), index, jobs.len());
            is_known &= outcome != Outcome::Unknown;
            run.history.record(&job.id, sent, job.action(), outcome);
        }
        if is_known {
            return;
        }
    }
}

/// Pops and works until the run is over.
pub async fn work(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + 1_000 + number as u64);
    let batch = json!({ "topics": TOPICS, "max": BATCH, "wait": "1s" });
    let single = format!("/topics/{}/pop?wait=1s", TOPICS[number / 2 % TOPICS.len()]);
    while !run.is_over() {
        let sent = run.history.sent_now();
        let answer = if uses_batches(number) {
            caller.call(Method::POST, "/batch/pop", Some(&batch)).await
        } else {
            caller.call(Method::GET, &single, None).await
        };
        let jobs = match answer {
            None => continue,
            Some(answer) => match answer.status {
                204 => continue,
                200 if uses_batches(number) => answer.json()["jobs"].as_array().expect("jobs").clone(),
                200 => vec![answer.json()],
                _ => panic!("{answer:?}"),
            },
        };
        let reserved: Vec<ReservedJob> = jobs.iter().map(|job| ReservedJob::new(&run, sent, job)).collect();
        for job in reserved {
            job.work(&run, &mut caller, &mut random).await;
        }
    }
}

/// A job that a worker has reserved.
struct ReservedJob {
    id: String,
    receipt: String,
}

impl ReservedJob {
    fn new(run: &Run, sent: SentAt, job: &Value) -> Self {
        let text = |member: &str| job[member].as_str().unwrap_or_else(|| panic!("no {member} in {job}"));
        let reserved = Self { id: text("id").to_owned(), receipt: text("receipt").to_owned() };
        let attempt = job["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
        let ttr = Duration::from_secs(run.plan.ttr);
        let revision = run.identify(&reserved.id, &job["body"]);
        let action = Action::Deliver {
            receipt: reserved.receipt.clone(),
            revision,
            attempt: attempt.expect("an attempt"),
            ttr,
        };
        run.history.record(&reserved.id, sent, action, Outcome::Done);
        run.delivered(lateness(text("due_at")));
        reserved
    }

    /// Chooses one of the operations of a worker, mostly finish, and calls it.
    async fn work(self, run: &Arc<Run>, caller: &mut Caller, random: &mut StdRng) {
        let choice = if run.plan.mixed && !run.is_draining() { random.random_range(0..100) } else { 0 };
        match choice {
            0..70 => self.finish(run, caller).await,
            70..78 => {
                let delay = Duration::from_millis(random.random_range(0..300));
                self.release(run, caller, delay).await;
            }
            78..84 => {
                self.touch(run, caller).await;
                self.finish(run, caller).await;
            }
            84..88 => {
                let requeues = run.plan.changes && random.random_bool(0.7);
                let delay = run.random_delay(random);
                self.bury(run, caller, requeues.then_some(delay)).await;
            }
            // The worker dies without a further call.
            88..93 => {}
            93..96 => {
                let outcome = call_until_known(
                    &run.history,
                    caller,
                    Method::DELETE,
                    &self.id,
                    "",
                    None,
                    Action::Delete,
                )
                .await;
                run.job_ended(&self.id, outcome == Outcome::Done);
            }
            // The worker is slow: it finishes at about the end of the TTR, while it continues with other jobs.
            _ => {
                let (run, addresses) = (run.clone(), run.addresses.clone());
                let slow = Duration::from_millis(random.random_range(900..1_300)) * run.plan.ttr as u32;
                run.clone().slow_workers.lock().expect("not poisoned").spawn(async move {
                    SystemClock::new().sleep(slow).await;
                    self.finish(&run, &mut Caller::new(&addresses, 0)).await;
                });
            }
        }
    }

    async fn finish(&self, run: &Run, caller: &mut Caller) {
        let query = format!("/finish?receipt={}", self.receipt);
        let action = Action::Finish { receipt: self.receipt.clone() };
        let outcome =
            call_until_known(&run.history, caller, Method::POST, &self.id, &query, None, action).await;
        run.job_ended(&self.id, outcome == Outcome::Done);
    }

    async fn touch(&self, run: &Run, caller: &mut Caller) {
        let action = Action::Touch { receipt: self.receipt.clone(), ttr: Duration::from_secs(run.plan.ttr) };
        let json = json!({"receipt": self.receipt, "ttr": run.plan.ttr});
        call_until_known(&run.history, caller, Method::POST, &self.id, "/touch", Some(json), action).await;
    }

    async fn release(&self, run: &Run, caller: &mut Caller, delay: Duration) {
        let action = Action::Release { receipt: self.receipt.clone(), delay };
        let json = json!({"receipt": self.receipt, "delay": milliseconds(delay)});
        call_until_known(&run.history, caller, Method::POST, &self.id, "/release", Some(json), action).await;
    }

    /// Makes it a dead letter, and then, with a delay, a job that waits again.
    async fn bury(&self, run: &Run, caller: &mut Caller, requeue: Option<Duration>) {
        let action = Action::Bury { receipt: self.receipt.clone() };
        let json = json!({"receipt": self.receipt, "reason": "chosen at random"});
        let outcome =
            call_until_known(&run.history, caller, Method::POST, &self.id, "/bury", Some(json), action).await;
        match requeue.filter(|_| outcome == Outcome::Done && run.begin_requeue(&self.id)) {
            Some(delay) => {
                self.requeue(run, caller, delay).await;
                run.end_requeue(&self.id);
            }
            None => run.job_ended(&self.id, outcome == Outcome::Done),
        }
    }

    /// Requeues the job while it is dead. After an unknown outcome only a look at the job tells whether it still is.
    async fn requeue(&self, run: &Run, caller: &mut Caller, delay: Duration) {
        let (path, json) = (format!("/jobs/{}/requeue", self.id), json!({ "delay": milliseconds(delay) }));
        loop {
            let action = Action::Requeue { delay };
            let outcome =
                call_once(&run.history, caller, Method::POST, &path, &self.id, Some(&json), action).await;
            if outcome != Outcome::Unknown
                || read_until_known(&run.history, caller, &self.id).await.as_deref() != Some("dead")
            {
                return;
            }
        }
    }
}

/// The time since `due_at`, by the wall clock, which the clients share with the server here.
#[expect(clippy::disallowed_methods, reason = "clients run in real time")]
fn lateness(due_at: &str) -> Duration {
    let unix_ms = Timestamp::parse(due_at).expect("a timestamp").as_millis();
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.unsigned_abs());
    SystemTime::now().duration_since(due).unwrap_or_default()
}
