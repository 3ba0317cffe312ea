//! Exports while jobs come, move on and go: a job that is there throughout is in the export once.

use std::{collections::BTreeSet, sync::Arc};

use linger::{
    job::Due,
    store::{Patch, Release, Steps, Store},
};
use tokio_util::sync::CancellationToken;

use super::{Engine, StoreFixture, content, export};
use crate::harness::jobs::*;

/// Moves the kept jobs from state to state, and adds and finishes others, until it is stopped. Returns how often.
async fn work(store: Arc<dyn Store>, worker: usize, stop: CancellationToken) -> usize {
    for round in 0.. {
        if stop.is_cancelled() {
            return round;
        }
        let kept = id(&format!("kept-{}", (round * 7 + worker) % KEPT));
        let due =
            if round % 2 == 0 { Due::After(delay(seconds(round as u64 % 5_000))) } else { Due::default() };
        let patch = Patch { due: Some(due), ..Patch::default() };
        // It is refused while another worker has the job.
        let _ = store.patch(ALL, &kept, patch, None).await.expect("answers");
        for grant in store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves") {
            let release = Release { due: Some(after(seconds(round as u64 % 2))), reason: None };
            let released = store.release(ALL, &grant.job.id, &grant.receipt, release).await.expect("answers");
            released.expect("is held");
        }
        let passing = format!("w{worker}-{round}");
        add(&*store, linger::store::AddJob { topic: topic("passing"), ..job(&passing) }).await;
        store.delete(ALL, vec![id(&passing)], DeleteRule::AnyState).await.expect("answers");
    }
    unreachable!("the rounds do not end")
}

const KEPT: usize = 1_500;

async fn exports_show_each_kept_job_once(engine: Engine) {
    let fixture = StoreFixture::new(engine).await;
    let kept = (0..KEPT).map(|n| linger::store::AddJob {
        spec: JobSpec { max_attempts: 0, ..JobSpec::default() },
        ..job(&format!("kept-{n}"))
    });
    fixture.store.add(kept.collect()).await.expect("adds");
    let stop = CancellationToken::new();
    let workers: Vec<_> =
        (0..4).map(|worker| tokio::spawn(work(fixture.store.clone(), worker, stop.clone()))).collect();
    for _ in 0..3 {
        let (exported, _) = export(&fixture).await;
        let mut ids = BTreeSet::new();
        for line in content(&exported) {
            let line: serde_json::Value = serde_json::from_slice(line).expect("is JSON");
            if let Some(id) = line["job"]["id"].as_str() {
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
            }
        }
        let found = ids.iter().filter(|id| id.starts_with("kept-")).count();
        assert_eq!(found, KEPT);
    }
    stop.cancel();
    for worker in workers {
        assert!(worker.await.expect("does not panic") > 3, "the jobs did move");
    }
    fixture.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_the_embedded_engine_shows_every_job_that_stays() {
    exports_show_each_kept_job_once(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_redis_shows_every_job_that_stays_once() {
    exports_show_each_kept_job_once(Engine::Redis).await;
}
