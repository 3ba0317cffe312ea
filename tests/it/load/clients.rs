//! Producers and workers: what they send and see goes into the history.

use std::{
    net::SocketAddr,
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

use super::run::Run;
use crate::{
    checker::{Act, Said, Sent},
    harness::client::{Client, Response, Unknown},
};

/// Jobs in a batch of adds, and at most in a batch of pops.
const BATCH: usize = 4;
/// Jobs on their way above which producers wait.
const OPEN_LIMIT: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);
/// Longer than any call may take.
const LONGEST_CALL: Duration = Duration::from_secs(120);
/// Two minutes at the least of calls in vain.
const UNKNOWN_LIMIT: usize = 24_000;

/// One client, at any of several servers: another one whenever the present one does not answer.
pub struct Caller {
    addresses: Vec<SocketAddr>,
    at: usize,
    client: Client,
    /// Calls in a row whose outcome nobody knows.
    unknown: usize,
}

impl Caller {
    pub fn new(addresses: &[SocketAddr], number: usize) -> Self {
        let at = number % addresses.len();
        Self { addresses: addresses.to_vec(), at, client: Client::new(addresses[at]), unknown: 0 }
    }

    /// Calls the present server; `None` when nobody knows whether it happened. Fails when that is so for
    /// minutes on end.
    pub async fn call(&mut self, method: Method, path: &str, json: Option<&Value>) -> Option<Response> {
        let answered = tokio::time::timeout(LONGEST_CALL, self.client.send(method, path, json)).await;
        let refused = match answered {
            Ok(Ok(answer)) if answer.status < 500 => {
                self.unknown = 0;
                return Some(answer);
            }
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(Unknown)) | Err(_) => {
                self.at = (self.at + 1) % self.addresses.len();
                self.client = Client::new(self.addresses[self.at]);
                None
            }
        };
        self.unknown += 1;
        assert!(self.unknown < UNKNOWN_LIMIT, "{path}: unknown again and again; at last {refused:?}");
        SystemClock::new().sleep(PAUSE).await;
        None
    }
}

/// Whether this client adds or pops several at once.
fn in_batches(number: usize) -> bool {
    number % 2 == 1
}

struct Job {
    id: String,
    delay: Duration,
    max_attempts: u32,
}

impl Job {
    fn new(id: String, run: &Run, random: &mut StdRng) -> Self {
        let delay = Duration::from_millis(random.random_range(0..=run.plan.spread.as_millis() as u64));
        let max_attempts = if run.plan.mixed && random.random_bool(0.3) { 3 } else { 0 };
        Self { id, delay, max_attempts }
    }

    fn json(&self, run: &Run) -> Value {
        json!({
            "topic": run.topic, "id": self.id, "delay": format!("{}ms", self.delay.as_millis()),
            "ttr": run.plan.ttr, "max_attempts": self.max_attempts, "body": { "of": self.id },
        })
    }

    fn act(&self) -> Act {
        Act::Add { delay: self.delay, max_attempts: self.max_attempts }
    }
}

/// Adds jobs, each until it is acknowledged, as long as the run wants more; deletes one now and then.
pub async fn produce(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + number as u64);
    let size = if in_batches(number) { BATCH } else { 1 };
    for n in 0.. {
        while run.open() > OPEN_LIMIT {
            SystemClock::new().sleep(PAUSE).await;
        }
        if !run.wants(size) {
            return;
        }
        let ids = (0..size).map(|k| format!("{}-{number}-{n}-{k}", run.topic));
        let jobs: Vec<Job> = ids.map(|id| Job::new(id, &run, &mut random)).collect();
        while !add(&run, &mut caller, &jobs).await {}
        run.opened(size);
        if run.plan.mixed && random.random_bool(0.03) {
            let id = &jobs[0].id;
            let said = until_known(&run, &mut caller, Method::DELETE, id, "", None, Act::Delete).await;
            run.closed(said == Said::Done);
        }
    }
}

/// Sends an add, single or as a batch; whether it was acknowledged.
async fn add(run: &Run, caller: &mut Caller, jobs: &[Job]) -> bool {
    let sent = run.history.sending();
    let answer = match jobs {
        [job] => caller.call(Method::POST, "/jobs", Some(&job.json(run))).await,
        jobs => {
            let jobs: Vec<Value> = jobs.iter().map(|job| job.json(run)).collect();
            caller.call(Method::POST, "/batch/jobs", Some(&json!({ "jobs": jobs }))).await
        }
    };
    let mut all = true;
    for (at, job) in jobs.iter().enumerate() {
        let status = match (&answer, jobs.len()) {
            (None, _) => 503,
            (Some(answer), 1) => u64::from(answer.status),
            (Some(answer), _) => answer.json()["results"][at]["status"].as_u64().expect("a status"),
        };
        let said = match status {
            200 | 201 => Said::Done,
            500.. => Said::Unknown,
            _ => panic!("{answer:?}"),
        };
        all &= said == Said::Done;
        run.history.record(&job.id, sent, job.act(), said);
    }
    all
}

/// Pops and works until the run is over.
pub async fn work(run: Arc<Run>, number: usize) {
    let mut caller = Caller::new(&run.addresses, number);
    let mut random = StdRng::seed_from_u64(run.plan.seed + 1_000 + number as u64);
    let single = format!("/topics/{}/pop?wait=1s", run.topic);
    let batch = json!({"topics": [run.topic], "max": BATCH, "wait": "1s"});
    while !run.over() {
        let sent = run.history.sending();
        let answer = if in_batches(number) {
            caller.call(Method::POST, "/batch/pop", Some(&batch)).await
        } else {
            caller.call(Method::GET, &single, None).await
        };
        let jobs = match answer {
            None => continue,
            Some(answer) => match answer.status {
                204 => continue,
                200 if in_batches(number) => answer.json()["jobs"].as_array().expect("jobs").clone(),
                200 => vec![answer.json()],
                _ => panic!("{answer:?}"),
            },
        };
        let held: Vec<Held> = jobs.iter().map(|job| Held::new(&run, sent, job)).collect();
        for held in held {
            held.work(&run, &mut caller, &mut random).await;
        }
    }
}

/// A job in a worker's hands.
struct Held {
    id: String,
    receipt: String,
}

impl Held {
    fn new(run: &Run, sent: Sent, job: &Value) -> Self {
        let text = |member: &str| job[member].as_str().unwrap_or_else(|| panic!("no {member} in {job}"));
        let held = Self { id: text("id").to_owned(), receipt: text("receipt").to_owned() };
        let attempt = job["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
        let ttr = Duration::from_secs(run.plan.ttr);
        let act = Act::Deliver { receipt: held.receipt.clone(), attempt: attempt.expect("an attempt"), ttr };
        run.history.record(&held.id, sent, act, Said::Done);
        assert_eq!(job["body"], json!({ "of": held.id }), "the body is the one that was sent");
        run.delivered(late(text("due_at")));
        held
    }

    /// Does what a worker may do, mostly finish.
    async fn work(self, run: &Arc<Run>, caller: &mut Caller, random: &mut StdRng) {
        let lot = if run.plan.mixed && !run.draining() { random.random_range(0..100) } else { 0 };
        match lot {
            0..70 => self.finish(run, caller).await,
            70..78 => {
                let delay = Duration::from_millis(random.random_range(0..300));
                self.release(run, caller, delay).await;
            }
            78..84 => {
                self.touch(run, caller).await;
                self.finish(run, caller).await;
            }
            84..88 => self.bury(run, caller).await,
            // Dies with the job in its hands.
            88..93 => {}
            93..96 => {
                let said = until_known(run, caller, Method::DELETE, &self.id, "", None, Act::Delete).await;
                run.closed(said == Said::Done);
            }
            // Is slow: about when its time is over it answers after all, beside its next work.
            _ => {
                let (run, addresses) = (run.clone(), run.addresses.clone());
                let slow = Duration::from_millis(random.random_range(900..1_300)) * run.plan.ttr as u32;
                run.clone().late.lock().expect("not poisoned").spawn(async move {
                    SystemClock::new().sleep(slow).await;
                    self.finish(&run, &mut Caller::new(&addresses, 0)).await;
                });
            }
        }
    }

    async fn finish(&self, run: &Run, caller: &mut Caller) {
        let query = format!("/finish?receipt={}", self.receipt);
        let act = Act::Finish { receipt: self.receipt.clone() };
        let said = until_known(run, caller, Method::POST, &self.id, &query, None, act).await;
        run.closed(said == Said::Done);
    }

    async fn touch(&self, run: &Run, caller: &mut Caller) {
        let act = Act::Touch { receipt: self.receipt.clone(), ttr: Duration::from_secs(run.plan.ttr) };
        let json = json!({"receipt": self.receipt, "ttr": run.plan.ttr});
        until_known(run, caller, Method::POST, &self.id, "/touch", Some(json), act).await;
    }

    async fn release(&self, run: &Run, caller: &mut Caller, delay: Duration) {
        let act = Act::Release { receipt: self.receipt.clone(), delay };
        let json = json!({"receipt": self.receipt, "delay": format!("{}ms", delay.as_millis())});
        until_known(run, caller, Method::POST, &self.id, "/release", Some(json), act).await;
    }

    async fn bury(&self, run: &Run, caller: &mut Caller) {
        let act = Act::Bury { receipt: self.receipt.clone() };
        let json = json!({"receipt": self.receipt, "reason": "by lot"});
        let said = until_known(run, caller, Method::POST, &self.id, "/bury", Some(json), act).await;
        run.closed(said == Said::Done);
    }
}

/// Sends a call on a job until it is answered, and writes every sending down.
async fn until_known(
    run: &Run,
    caller: &mut Caller,
    method: Method,
    id: &str,
    rest: &str,
    json: Option<Value>,
    act: Act,
) -> Said {
    loop {
        let sent = run.history.sending();
        let answer = caller.call(method.clone(), &format!("/jobs/{id}{rest}"), json.as_ref()).await;
        let said = match answer.as_ref().map(|answer| answer.status) {
            None => Said::Unknown,
            Some(200 | 204) => Said::Done,
            Some(404) => Said::Gone,
            Some(409) => Said::Refused,
            Some(_) => panic!("{act:?}: {answer:?}"),
        };
        run.history.record(id, sent, act.clone(), said);
        if said != Said::Unknown {
            return said;
        }
    }
}

/// How long ago a moment was, by the wall clock that clients share with the server here.
#[expect(clippy::disallowed_methods, reason = "clients live in real time")]
fn late(due_at: &str) -> Duration {
    let unix_ms = Timestamp::parse(due_at).expect("a moment").as_millis();
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.unsigned_abs());
    SystemTime::now().duration_since(due).unwrap_or_default()
}
