//! A server of a Cluster that replies again: a pop that waits meanwhile for another one learns of it at once.

use std::{sync::Arc, time::Duration};

use linger::{
    job::JobId,
    metrics::Metrics,
    store::{
        Store, Wait,
        redis::{self, Mode, Options, TimeSource},
    },
};

use super::{owner, shard};
use crate::harness::{
    cluster::Cluster,
    jobs::*,
    monitor::Monitor,
    stores::Recorder,
    wait::{assert_waits, bounded},
};

/// No server is considered failed, and no call and no connection is given up, because a server is stopped.
const EVER: Duration = seconds(600);

/// An id of a job that this server keeps.
fn id_at(cluster: &Cluster, server: usize) -> JobId {
    let mut ids = (0..).map(|n| id(&format!("job-{n}")));
    ids.find(|id| owner(cluster, shard(id)) == server).expect("there are ids without end")
}

/// The first server replies again after the pop has asked the second one, which does not reply. Only the recovery can tell
/// the pop of its job: no other job comes, and no wait ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pop_that_waits_for_a_server_takes_the_job_of_another_one_that_replies_again() {
    let cluster = Cluster::start(u32::try_from(EVER.as_millis()).expect("fits"));
    let (recovers, hangs, replies) = (0, 1, 2);
    let mode = Mode::Cluster(cluster.nodes());
    let options = Options {
        mode,
        unresponsive_timeout: EVER,
        retry_for: EVER,
        command_timeout: EVER,
        ..Options::default()
    };
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let store = redis::connect(options, TimeSource::Server, listener, metrics).await.expect("connects");
    let expected = id_at(&cluster, recovers);
    add(&*store, job(expected.as_str())).await;
    add(&*store, job(id_at(&cluster, hangs).as_str())).await;
    cluster.servers[recovers].pause();
    // The first one waits for the stopped server as long as for a prompt reply, so that it is known not to reply.
    for _ in 0..2 {
        bounded("a promotion", store.promote(100)).await.expect("promotes at the others");
    }
    cluster.servers[hangs].pause();
    let monitor = Monitor::start(&cluster.servers[replies]);
    let popping = store.clone();
    let pop = tokio::spawn(async move { popping.reserve(&plain("t"), &claims(1), Wait::No).await });
    // Once no server with jobs has replied promptly, the pop has the others asked for ready jobs of its topic.
    let asked = tokio::task::spawn_blocking(move || monitor.wait_for(r#""rt""#));
    bounded("the probe", asked).await.expect("asks");
    assert_waits(&pop, "both servers with jobs are stopped").await;
    cluster.servers[recovers].resume();
    let popped = bounded("the pop", pop).await.expect("does not panic").expect("pops");
    assert_eq!(popped.into_iter().map(|popped| popped.job.id).collect::<Vec<_>>(), [expected]);
}
