//! Concurrent calls, and the same store after it was opened again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use linger::{
    job::State,
    store::{AddJob, Added, Refusal},
};

use crate::harness::{jobs::*, stores::StoreFixture, wait::StepLimit};

super::on_every_engine! {
    everything_is_there_after_a_stop,
    workers_side_by_side_share_without_overlap,
    adds_of_one_id_side_by_side_make_one_job,
    finishes_of_one_job_side_by_side_end_it_once,
    a_check_answers_while_the_store_is_open,
}

async fn everything_is_there_after_a_stop(mut fixture: StoreFixture) {
    let start = fixture.now();
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { max_attempts: 1, ttr: ttr(1), ..JobSpec::default() }, ..job("dead") },
    )
    .await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(1)).await;
    add(
        &*fixture.store,
        AddJob {
            spec: JobSpec { retry: retry(&[15]), ttr: ttr(100), ..JobSpec::default() },
            ..job("reserved")
        },
    )
    .await;
    let held = reserve(&*fixture.store).await;
    add(&*fixture.store, job("returned")).await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    add(&*fixture.store, delayed("delayed", seconds(40))).await;
    add(&*fixture.store, delayed("far", seconds(365 * 86_400))).await;
    let names = ["dead", "reserved", "returned", "delayed", "far"];
    let mut before = HashMap::new();
    for name in names {
        before.insert(name, fixture.store.get(ALL, &id(name)).await.expect("gets").expect("is there"));
    }
    let stats = fixture.store.topic(&topic("t")).await.expect("reads");
    fixture.reopen().await;
    promote(&*fixture.store).await;
    for name in names {
        assert_eq!(
            fixture.store.get(ALL, &id(name)).await.expect("gets").as_ref(),
            before.get(name),
            "{name}"
        );
    }
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), stats);
    let again = add_any(&*fixture.store, delayed("delayed", seconds(40))).await;
    assert!(matches!(again, Ok(Added::Replayed(_))), "{again:?}");
    let returned = reserve(&*fixture.store).await;
    assert_eq!((returned.job.id, returned.job.attempts), (id("returned"), 2));
    let done = fixture.store.finish(ALL, finish(&id("reserved"), &held.receipt)).await.expect("finishes");
    assert_eq!(done, [finished()], "a receipt outlives a restart");
    fixture.advance_and_promote(seconds(40)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("delayed"));
    assert!(fixture.now() > start);
}

async fn workers_side_by_side_share_without_overlap(fixture: StoreFixture) {
    const JOBS: usize = 400;
    let held: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let (store, held) = (fixture.store.clone(), held.clone());
        tasks.spawn(async move {
            for n in (worker..JOBS).step_by(8) {
                add(&*store, job(&n.to_string())).await;
            }
            let (mut count, mut step_limit) = (0, StepLimit::new());
            loop {
                step_limit.step();
                let got = store.reserve(&plain("t"), &claims(3), Wait::No).await.expect("reserves");
                if got.is_empty() {
                    return count;
                }
                for reservation in got {
                    let name = reservation.job.id.to_string();
                    let other = held.lock().expect("not poisoned").insert(name.clone(), worker);
                    assert_eq!(other, None, "{name} was held twice");
                    let request = finish(&reservation.job.id, &reservation.receipt);
                    let done = store.finish(ALL, request).await.expect("finishes");
                    assert_eq!(done, [finished()]);
                    count += 1;
                }
            }
        });
    }
    let mut count = 0;
    while let Some(worker) = tasks.join_next().await {
        count += worker.expect("no worker panicked");
    }
    assert_eq!(count, JOBS, "a worker leaves only when nothing is ready, and each adds before it looks");
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn adds_of_one_id_side_by_side_make_one_job(fixture: StoreFixture) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = fixture.store.clone();
        tasks.spawn(async move { matches!(add_any(&*store, job("a")).await, Ok(Added::Created(_))) });
    }
    let created = tasks.join_all().await.into_iter().filter(|created| *created).count();
    assert_eq!(created, 1);
    reserve(&*fixture.store).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn finishes_of_one_job_side_by_side_end_it_once(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let held = reserve(&*fixture.store).await;
    assert_eq!(held.job.state(), State::Reserved);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (store, request) = (fixture.store.clone(), finish(&id("a"), &held.receipt));
        tasks.spawn(async move { one(store.finish(ALL, request).await.expect("answers")) });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome != Err(Refusal::Gone)).count(), 1);
    assert!(outcomes.contains(&finished()));
}

async fn a_check_answers_while_the_store_is_open(fixture: StoreFixture) {
    fixture.store.check().await.expect("takes writes");
}
