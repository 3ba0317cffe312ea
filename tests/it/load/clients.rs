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
    run::Run,
};
use crate::checker::{Action, Outcome, SentAt};

/// The number of jobs in a batch of adds, and the most in a batch of pops.
const BATCH: usize = 4;
/// The number of open jobs above which producers wait.
const OPEN_LIMIT: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);
/// The retry schedule of some jobs.
const RETRY: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(1_500)];

/// Whether this client adds or pops several jobs at a time.
fn uses_batches(number: usize) -> bool {
    number % 2 == 1
}

struct Job {
    id: String,
    delay: Duration,
    max_attempts: u32,
    retry: &'static [Duration],
}

impl Job {
    fn new(id: String, run: &Run, random: &mut StdRng) -> Self {
        let delay = run.random_delay(random);
        let max_attempts = if run.plan.mixed && random.random_bool(0.3) { 3 } else { 0 };
        let retry: &[Duration] = if run.plan.mixed && random.random_bool(0.3) { &RETRY } else { &[] };
        Self { id, delay, max_attempts, retry }
    }

    fn json(&self, run: &Run) -> Value {
        let retry: Vec<String> = self.retry.iter().map(|step| milliseconds(*step)).collect();
        json!({
            "topic": run.topic, "id": self.id, "delay": milliseconds(self.delay), "ttr": run.plan.ttr,
            "max_attempts": self.max_attempts, "retry": retry, "body": { "of": self.id },
        })
    }

    fn action(&self) -> Action {
        Action::Add { delay: self.delay, max_attempts: self.max_attempts, retry: self.retry }
    }
}

/// A time as requests have it.
fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Adds jobs as long as the run wants more, each until it is acknowledged, and reschedules or deletes some of them.
pub async fn produce(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + number as u64);
    let size = if uses_batches(number) { BATCH } else { 1 };
    for n in 0.. {
        while run.open_jobs() > OPEN_LIMIT {
            SystemClock::new().sleep(PAUSE).await;
        }
        if !run.wants_more(size) {
            return;
        }
        let ids = (0..size).map(|k| format!("{}-{number}-{n}-{k}", run.topic));
        let jobs: Vec<Job> = ids.map(|id| Job::new(id, &run, &mut random)).collect();
        while !add(&run, &mut caller, &jobs).await {}
        run.jobs_added(size);
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
            run.job_ended(outcome == Outcome::Done);
        }
        if !run.plan.pause.is_zero() {
            SystemClock::new().sleep(run.plan.pause).await;
        }
    }
}

/// Sends an add, single or as a batch. Returns whether all of it was acknowledged.
async fn add(run: &Run, caller: &mut Caller, jobs: &[Job]) -> bool {
    let sent = run.history.sent_now();
    let answer = match jobs {
        [job] => caller.call(Method::POST, "/jobs", Some(&job.json(run))).await,
        jobs => {
            let jobs: Vec<Value> = jobs.iter().map(|job| job.json(run)).collect();
            caller.call(Method::POST, "/batch/jobs", Some(&json!({ "jobs": jobs }))).await
        }
    };
    let mut all = true;
    for (index, job) in jobs.iter().enumerate() {
        let status = match (&answer, jobs.len()) {
            (None, _) => 503,
            (Some(answer), 1) => u64::from(answer.status),
            (Some(answer), _) => answer.json()["results"][index]["status"].as_u64().expect("a status"),
        };
        let outcome = match status {
            200 | 201 => Outcome::Done,
            500.. => Outcome::Unknown,
            _ => panic!("{answer:?}"),
        };
        all &= outcome == Outcome::Done;
        run.history.record(&job.id, sent, job.action(), outcome);
    }
    all
}

/// Pops and works until the run is over.
pub async fn work(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + 1_000 + number as u64);
    let single = format!("/topics/{}/pop?wait=1s", run.topic);
    let batch = json!({"topics": [run.topic], "max": BATCH, "wait": "1s"});
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
        let action =
            Action::Deliver { receipt: reserved.receipt.clone(), attempt: attempt.expect("an attempt"), ttr };
        run.history.record(&reserved.id, sent, action, Outcome::Done);
        assert_eq!(job["body"], json!({ "of": reserved.id }), "the body is the one that was sent");
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
                run.job_ended(outcome == Outcome::Done);
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
        run.job_ended(outcome == Outcome::Done);
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
            None => run.job_ended(outcome == Outcome::Done),
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
