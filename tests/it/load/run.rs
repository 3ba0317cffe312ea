//! A load from its first add to rest.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::Method;
use linger::clock::{Clock, SystemClock};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{
    clients::{Caller, produce, work},
    plan::{Plan, Report},
};
use crate::{
    checker::{History, Rest, Resting, check},
    harness::wait::TimeLimit,
};

/// How long after the last progress everything must have come to rest: a few TTRs, a restart, a
/// failover.
const GRACE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// What the clients of a load share.
#[derive(Debug)]
pub struct Run {
    pub plan: Plan,
    pub topic: &'static str,
    pub addresses: Vec<SocketAddr>,
    pub history: History,
    /// Slow workers.
    pub late: Mutex<JoinSet<()>>,
    late_us: Mutex<Vec<u64>>,
    /// Jobs asked for, acknowledged, and known to be done.
    asked: AtomicUsize,
    opened: AtomicUsize,
    closed: AtomicUsize,
    chaos_over: AtomicBool,
    draining: AtomicBool,
    over: AtomicBool,
}

impl Run {
    fn new(plan: Plan, addresses: &[SocketAddr]) -> Self {
        Self {
            plan,
            topic: "load",
            addresses: addresses.to_vec(),
            history: History::new(),
            late: Mutex::default(),
            late_us: Mutex::default(),
            asked: AtomicUsize::default(),
            opened: AtomicUsize::default(),
            closed: AtomicUsize::default(),
            chaos_over: AtomicBool::default(),
            draining: AtomicBool::default(),
            over: AtomicBool::default(),
        }
    }

    /// Whether a producer shall add `count` more.
    pub fn wants(&self, count: usize) -> bool {
        let more =
            !self.chaos_over.load(Ordering::Acquire) || self.asked.load(Ordering::Relaxed) < self.plan.jobs;
        if more {
            self.asked.fetch_add(count, Ordering::Relaxed);
        }
        more
    }

    pub fn opened(&self, count: usize) {
        self.opened.fetch_add(count, Ordering::Relaxed);
    }

    pub fn closed(&self, one: bool) {
        self.closed.fetch_add(usize::from(one), Ordering::Relaxed);
    }

    /// About how many jobs are on their way; those that used their attempts are among them.
    pub fn open(&self) -> usize {
        self.opened.load(Ordering::Relaxed).saturating_sub(self.closed.load(Ordering::Relaxed))
    }

    /// Jobs acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Waits until so many more jobs have been acknowledged; a load that gets nowhere fails.
    pub async fn progress(&self, jobs: usize) {
        grown(jobs, || self.acknowledged()).await;
    }

    /// Waits until so many more calls have ended, whatever came of them.
    pub async fn calls(&self, calls: usize) {
        grown(calls, || self.history.events().len()).await;
    }

    pub fn delivered(&self, late: Duration) {
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.late_us.lock().expect("not poisoned").push(late_us);
    }

    /// Whether workers shall only finish.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Waits until a figure has grown by so much.
async fn grown(by: usize, figure: impl Fn() -> usize) {
    let (before, time_limit) = (figure(), TimeLimit::new());
    while figure() < before + by {
        time_limit.check(|| format!("{} of {by} more", figure() - before));
        time_limit.pause().await;
    }
}

/// Puts the servers at `addresses`, which share one store, under `plan` while `chaos` happens to them;
/// then waits until everything is finished, deleted or dead, and holds it all against the promises.
/// When `chaos` ends, all servers must be up.
pub async fn run(plan: Plan, addresses: &[SocketAddr], chaos: impl AsyncFnOnce(&Run)) -> Report {
    #[expect(clippy::disallowed_methods, reason = "clients live in real time")]
    let began = Instant::now();
    println!("load of {plan:?}");
    let run = Arc::new(Run::new(plan, addresses));
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    for number in 0..run.plan.clients {
        producers.spawn(produce(run.clone(), number));
        workers.spawn(work(run.clone(), number));
    }
    let working = async {
        chaos(&run).await;
        run.chaos_over.store(true, Ordering::Release);
        producers.join_all().await;
        drain(&run).await
    };
    let quiet = tokio::select! {
        quiet = working => quiet,
        // None of them ends before the run is over, unless it saw what may not be.
        Some(ended) = workers.join_next() => panic!("a worker ended early: {ended:?}"),
    };
    run.over.store(true, Ordering::Release);
    workers.join_all().await;
    let slow = std::mem::take(&mut *run.late.lock().expect("not poisoned"));
    slow.join_all().await;
    let rest = at_rest(&run).await;
    let verdict = check(&run.history, Some(&rest));
    let mut late_us = std::mem::take(&mut *run.late_us.lock().expect("not poisoned"));
    late_us.sort_unstable();
    Report { verdict, quiet, late_us, took: began.elapsed(), seed: run.plan.seed }
}

/// Waits until nothing but dead letters is left; `false` when nothing moves any more before.
async fn drain(run: &Run) -> bool {
    let clock = SystemClock::new();
    let mut caller = Caller::new(&run.addresses, 0);
    let (mut left, mut time_limit) = (u64::MAX, 0);
    // Workers are on their own for the last TTR end of a job that a worker dropped.
    let deadline = GRACE + run.plan.spread + Duration::from_secs(run.plan.ttr) * 4;
    while u128::from(time_limit as u64) * LOOK.as_millis() < deadline.as_millis() {
        let (live, _) = counts(run, &mut caller).await;
        if live == 0 {
            return true;
        }
        time_limit = if live < left { 0 } else { time_limit + 1 };
        left = left.min(live);
        run.draining.store(time_limit > 0 || live < 100, Ordering::Release);
        clock.sleep(LOOK).await;
    }
    false
}

/// The topic's count of jobs that are not dead, and of dead ones.
async fn counts(run: &Run, caller: &mut Caller) -> (u64, u64) {
    let topic = get(caller, &format!("/topics/{}", run.topic)).await;
    let topic = &topic["counts"];
    let count = |state: &str| topic[state].as_u64().unwrap_or_default();
    (count("delayed") + count("ready") + count("reserved"), count("dead"))
}

/// Asks until it is answered: the JSON, `null` for 404.
async fn get(caller: &mut Caller, path: &str) -> Value {
    loop {
        match caller.call(Method::GET, path, None).await {
            Some(answer) if answer.status == 200 => return answer.json(),
            Some(answer) if answer.status == 404 => return Value::Null,
            Some(answer) => panic!("{path}: {answer:?}"),
            None => {}
        }
    }
}

/// Looks at everything that is there, or should be.
async fn at_rest(run: &Run) -> Rest {
    let mut caller = Caller::new(&run.addresses, 0);
    let mut rest = Rest { counts: counts(run, &mut caller).await, ..Rest::default() };
    let mut cursor = String::new();
    loop {
        let page = get(&mut caller, &format!("/topics/{}/dead?limit=100{cursor}", run.topic)).await;
        let jobs = page["jobs"].as_array().into_iter().flatten();
        rest.dead.extend(jobs.map(|job| job["id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    // What has gone for certain is looked for only where the counts leave room for it.
    let (live, _) = rest.counts;
    let gone: HashSet<String> = {
        let events = run.history.events();
        let gone = events.iter().filter(|event| event.act.removes() && event.done() && live == 0);
        gone.map(|event| event.job.clone()).filter(|job| !rest.dead.contains(job)).collect()
    };
    let names: HashSet<String> = run.history.events().iter().map(|event| event.job.clone()).collect();
    for name in names.difference(&gone) {
        let job = get(&mut caller, &format!("/jobs/{name}")).await;
        if let Some(state) = job["state"].as_str() {
            let attempts = job["attempts"].as_u64().and_then(|attempts| u32::try_from(attempts).ok());
            let resting = Resting { dead: state == "dead", attempts: attempts.expect("attempts") };
            rest.jobs.insert(name.clone(), resting);
        }
    }
    rest
}
