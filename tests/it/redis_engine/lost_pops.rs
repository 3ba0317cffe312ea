//! Pops whose reply is lost: their reservations are cancelled once Redis replies again.

use linger::{
    job::State,
    store::{AddJob, Error, Wait, redis::Options},
};

use super::{
    Process, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

/// The job has one attempt, so otherwise it would become a dead letter that no worker has seen.
#[tokio::test]
async fn a_pop_that_ran_but_was_never_answered_leaves_no_reservation() {
    let proxy = Proxy::start(shared().port).await;
    let options = options();
    let process = Process::start(&Options { mode: proxy.mode(), ..options.clone() }).await;
    let other = Process::with_clock_of(&process, &options).await;
    add(process.store(), AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("a") })
        .await;
    proxy.learn_background().await;
    proxy.arm_then(Fault::CutAfter, Fault::CutAfter);
    let popped = process.store.reserve(&plain("t"), &claims(1), Wait::No).await;
    assert!(matches!(popped, Err(Error::Unavailable(_))), "{popped:?}");
    let lost = other.store.get(ALL, &id("a")).await.expect("gets").expect("is there");
    assert_eq!((lost.state(), lost.attempts), (State::Reserved, 1), "the script ran");
    proxy.disarm();
    let time_limit = TimeLimit::new();
    loop {
        let job = other.store.get(ALL, &id("a")).await.expect("gets").expect("is there");
        if job.state() == State::Ready {
            assert_eq!(job.attempts, 0, "the attempt was counted");
            break;
        }
        time_limit.check(|| format!("{job:?}"));
        time_limit.pause().await;
    }
    assert_eq!(reserve(other.store()).await.job.attempts, 1);
}
