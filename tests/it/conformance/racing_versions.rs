//! Producers that add versions of the same jobs in any order, and workers that do them, side by side: no worker gets a version older
//! than one that was acknowledged before, none works beside another one, and none does a version after a newer one was done.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use linger::store::{AddJob, Added, Refusal, Store};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::harness::{jobs::*, stores::StoreFixture, wait::TimeLimit};

super::on_every_engine! {
    versions_never_go_back_beside_workers,
}

const IDS: usize = 5;
const PRODUCERS: u64 = 4;
const WORKERS: usize = 3;
/// Versions of each job.
const VERSIONS: u64 = 60;

/// What is known of each job.
#[derive(Default)]
struct Seen {
    /// The highest revision whose add was acknowledged, and the highest that was finished.
    acknowledged: [AtomicU64; IDS],
    finished: [AtomicU64; IDS],
    is_held: [AtomicBool; IDS],
    producers_done: AtomicU64,
}

async fn produce(store: Arc<dyn Store>, seen: Arc<Seen>, producer: u64) {
    let mut versions: Vec<(usize, u64)> = (1..=VERSIONS)
        .filter(|revision| revision % PRODUCERS == producer)
        .flat_map(|revision| (0..IDS).map(move |n| (n, revision)))
        .collect();
    versions.shuffle(&mut SmallRng::seed_from_u64(producer));
    for (n, revision) in versions {
        let spec = JobSpec { revision: Some(revision), dedup: Some(window(600)), ..JobSpec::default() };
        let add = AddJob { spec, if_exists: replace_by("p"), ..job(&n.to_string()) };
        match add_any(&*store, add).await {
            Ok(Added::Created(_) | Added::Replaced(_)) => {
                seen.acknowledged[n].fetch_max(revision, SeqCst);
            }
            Err(Refusal::OlderRevision { stored }) => assert!(stored > revision),
            other => panic!("version {revision} of {n}: {other:?}"),
        }
        tokio::task::yield_now().await;
    }
    seen.producers_done.fetch_add(1, SeqCst);
}

async fn work(store: Arc<dyn Store>, seen: Arc<Seen>) {
    let time_limit = TimeLimit::new();
    loop {
        time_limit.check(|| "the workers are not done".to_owned());
        let are_done = seen.producers_done.load(SeqCst) == PRODUCERS;
        let before =
            |revisions: &[AtomicU64; IDS]| revisions.each_ref().map(|revision| revision.load(SeqCst));
        let (acknowledged, finished) = (before(&seen.acknowledged), before(&seen.finished));
        let Some(held) = reserve_any(&*store).await else {
            if are_done {
                return;
            }
            tokio::task::yield_now().await;
            continue;
        };
        let n: usize = held.job.id.as_str().parse().expect("a number");
        let revision = held.job.spec.revision.expect("each has one");
        assert!(revision >= acknowledged[n], "{n}: version {revision} after {} was added", acknowledged[n]);
        assert!(revision > finished[n], "{n}: version {revision} after {} was done", finished[n]);
        assert!(!seen.is_held[n].swap(true, SeqCst), "{n} is held twice");
        tokio::task::yield_now().await;
        seen.is_held[n].store(false, SeqCst);
        match one(store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("answers")) {
            Ok(_) => {
                seen.finished[n].fetch_max(revision, SeqCst);
            }
            Err(refusal) => assert_eq!(refusal, Refusal::Replaced),
        }
    }
}

async fn versions_never_go_back_beside_workers(fixture: StoreFixture) {
    let (seen, mut tasks) = (Arc::<Seen>::default(), tokio::task::JoinSet::new());
    for producer in 0..PRODUCERS {
        tasks.spawn(produce(fixture.store.clone(), seen.clone(), producer));
    }
    for _ in 0..WORKERS {
        tasks.spawn(work(fixture.store.clone(), seen.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("did not panic");
    }
    // A worker that gave way to a newer version may have left before that was ready.
    work(fixture.store.clone(), seen.clone()).await;
    for n in 0..IDS {
        assert_eq!(seen.finished[n].load(SeqCst), VERSIONS, "{n}: the newest version is done in the end");
    }
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}
