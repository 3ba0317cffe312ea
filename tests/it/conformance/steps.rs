//! Steps of several kinds in one batch: they are applied in their order, each with its own guard and outcome.

use linger::{
    job::{Due, State, TopicFilter},
    store::{
        Applied, DeletedJob, JobChange, Outcome, Patch, Release, SeenJob, Step, StepAction, Store, Touch,
    },
};

use crate::harness::{jobs::*, lists::get, stores::StoreFixture};

super::on_every_engine! {
    steps_of_all_kinds_are_applied_in_their_order,
    the_scope_of_each_step_is_its_own,
    steps_of_no_job_change_nothing,
}

fn step(name: &str, action: StepAction) -> Step {
    Step::unscoped(id(name), action, None)
}

/// A change of the job called `name`, as it is now.
async fn change(store: &dyn Store, name: &str, change: JobChange) -> StepAction {
    let SeenJob { topic, state, moment, .. } = SeenJob::new(&get(store, name).await);
    StepAction::Change { topic, state, moment, change }
}

/// The outcomes, with the states of the jobs that they show.
fn told(outcomes: &[Outcome<Applied>]) -> Vec<String> {
    let tell = |outcome: &Outcome<Applied>| match outcome {
        Ok(Applied::Job(job)) => format!("{}: {}", job.id, job.state()),
        Ok(Applied::Done { topic }) => format!("done in {topic}"),
        Ok(Applied::Deleted(DeletedJob { topic, state })) => format!("deleted in {topic}, {state}"),
        Err(refusal) => format!("{refusal:?}"),
    };
    outcomes.iter().map(tell).collect()
}

async fn steps_of_all_kinds_are_applied_in_their_order(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("held")).await;
    let held = reserve(store).await.receipt;
    add(store, job("cancelled")).await;
    let cancelled = reserve(store).await.receipt;
    add(store, job("postponed")).await;
    let postponed = reserve(store).await.receipt;
    for name in ["listed", "waits"] {
        add(store, delayed(name, seconds(60))).await;
    }
    let soon = Patch { due: Some(Due::default()), ..Patch::default() };
    let steps = vec![
        step("held", StepAction::Touch(held.clone(), Touch::default())),
        step("waits", StepAction::Patch(soon)),
        step("waits", StepAction::Requeue(Due::default().into())),
        step("listed", change(store, "listed", JobChange::Reschedule(after(seconds(90)))).await),
        step("listed", change(store, "listed", JobChange::Delete).await),
        step("cancelled", StepAction::Cancel(cancelled.clone())),
        step("postponed", StepAction::Postpone(postponed, delay(seconds(5)))),
        step("cancelled", StepAction::Cancel(cancelled)),
        step("held", StepAction::Bury(held.clone(), None)),
        step("held", StepAction::Release(held, Release::default())),
        step("held", StepAction::Requeue(after(seconds(9)).into())),
        step("held", StepAction::Delete(DeleteRule::AnyState)),
        step("held", StepAction::Delete(DeleteRule::AnyState)),
    ];
    let applied = store.apply(steps).await.expect("answers");
    let expected = [
        "held: reserved",
        "waits: ready",
        "InState(Ready)",
        "done in t",
        // It has moved since it was seen.
        "NotAsSeen",
        "done in t",
        "done in t",
        "Lost",
        "held: dead",
        "Lost",
        "held: delayed",
        "deleted in t, delayed",
        "Gone",
    ];
    assert_eq!(told(&applied), expected);
    for (name, state) in [
        ("waits", State::Ready),
        ("listed", State::Delayed),
        ("cancelled", State::Ready),
        ("postponed", State::Delayed),
    ] {
        let job = get(store, name).await;
        assert_eq!((job.state(), job.attempts), (state, 0), "{name}");
    }
}

async fn the_scope_of_each_step_is_its_own(fixture: StoreFixture) {
    let store = &*fixture.store;
    for name in ["a", "b", "c"] {
        add(store, delayed(name, seconds(60))).await;
    }
    let scoped = |name: &str, scope: TopicFilter, action| Step { scope, ..step(name, action) };
    let applied = store
        .apply(vec![
            scoped("a", only(&["other"]), StepAction::Delete(DeleteRule::AnyState)),
            scoped("b", only(&["t"]), StepAction::Delete(DeleteRule::AnyState)),
            scoped("c", only(&["other"]), change(store, "c", JobChange::Delete).await),
            scoped("c", only(&["t"]), change(store, "c", JobChange::Delete).await),
        ])
        .await
        .expect("answers");
    assert_eq!(told(&applied), ["Gone", "deleted in t, delayed", "NotAsSeen", "done in t"]);
    assert_eq!(get(store, "a").await.state(), State::Delayed);
}

async fn steps_of_no_job_change_nothing(fixture: StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(store.apply(Vec::new()).await.expect("answers"), []);
    add(store, job("a")).await;
    let receipt = reserve(store).await.receipt;
    let held = |action: fn(linger::job::Receipt) -> StepAction| step("nothing", action(receipt.clone()));
    let applied = store
        .apply(vec![
            held(|receipt| StepAction::Touch(receipt, Touch::default())),
            held(|receipt| StepAction::Bury(receipt, None)),
            step("nothing", StepAction::Patch(Patch::default())),
            step("nothing", StepAction::Requeue(Due::default().into())),
            step("nothing", StepAction::Delete(DeleteRule::AnyState)),
        ])
        .await
        .expect("answers");
    assert_eq!(told(&applied), ["Gone"; 5]);
    assert_eq!(get(store, "a").await.state(), State::Reserved);
}
