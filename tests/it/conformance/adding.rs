//! Adding: jobs keep their content, a repeat is recognised, ids can be used again once a job is gone.

use bytes::Bytes;
use linger::{
    job::{Body, Due, Fingerprint, JobId, State, Timestamp, Topic},
    store::{AddJob, Added, Deleted},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
    every_field_comes_back,
    a_job_without_delay_is_ready_at_once_within_any_millisecond,
    a_delayed_job_is_ready_at_its_moment_and_not_a_millisecond_before,
    an_absolute_moment_is_kept_and_a_past_one_is_now,
    the_same_request_again_is_a_replay_at_every_stage,
    another_request_with_the_same_id_is_refused_and_changes_nothing,
    the_id_is_free_once_the_job_is_gone,
    a_batch_is_answered_in_order_and_equal_ids_in_it_are_seen,
    bodies_come_back_byte_for_byte,
    names_at_their_limits_work,
    fault_an_id_that_looks_like_a_key_of_the_store_harms_nothing,
    fault_adding_an_id_again_leaves_one_delivery,
}

async fn every_field_comes_back(bench: Bench) {
    let asked = AddJob {
        ttr: ttr(90),
        max_attempts: 5,
        retry: retry(&[15, 180, 600]),
        require_receipt: true,
        fingerprint: Fingerprint([1; 16]),
        body: body("{\"order\":1001}"),
        ..delayed("orders:1001:close", seconds(1_800))
    };
    let added = add(&*bench.store, asked.clone()).await;
    assert_eq!(added.id, asked.id);
    assert_eq!(added.topic, asked.topic);
    assert_eq!(added.state, State::Delayed);
    assert_eq!(added.created_at, bench.now());
    assert_eq!(added.due_at, bench.now().after(seconds(1_800)));
    assert_eq!((added.ttr, added.attempts, added.max_attempts), (asked.ttr, 0, 5));
    assert_eq!((&added.retry, added.require_receipt), (&asked.retry, true));
    assert_eq!((added.reserved_until, added.dead_at, added.reason.clone()), (None, None, None));
    assert_eq!(added.body, asked.body);
    assert_eq!(bench.store.get(ALL, &asked.id).await.expect("gets"), Some(added));
    assert_eq!(bench.store.get(ALL, &id("another")).await.expect("gets"), None);
}

async fn a_job_without_delay_is_ready_at_once_within_any_millisecond(bench: Bench) {
    for n in 0..4 {
        let added = add(&*bench.store, job(&n.to_string())).await;
        assert_eq!((added.state, added.due_at), (State::Ready, bench.now()));
        assert_eq!(reserve(&*bench.store).await.job.id, added.id);
        bench.clock.advance(std::time::Duration::from_micros(333));
    }
}

async fn a_delayed_job_is_ready_at_its_moment_and_not_a_millisecond_before(bench: Bench) {
    let month = seconds(30 * 86_400);
    add(&*bench.store, delayed("a", month)).await;
    bench.pass(month - millis(1)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets").expect("is there").state, State::Delayed);
    bench.pass(millis(1)).await;
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets").expect("is there").state, State::Ready);
    let reserved = reserve(&*bench.store).await;
    assert_eq!((reserved.job.id, reserved.late), (id("a"), seconds(0)));
    // Counted from within a millisecond, the delay is rounded up, never down.
    bench.clock.advance(std::time::Duration::from_micros(1));
    let added = add(&*bench.store, delayed("b", millis(10))).await;
    assert_eq!(added.due_at, bench.now().after(millis(11)));
}

async fn an_absolute_moment_is_kept_and_a_past_one_is_now(bench: Bench) {
    let at = |moment| AddJob { due: Due::At(moment), ..job("x") };
    let moment = bench.now().after(millis(123_456));
    let future = add(&*bench.store, AddJob { id: id("future"), ..at(moment) }).await;
    assert_eq!((future.state, future.due_at), (State::Delayed, moment));
    let past = add(&*bench.store, AddJob { id: id("past"), ..at(Timestamp::from_millis(5)) }).await;
    assert_eq!((past.state, past.due_at), (State::Ready, bench.now()));
    let last = add(&*bench.store, AddJob { id: id("last"), ..at(Timestamp::MAX) }).await;
    assert_eq!(last.due_at, Timestamp::MAX);
    assert_eq!(bench.store.get(ALL, &id("last")).await.expect("gets").expect("is there"), last);
}

async fn the_same_request_again_is_a_replay_at_every_stage(bench: Bench) {
    let request = AddJob { max_attempts: 1, ..delayed("a", seconds(10)) };
    let replayed = |state| {
        let (store, request) = (bench.store.clone(), request.clone());
        async move {
            let Added::Replayed(seen) = add_any(&*store, request).await else { panic!("no replay: {state}") };
            assert_eq!(Some(&seen), store.get(ALL, &seen.id).await.expect("gets").as_ref());
            assert_eq!(seen.state, state);
        }
    };
    add(&*bench.store, request.clone()).await;
    bench.clock.advance(seconds(5));
    replayed(State::Delayed).await;
    bench.pass(seconds(5)).await;
    replayed(State::Ready).await;
    reserve(&*bench.store).await;
    replayed(State::Reserved).await;
    bench.pass(seconds(60)).await;
    replayed(State::Dead).await;
    assert_eq!(reserve_any(&*bench.store).await, None, "a replay delivers nothing more");
}

async fn another_request_with_the_same_id_is_refused_and_changes_nothing(bench: Bench) {
    let first = add(&*bench.store, delayed("a", seconds(10))).await;
    let other = AddJob { fingerprint: Fingerprint([9; 16]), topic: topic("elsewhere"), ..job("a") };
    let refused = add_any(&*bench.store, other).await;
    assert_eq!(refused, Added::Exists { state: State::Delayed, due_at: first.due_at });
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), Some(first));
    assert_eq!(bench.store.topic(&topic("elsewhere")).await.expect("reads"), None);
}

async fn the_id_is_free_once_the_job_is_gone(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let first = reserve(&*bench.store).await;
    bench.store.finish(ALL, finish(&first.job.id, &first.receipt)).await.expect("finishes");
    let other = AddJob { fingerprint: Fingerprint([9; 16]), ..delayed("a", seconds(5)) };
    add(&*bench.store, other).await;
    assert_eq!(
        bench.store.delete(ALL, vec![id("a")]).await.expect("deletes"),
        [Deleted::Done { topic: topic("t") }]
    );
    // Delete, then add with the same id: one delivery, at the new time.
    add(&*bench.store, delayed("a", seconds(20))).await;
    bench.pass(seconds(19)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(seconds(1)).await;
    reserve(&*bench.store).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_batch_is_answered_in_order_and_equal_ids_in_it_are_seen(bench: Bench) {
    let other = AddJob { fingerprint: Fingerprint([9; 16]), ..job("a") };
    let batch = vec![job("a"), delayed("b", seconds(1)), job("a"), other, job("c")];
    let outcomes = bench.store.add(batch).await.expect("adds");
    let words: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Added::Created(job) => format!("created {}", job.id),
            Added::Replayed(job) => format!("replayed {}", job.id),
            Added::Exists { state, .. } => format!("exists {state}"),
        })
        .collect();
    assert_eq!(words, ["created a", "created b", "replayed a", "exists ready", "created c"]);
    assert_eq!(bench.store.add(vec![]).await.expect("adds nothing"), []);
}

async fn bodies_come_back_byte_for_byte(bench: Bench) {
    let large = format!("\"{}\"", "x".repeat(256 * 1_024 - 2));
    let texts =
        ["null", "{\"b\":1.50, \"a\":12345678901234567890123}", "\"\\u0000\\ud83d\\ude00 é\"", &large];
    for (n, text) in texts.into_iter().enumerate() {
        let body = Body::parse(Bytes::copy_from_slice(text.as_bytes())).expect("valid");
        add(&*bench.store, AddJob { body: body.clone(), ..job(&n.to_string()) }).await;
        assert_eq!(reserve(&*bench.store).await.job.body, body);
        assert_eq!(
            bench.store.get(ALL, &id(&n.to_string())).await.expect("gets").expect("is there").body,
            body
        );
    }
}

async fn names_at_their_limits_work(bench: Bench) {
    let name = format!("{}._~:@+=-", "i".repeat(247));
    let far = format!("{}._:-", "t".repeat(124));
    assert_eq!((name.len(), far.len()), (JobId::MAX_LEN, Topic::MAX_LEN));
    let far = topic(&far);
    add(&*bench.store, AddJob { topic: far.clone(), ..job(&name) }).await;
    let reserved = one(bench.store.reserve(&far, &[None], Wait::No).await.expect("reserves"));
    bench.store.finish(ALL, finish(&id(&name), &reserved.receipt)).await.expect("finishes");
    assert_eq!(bench.store.topics(None, 10).await.expect("reads"), []);
}

async fn fault_an_id_that_looks_like_a_key_of_the_store_harms_nothing(bench: Bench) {
    let names =
        ["dq_bucket_1", "linger", "linger:0", "meta", "jobs", "bucket", "counts", "ready:t", "rec", "0"];
    add(&*bench.store, delayed("witness", seconds(1))).await;
    for name in names {
        add(&*bench.store, AddJob { topic: topic("keys"), ..job(name) }).await;
        bench.store.delete(ALL, vec![id(name)]).await.expect("deletes");
        bench.store.delete(ALL, vec![id(name)]).await.expect("deletes nothing");
    }
    bench.pass(seconds(1)).await;
    assert_eq!(reserve(&*bench.store).await.job.id, id("witness"));
}

async fn fault_adding_an_id_again_leaves_one_delivery(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(10))).await;
    bench.clock.advance(seconds(5));
    add_any(&*bench.store, delayed("a", seconds(10))).await;
    add_any(&*bench.store, AddJob { fingerprint: Fingerprint([9; 16]), ..delayed("a", seconds(30)) }).await;
    bench.pass(seconds(5)).await;
    let reserved = reserve(&*bench.store).await;
    bench.store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("finishes");
    bench.pass(seconds(86_400)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}
