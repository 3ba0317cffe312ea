//! Clients of lmstfy and ouqiang/delay-queue, which share jobs with the native clients of a load. They know no receipts, and no
//! answer says whether the job that a call ended was there: the native API is asked for it afterwards.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::Method;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{
    caller::{Caller, read_until_known},
    clients::{OPEN_LIMIT, PAUSE},
    run::{Run, TOPIC},
};
use crate::checker::{Action, Add, Outcome, SentAt};

/// Clients of lmstfy see how many tries a job has left, not how many it had: of a limit that no job reaches.
pub const TRIES: u32 = 60_000;
const SECOND: Duration = Duration::from_secs(1);

/// The adds by clients of lmstfy that were sent, by the names in their bodies. The server chooses the ids, so a client that gets no
/// answer does not know that of its job.
pub type SentAdds = Mutex<HashMap<String, (SentAt, Add)>>;

/// The servers' addresses for old clients.
#[derive(Debug, Clone, Copy)]
pub struct OldAddresses {
    pub lmstfy: SocketAddr,
    pub ouqiang: SocketAddr,
}

/// The old clients of a load.
pub struct OldClients<'a> {
    run: &'a Run,
    addresses: OldAddresses,
    numbers: AtomicUsize,
    is_over: AtomicBool,
}

impl<'a> OldClients<'a> {
    pub fn new(run: &'a Run, addresses: OldAddresses) -> Self {
        Self { run, addresses, numbers: AtomicUsize::default(), is_over: AtomicBool::default() }
    }

    /// Lets the old clients add jobs and work while `faults` happens.
    pub async fn work_during(&self, faults: impl Future<Output = ()>) {
        let faults = async {
            faults.await;
            self.is_over.store(true, Ordering::Release);
        };
        tokio::join!(faults, self.publish(), self.consume(), self.push(), self.pop());
    }

    fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn random(&self) -> StdRng {
        StdRng::seed_from_u64(self.run.plan.seed + 3_000 + self.number() as u64)
    }

    /// Whether a producer goes on. It waits while very many jobs are open.
    async fn goes_on(&self) -> bool {
        let clock = SystemClock::new();
        while self.run.open_jobs() > OPEN_LIMIT && !self.is_over.load(Ordering::Acquire) {
            clock.sleep(PAUSE).await;
        }
        // The pace of these few producers: without it they would add most of the jobs.
        clock.sleep(PAUSE).await;
        !self.is_over.load(Ordering::Acquire)
    }

    /// Publishes through lmstfy. An add whose answer is lost is sent again, as another job.
    async fn publish(&self) {
        let (mut caller, mut random) = (Caller::new(&[self.addresses.lmstfy], 0), self.random());
        while self.goes_on().await {
            let (name, delay) = (format!("lmstfy-{}", self.number()), SECOND * random.random_range(0..=2));
            let path = format!("{}?delay={}&tries={TRIES}&token=any", queue_path(), delay.as_secs());
            let (sent, add) = (self.run.history.sent_now(), add_after(delay));
            self.run.sent_adds.lock().expect("not poisoned").insert(name.clone(), (sent, add.clone()));
            let Some(answer) = caller.call(Method::PUT, &path, Some(&body(&name))).await else { continue };
            assert_eq!(answer.status, 201, "{answer:?}");
            self.run.history.record(&answer.text("job_id"), sent, Action::Add(add), Outcome::Done);
            self.run.old_job_added();
        }
    }

    /// Consumes through lmstfy. Some jobs are not acknowledged, and come back.
    async fn consume(&self) {
        let (mut caller, mut random) = (Caller::new(&[self.addresses.lmstfy], 0), self.random());
        let path = format!("{}?ttr={}&timeout=1&token=any", queue_path(), self.run.plan.ttr);
        while !self.is_over.load(Ordering::Acquire) {
            let sent = self.run.history.sent_now();
            let Some(answer) = caller.call(Method::GET, &path, None).await else { continue };
            if answer.status == 404 {
                continue;
            }
            let job = answer.json();
            let id = self.delivered_by_lmstfy(sent, &job);
            if random.random_bool(0.8) {
                let path = format!("{}/job/{id}?token=any", queue_path());
                self.end(&mut caller, Method::DELETE, &path, None, &id).await;
            }
        }
    }

    fn delivered_by_lmstfy(&self, sent: SentAt, job: &Value) -> String {
        let id = job["job_id"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned();
        let body = STANDARD.decode(job["data"].as_str().expect("has data")).expect("is base64");
        let body: Value = serde_json::from_slice(&body).expect("is the JSON that was sent");
        let revision = self.run.identify(&id, &body);
        let (tries, left) = (body["tries"].as_u64(), job["remain_tries"].as_u64());
        let attempt = tries.expect("has tries").checked_sub(left.expect("has tries left"));
        let action = Action::Deliver {
            receipt: format!("lmstfy-{}", self.number()),
            revision,
            attempt: attempt.and_then(|attempt| u32::try_from(attempt).ok()).expect("an attempt"),
            ttr: SECOND * u32::try_from(self.run.plan.ttr).expect("is short"),
        };
        self.run.history.record(&id, sent, action, Outcome::Done);
        self.run.delivered(Duration::ZERO);
        id
    }

    /// Pushes as clients of ouqiang do. A push whose answer is lost is sent again, as another job: a second one would replace
    /// the first.
    async fn push(&self) {
        let (mut caller, mut random) = (Caller::new(&[self.addresses.ouqiang], 0), self.random());
        while self.goes_on().await {
            let (id, delay) = (format!("ouqiang-{}", self.number()), SECOND * random.random_range(1..=2));
            let json = json!({
                "topic": TOPIC, "id": id, "delay": delay.as_secs(), "ttr": self.run.plan.ttr, "body": body(&id).to_string(),
            });
            let sent = self.run.history.sent_now();
            let is_added = self.answer_of_ouqiang(&mut caller, "/push", &json).await.is_some();
            let outcome = if is_added { Outcome::Done } else { Outcome::Unknown };
            self.run.history.record(&id, sent, Action::Add(add_after(delay)), outcome);
            if is_added {
                self.run.old_job_added();
            }
        }
    }

    /// Pops as clients of ouqiang do, which see no attempt: such a delivery is not in the history, only its end.
    async fn pop(&self) {
        let (mut caller, mut random) = (Caller::new(&[self.addresses.ouqiang], 0), self.random());
        while !self.is_over.load(Ordering::Acquire) {
            let answer = self.answer_of_ouqiang(&mut caller, "/pop", &json!({ "topic": TOPIC })).await;
            let Some(job) = answer.filter(|job| !job.is_null()) else { continue };
            let id = job["id"].as_str().expect("an id").to_owned();
            let body = serde_json::from_str(job["body"].as_str().expect("a body")).expect("is JSON");
            self.run.identify(&id, &body);
            self.run.delivered(Duration::ZERO);
            if random.random_bool(0.8) {
                self.end(&mut caller, Method::POST, "/finish", Some(json!({ "id": id })), &id).await;
            }
        }
    }

    /// The data of an answer; `None` if there is none, or the store failed.
    async fn answer_of_ouqiang(&self, caller: &mut Caller, path: &str, json: &Value) -> Option<Value> {
        let answer = caller.call(Method::POST, path, Some(json)).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let mut answer = answer.json();
        (answer["code"] == 0).then(|| answer["data"].take())
    }

    /// Ends a job by a call that is answered alike whether it is there. It stays if it was replaced meanwhile.
    async fn end(&self, caller: &mut Caller, method: Method, path: &str, json: Option<Value>, id: &str) {
        let sent = self.run.history.sent_now();
        caller.call(method, path, json.as_ref()).await;
        self.run.history.record(id, sent, Action::Delete, Outcome::Unknown);
        let mut native = Caller::new(&self.run.addresses, 0);
        let is_gone = read_until_known(&self.run.history, &mut native, id).await.is_none();
        self.run.job_ended(id, is_gone);
    }
}

/// The path of the shared topic for lmstfy.
fn queue_path() -> String {
    format!("/api/{}", TOPIC.replace(':', "/"))
}

fn body(name: &str) -> Value {
    json!({ "of": name, "revision": 0, "tries": TRIES })
}

fn add_after(delay: Duration) -> Add {
    Add { delay, max_attempts: TRIES, ..Add::default() }
}
