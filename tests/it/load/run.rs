//! A load from its first add until it has come to rest.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::Method;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    caller::{Caller, LONGEST_OUTAGE},
    clients::{produce, work},
    final_state::{counts, read_final_state},
    job::{Job, expires},
    old_clients::SentAdds,
    plan::{Plan, Report},
};
use crate::{
    checker::{Action, History, Outcome, check},
    harness::wait::{StepLimit, TimeLimit},
};

/// How long a load may take to come to rest after the last progress: a few TTRs, a restart, a failover.
const GRACE: Duration = Duration::from_secs(60);
/// The topic of the jobs whose ids are forgotten when they end, and of those whose ids are remembered.
pub const TOPIC: &str = "load:plain";
pub const REMEMBERING: &str = "remembering";
pub const TOPICS: [&str; 2] = [TOPIC, REMEMBERING];
const INTERVAL: Duration = Duration::from_millis(200);
/// How often a load is looked at whether it makes progress.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// What the clients of a load share.
#[derive(Debug)]
pub struct Run {
    pub plan: Plan,
    pub addresses: Vec<SocketAddr>,
    pub history: History,
    /// What old clients have sent.
    pub sent_adds: SentAdds,
    /// The tasks of slow workers.
    pub slow_workers: Mutex<JoinSet<()>>,
    /// The jobs that a worker is requeuing. No other worker requeues them meanwhile.
    requeuing: Mutex<HashSet<String>>,
    lateness_us: Mutex<Vec<u64>>,
    /// The numbers of jobs that were begun and acknowledged, and of those that are not known to have ended.
    begun: AtomicUsize,
    added: AtomicUsize,
    open: AtomicIsize,
    /// When a job was last acknowledged or delivered, or ended.
    progress_us: AtomicI64,
    clock: SystemClock,
    faults_over: AtomicBool,
    draining: AtomicBool,
    over: AtomicBool,
}

impl Run {
    fn new(plan: Plan, addresses: &[SocketAddr]) -> Self {
        let clock = SystemClock::new();
        Self {
            plan,
            addresses: addresses.to_vec(),
            history: History::new(),
            sent_adds: SentAdds::default(),
            slow_workers: Mutex::default(),
            requeuing: Mutex::default(),
            lateness_us: Mutex::default(),
            begun: AtomicUsize::default(),
            added: AtomicUsize::default(),
            open: AtomicIsize::default(),
            progress_us: clock.now_micros().into(),
            clock,
            faults_over: AtomicBool::default(),
            draining: AtomicBool::default(),
            over: AtomicBool::default(),
        }
    }

    /// Whether a producer shall add `count` more jobs.
    pub fn wants_more(&self, count: usize) -> bool {
        let more =
            !self.faults_over.load(Ordering::Acquire) || self.begun.load(Ordering::Relaxed) < self.plan.jobs;
        if more {
            self.begun.fetch_add(count, Ordering::Relaxed);
        }
        more
    }

    pub fn jobs_added(&self, jobs: &[Job]) {
        let open = jobs.iter().filter(|job| !expires(&job.id)).count();
        self.added.fetch_add(jobs.len(), Ordering::Relaxed);
        self.open.fetch_add(open.cast_signed(), Ordering::Relaxed);
        self.made_progress();
    }

    /// An old client has added a job.
    pub fn old_job_added(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        self.made_progress();
    }

    /// Returns the revision in the body of a job that was delivered, and asserts that the body is one that was sent for this id. If a
    /// client of lmstfy sent it, the add is recorded: it may be one whose answer was lost.
    pub fn identify(&self, id: &str, body: &Value) -> u64 {
        let name = body["of"].as_str().unwrap_or_else(|| panic!("{id} has another body: {body}"));
        if name != id {
            let sent = self.sent_adds.lock().expect("not poisoned").get(name).cloned();
            let (sent, add) = sent.unwrap_or_else(|| panic!("{id} has the body of another job: {body}"));
            self.history.record(id, sent, Action::Add(add), Outcome::Unknown);
        }
        body["revision"].as_u64().expect("has a revision")
    }

    pub fn job_ended(&self, id: &str, ended: bool) {
        self.open.fetch_sub(isize::from(ended && !expires(id)), Ordering::Relaxed);
        self.made_progress();
    }

    fn made_progress(&self) {
        self.progress_us.store(self.clock.now_micros(), Ordering::Relaxed);
    }

    /// Panics once the load has made no progress for longer than any outage lasts. Calls that are answered may have no
    /// effect: pops find nothing, items of batches fail.
    async fn watch_progress(&self) {
        loop {
            let idle_us = self.clock.now_micros() - self.progress_us.load(Ordering::Relaxed);
            assert!(
                Duration::from_micros(idle_us.unsigned_abs()) < LONGEST_OUTAGE,
                "no job was acknowledged or delivered, and none ended, for {LONGEST_OUTAGE:?}; {} are acknowledged, \
                 {} open; the last call: {:?}",
                self.acknowledged(),
                self.open_jobs(),
                self.history.events().last(),
            );
            self.clock.sleep(WATCH_INTERVAL).await;
        }
    }

    /// The approximate number of jobs that have not ended, including those that used all their attempts. Jobs that expire are
    /// left out, since no client sees that end.
    pub fn open_jobs(&self) -> usize {
        self.open.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// The number of jobs acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.added.load(Ordering::Relaxed)
    }

    /// Waits until this number of further jobs has been acknowledged. Panics if the load makes no progress.
    pub async fn wait_for_adds(&self, jobs: usize) {
        wait_for_growth(jobs, || self.acknowledged()).await;
    }

    /// Waits until this number of further calls has ended, with any outcome.
    pub async fn wait_for_calls(&self, calls: usize) {
        wait_for_growth(calls, || self.history.events().len()).await;
    }

    /// A delay of a job: up to the spread of the plan.
    pub fn random_delay(&self, random: &mut StdRng) -> Duration {
        Duration::from_millis(random.random_range(0..=self.plan.spread.as_millis() as u64))
    }

    /// Returns false if another worker is requeuing this job.
    pub fn begin_requeue(&self, id: &str) -> bool {
        self.requeuing.lock().expect("not poisoned").insert(id.to_owned())
    }

    pub fn end_requeue(&self, id: &str) {
        self.requeuing.lock().expect("not poisoned").remove(id);
    }

    pub fn delivered(&self, late: Duration) {
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.lateness_us.lock().expect("not poisoned").push(late_us);
        self.made_progress();
    }

    /// Whether workers shall only finish jobs.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Waits until a count has grown by `by`.
async fn wait_for_growth(by: usize, count: impl Fn() -> usize) {
    let (before, time_limit) = (count(), TimeLimit::new());
    while count() < before + by {
        time_limit.check(|| format!("{} of {by} more", count() - before));
        time_limit.pause().await;
    }
}

/// Runs the load `plan` against the servers at `addresses`, which share one store, while `faults` disturbs them. Then it
/// waits until every job is finished, deleted or dead, and checks the history against the laws. When `faults` ends, all
/// servers must be running.
pub async fn run(plan: Plan, addresses: &[SocketAddr], faults: impl AsyncFnOnce(&Run)) -> Report {
    #[expect(clippy::disallowed_methods, reason = "clients run in real time")]
    let began = Instant::now();
    println!("load of {plan:?}");
    let run = Arc::new(Run::new(plan, addresses));
    set_dedup(&run).await;
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    for number in 0..run.plan.clients {
        producers.spawn(produce(run.clone(), number));
        workers.spawn(work(run.clone(), number));
    }
    let working = async {
        faults(&run).await;
        run.faults_over.store(true, Ordering::Release);
        producers.join_all().await;
        drain(&run).await
    };
    let came_to_rest = tokio::select! {
        came_to_rest = working => came_to_rest,
        () = run.watch_progress() => unreachable!("the watch never ends"),
        // No worker ends before the run is over, unless it panicked.
        Some(ended) = workers.join_next() => panic!("a worker ended early: {ended:?}"),
    };
    run.over.store(true, Ordering::Release);
    workers.join_all().await;
    let slow = std::mem::take(&mut *run.slow_workers.lock().expect("not poisoned"));
    slow.join_all().await;
    let final_state = read_final_state(&mut Caller::new(&run.addresses, 0), &TOPICS, &run.history).await;
    let verdict = check(&run.history, Some(&final_state));
    let mut late_us = std::mem::take(&mut *run.lateness_us.lock().expect("not poisoned"));
    late_us.sort_unstable();
    Report { verdict, came_to_rest, late_us, took: began.elapsed(), seed: run.plan.seed }
}

/// Has a topic remember ids for longer than any load lasts, and all servers know it before they add a job.
async fn set_dedup(run: &Run) {
    let (path, json) = (format!("/topics/{REMEMBERING}"), json!({ "dedup": "7d" }));
    let mut caller = Caller::new(&run.addresses, 0);
    while caller.call(Method::PUT, &path, Some(&json)).await.is_none() {}
    for (number, address) in run.addresses.iter().enumerate() {
        let (mut caller, mut step_limit) = (Caller::new(&[*address], 0), StepLimit::new());
        while !remembers(&mut caller, &format!("probe-{number}")).await {
            step_limit.step();
        }
    }
}

/// Whether a server remembers the id of a job that it adds to the topic.
async fn remembers(caller: &mut Caller, id: &str) -> bool {
    let (path, json) = (format!("/jobs/{id}"), json!({ "topic": REMEMBERING, "id": id, "delay": "1h" }));
    caller.call(Method::POST, "/jobs", Some(&json)).await;
    caller.call(Method::DELETE, &path, None).await;
    let again = caller.call(Method::POST, "/jobs", Some(&json)).await;
    again.is_some_and(|answer| answer.status == 409 && answer.json()["code"] == "job_deleted")
}

/// Waits until only dead letters are left. Returns false if the load stops making progress before.
async fn drain(run: &Run) -> bool {
    let clock = SystemClock::new();
    let mut caller = Caller::new(&run.addresses, 0);
    let (mut left, mut idle_checks) = (u64::MAX, 0);
    // Jobs that a worker dropped need the end of their TTR before another worker receives them.
    let longest = GRACE + run.plan.spread + Duration::from_secs(run.plan.ttr) * 4;
    while u128::from(idle_checks as u64) * INTERVAL.as_millis() < longest.as_millis() {
        let (live, _) = counts(&mut caller, &TOPICS).await;
        if live == 0 {
            return true;
        }
        idle_checks = if live < left { 0 } else { idle_checks + 1 };
        left = left.min(live);
        run.draining.store(idle_checks > 0 || live < 100, Ordering::Release);
        clock.sleep(INTERVAL).await;
    }
    false
}
