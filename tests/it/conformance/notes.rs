//! The notes that workers send with their touches: which steps set, keep and clear them.

use linger::{
    job::{Job, NoteText, ProgressNote, State, Timestamp},
    store::{
        AddJob, Applied, JobChange, Refusal, Release, Requeue, Reservation, Step, StepAction, Steps, Store,
        Touch,
    },
};

use super::{
    expiring::expiring,
    replacing::{newer, replace},
};
use crate::harness::{
    jobs::*,
    lists::{change, get, in_state, see},
    stores::StoreFixture,
};

super::on_every_engine! {
    touches_of_a_batch_have_their_own_notes;
    a_touch_sets_the_note_and_the_moment,
    a_touch_without_a_note_keeps_the_one_there_is,
    the_next_attempt_gets_the_note,
    a_dead_letter_keeps_the_note_until_it_is_requeued,
    a_job_that_expires_keeps_the_note,
    a_replacement_starts_without_a_note,
    a_touch_that_is_refused_sets_no_note,
    a_note_survives_a_restart,
}

fn noting(text: &str) -> Touch {
    Touch { ttr: None, note: Some(NoteText::new(text).expect("valid")) }
}

fn note(text: &str, at: Timestamp) -> Option<ProgressNote> {
    Some(ProgressNote { at, text: NoteText::new(text).expect("valid") })
}

async fn touch(store: &dyn Store, held: &Reservation, touch: Touch) -> Job {
    store.touch(ALL, &held.job.id, &held.receipt, touch).await.expect("answers").expect("is held")
}

/// Adds a job, and reserves it with a note of the present moment.
async fn hold_with_note(fixture: &StoreFixture, job: AddJob) -> (Reservation, Option<ProgressNote>) {
    add(&*fixture.store, job).await;
    let held = reserve(&*fixture.store).await;
    let noted = touch(&*fixture.store, &held, noting("3 of 7")).await;
    assert_eq!(noted.note, note("3 of 7", fixture.now()));
    (held, noted.note)
}

async fn a_touch_sets_the_note_and_the_moment(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let held = reserve(store).await;
    assert_eq!(held.job.note, None);
    let longest = "é".repeat(NoteText::MAX_LEN / 2);
    for text in ["resume at 41,200", &longest, "{\"n\": 1}\n"] {
        fixture.clock.advance(seconds(1));
        let touched = touch(store, &held, Touch { ttr: Some(ttr(90)), ..noting(text) }).await;
        let mut expected = Job { note: note(text, fixture.now()), ..held.job.clone() };
        set_until(&mut expected, fixture.now().after(seconds(90)));
        assert_eq!(touched, expected, "and nothing else");
        assert_eq!(get(store, "a").await, expected);
        assert_eq!(in_state(store, State::Reserved).await[0].job.note, expected.note);
    }
    fixture.advance_and_promote(millis(89_999)).await;
    assert_eq!(get(store, "a").await.state(), State::Reserved);
    assert_eq!(one(store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("answers")), finished());
    add(store, job("a")).await;
    assert_eq!(reserve(store).await.job.note, None, "the note has gone with its job");
}

async fn a_touch_without_a_note_keeps_the_one_there_is(fixture: StoreFixture) {
    let (held, noted) = hold_with_note(&fixture, job("a")).await;
    fixture.clock.advance(seconds(30));
    assert_eq!(touch(&*fixture.store, &held, Touch::default()).await.note, noted);
    assert_eq!(get(&*fixture.store, "a").await.note, noted);
}

async fn the_next_attempt_gets_the_note(fixture: StoreFixture) {
    let store = &*fixture.store;
    let (held, noted) = hold_with_note(&fixture, job("a")).await;
    let at_once = Release { due: Some(after(seconds(0))), reason: None };
    let back = store.release(ALL, &id("a"), &held.receipt, at_once.clone()).await.expect("answers");
    assert_eq!(back.expect("is held").note, noted);
    assert_eq!(reserve(store).await.job.note, noted, "after a release");
    store.revoke(ALL, &id("a"), None, at_once).await.expect("answers").expect("is held");
    assert_eq!(reserve(store).await.job.note, noted, "after a revoke");
    fixture.advance_and_promote(seconds(60)).await;
    let held = reserve(store).await;
    assert_eq!(held.job.note, noted, "after the TTR");
    store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    let held = reserve(store).await;
    assert_eq!(held.job.note, noted, "after a reservation that no client saw");
    store.postpone(vec![(id("a"), held.receipt)], delay(seconds(5))).await.expect("postpones");
    fixture.advance_and_promote(seconds(5)).await;
    let held = reserve(store).await;
    assert_eq!(held.job.note, noted, "after a postponement");
    assert_eq!(touch(store, &held, noting("5 of 7")).await.note, note("5 of 7", fixture.now()));
}

async fn a_dead_letter_keeps_the_note_until_it_is_requeued(fixture: StoreFixture) {
    let store = &*fixture.store;
    for by_id in [true, false] {
        for times_out in [true, false] {
            let spec = JobSpec { max_attempts: 1, ..JobSpec::default() };
            let (held, noted) = hold_with_note(&fixture, AddJob { spec, ..job("a") }).await;
            if times_out {
                fixture.advance_and_promote(seconds(60)).await;
            } else {
                store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
            }
            let dead = get(store, "a").await;
            assert_eq!((dead.state(), dead.note), (State::Dead, noted));
            let now = Requeue::from(after(seconds(0)));
            if by_id {
                store.requeue(ALL, &id("a"), now, None).await.expect("answers").expect("is dead");
            } else {
                let requeue = change(&see(store, "a").await, JobChange::Requeue(now));
                assert_eq!(store.change(requeue, None).await.expect("answers"), [true]);
            }
            let held = reserve(store).await;
            assert_eq!(held.job.note, None, "as if it were a new job");
            assert_eq!(
                one(store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("answers")),
                finished()
            );
        }
    }
}

async fn a_job_that_expires_keeps_the_note(fixture: StoreFixture) {
    let (_, noted) = hold_with_note(&fixture, expiring("a", 1)).await;
    fixture.advance_and_promote(seconds(60)).await;
    fixture.advance_and_promote(seconds(1)).await;
    let dead = get(&*fixture.store, "a").await;
    assert_eq!((dead.state(), dead.note), (State::Dead, noted));
}

async fn a_replacement_starts_without_a_note(fixture: StoreFixture) {
    let store = &*fixture.store;
    let (held, _) = hold_with_note(&fixture, job("a")).await;
    assert_eq!(replace(store, newer("2", 0)).await.note, None);
    let touched =
        store.touch(ALL, &id("a"), &held.receipt, noting("of the older one")).await.expect("answers");
    assert_eq!(touched, Err(Refusal::Replaced));
    assert_eq!(get(store, "a").await.note, None);
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(reserve(store).await.job.note, None);
}

async fn a_touch_that_is_refused_sets_no_note(fixture: StoreFixture) {
    let store = &*fixture.store;
    let (held, noted) = hold_with_note(&fixture, job("a")).await;
    let other = store.touch(&only(&["other"]), &id("a"), &held.receipt, noting("x")).await.expect("answers");
    assert_eq!(other, Err(Refusal::Gone));
    fixture.advance_and_promote(seconds(60)).await;
    let late = store.touch(ALL, &id("a"), &held.receipt, noting("x")).await.expect("answers");
    assert_eq!(late, Err(Refusal::TimedOut));
    reserve(store).await;
    let stale = store.touch(ALL, &id("a"), &held.receipt, noting("x")).await.expect("answers");
    assert_eq!(stale, Err(Refusal::Lost));
    assert_eq!(get(store, "a").await.note, noted);
}

async fn touches_of_a_batch_have_their_own_notes(fixture: StoreFixture) {
    let store = &*fixture.store;
    let mut steps = Vec::new();
    for name in ["a", "b", "c"] {
        add(store, job(name)).await;
        let held = reserve(store).await;
        let asked = if name == "b" { Touch::default() } else { noting(name) };
        steps.push(Step::unscoped(held.job.id, StepAction::Touch(held.receipt, asked), None));
    }
    let applied = store.apply(steps).await.expect("answers");
    for (name, outcome) in ["a", "b", "c"].iter().zip(applied) {
        let expected = if *name == "b" { None } else { note(name, fixture.now()) };
        let Ok(Applied::Job(shown)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(shown.note, expected, "{name}");
        assert_eq!(get(store, name).await.note, expected, "{name}");
    }
}

async fn a_note_survives_a_restart(mut fixture: StoreFixture) {
    let (held, noted) = hold_with_note(&fixture, job("a")).await;
    fixture.reopen().await;
    let store = &*fixture.store;
    let back = get(store, "a").await;
    assert_eq!((back.state(), back.note), (State::Reserved, noted));
    assert_eq!(touch(store, &held, noting("4 of 7")).await.note, note("4 of 7", fixture.now()));
}
