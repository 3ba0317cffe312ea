//! Every operation, with every fault, at every request that it makes: the answer is the truth or
//! `Unavailable`, the effect is there once, or not at all where an error was answered, and soon after the
//! fault has passed the engine serves again. The naive store says what is right.
//!
//! `LINGER_PROVE_CUT_POINTS=n` runs the full table n times; without it each point meets the worst fault,
//! and one of the others in turn.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use linger::{
    clock::{Clock, SystemClock},
    store::{Error, Store, redis::Options},
};

use super::{
    Process, options,
    proxy::{Fault, Proxy},
    steps::{Side, Step},
};
use crate::harness::{
    jobs::*,
    naive::Naive,
    redis::{RedisServer, shared},
    stores::Recorder,
};

/// Longest time that one call may take beyond what is configured, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(10);
/// How many benches work side by side: most of their time is waiting.
const BENCHES: usize = 4;

/// An engine behind a proxy and the naive store, on one clock.
struct Lab {
    process: Process,
    /// A neighbour that is not behind the proxy: it furnishes, and looks at what came of it.
    keeper: Process,
    proxy: Proxy,
    naive: Arc<dyn Store>,
    naive_heard: Arc<Recorder>,
    options: Options,
    cases: usize,
}

/// What the cases came to.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    faults: usize,
    unavailable: usize,
    back: Duration,
}

impl Lab {
    async fn new() -> Self {
        let proxy = Proxy::start(shared().port).await;
        let mode = proxy.mode();
        let options = Options {
            mode,
            shards: Some(2),
            command_timeout: millis(250),
            unresponsive_timeout: millis(250),
            connect_timeout: seconds(1),
            reconnect_min: millis(1),
            reconnect_max: millis(20),
            retry_for: seconds(5),
            ..options()
        };
        Self::with(proxy, options, &shared().url()).await
    }

    /// With a keeper straight at the server.
    async fn with(proxy: Proxy, options: Options, at: &str) -> Self {
        let process = Process::start(&options).await;
        proxy.learn_background().await;
        let direct = Options { prefix: options.prefix.clone(), shards: options.shards, ..Options::new(at) };
        let keeper = Process::beside(&process, &direct).await;
        let naive_heard = Arc::new(Recorder::default());
        let naive = Naive::new(process.clock.clone(), naive_heard.clone(), None);
        Self { process, keeper, proxy, naive, naive_heard, options, cases: 0 }
    }

    /// Longest that an operation may take: none makes more than four calls one after the other.
    fn deadline(&self) -> Duration {
        4 * (self.options.retry_for + self.options.command_timeout) + SLACK
    }

    /// Runs one case; how many requests could have met the fault.
    async fn case(
        &mut self,
        step: Step,
        skip: usize,
        times: usize,
        fault: Fault,
        tally: &mut Tally,
    ) -> usize {
        self.cases += 1;
        let what = format!("{step:?}, {fault:?} {times} times after {skip} requests");
        let name = format!("case{}", self.cases);
        let wanted = Side::furnish(&self.naive, &self.naive, &name).await;
        let got = Side::furnish(&self.process.store, &self.keeper.store, &name).await;
        if step == Step::Promote {
            self.process.clock.advance(seconds(2));
        }
        let before = wanted.jobs().await;
        self.naive_heard.take_ready();
        self.process.heard.take_ready();
        let (answer, _) = wanted.perform(step).await.expect("the naive store never fails");
        let after = wanted.jobs().await;

        self.proxy.arm(skip, times, fault);
        let outcome = tokio::time::timeout(self.deadline(), got.perform(step)).await;
        let (fired, seen) = self.proxy.heal();
        let outcome = outcome.unwrap_or_else(|_| panic!("{what}: the call hangs"));
        tally.runs += 1;
        tally.faults += fired;
        tally.back = tally.back.max(self.comes_back(&what).await);
        let jobs = got.jobs().await;
        match &outcome {
            Ok((got_answer, _)) => {
                assert_eq!(*got_answer, answer, "{what}: the answer");
                assert_eq!(jobs, after, "{what}: the jobs");
                assert_eq!(got.figures().await, wanted.figures().await, "{what}: the figures");
            }
            Err(Error::Unavailable(_)) if fired > 0 && (times > 1 || step.is_impatient()) => {
                tally.unavailable += 1;
                for ((job, before), after) in jobs.iter().zip(&before).zip(&after) {
                    assert!(job == before || job == after, "{what}: neither before nor after: {job}");
                }
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
        let verified = self.keeper.store.verify().await.expect("verifies");
        assert_eq!(verified.faults, Vec::<String>::new(), "{what}");
        if jobs == after && !self.naive_heard.take_ready().is_empty() {
            self.process.hears(&name).await;
        }
        self.release(&got, outcome.map(|(_, granted)| granted).unwrap_or_default(), &what).await;
        wanted.clear().await;
        seen
    }

    /// Until the engine can be written to again; how long that took.
    async fn comes_back(&self, what: &str) -> Duration {
        let clock = SystemClock::new();
        let from_us = clock.now_micros();
        let store = &self.process.store;
        let back = async { while store.check().await.is_err() {} };
        tokio::time::timeout(seconds(3) + SLACK, back).await.unwrap_or_else(|_| panic!("{what}: stays away"));
        Duration::from_micros((clock.now_micros() - from_us).unsigned_abs())
    }

    /// Every receipt that was handed out works; then nothing is left.
    async fn release(
        &self,
        side: &Side,
        granted: Vec<(linger::job::JobId, linger::job::Receipt)>,
        what: &str,
    ) {
        for (id, receipt) in granted {
            let done = self.keeper.store.finish(ALL, finish(&id, &receipt)).await.expect("finishes");
            assert!(matches!(one(done), linger::store::Finished::Done { .. }), "{what}: {id} is not held");
        }
        side.clear().await;
    }
}

/// Which faults the point of this number meets.
fn faults(rounds: usize, point: usize) -> Vec<Fault> {
    match rounds {
        0 => vec![Fault::ALL[0], Fault::ALL[1 + point % (Fault::ALL.len() - 1)]],
        _ => Fault::ALL.to_vec(),
    }
}

fn rounds() -> usize {
    std::env::var("LINGER_PROVE_CUT_POINTS").map_or(0, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Every step of a bench's share, once per fault and request.
async fn once_each(bench: usize, rounds: usize) -> Tally {
    let (mut lab, mut tally) = (Lab::new().await, Tally::default());
    for _ in 0..rounds.max(1) {
        for (number, step) in Step::ALL.into_iter().enumerate().skip(bench).step_by(BENCHES) {
            let requests = lab.case(step, usize::MAX, 0, Fault::CutAfter, &mut tally).await;
            assert!(requests > 0, "{step:?} asks the server");
            for skip in 0..requests {
                for fault in faults(rounds, number + skip) {
                    lab.case(step, skip, 1, fault, &mut tally).await;
                }
            }
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_survives_every_fault_at_every_request() {
    let rounds = rounds();
    let benches = (0..BENCHES).map(|bench| tokio::spawn(once_each(bench, rounds)));
    report("redis_cut_points", join_all(benches).await);
}

/// With a replica to wait for, a change goes down another connection, in a pipeline with its `WAIT`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_that_waits_for_a_replica_survives_cuts_too() {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let port = primary.port.to_string();
    let _replica = RedisServer::start_with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    let proxy = Proxy::start(primary.port).await;
    let mode = proxy.mode();
    // Nothing is asserted of how fast the replica is; it has ample time.
    let (wait_timeout, retry_for) = (seconds(20), seconds(30));
    let options = Options { mode, shards: Some(1), wait_replicas: 1, wait_timeout, retry_for, ..options() };
    let (mut lab, mut tally) = (Lab::with(proxy, options, &primary.url()).await, Tally::default());
    for (number, step) in Step::ALL.into_iter().enumerate() {
        let requests = lab.case(step, usize::MAX, 0, Fault::CutAfter, &mut tally).await;
        for skip in 0..requests {
            // Not the silent ones: how long a silent connection is kept follows from the wait.
            let faults =
                if rounds() == 0 { &Fault::ALL[(number + skip) % 5..][..1] } else { &Fault::ALL[..5] };
            for fault in faults {
                lab.case(step, skip, 1, *fault, &mut tally).await;
            }
        }
    }
    report("redis_cut_points_with_replica", vec![Ok(tally)]);
}

/// Every step of a bench's share, with a fault that lasts longer than we try.
async fn lasting(bench: usize, rounds: usize) -> Tally {
    let (mut lab, mut tally) = (Lab::new().await, Tally::default());
    let options = Options { retry_for: millis(300), ..lab.options };
    lab = Lab::with(lab.proxy, options, &shared().url()).await;
    for _ in 0..rounds.max(1) {
        for (number, step) in Step::ALL.into_iter().enumerate().skip(bench).step_by(BENCHES) {
            let faults = match rounds {
                0 => vec![Fault::ALL[number % 7]],
                _ => Fault::ALL[..7].to_vec(),
            };
            for fault in faults {
                let requests = lab.case(step, 0, usize::MAX, fault, &mut tally).await;
                assert!(requests > 0, "{step:?} met its fault");
            }
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lasting_fault_is_reported_in_time_and_leaves_no_partial_effects() {
    let rounds = rounds();
    let benches = (0..BENCHES).map(|bench| tokio::spawn(lasting(bench, rounds)));
    report("redis_lasting_faults", join_all(benches).await);
}

fn report(what: &str, tallies: Vec<Result<Tally, tokio::task::JoinError>>) {
    let mut sum = Tally::default();
    for tally in tallies {
        let tally = tally.expect("no case failed");
        sum.runs += tally.runs;
        sum.faults += tally.faults;
        sum.unavailable += tally.unavailable;
        sum.back = sum.back.max(tally.back);
    }
    let Tally { runs, faults, unavailable, back } = sum;
    assert!(faults * 2 > runs, "most runs met a fault: {faults} of {runs}");
    let back_ms = back.as_millis();
    println!(
        "proof: what={what} runs={runs} faults={faults} unavailable={unavailable} back_max_ms={back_ms} violations=0"
    );
}
