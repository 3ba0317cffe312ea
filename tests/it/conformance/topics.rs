//! Law 9: a step by id treats a job of a topic outside the caller's scope like no job.

use linger::{
    job::{Due, Job, JobId, Receipt, State, TopicFilter},
    store::{AddJob, DeletedJob, FinishJob, Finished, Patch, Refusal, Release, Steps, Wait},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_job_outside_the_scope_is_answered_like_no_job,
    patterns_cover_names_and_beginnings_of_names,
    batches_with_repeats_are_answered_in_order,
    a_limited_batch_leaves_foreign_jobs_alone,
    callers_with_different_scopes_share_calls,
}

/// One job in each state, and the receipt of the reserved one.
async fn furnish(fixture: &StoreFixture) -> Receipt {
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("dead") })
        .await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    add(&*fixture.store, job("reserved")).await;
    let held = reserve(&*fixture.store).await;
    add(&*fixture.store, job("ready")).await;
    add(&*fixture.store, delayed("delayed", seconds(5))).await;
    held.receipt
}

async fn seen(fixture: &StoreFixture, id: &JobId) -> Option<Job> {
    fixture.store.get(ALL, id).await.expect("gets")
}

/// Every step by id on one job: the answers, as text.
async fn every_step(
    fixture: &StoreFixture,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Vec<String> {
    let store = &fixture.store;
    let finish = |receipt: Option<&Receipt>| {
        store.finish(scope, vec![FinishJob { id: id.clone(), receipt: receipt.cloned() }])
    };
    let later = Patch { due: Some(Due::After(delay(seconds(9)))), ..Patch::default() };
    let at_once = Patch { due: Some(Due::default()), ..Patch::default() };
    let in_place = Patch { body: Some(body("2")), ..Patch::default() };
    let mut answers = vec![
        format!("{:?}", store.get(scope, id).await),
        format!("{:?}", finish(Some(receipt)).await),
        format!("{:?}", finish(Some(&Receipt::generate())).await),
        format!("{:?}", finish(None).await),
        format!("{:?}", store.release(scope, id, receipt, Release::default()).await),
        format!("{:?}", store.touch(scope, id, receipt, None).await),
        format!("{:?}", store.bury(scope, id, receipt, None).await),
        format!("{:?}", store.requeue(scope, id, Due::default(), None).await),
        format!("{:?}", store.delete(scope, vec![id.clone()], DeleteRule::AnyState).await),
    ];
    for patch in [later, at_once, in_place] {
        answers.push(format!("{:?}", store.patch(scope, id, patch, None).await));
    }
    answers
}

async fn a_job_outside_the_scope_is_answered_like_no_job(fixture: StoreFixture) {
    let receipt = furnish(&fixture).await;
    for scope in [only(&["other"]), only(&["tt", "u*", "t-*"]), only(&[])] {
        let no_job = every_step(&fixture, &scope, &id("nobody"), &receipt).await;
        fixture.notifications.take_ready();
        fixture.notifications.take_due_in();
        for name in ["delayed", "ready", "reserved", "dead"] {
            let before = seen(&fixture, &id(name)).await;
            assert!(before.is_some());
            assert_eq!(every_step(&fixture, &scope, &id(name), &receipt).await, no_job, "{name}");
            assert_eq!(seen(&fixture, &id(name)).await, before, "{name}");
        }
        assert!(fixture.notifications.take_due_in().is_empty());
        assert!(fixture.notifications.take_ready().is_empty() || fixture.repeats_announcements());
    }
}

async fn patterns_cover_names_and_beginnings_of_names(fixture: StoreFixture) {
    let cases: [(&[&str], &str, bool); 9] = [
        (&["orders"], "orders", true),
        (&["orders"], "orders-eu", false),
        (&["orders-*"], "orders-eu", true),
        (&["orders-*"], "orders-", true),
        (&["orders-*"], "orders", false),
        (&["orders-*"], "my-orders-eu", false),
        (&["mail", "orders-*"], "mail", true),
        (&["mail.x", "o.d*"], "mailox", false),
        (&["or.ers", "rders"], "orders", false),
    ];
    for (number, (patterns, name, covers)) in cases.into_iter().enumerate() {
        let id = id(&number.to_string());
        let added = add(&*fixture.store, AddJob { id: id.clone(), topic: topic(name), ..job("any") }).await;
        let got = fixture.store.get(&only(patterns), &id).await.expect("gets");
        assert_eq!(got, covers.then_some(added), "{patterns:?} and {name}");
        let deleted =
            fixture.store.delete(&only(patterns), vec![id], DeleteRule::AnyState).await.expect("answers");
        let done = Ok(DeletedJob { topic: topic(name), state: State::Ready });
        assert_eq!(deleted, [if covers { done } else { Err(Refusal::Gone) }], "{patterns:?} and {name}");
    }
}

async fn batches_with_repeats_are_answered_in_order(fixture: StoreFixture) {
    let receipt = furnish(&fixture).await;
    let with = |receipt: &Receipt| FinishJob { id: id("reserved"), receipt: Some(receipt.clone()) };
    let (wrong, other) = (Receipt::generate(), Receipt::generate());
    for scope in [TopicFilter::ALL, only(&["t"])] {
        let ready = || FinishJob { id: id("ready"), receipt: None };
        let batch = vec![with(&wrong), ready(), with(&other), with(&wrong), ready()];
        let answers = fixture.store.finish(&scope, batch).await.expect("answers");
        let (lost, waits) = (Err(Refusal::Lost), Err(Refusal::NotReserved));
        assert_eq!(answers, [lost.clone(), waits.clone(), lost.clone(), lost, waits]);
    }
    let batch = vec![with(&wrong), with(&receipt), with(&wrong), with(&receipt)];
    let answers = fixture.store.finish(&only(&["t"]), batch).await.expect("answers");
    assert_eq!(answers, [Err(Refusal::Lost), finished(), Err(Refusal::Gone), Err(Refusal::Gone)]);
    let ids = ["ready", "nobody", "ready", "dead", "dead", "nobody", "delayed", "ready"].map(id);
    let answers =
        fixture.store.delete(&only(&["t"]), ids.to_vec(), DeleteRule::AnyState).await.expect("answers");
    let gone = || Err(Refusal::Gone);
    let [delayed, ready, _, dead] = State::ALL.map(deleted);
    assert_eq!(answers, [ready, gone(), gone(), dead, gone(), gone(), delayed, gone()]);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn a_limited_batch_leaves_foreign_jobs_alone(fixture: StoreFixture) {
    let foreign = |name: &str| AddJob { topic: topic("other"), ..job(name) };
    for name in ["a", "c"] {
        add(&*fixture.store, job(name)).await;
    }
    for name in ["b", "d"] {
        add(&*fixture.store, foreign(name)).await;
    }
    let ids = ["a", "b", "c", "d", "b", "nobody"].map(id);
    let own = fixture.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    let others = fixture.store.reserve(&plain("other"), &claims(2), Wait::No).await.expect("reserves");
    let receipt = |id: &JobId| {
        own.iter().chain(&others).find(|held| held.job.id == *id).map(|held| held.receipt.clone())
    };
    let batch = ids.iter().map(|id| FinishJob { id: id.clone(), receipt: receipt(id) }).collect();
    let answers = fixture.store.finish(&only(&["t"]), batch).await.expect("answers");
    let gone = || Err(Refusal::Gone);
    assert_eq!(answers, [finished(), gone(), finished(), gone(), gone(), gone()]);
    for name in ["b", "d"] {
        assert_eq!(seen(&fixture, &id(name)).await.expect("is there").state(), State::Reserved);
    }
    let deleted =
        fixture.store.delete(&only(&["t", "o"]), ids.to_vec(), DeleteRule::AnyState).await.expect("answers");
    assert_eq!(deleted, [const { Err(Refusal::Gone) }; 6]);
    let released =
        fixture.store.release(&only(&["t"]), &id("b"), &others[0].receipt, Release::default()).await;
    assert_eq!(released.expect("answers"), Err(Refusal::Gone));
    let requeued =
        fixture.store.requeue(&only(&["t"]), &id("b"), Due::default(), None).await.expect("answers");
    assert_eq!(requeued, Err(Refusal::Gone), "the answer does not reveal that the job is not dead");
    let patched =
        fixture.store.patch(&only(&["t"]), &id("b"), Patch::default(), None).await.expect("answers");
    assert_eq!(patched, Err(Refusal::Gone));
}

async fn callers_with_different_scopes_share_calls(fixture: StoreFixture) {
    const JOBS: usize = 60;
    for n in 0..JOBS {
        add(&*fixture.store, AddJob { topic: topic(["t", "other"][n % 2]), ..job(&n.to_string()) }).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for name in ["t", "other"] {
        let held = fixture.store.reserve(&plain(name), &claims(JOBS), Wait::No).await.expect("reserves");
        assert_eq!(held.len(), JOBS / 2);
        for held in held {
            let store = fixture.store.clone();
            let scope = only(&[name]);
            let stranger = only(&[if name == "t" { "other" } else { "t" }]);
            tasks.spawn(async move {
                let request = finish(&held.job.id, &held.receipt);
                let foreign = one(store.finish(&stranger, request.clone()).await.expect("answers"));
                let own = one(store.finish(&scope, request).await.expect("answers"));
                (foreign, own) == (Err(Refusal::Gone), Ok(Finished { topic: held.job.topic, is_late: false }))
            });
        }
    }
    assert!(tasks.join_all().await.into_iter().all(|right| right));
}
