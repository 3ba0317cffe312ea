//! A load of jobs with callbacks: producers over HTTP, a receiver with several endpoints, and the check of its log.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::Method;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::log::{Rules, record_calls};
use crate::{
    checker::{Action, Add, History, Outcome, check},
    harness::{
        receiver::{Answer, Call, Receiver},
        wait::TimeLimit,
    },
    load::{Caller, Plan, Report, call_until_known, counts, read_final_state},
};

/// The topic with a URL, which signs its calls, and the topic without one.
pub const HOOKS: &str = "hooks";
pub const OWN: &str = "own";
/// The port of the topic's URL, and those of the URLs that jobs have.
const HOOKS_PORT: usize = 0;
const OWN_PORTS: [usize; 2] = [1, 2];

/// Of every call. Longer than the whole second of its timestamp, so that no answer in time passes for one that came too late.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long each failed attempt delays the next one.
const STEP: Duration = Duration::from_millis(300);
const MAX_ATTEMPTS: u32 = 3;
/// Longer than the step, so that the checker sees which of them is used.
const RETRY_IN: Duration = Duration::from_millis(900);
/// Longer than it takes to finish the job, also over a restart.
const HOLD: Duration = Duration::from_secs(20);

const BATCH: usize = 20;
const OPEN_LIMIT: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(20);
/// Between the requests of a producer that waits. Short enough that calls never cease while faults happen, and long enough
/// that the calls do not fall behind.
const LONG_PAUSE: Duration = Duration::from_millis(100);
/// How long a load may take to come to rest after the last progress.
const GRACE: Duration = Duration::from_secs(60);

/// The behaviors of the endpoint with their weights in a thousand. A job's id begins with the word.
const BEHAVIORS: [(&str, u32); 11] = [
    ("ok", 800),
    ("fail", 60),
    ("busy", 10),
    ("later", 20),
    ("redirect", 10),
    ("close", 10),
    ("silent", 5),
    ("hold", 30),
    ("gone", 20),
    ("refuse", 15),
    ("never", 20),
];

/// The answer to an attempt of a job, and whether it ends the job.
fn answer(job: &str, attempt: u32) -> (Answer, bool) {
    let behavior = job.split('-').next().expect("a first word");
    let last = attempt >= MAX_ATTEMPTS;
    match (behavior, attempt) {
        ("fail", 1) => (Answer::Status(500), last),
        ("busy", 1) => (Answer::Status(503), last),
        ("later", 1) => (Answer::RetryIn(RETRY_IN), last),
        ("redirect", 1) => (Answer::Status(302), last),
        ("close", 1) => (Answer::Close, last),
        ("silent", 1) => (Answer::Silence, last),
        ("never", _) => (Answer::Status(500), last),
        ("hold", _) => (Answer::Hold(HOLD), true),
        ("gone", _) => (Answer::Status(410), true),
        ("refuse", _) => (Answer::NoRetry, true),
        _ => (Answer::Status(204), true),
    }
}

/// What an endpoint does some time after its answer.
enum FollowUp {
    Finish { job: String, receipt: String },
    Read { job: String },
}

/// What the tasks of a load share.
pub struct CallLoad {
    pub plan: Plan,
    pub addresses: Vec<SocketAddr>,
    pub receiver: Receiver,
    pub history: History,
    /// The number of jobs that were begun, and of those whose last call was answered.
    begun: AtomicUsize,
    ended: Arc<AtomicUsize>,
    faults_over: AtomicBool,
    follow_ups: Mutex<JoinSet<()>>,
}

/// The results of a load.
pub struct CallReport {
    pub report: Report,
    /// Faults of single calls, which the laws of the checker do not cover.
    pub problems: Vec<String>,
    pub receiver: Receiver,
}

impl CallReport {
    #[track_caller]
    pub fn assert_clean(&self) {
        let first: Vec<&String> = self.problems.iter().take(20).collect();
        assert!(first.is_empty(), "{} problems: {first:#?}", self.problems.len());
        self.report.assert_clean();
    }
}

impl CallLoad {
    /// Waits until this number of further calls has arrived.
    pub async fn wait_for_calls(&self, calls: usize) {
        let count = || self.receiver.calls().len();
        let (before, time_limit) = (count(), TimeLimit::new());
        while count() < before + calls {
            time_limit.check(|| format!("{} of {calls} more calls", count() - before));
            time_limit.pause().await;
        }
    }

    /// Sets the path of the topic's URL, on one of the servers.
    pub async fn set_path(&self, path: &str) {
        let callback = json!({ "url": self.receiver.url(HOOKS_PORT, path), "timeout": TIMEOUT.as_secs() });
        self.administer(Method::PUT, "", json!({ "callback": callback })).await;
    }

    /// Calls an operation on the topic with a URL, until it succeeds.
    pub async fn administer(&self, method: Method, rest: &str, body: Value) -> Value {
        let mut caller = Caller::new(&self.addresses, 0);
        let path = format!("/topics/{HOOKS}{rest}");
        loop {
            if let Some(response) = caller.call(method.clone(), &path, Some(&body)).await {
                assert!(response.status < 300, "{path}: {response:?}");
                return response.json();
            }
        }
    }

    fn wants_more(&self) -> bool {
        !self.faults_over.load(Ordering::Acquire) || self.begun.load(Ordering::Relaxed) < self.plan.jobs
    }

    /// Whether producers shall wait a little: the calls are behind, or only the faults are not over.
    fn shall_wait(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        begun - self.ended.load(Ordering::Relaxed).min(begun) > OPEN_LIMIT || begun >= self.plan.jobs
    }

    /// Adds jobs as long as the load wants more. An add whose outcome is unknown is not sent again, so that every id has one
    /// lifetime.
    async fn produce(self: Arc<Self>, number: usize) {
        let mut caller = Caller::new(&self.addresses, number);
        let mut random = StdRng::seed_from_u64(self.plan.seed + number as u64);
        let size = if number % 2 == 1 { BATCH } else { 1 };
        for n in 0.. {
            if !self.wants_more() {
                return;
            }
            // The pace of the plan: the load is the subject.
            let pause = if self.shall_wait() { LONG_PAUSE.max(self.plan.pause) } else { self.plan.pause };
            if !pause.is_zero() {
                SystemClock::new().sleep(pause).await;
            }
            let jobs: Vec<NewJob> =
                (0..size).map(|k| NewJob::new(&format!("{number}-{n}-{k}"), &self, &mut random)).collect();
            self.begun.fetch_add(size, Ordering::Relaxed);
            self.add(&mut caller, &jobs).await;
            if random.random_bool(0.03) {
                let id = &jobs[0].id;
                call_until_known(&self.history, &mut caller, Method::DELETE, id, "", None, Action::Delete)
                    .await;
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn add(&self, caller: &mut Caller, jobs: &[NewJob]) {
        let sent = self.history.sent_now();
        let json: Vec<&Value> = jobs.iter().map(|job| &job.json).collect();
        let answer = match json[..] {
            [job] => caller.call(Method::POST, "/jobs", Some(job)).await,
            _ => caller.call(Method::POST, "/batch/jobs", Some(&json!({ "jobs": json }))).await,
        };
        for (index, job) in jobs.iter().enumerate() {
            let status = match (&answer, jobs.len()) {
                (None, _) => 503,
                (Some(answer), 1) => u64::from(answer.status),
                (Some(answer), _) => answer.json()["results"][index]["status"].as_u64().expect("a status"),
            };
            let outcome = match status {
                201 => Outcome::Done,
                500.. => Outcome::Unknown,
                _ => panic!("{answer:?}"),
            };
            if outcome == Outcome::Unknown {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
            let action = Action::Add(Add { delay: job.delay, max_attempts: MAX_ATTEMPTS, ..Add::default() });
            self.history.record(&job.id, sent, action, outcome);
        }
    }

    async fn follow_up(self: Arc<Self>, follow_up: FollowUp) {
        // Most answers have been processed by then.
        SystemClock::new().sleep(PAUSE).await;
        let mut caller = Caller::new(&self.addresses, 0);
        match follow_up {
            FollowUp::Finish { job, receipt } => {
                let query = format!("/finish?receipt={receipt}");
                let action = Action::Finish { receipt };
                call_until_known(&self.history, &mut caller, Method::POST, &job, &query, None, action).await;
            }
            FollowUp::Read { job } => {
                let sent = self.history.sent_now();
                let answer = caller.call(Method::GET, &format!("/jobs/{job}"), None).await;
                let outcome = match answer.map(|answer| answer.status) {
                    Some(200) => Outcome::Done,
                    Some(404) => Outcome::Gone,
                    None => Outcome::Unknown,
                    Some(status) => panic!("{job}: {status}"),
                };
                self.history.record(&job, sent, Action::Read, outcome);
            }
        }
    }

    /// Waits until only dead letters are left. Returns false if the load stops making progress before.
    async fn drain(&self) -> bool {
        let (clock, mut caller) = (SystemClock::new(), Caller::new(&self.addresses, 0));
        let (mut left, mut progress_us) = (u64::MAX, clock.now_micros());
        while Duration::from_micros(clock.now_micros().abs_diff(progress_us)) < GRACE {
            let (live, _) = counts(&mut caller, &[HOOKS, OWN]).await;
            match live {
                0 => return true,
                _ if live < left => (left, progress_us) = (live, clock.now_micros()),
                _ => {}
            }
            // The server has no signal for the last job; counts are read no faster than a producer asks.
            clock.sleep(LONG_PAUSE).await;
        }
        println!("{left} jobs are left");
        false
    }
}

struct NewJob {
    id: String,
    delay: Duration,
    json: Value,
}

impl NewJob {
    fn new(suffix: &str, load: &CallLoad, random: &mut StdRng) -> Self {
        let mut choice = random.random_range(0..BEHAVIORS.iter().map(|(_, weight)| weight).sum());
        let behavior = BEHAVIORS.iter().find(|(_, weight)| {
            let found = choice < *weight;
            choice = choice.wrapping_sub(if found { 0 } else { *weight });
            found
        });
        let id = format!("{}-{suffix}", behavior.expect("the choice is below the sum").0);
        let delay = Duration::from_millis(random.random_range(0..=load.plan.spread.as_millis() as u64));
        // Half of the jobs go to the topic's URL.
        let own_port = random.random_bool(0.5).then(|| OWN_PORTS[random.random_range(0..OWN_PORTS.len())]);
        let topic = if own_port.is_some() && random.random_bool(0.6) { OWN } else { HOOKS };
        let mut json = json!({
            "topic": topic, "id": id, "delay": format!("{}ms", delay.as_millis()), "ttr": 1,
            "max_attempts": MAX_ATTEMPTS, "retry": ["300ms"], "body": { "of": id },
        });
        if let Some(port) = own_port {
            json["callback"] =
                json!({ "url": load.receiver.url(port, "/own"), "timeout": TIMEOUT.as_secs() });
        }
        Self { id, delay, json }
    }
}

/// Starts the receiver. It sends on a channel what endpoints do after their answers.
async fn start_receiver(ended: Arc<AtomicUsize>) -> (Receiver, mpsc::UnboundedReceiver<FollowUp>) {
    let (follow_ups, receiver_of_them) = mpsc::unbounded_channel();
    let answered = AtomicUsize::default();
    let policy = move |call: &Call| {
        let (job, receipt) = (call.job().to_owned(), call.receipt().to_owned());
        let (answer, ends) = answer(&job, call.attempt());
        if ends {
            ended.fetch_add(1, Ordering::Relaxed);
        }
        let is_sample = || answered.fetch_add(1, Ordering::Relaxed).is_multiple_of(16);
        // Sending fails once the load is over, because the task that receives has ended.
        let _ = match answer {
            Answer::Hold(_) => follow_ups.send(FollowUp::Finish { job, receipt }),
            Answer::Status(204) if is_sample() => follow_ups.send(FollowUp::Read { job }),
            _ => Ok(()),
        };
        answer
    };
    (Receiver::start(1 + OWN_PORTS.len(), policy).await, receiver_of_them)
}

/// Waits until a server knows the callback of the topic, and what was set before it: from then on it refuses pops.
async fn wait_until_callback_is_known(address: SocketAddr) {
    let (mut caller, time_limit) = (Caller::new(&[address], 0), TimeLimit::new());
    let path = format!("/topics/{HOOKS}/pop");
    while caller.call(Method::GET, &path, None).await.is_none_or(|answer| answer.status != 409) {
        time_limit.check(|| format!("{address} does not know the callback"));
        time_limit.pause().await;
    }
}

/// Runs a load against the servers at `addresses`, which share one store, while `faults` disturbs them. Then it waits until
/// every job is finished, deleted or dead, and checks the receiver's log. When `faults` ends, all servers must be running.
pub async fn run(plan: Plan, addresses: &[SocketAddr], faults: impl AsyncFnOnce(&CallLoad)) -> CallReport {
    #[expect(clippy::disallowed_methods, reason = "clients run in real time")]
    let began = Instant::now();
    println!("callbacks of {plan:?}");
    let ended = Arc::new(AtomicUsize::default());
    let (receiver, mut follow_ups) = start_receiver(ended.clone()).await;
    let load = Arc::new(CallLoad {
        plan,
        addresses: addresses.to_vec(),
        receiver,
        history: History::new(),
        begun: AtomicUsize::default(),
        ended,
        faults_over: AtomicBool::default(),
        follow_ups: Mutex::default(),
    });
    let secret = load.administer(Method::POST, "/secrets", json!({})).await;
    load.set_path("/hooks").await;
    for address in addresses {
        wait_until_callback_is_known(*address).await;
    }
    let secret = secret["secret"].as_str().and_then(|secret| secret.strip_prefix("whsec_"));
    let key = STANDARD.decode(secret.expect("a secret")).expect("base64");
    let mut producers = JoinSet::new();
    for number in 0..load.plan.clients {
        producers.spawn(load.clone().produce(number));
    }
    let following = tokio::spawn({
        let load = load.clone();
        async move {
            while let Some(follow_up) = follow_ups.recv().await {
                let mut tasks = load.follow_ups.lock().expect("not poisoned");
                tasks.spawn(load.clone().follow_up(follow_up));
                while let Some(ended) = tasks.try_join_next() {
                    ended.expect("a follow-up does not panic");
                }
            }
        }
    });
    faults(&load).await;
    load.faults_over.store(true, Ordering::Release);
    producers.join_all().await;
    let came_to_rest = load.drain().await;
    assert!(!following.is_finished(), "a follow-up panicked");
    following.abort();
    let follow_ups = std::mem::take(&mut *load.follow_ups.lock().expect("not poisoned"));
    follow_ups.join_all().await;
    let final_state = read_final_state(&mut Caller::new(addresses, 0), &[HOOKS, OWN], &load.history).await;
    let calls = load.receiver.calls();
    let rules = Rules { timeout: TIMEOUT, step: STEP, signed_topic: HOOKS, key };
    let problems = record_calls(&load.history, &calls, &rules);
    let verdict = check(&load.history, Some(&final_state));
    let first = calls.iter().filter(|call| call.attempt() == 1);
    let late = first.map(|call| call.arrived.saturating_duration_since(call.due).as_micros());
    let mut late_us: Vec<u64> = late.map(|late| u64::try_from(late).unwrap_or(u64::MAX)).collect();
    late_us.sort_unstable();
    let report = Report { verdict, came_to_rest, late_us, took: began.elapsed(), seed: load.plan.seed };
    drop(calls);
    CallReport { report, problems, receiver: load.receiver.clone() }
}
