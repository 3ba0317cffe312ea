//! Adding: jobs keep their content, a repeat is recognised, ids can be used again once a job is gone.

use bytes::Bytes;
use linger::{
    job::{Body, Due, Fingerprint, JobId, Reason, State, Timestamp, Topic},
    store::{AddJob, Added, Patch, Refusal, Release, Steps},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_batch_is_answered_in_order_and_equal_ids_in_it_are_seen;
    every_field_comes_back,
    a_trace_context_stays_with_its_job,
    a_job_without_delay_is_ready_at_once_within_any_millisecond,
    a_delayed_job_is_ready_at_its_moment_and_not_a_millisecond_before,
    an_absolute_moment_is_kept_and_a_past_one_is_now,
    the_same_request_again_is_a_replay_at_every_stage,
    another_request_with_the_same_id_is_refused_and_changes_nothing,
    the_id_is_free_once_the_job_is_gone,
    bodies_come_back_byte_for_byte,
    names_at_their_limits_work,
    fault_an_id_that_looks_like_a_key_of_the_store_harms_nothing,
    fault_adding_an_id_again_leaves_one_delivery,
}

async fn every_field_comes_back(fixture: StoreFixture) {
    let asked = AddJob {
        fingerprint: Fingerprint([1; 16]),
        body: body("{\"order\":1001}"),
        spec: JobSpec {
            ttr: ttr(90),
            max_attempts: 5,
            retry: retry(&[15, 180, 600]),
            require_receipt: true,
            ..JobSpec::default()
        },
        ..delayed("orders:1001:close", seconds(1_800))
    };
    let added = add(&*fixture.store, asked.clone()).await;
    assert_eq!(added.id, asked.id);
    assert_eq!(added.topic, asked.topic);
    assert_eq!(added.state(), State::Delayed);
    assert_eq!(added.created_at, fixture.now());
    assert_eq!(added.due_at, fixture.now().after(seconds(1_800)));
    assert_eq!((added.spec.ttr, added.attempts, added.spec.max_attempts), (asked.spec.ttr, 0, 5));
    assert_eq!((&added.spec.retry, added.spec.require_receipt), (&asked.spec.retry, true));
    assert_eq!((added.reserved_until(), added.dead_at(), added.reason.clone()), (None, None, None));
    assert_eq!(added.body, asked.body);
    assert_eq!(fixture.store.get(ALL, &asked.id).await.expect("gets"), Some(added));
    assert_eq!(fixture.store.get(ALL, &id("another")).await.expect("gets"), None);
}

async fn a_trace_context_stays_with_its_job(fixture: StoreFixture) {
    let store = &*fixture.store;
    let asked = AddJob {
        spec: JobSpec { trace: Some(trace(1)), max_attempts: 2, ..JobSpec::default() },
        ..delayed("a", seconds(10))
    };
    let wanted = asked.spec.trace.clone();
    let stored = async |step: &str| {
        let job = store.get(ALL, &id("a")).await.expect("gets").expect("is there");
        assert_eq!(job.spec.trace, wanted, "{step}");
    };
    assert_eq!(add(store, asked.clone()).await.spec.trace, wanted);
    stored("add").await;
    for span in [None, Some(trace(2))] {
        let Ok(Added::Replayed(job)) =
            add_any(store, AddJob { spec: JobSpec { trace: span, ..asked.clone().spec }, ..asked.clone() })
                .await
        else {
            panic!("a repeat comes from another span")
        };
        assert_eq!(job.spec.trace, wanted, "the first one stays");
    }
    let patch = Patch { body: Some(body("2")), ttr: Some(ttr(5)), ..Patch::default() };
    assert!(store.patch(ALL, &id("a"), patch, None).await.expect("answers").is_ok());
    stored("patch").await;
    fixture.advance_and_promote(seconds(10)).await;
    let held = reserve(store).await;
    assert_eq!(held.job.spec.trace, wanted);
    let again = Release { due: Some(after(seconds(0))), reason: Reason::new("no") };
    let released = store.release(ALL, &id("a"), &held.receipt, again).await.expect("answers");
    assert_eq!(released.expect("is held").spec.trace, wanted);
    assert_eq!(reserve(store).await.job.spec.trace, wanted);
    fixture.advance_and_promote(seconds(5)).await;
    stored("end of the last TTR").await;
    let Ok(back) = store.requeue(ALL, &id("a"), after(seconds(0)), None).await.expect("answers") else {
        panic!("a dead letter is requeued")
    };
    assert_eq!(back.spec.trace, wanted);
    add(store, job("b")).await;
    assert_eq!(store.get(ALL, &id("b")).await.expect("gets").expect("is there").spec.trace, None);
}

async fn a_job_without_delay_is_ready_at_once_within_any_millisecond(fixture: StoreFixture) {
    for n in 0..4 {
        let added = add(&*fixture.store, job(&n.to_string())).await;
        assert_eq!((added.state(), added.due_at), (State::Ready, fixture.now()));
        assert_eq!(reserve(&*fixture.store).await.job.id, added.id);
        fixture.clock.advance(std::time::Duration::from_micros(333));
    }
}

async fn a_delayed_job_is_ready_at_its_moment_and_not_a_millisecond_before(fixture: StoreFixture) {
    let month = seconds(30 * 86_400);
    add(&*fixture.store, delayed("a", month)).await;
    fixture.advance_and_promote(month - millis(1)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    assert_eq!(
        fixture.store.get(ALL, &id("a")).await.expect("gets").expect("is there").state(),
        State::Delayed
    );
    fixture.advance_and_promote(millis(1)).await;
    assert_eq!(
        fixture.store.get(ALL, &id("a")).await.expect("gets").expect("is there").state(),
        State::Ready
    );
    let reserved = reserve(&*fixture.store).await;
    assert_eq!((reserved.job.id, reserved.late), (id("a"), seconds(0)));
    // Counted from within a millisecond, the delay is rounded up, never down.
    fixture.clock.advance(std::time::Duration::from_micros(1));
    let added = add(&*fixture.store, delayed("b", millis(10))).await;
    assert_eq!(added.due_at, fixture.now().after(millis(11)));
}

async fn an_absolute_moment_is_kept_and_a_past_one_is_now(fixture: StoreFixture) {
    let at = |moment| AddJob { due: Due::At(moment), ..job("x") };
    let moment = fixture.now().after(millis(123_456));
    let future = add(&*fixture.store, AddJob { id: id("future"), ..at(moment) }).await;
    assert_eq!((future.state(), future.due_at), (State::Delayed, moment));
    let past = add(&*fixture.store, AddJob { id: id("past"), ..at(Timestamp::from_millis(5)) }).await;
    assert_eq!((past.state(), past.due_at), (State::Ready, fixture.now()));
    let last = add(&*fixture.store, AddJob { id: id("last"), ..at(Timestamp::MAX) }).await;
    assert_eq!(last.due_at, Timestamp::MAX);
    assert_eq!(fixture.store.get(ALL, &id("last")).await.expect("gets").expect("is there"), last);
}

async fn the_same_request_again_is_a_replay_at_every_stage(fixture: StoreFixture) {
    let request =
        AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..delayed("a", seconds(10)) };
    let replayed = |state| {
        let (store, request) = (fixture.store.clone(), request.clone());
        async move {
            let Ok(Added::Replayed(seen)) = add_any(&*store, request).await else {
                panic!("no replay: {state}")
            };
            assert_eq!(Some(&seen), store.get(ALL, &seen.id).await.expect("gets").as_ref());
            assert_eq!(seen.state(), state);
        }
    };
    add(&*fixture.store, request.clone()).await;
    fixture.clock.advance(seconds(5));
    replayed(State::Delayed).await;
    fixture.advance_and_promote(seconds(5)).await;
    replayed(State::Ready).await;
    reserve(&*fixture.store).await;
    replayed(State::Reserved).await;
    fixture.advance_and_promote(seconds(60)).await;
    replayed(State::Dead).await;
    assert_eq!(reserve_any(&*fixture.store).await, None, "a replay delivers nothing more");
}

async fn another_request_with_the_same_id_is_refused_and_changes_nothing(fixture: StoreFixture) {
    let first = add(&*fixture.store, delayed("a", seconds(10))).await;
    let other = AddJob { fingerprint: Fingerprint([9; 16]), topic: topic("elsewhere"), ..job("a") };
    let refused = add_any(&*fixture.store, other).await;
    let (topic_of_first, due_at) = (first.topic.clone(), first.due_at);
    assert_eq!(refused, Err(Refusal::Exists { topic: topic_of_first, state: State::Delayed, due_at }));
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(first));
    assert_eq!(fixture.store.topic(&topic("elsewhere")).await.expect("reads"), None);
}

async fn the_id_is_free_once_the_job_is_gone(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let first = reserve(&*fixture.store).await;
    fixture.store.finish(ALL, finish(&first.job.id, &first.receipt)).await.expect("finishes");
    let other = AddJob { fingerprint: Fingerprint([9; 16]), ..delayed("a", seconds(5)) };
    add(&*fixture.store, other).await;
    assert_eq!(
        fixture.store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes"),
        [deleted(State::Delayed)]
    );
    // Delete, then add with the same id: one delivery, at the new time.
    add(&*fixture.store, delayed("a", seconds(20))).await;
    fixture.advance_and_promote(seconds(19)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(seconds(1)).await;
    reserve(&*fixture.store).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_batch_is_answered_in_order_and_equal_ids_in_it_are_seen(fixture: StoreFixture) {
    let other = AddJob { fingerprint: Fingerprint([9; 16]), ..job("a") };
    let batch = vec![job("a"), delayed("b", seconds(1)), job("a"), other, job("c")];
    let outcomes = fixture.store.add(batch).await.expect("adds");
    let words: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Added::Created(job)) => format!("created {}", job.id),
            Ok(Added::Replayed(job)) => format!("replayed {}", job.id),
            Ok(Added::Replaced(job)) => format!("replaced {}", job.id),
            Ok(Added::FinishedBefore(ended)) => format!("finished {}", ended.id),
            Err(Refusal::Exists { state, .. }) => format!("exists {state}"),
            Err(refusal) => format!("{refusal:?}"),
        })
        .collect();
    assert_eq!(words, ["created a", "created b", "replayed a", "exists ready", "created c"]);
    assert_eq!(fixture.store.add(vec![]).await.expect("adds nothing"), []);
}

async fn bodies_come_back_byte_for_byte(fixture: StoreFixture) {
    let large = format!("\"{}\"", "x".repeat(256 * 1_024 - 2));
    let texts =
        ["null", "{\"b\":1.50, \"a\":12345678901234567890123}", "\"\\u0000\\ud83d\\ude00 é\"", &large];
    for (n, text) in texts.into_iter().enumerate() {
        let body = Body::parse(Bytes::copy_from_slice(text.as_bytes())).expect("valid");
        add(&*fixture.store, AddJob { body: body.clone(), ..job(&n.to_string()) }).await;
        assert_eq!(reserve(&*fixture.store).await.job.body, body);
        assert_eq!(
            fixture.store.get(ALL, &id(&n.to_string())).await.expect("gets").expect("is there").body,
            body
        );
    }
}

async fn names_at_their_limits_work(fixture: StoreFixture) {
    let name = format!("{}._~:@+=-", "i".repeat(247));
    let far = format!("{}._:-", "t".repeat(124));
    assert_eq!((name.len(), far.len()), (JobId::MAX_LEN, Topic::MAX_LEN));
    let far = topic(&far);
    add(&*fixture.store, AddJob { topic: far.clone(), ..job(&name) }).await;
    let reserved =
        one(fixture.store.reserve(&plain(far.as_str()), &claims(1), Wait::No).await.expect("reserves"));
    fixture.store.finish(ALL, finish(&id(&name), &reserved.receipt)).await.expect("finishes");
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("reads"), []);
}

async fn fault_an_id_that_looks_like_a_key_of_the_store_harms_nothing(fixture: StoreFixture) {
    let names =
        ["dq_bucket_1", "linger", "linger:0", "meta", "jobs", "bucket", "counts", "ready:t", "rec", "0"];
    add(&*fixture.store, delayed("witness", seconds(1))).await;
    for name in names {
        add(&*fixture.store, AddJob { topic: topic("keys"), ..job(name) }).await;
        fixture.store.delete(ALL, vec![id(name)], DeleteRule::AnyState).await.expect("deletes");
        fixture.store.delete(ALL, vec![id(name)], DeleteRule::AnyState).await.expect("deletes nothing");
    }
    fixture.advance_and_promote(seconds(1)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("witness"));
}

async fn fault_adding_an_id_again_leaves_one_delivery(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(10))).await;
    fixture.clock.advance(seconds(5));
    add_any(&*fixture.store, delayed("a", seconds(10))).await.expect("is not refused");
    let other = AddJob { fingerprint: Fingerprint([9; 16]), ..delayed("a", seconds(30)) };
    assert!(add_any(&*fixture.store, other).await.is_err(), "another job has the id");
    fixture.advance_and_promote(seconds(5)).await;
    let reserved = reserve(&*fixture.store).await;
    fixture.store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("finishes");
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}
