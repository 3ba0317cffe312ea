//! The call batcher: all callers of a shared call get its outcome, and a caller that is cancelled does not affect the
//! others.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::{future::join_all, poll};
use linger::store::{Added, Error, Outcome, redis::Options};

use super::{
    Process, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

/// The first caller makes a call alone; the others come while it is in flight, and share the second call.
const CALLERS: usize = 6;
/// Longest time that a call may take, on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

type PendingAdd<'a> = Pin<Box<dyn Future<Output = linger::store::Result<Vec<Outcome<Added>>>> + Send + 'a>>;

async fn behind_a_proxy(retry_for: Duration) -> (Process, Proxy) {
    with(Options { retry_for, ..options() }).await
}

/// With timeouts that are short enough to wait for often. A busy machine holds the shared server up for more than a second,
/// also while the process starts.
async fn behind_a_silent_proxy(retry_for: Duration) -> (Process, Proxy) {
    let (command_timeout, unresponsive_timeout) = (seconds(3), seconds(3));
    with(Options { command_timeout, unresponsive_timeout, retry_for, ..options() }).await
}

async fn with(options: Options) -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let options = Options { mode: proxy.mode(), shards: Some(1), ..options };
    let process = Process::start(&options).await;
    proxy.learn_background().await;
    (process, proxy)
}

fn name(caller: usize) -> String {
    format!("job-{caller}")
}

/// Adds a job for each caller, concurrently.
fn adds<'a>(process: &'a Process) -> Vec<PendingAdd<'a>> {
    (0..CALLERS).map(|caller| process.store().add(vec![job(&name(caller))])).collect()
}

/// Repeats a call that a busy machine may answer too late for the short timeouts.
async fn answered<T>(mut call: impl AsyncFnMut() -> linger::store::Result<T>) -> T {
    let time_limit = TimeLimit::new();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => time_limit.check(|| error.to_string()),
        }
    }
}

/// Asserts that every job exists once and verification finds no fault. Returns requests that finish the jobs.
async fn all_are_there_once(process: &Process, what: &str) -> Vec<Vec<linger::store::FinishJob>> {
    let (mut held, time_limit) = (Vec::new(), TimeLimit::new());
    while held.len() < CALLERS {
        time_limit.check(|| format!("{what}: {} of {CALLERS} were reserved", held.len()));
        let claims = claims(CALLERS + 1);
        held.extend(answered(async || process.store.reserve(&plain("t"), &claims, Wait::No).await).await);
    }
    assert_eq!(held.len(), CALLERS, "{what}");
    let verified = answered(async || process.store.verify().await).await;
    assert_eq!((verified.jobs, verified.faults), (CALLERS as u64, vec![]), "{what}");
    held.into_iter().map(|held| finish(&held.job.id, &held.receipt)).collect()
}

#[tokio::test]
async fn callers_that_come_while_a_call_is_in_flight_share_the_next() {
    let (process, proxy) = behind_a_proxy(seconds(5)).await;
    proxy.arm(usize::MAX, 0, Fault::CutAfter);
    join_all(adds(&process)).await.into_iter().for_each(|added| drop(added.expect("adds")));
    assert_eq!(proxy.disarm(), (0, 2), "two calls for six callers");
}

#[tokio::test]
async fn callers_that_fill_a_call_do_not_wait_for_the_one_before() {
    const FILL: usize = 64;
    let (process, proxy) = behind_a_proxy(seconds(5)).await;
    // The first call goes on once the second has come.
    proxy.arm(0, 2, Fault::Together(2));
    let adds = join_all((0..=FILL).map(|caller| process.store().add(vec![job(&name(caller))])));
    let added = tokio::time::timeout(BOUND, adds).await.expect("no call hangs");
    assert_eq!(proxy.disarm(), (2, 2));
    added.into_iter().for_each(|added| drop(added.expect("adds")));
}

#[tokio::test]
async fn each_caller_gets_the_true_outcome_of_a_shared_call_after_a_fault() {
    let (process, proxy) = behind_a_silent_proxy(seconds(15)).await;
    for fault in Fault::ALL {
        proxy.arm(1, 1, fault);
        let added = tokio::time::timeout(BOUND, join_all(adds(&process))).await.expect("no call hangs");
        assert_eq!(proxy.disarm().0, 1, "{fault:?} happened");
        for added in added {
            assert!(matches!(one(added.expect("adds")), Ok(Added::Created(_))), "{fault:?}");
        }
        let finishes = all_are_there_once(&process, &format!("{fault:?}")).await;
        proxy.arm(1, 1, fault);
        let finishing = join_all(finishes.into_iter().map(|jobs| process.store().finish(ALL, jobs)));
        let all_done = tokio::time::timeout(BOUND, finishing).await.expect("no call hangs");
        assert_eq!(proxy.disarm().0, 1, "{fault:?} happened");
        for done in all_done {
            assert_eq!(one(done.expect("finishes")), finished(), "{fault:?}");
        }
        assert_eq!(process.store.topic(&topic("t")).await.expect("reads"), None);
    }
}

#[tokio::test]
async fn an_error_of_a_shared_call_reaches_each_of_its_callers() {
    let (process, proxy) = behind_a_proxy(millis(100)).await;
    proxy.arm(1, usize::MAX, Fault::CutAfter);
    let added = tokio::time::timeout(BOUND, join_all(adds(&process))).await.expect("no call hangs");
    proxy.disarm();
    let (alone, shared) = added.split_first().expect("there are callers");
    assert!(alone.is_ok(), "{alone:?}");
    for error in shared {
        assert!(matches!(error, Err(Error::Unavailable(_))), "{error:?}");
    }
    // The adds may have happened. A repeat shows that they did.
    for caller in 1..CALLERS {
        assert!(matches!(add_any(process.store(), job(&name(caller))).await, Ok(Added::Replayed(_))));
    }
    all_are_there_once(&process, "after the repeats").await;
}

#[tokio::test]
async fn a_caller_queued_for_a_silent_server_fails_as_soon_as_a_single_call_would() {
    let (process, proxy) = behind_a_silent_proxy(seconds(1)).await;
    proxy.arm(0, usize::MAX, Fault::SilentBefore);
    // One after the other, the calls would take half a minute.
    let names = 0..2_000;
    let adds = join_all(names.map(|caller| process.store().add(vec![job(&name(caller))])));
    let added =
        tokio::time::timeout(BOUND / 2, adds).await.expect("no caller waits for the calls of the others");
    proxy.disarm();
    assert!(added.iter().all(|added| matches!(added, Err(Error::Unavailable(_)))));
}

#[tokio::test]
async fn callers_that_are_cancelled_do_not_affect_the_others() {
    let (process, proxy) = behind_a_silent_proxy(seconds(15)).await;
    for fault in [None, Some(Fault::CutAfter), Some(Fault::SilentBefore)] {
        for cancelled in [0, 3] {
            if let Some(fault) = fault {
                proxy.arm(1, 1, fault);
            }
            let mut adding = adds(&process);
            for add in &mut adding {
                assert!(poll!(add).is_pending());
            }
            drop(adding.remove(cancelled));
            let added = tokio::time::timeout(BOUND, join_all(adding)).await.expect("no call hangs");
            proxy.disarm();
            for added in added {
                assert!(matches!(one(added.expect("adds")), Ok(Added::Created(_))), "{fault:?} {cancelled}");
            }
            // The first caller's call was in flight, and may have added the job. The others were queued: a call that
            // began after its caller had left could undo what another caller did since.
            let left = process.store.get(ALL, &id(&name(cancelled))).await.expect("gets");
            assert!(cancelled == 0 || left.is_none(), "{fault:?}: {left:?}");
            // A repeat adds the job.
            add_any(process.store(), job(&name(cancelled))).await.expect("is not refused");
            for jobs in all_are_there_once(&process, &format!("{fault:?} {cancelled}")).await {
                process.store.finish(ALL, jobs).await.expect("finishes");
            }
        }
    }
}

#[tokio::test]
async fn a_closing_store_leaves_no_caller_waiting() {
    let (process, proxy) = behind_a_proxy(seconds(60)).await;
    proxy.arm(0, usize::MAX, Fault::CutBefore);
    let mut adding = adds(&process);
    for add in &mut adding {
        assert!(poll!(add).is_pending());
    }
    let closing = async { tokio::join!(join_all(adding), process.store.close()) };
    let (added, closed) = tokio::time::timeout(BOUND, closing).await.expect("no call hangs");
    closed.expect("closes");
    assert!(added.iter().all(|added| matches!(added, Err(Error::Unavailable(_)))), "{added:?}");
}
