//! Histories of jobs that come back after their end, and of ids that are used again.

use super::{Script, TTR, only_job};
use crate::checker::{Action, Add, FinalState, History, Law, Outcome};

#[test]
fn a_job_whose_repeated_removal_found_nothing_and_that_appears_again_is_reported() {
    let finished = || {
        let script = Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Outcome::Unknown);
        script.finished(60, 70, "r1", Outcome::Gone)
    };
    finished().assert_valid();
    finished().delivered(125, 130, 2).assert_violates(Law::GoneStaysGone);
    // The same for a poll that was parked before the removal: no other call can have removed the job.
    finished().delivered(60, 130, 2).assert_violates(Law::GoneStaysGone);
    // The worker of the parked poll got the job, and an unanswered delete removed it.
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 50, "r1", Outcome::Unknown)
        .then(140, 300, Action::Delete, Outcome::Unknown)
        .finished(160, 170, "r1", Outcome::Gone)
        .delivered(60, 180, 2)
        .assert_valid();
    let deleted = Script::added().then(20, 30, Action::Delete, Outcome::Unknown);
    let deleted = deleted.then(40, 50, Action::Delete, Outcome::Gone);
    deleted.assert_valid();
    deleted.delivered(60, 70, 1).assert_violates(Law::GoneStaysGone);
}

/// A finish and then a delete without an answer, and a call that did not find the job.
fn missing_jobs() -> [Script; 2] {
    let finished = Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Outcome::Unknown);
    let deleted = Script::added().delivered(20, 30, 1).then(40, 50, Action::Delete, Outcome::Unknown);
    [finished.finished(60, 70, "r1", Outcome::Gone), deleted.then(60, 70, Action::Read, Outcome::Gone)]
}

#[test]
fn a_job_that_was_not_found_and_for_which_a_later_call_succeeds_is_reported() {
    let [reschedule, requeue] = [Action::Reschedule { delay: TTR }, Action::Requeue { delay: TTR }]
        .map(|action| move || action.clone());
    let finish = || Action::Finish { receipt: "r1".to_owned() };
    let bury = || Action::Bury { receipt: "r1".to_owned() };
    let later: [&dyn Fn() -> Action; 6] =
        [&|| Action::Read, &|| Action::Delete, &finish, &bury, &reschedule, &requeue];
    for action in later {
        for script in missing_jobs() {
            script.then(80, 90, action(), Outcome::Done).assert_violates_among_others(Law::GoneStaysGone);
        }
        for script in missing_jobs() {
            let script = script.then(80, 90, action(), Outcome::Gone);
            script.then(100, 110, action(), Outcome::Unknown).assert_valid();
        }
    }
    for script in missing_jobs() {
        script.then(69, 90, Action::Read, Outcome::Done).assert_valid();
    }
}

#[test]
fn a_job_that_was_not_found_and_that_is_there_in_the_end_is_reported() {
    for dead in [false, true] {
        for script in missing_jobs() {
            script.assert_final_state_violates_among_others(&only_job(dead, 1), Law::GoneStaysGone);
        }
        // A second add gives the id a second lifetime, in which the job has not been delivered yet.
        for script in missing_jobs() {
            let add = Action::Add(Add::default());
            let script = script.then(80, 90, add, Outcome::Done);
            assert_eq!(script.violated_laws(Some(&only_job(false, 0))), []);
        }
    }
}

#[test]
fn a_job_that_was_added_again_and_is_lost_is_reported() {
    let add = || Action::Add(Add::default());
    let again = || added_with_unknown_outcome().then(61, 70, add(), Outcome::Done);
    again().assert_final_state_violates(&FinalState::default(), Law::NothingLost);
    let script = again().then(80, 90, Action::Delete, Outcome::Unknown);
    assert_eq!(script.violated_laws(Some(&FinalState::default())), []);
}

/// A read of a job before any call has added it does not end it.
#[test]
fn a_call_before_the_add_does_not_find_the_job() {
    let add = Action::Add(Add::default());
    let script = Script(History::new()).then(0, 5, Action::Read, Outcome::Gone);
    let script = script.then(6, 10, add, Outcome::Done).delivered(11, 12, 1);
    script.then(13, 14, Action::Read, Outcome::Done).assert_valid();
}

#[test]
fn a_job_that_was_not_found_may_have_been_added_again() {
    let add = || Action::Add(Add::default());
    let again = || Action::Deliver { receipt: "again".to_owned(), revision: 0, attempt: 1, ttr: TTR };
    let missed = |sent| {
        let script = Script(History::new()).then(0, sent, add(), Outcome::Unknown).delivered(10, 20, 1);
        let script = script.finished(30, 40, "r1", Outcome::Unknown);
        script.finished(50, 55, "r1", Outcome::Gone)
    };
    missed(35).then(61, 70, add(), Outcome::Done).then(80, 85, again(), Outcome::Done).assert_valid();
    // The same if no call found the job gone.
    let script = Script(History::new()).then(0, 35, add(), Outcome::Unknown).delivered(10, 20, 1);
    let script = script.finished(30, 40, "r1", Outcome::Unknown).then(61, 70, add(), Outcome::Done);
    script.then(80, 85, again(), Outcome::Done).assert_valid();
    missed(35).then(80, 85, again(), Outcome::Done).assert_violates_among_others(Law::GoneStaysGone);
}

/// An add that is answered with 503 at 60 ms, after its job was finished.
fn added_with_unknown_outcome() -> Script {
    let add = Action::Add(Add::default());
    let first = Script(History::new()).then(0, 60, add, Outcome::Unknown);
    first.delivered(10, 20, 1).finished(30, 40, "r1", Outcome::Done)
}

/// A delivery as attempt 1 with the receipt `again`, and its finish.
fn second_lifetime(script: Script) -> Script {
    let deliver = Action::Deliver { receipt: "again".to_owned(), revision: 0, attempt: 1, ttr: TTR };
    script.then(80, 85, deliver, Outcome::Done).finished(90, 95, "again", Outcome::Done)
}

#[test]
fn an_add_that_is_sent_again_may_begin_a_second_lifetime() {
    let add = || Action::Add(Add::default());
    second_lifetime(added_with_unknown_outcome().then(61, 70, add(), Outcome::Done)).assert_valid();
    added_with_unknown_outcome()
        .then(61, 70, add(), Outcome::Done)
        .then(80, 85, Action::Delete, Outcome::Done)
        .assert_valid();
    added_with_unknown_outcome().then(61, 70, add(), Outcome::Done).assert_valid();
    assert_eq!(
        added_with_unknown_outcome()
            .then(61, 70, add(), Outcome::Done)
            .violated_laws(Some(&only_job(false, 0))),
        []
    );
}

#[test]
fn the_removal_that_was_answered_last_may_have_been_the_first() {
    let add = || Action::Add(Add::default());
    let again = || Action::Deliver { receipt: "again".to_owned(), revision: 0, attempt: 1, ttr: TTR };
    let added = || Script(History::new()).then(0, 9, add(), Outcome::Unknown).delivered(10, 20, 1);
    let again_and_deleted = |script: Script| {
        let script = script.then(41, 45, add(), Outcome::Done).then(50, 55, again(), Outcome::Done);
        script.then(60, 70, Action::Delete, Outcome::Done)
    };
    again_and_deleted(added()).finished(30, 90, "r1", Outcome::Done).assert_valid();
    again_and_deleted(added())
        .finished(80, 90, "r1", Outcome::Done)
        .assert_violates_among_others(Law::Attempts);
}

#[test]
fn each_sending_of_an_add_begins_at_most_one_lifetime() {
    let laws = [Law::Attempts, Law::GoneStaysGone];
    assert_eq!(
        second_lifetime(added_with_unknown_outcome()).violated_laws(None),
        laws,
        "the add was sent only once"
    );
    let add = || Action::Add(Add::default());
    let before = Script(History::new()).then(0, 4, add(), Outcome::Unknown).then(5, 9, add(), Outcome::Done);
    let before = before.delivered(10, 20, 1).finished(30, 40, "r1", Outcome::Done);
    assert_eq!(second_lifetime(before).violated_laws(None), laws, "both adds were answered before the end");
    let third = second_lifetime(added_with_unknown_outcome().then(61, 70, add(), Outcome::Done));
    let deliver = Action::Deliver { receipt: "third".to_owned(), revision: 0, attempt: 1, ttr: TTR };
    assert_eq!(
        third.then(100, 105, deliver, Outcome::Done).violated_laws(None),
        laws,
        "two adds, three lifetimes"
    );
}

/// Only its second attempt was seen before the job was finished. The poll that gets the first attempt of its second lifetime
/// had been waiting since before.
#[test]
fn a_poll_that_waits_over_the_end_may_get_the_next_lifetime() {
    let add = || Action::Add(Add::default());
    let deliver = |receipt: &str, attempt| Action::Deliver {
        receipt: receipt.to_owned(),
        revision: 0,
        attempt,
        ttr: TTR,
    };
    let script = |added| {
        let script = Script(History::new()).then(0, 1, add(), Outcome::Unknown);
        let script = script.then(2, 40, deliver("second", 2), Outcome::Done);
        let script = script.finished(41, 42, "second", Outcome::Done).then(50, 55, add(), added);
        script.then(39, 60, deliver("again", 1), Outcome::Done).finished(61, 62, "again", Outcome::Done)
    };
    script(Outcome::Done).assert_valid();
    assert_ne!(script(Outcome::Refused).violated_laws(None), [], "no call added it again");
}
