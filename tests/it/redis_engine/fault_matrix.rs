//! Every operation with every fault at every request that it makes. The outcome is correct or `Unavailable`; the change
//! happens once, or perhaps not at all if the outcome is an error; and the engine works again soon after the fault. The
//! naive store defines what is correct.
//!
//! `LINGER_PROVE_CUT_POINTS=n` runs the full matrix n times. Without it, each request meets the worst fault and one of
//! the others in turn.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use linger::{
    clock::{Clock, SystemClock},
    store::{Error, Store, redis::Options},
};

use super::{
    Process, options,
    proxy::{Fault, Proxy},
    steps::{Step, StepFixture, prepare_for},
};
use crate::harness::{
    jobs::*,
    naive::Naive,
    redis::{RedisServer, shared},
    stores::Recorder,
};

/// Longest time that one call may take beyond the configured timeouts, on a busy machine.
const SLACK: Duration = Duration::from_secs(10);
/// How many fixtures run concurrently: they wait most of the time.
const WORKERS: usize = 4;

/// An engine behind a proxy and the naive store, on one clock.
struct FaultFixture {
    process: Process,
    /// A process that is not behind the proxy: it prepares the jobs of a case and reads the results.
    observer: Process,
    proxy: Proxy,
    naive: Arc<dyn Store>,
    naive_events: Arc<Recorder>,
    options: Options,
    cases: usize,
}

/// The sum over all cases.
#[derive(Debug, Default)]
struct Totals {
    runs: usize,
    faults: usize,
    unavailable: usize,
    longest_recovery: Duration,
}

impl FaultFixture {
    async fn new() -> Self {
        let proxy = Proxy::start(shared().port).await;
        let mode = proxy.mode();
        let options = Options {
            mode,
            shards: Some(2),
            // A busy machine holds the shared server up for more than a second, also while the process starts.
            command_timeout: seconds(3),
            unresponsive_timeout: seconds(3),
            connect_timeout: seconds(3),
            reconnect_min: millis(1),
            reconnect_max: millis(20),
            // Beside a single fault, a call may meet a server that is slow for some seconds.
            retry_for: seconds(15),
            // A pop may return without the jobs of a shard that takes longer, which the naive store never does.
            prompt_timeout: seconds(60),
            ..options()
        };
        Self::with(proxy, options, &shared().url()).await
    }

    /// The observer connects to the server at the URL `at` without the proxy.
    async fn with(proxy: Proxy, options: Options, at: &str) -> Self {
        let process = Process::start(&options).await;
        proxy.learn_background().await;
        // It is not under test, and a busy machine may hold the shared server up.
        let direct = Options {
            prefix: options.prefix.clone(),
            shards: options.shards,
            command_timeout: seconds(30),
            unresponsive_timeout: seconds(60),
            retry_for: seconds(60),
            prompt_timeout: seconds(60),
            ..Options::new(at)
        };
        let observer = Process::with_clock_of(&process, &direct).await;
        let naive_events = Arc::new(Recorder::default());
        let naive = Naive::new(process.clock.clone(), naive_events.clone(), None);
        Self { process, observer, proxy, naive, naive_events, options, cases: 0 }
    }

    /// Longest time that an operation may take: no operation makes more than four calls in sequence.
    fn deadline(&self) -> Duration {
        4 * (self.options.retry_for + self.options.command_timeout) + SLACK
    }

    /// Runs one case. Returns how many requests could have met the fault.
    async fn case(
        &mut self,
        step: Step,
        skip: usize,
        times: usize,
        fault: Fault,
        totals: &mut Totals,
    ) -> usize {
        self.cases += 1;
        let what = format!("{step:?}, {fault:?} {times} times after {skip} requests");
        let name = format!("case{}", self.cases);
        let expected = StepFixture::prepare(&self.naive, &self.naive, &name).await;
        let actual = StepFixture::prepare(&self.process.store, &self.observer.store, &name).await;
        prepare_for(step, &self.process.clock, &[&expected, &actual]).await;
        let before = expected.jobs().await;
        self.naive_events.take_ready();
        self.process.events.take_ready();
        let (answer, _) = expected.perform(step).await.expect("the naive store never fails");
        let after = expected.jobs().await;

        self.proxy.arm(skip, times, fault);
        let outcome = tokio::time::timeout(self.deadline(), actual.perform(step)).await;
        let (injected, requests) = self.proxy.disarm();
        let outcome = outcome.unwrap_or_else(|_| panic!("{what}: the call hangs"));
        totals.runs += 1;
        totals.faults += injected;
        totals.longest_recovery = totals.longest_recovery.max(self.recovery_time(&what).await);
        let jobs = actual.jobs().await;
        match &outcome {
            Ok((actual_answer, _)) => {
                assert_eq!(*actual_answer, answer, "{what}: the answer");
                assert_eq!(jobs, after, "{what}: the jobs");
                assert_eq!(actual.stats().await, expected.stats().await, "{what}: the statistics");
            }
            Err(Error::Unavailable(_)) if injected > 0 && (times > 1 || step.fails_fast()) => {
                totals.unavailable += 1;
                for ((job, before), after) in jobs.iter().zip(&before).zip(&after) {
                    assert!(job == before || job == after, "{what}: neither before nor after: {job}");
                }
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
        let verified = self.observer.store.verify().await.expect("verifies");
        assert_eq!(verified.faults, Vec::<String>::new(), "{what}");
        if jobs == after && !self.naive_events.take_ready().is_empty() {
            self.process.wait_for_ready_event(&name).await;
        }
        self.end_case(&actual, outcome.map(|(_, granted)| granted).unwrap_or_default(), &what).await;
        expected.clear().await;
        requests
    }

    /// Waits until the engine accepts writes again. Returns how long that took.
    async fn recovery_time(&self, what: &str) -> Duration {
        let clock = SystemClock::new();
        let from_us = clock.now_micros();
        let store = &self.process.store;
        let recovered = async { while store.check().await.is_err() {} };
        tokio::time::timeout(seconds(3) + SLACK, recovered)
            .await
            .unwrap_or_else(|_| panic!("{what}: does not recover"));
        Duration::from_micros((clock.now_micros() - from_us).unsigned_abs())
    }

    /// Checks that every granted receipt works, and deletes the jobs of the case.
    async fn end_case(
        &self,
        steps: &StepFixture,
        granted: Vec<(linger::job::JobId, linger::job::Receipt)>,
        what: &str,
    ) {
        for (id, receipt) in granted {
            let done = self.observer.store.finish(ALL, finish(&id, &receipt)).await.expect("finishes");
            assert!(one(done).is_ok(), "{what}: {id} is not held");
        }
        steps.clear().await;
    }
}

/// The faults for the request with this number.
fn faults(rounds: usize, request: usize) -> Vec<Fault> {
    match rounds {
        0 => vec![Fault::ALL[0], Fault::ALL[1 + request % (Fault::ALL.len() - 1)]],
        _ => Fault::ALL.to_vec(),
    }
}

fn rounds() -> usize {
    std::env::var("LINGER_PROVE_CUT_POINTS").map_or(0, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Runs the steps of one worker, once for each fault and request.
async fn single_faults(worker: usize, rounds: usize) -> Totals {
    let (mut fixture, mut totals) = (FaultFixture::new().await, Totals::default());
    for _ in 0..rounds.max(1) {
        for (number, step) in Step::ALL.into_iter().enumerate().skip(worker).step_by(WORKERS) {
            let requests = fixture.case(step, usize::MAX, 0, Fault::CutAfter, &mut totals).await;
            assert!(requests > 0, "{step:?} makes no request");
            for skip in 0..requests {
                for fault in faults(rounds, number + skip) {
                    fixture.case(step, skip, 1, fault, &mut totals).await;
                }
            }
        }
    }
    totals
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_survives_every_fault_at_every_request() {
    let rounds = rounds();
    let workers = (0..WORKERS).map(|worker| tokio::spawn(single_faults(worker, rounds)));
    report("redis_cut_points", join_all(workers).await);
}

/// If a change waits for a replica, another connection sends it, in a pipeline with its `WAIT`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_that_waits_for_a_replica_survives_cuts_too() {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let port = primary.port.to_string();
    let _replica = RedisServer::start_with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    let proxy = Proxy::start(primary.port).await;
    let mode = proxy.mode();
    // The test asserts nothing about the speed of the replica, so the timeouts are long.
    let (wait_timeout, retry_for) = (seconds(20), seconds(30));
    let options = Options { mode, shards: Some(1), wait_replicas: 1, wait_timeout, retry_for, ..options() };
    let (mut fixture, mut totals) =
        (FaultFixture::with(proxy, options, &primary.url()).await, Totals::default());
    for (number, step) in Step::ALL.into_iter().enumerate() {
        let requests = fixture.case(step, usize::MAX, 0, Fault::CutAfter, &mut totals).await;
        for skip in 0..requests {
            // Without the silent faults: how long a silent connection is kept open depends on `wait_timeout`.
            let faults =
                if rounds() == 0 { &Fault::ALL[(number + skip) % 5..][..1] } else { &Fault::ALL[..5] };
            for fault in faults {
                fixture.case(step, skip, 1, *fault, &mut totals).await;
            }
        }
    }
    report("redis_cut_points_with_replica", vec![Ok(totals)]);
}

/// Runs the steps of one worker with faults that last longer than a call is retried.
async fn lasting_faults(worker: usize, rounds: usize) -> Totals {
    let (mut fixture, mut totals) = (FaultFixture::new().await, Totals::default());
    let options = Options { retry_for: seconds(1), ..fixture.options };
    fixture = FaultFixture::with(fixture.proxy, options, &shared().url()).await;
    for _ in 0..rounds.max(1) {
        for (number, step) in Step::ALL.into_iter().enumerate().skip(worker).step_by(WORKERS) {
            let faults = match rounds {
                0 => vec![Fault::ALL[number % 7]],
                _ => Fault::ALL[..7].to_vec(),
            };
            for fault in faults {
                let requests = fixture.case(step, 0, usize::MAX, fault, &mut totals).await;
                assert!(requests > 0, "{step:?} makes no request");
            }
        }
    }
    totals
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lasting_fault_is_reported_in_time_and_leaves_no_partial_effects() {
    let rounds = rounds();
    let workers = (0..WORKERS).map(|worker| tokio::spawn(lasting_faults(worker, rounds)));
    report("redis_lasting_faults", join_all(workers).await);
}

fn report(what: &str, results: Vec<Result<Totals, tokio::task::JoinError>>) {
    let mut sum = Totals::default();
    for totals in results {
        let totals = totals.expect("no case failed");
        sum.runs += totals.runs;
        sum.faults += totals.faults;
        sum.unavailable += totals.unavailable;
        sum.longest_recovery = sum.longest_recovery.max(totals.longest_recovery);
    }
    let Totals { runs, faults, unavailable, longest_recovery } = sum;
    assert!(faults * 2 > runs, "most runs met a fault: {faults} of {runs}");
    let back_ms = longest_recovery.as_millis();
    println!(
        "proof: what={what} runs={runs} faults={faults} unavailable={unavailable} back_max_ms={back_ms}"
    );
}
