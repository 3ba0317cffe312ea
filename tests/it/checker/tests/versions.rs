//! Jobs that are replaced by a newer version or expire, and ids that are remembered.

use std::time::Duration;

use super::{Script, TTR, bury, only_job};
use crate::checker::{Action, Add, FinalState, History, Law, Outcome, check};

fn add(revision: u64) -> Action {
    let delay = Duration::from_millis(20);
    Action::Add(Add { delay, max_attempts: 3, revision, ..Add::default() })
}

fn remembered(revision: u64) -> Action {
    Action::Add(Add { revision, is_remembered: true, ..Add::default() })
}

impl Script {
    /// A delivery of a version as attempt `attempt`, with the receipt `v<revision>`.
    fn version(self, sent: u64, answered: u64, revision: u64, attempt: u32) -> Self {
        let receipt = format!("v{revision}");
        self.then(sent, answered, Action::Deliver { receipt, revision, attempt, ttr: TTR }, Outcome::Done)
    }
}

/// Version 1 is reserved from 20 ms on, for 100 ms, and version 2, due at 60 ms, is acknowledged at 50 ms.
fn replaced_while_reserved() -> Script {
    let added = Script(History::new()).then(0, 10, add(1), Outcome::Done).version(20, 30, 1, 1);
    added.then(40, 50, add(2), Outcome::Done)
}

#[test]
fn the_newer_version_follows_the_holder() {
    replaced_while_reserved().version(60, 120, 2, 1).assert_valid();
    replaced_while_reserved().version(60, 119, 2, 1).assert_violates(Law::OneHolder);
    // The refusal of a finish ends the reservation, that of a touch does not.
    let refused = |action| replaced_while_reserved().then(70, 75, action, Outcome::Refused);
    let finish = || Action::Finish { receipt: "v1".to_owned() };
    refused(finish()).version(60, 71, 2, 1).assert_valid();
    refused(Action::Touch { receipt: "v1".to_owned(), ttr: TTR })
        .version(60, 110, 2, 1)
        .assert_violates(Law::OneHolder);
    // Nor does it matter which of the calls without receipt the server has answered.
    let lost = replaced_while_reserved().then(70, 75, Action::Delete, Outcome::Unknown).version(60, 71, 2, 1);
    lost.then(80, 85, Action::Delete, Outcome::Refused).assert_valid();
    // Before the newer version is sent, nothing may refuse the holder.
    let added = Script(History::new()).then(0, 10, add(1), Outcome::Done).version(20, 30, 1, 1);
    added
        .then(31, 39, finish(), Outcome::Refused)
        .then(40, 50, add(2), Outcome::Done)
        .assert_violates(Law::OneHolder);
}

#[test]
fn an_older_version_after_the_newer_one_is_reported() {
    let replaced = |outcome| {
        let added = Script(History::new()).then(0, 10, add(1), Outcome::Done);
        added.then(15, 20, add(2), outcome)
    };
    replaced(Outcome::Done).version(20, 30, 1, 1).assert_violates(Law::NewestVersion);
    replaced(Outcome::Done).version(19, 30, 1, 1).assert_valid();
    replaced(Outcome::Unknown).version(20, 30, 1, 1).assert_valid();
    replaced(Outcome::Refused).version(20, 40, 2, 1).assert_violates(Law::NothingInvented);
    // Each version is due by its own add.
    replaced(Outcome::Done).version(20, 34, 2, 1).assert_violates(Law::NeverEarly);
    replaced(Outcome::Done).version(20, 35, 2, 1).assert_valid();
}

#[test]
fn an_accepted_receipt_of_an_older_version_is_reported() {
    let accepted = |action| replaced_while_reserved().then(70, 75, action, Outcome::Done);
    let receipt = || "v1".to_owned();
    accepted(Action::Touch { receipt: receipt(), ttr: TTR }).assert_violates(Law::StaleReceipt);
    accepted(Action::Finish { receipt: receipt() }).assert_violates_among_others(Law::StaleReceipt);
    accepted(bury("v1")).assert_violates(Law::StaleReceipt);
    // The finish of an older version does not explain that the job is missing.
    let unknown =
        replaced_while_reserved().then(70, 75, Action::Finish { receipt: receipt() }, Outcome::Unknown);
    unknown.assert_final_state_violates(&FinalState::default(), Law::NothingLost);
}

#[test]
fn with_a_newer_version_the_attempts_start_again() {
    let buried = || {
        let added = Script(History::new()).then(0, 10, add(1), Outcome::Done).version(20, 30, 1, 3);
        added.then(31, 35, bury("v1"), Outcome::Done)
    };
    let replaced = |outcome| buried().then(40, 50, add(2), outcome);
    replaced(Outcome::Done).version(60, 70, 2, 1).assert_valid();
    check(&replaced(Outcome::Done).0, Some(&only_job(false, 0))).assert_clean();
    replaced(Outcome::Done).assert_final_state_violates(&only_job(true, 1), Law::DeadLetters);
    check(&replaced(Outcome::Unknown).0, Some(&only_job(true, 3))).assert_clean();
    replaced(Outcome::Refused).assert_final_state_violates(&only_job(false, 0), Law::DeadLetters);
    // A requeue has no effect on a job that was replaced before.
    let requeue = || Action::Requeue { delay: Duration::from_millis(30) };
    let replaced = || replaced(Outcome::Done);
    replaced().then(50, 55, requeue(), Outcome::Unknown).version(60, 65, 2, 1).assert_valid();
    replaced().then(50, 55, requeue(), Outcome::Done).version(60, 79, 2, 1).assert_violates(Law::NeverEarly);
    let released = Script(History::new()).then(0, 10, add(1), Outcome::Done).version(20, 30, 1, 3);
    let released = released.released(31, 35, "v1", 0).then(40, 50, add(2), Outcome::Done);
    check(&released.0, Some(&only_job(false, 0))).assert_clean();
}

#[test]
fn a_change_before_a_requeue_does_not_count_after_it() {
    let [changed, requeued] = [5, 20].map(Duration::from_millis);
    let script = Script::added().then(11, 12, Action::Reschedule { delay: changed }, Outcome::Done);
    let script = script.delivered(20, 30, 1).then(40, 45, bury("r1"), Outcome::Done);
    let script = script.then(50, 60, Action::Requeue { delay: requeued }, Outcome::Done);
    script.then(0, 69, second(0), Outcome::Done).assert_violates(Law::NeverEarly);
}

#[test]
fn a_delivery_after_the_expiry_is_reported() {
    let added = || {
        let expire = Some(Duration::from_millis(50));
        Script(History::new()).then(0, 10, Action::Add(Add { expire, ..Add::default() }), Outcome::Done)
    };
    added().version(60, 65, 0, 1).assert_valid();
    added().version(61, 65, 0, 1).assert_violates(Law::NotExpired);
    // A repeat of the add does not put it off.
    let repeated = Action::Add(Add { expire: Some(Duration::from_millis(50)), ..Add::default() });
    added().then(20, 30, repeated, Outcome::Done).version(61, 65, 0, 1).assert_violates(Law::NotExpired);
    let change = || Action::Reschedule { delay: Duration::from_millis(40) };
    added().then(20, 30, change(), Outcome::Done).version(120, 125, 0, 1).assert_valid();
    added().then(20, 30, change(), Outcome::Unknown).version(121, 125, 0, 1).assert_violates(Law::NotExpired);
    added().then(20, 30, change(), Outcome::Refused).version(61, 65, 0, 1).assert_violates(Law::NotExpired);
    check(&added().0, Some(&only_job(true, 0))).assert_clean();
}

#[test]
fn a_remembered_job_that_runs_again_is_reported() {
    let finished = |revision| {
        let added = Script(History::new()).then(0, 10, remembered(revision), Outcome::Done);
        added.version(20, 30, revision, 1).finished(40, 50, &format!("v{revision}"), Outcome::Done)
    };
    let again = |revision, outcome| finished(1).then(60, 70, remembered(revision), outcome);
    again(1, Outcome::Gone).assert_valid();
    again(1, Outcome::Unknown).assert_valid();
    again(1, Outcome::Done).assert_violates(Law::GoneStaysGone);
    again(1, Outcome::Unknown)
        .then(60, 80, second(1), Outcome::Done)
        .assert_violates_among_others(Law::GoneStaysGone);
    again(2, Outcome::Done).then(60, 80, second(2), Outcome::Done).assert_valid();
    // Without revisions, no add begins again.
    finished(0).then(60, 70, remembered(0), Outcome::Done).assert_violates(Law::GoneStaysGone);
    // Nor a version that was acknowledged before the delete.
    let deleted = Script(History::new()).then(0, 10, remembered(1), Outcome::Done);
    let deleted =
        deleted.then(20, 30, remembered(2), Outcome::Done).then(40, 50, Action::Delete, Outcome::Done);
    deleted.then(60, 70, remembered(2), Outcome::Done).assert_violates(Law::GoneStaysGone);
    // Nor after a delete.
    let deleted = Script(History::new()).then(0, 10, remembered(0), Outcome::Unknown);
    let deleted = deleted.then(20, 30, Action::Delete, Outcome::Done);
    deleted.then(40, 50, remembered(0), Outcome::Done).assert_violates(Law::GoneStaysGone);
}

fn second(revision: u64) -> Action {
    Action::Deliver { receipt: "again".to_owned(), revision, attempt: 1, ttr: TTR }
}

#[test]
fn an_answer_that_a_job_has_ended_which_has_not_is_reported() {
    let added = Script(History::new()).then(0, 10, remembered(0), Outcome::Done);
    added.then(20, 30, remembered(0), Outcome::Gone).assert_violates(Law::NothingLost);
    // Nor is the end of an older version that of a newer one.
    let finished = Script(History::new()).then(0, 10, remembered(1), Outcome::Done).version(20, 30, 1, 1);
    let newer = finished.finished(40, 50, "v1", Outcome::Done).then(60, 70, remembered(2), Outcome::Done);
    newer.then(80, 90, remembered(2), Outcome::Gone).assert_violates(Law::NothingLost);
}

/// The first sending of the second version takes effect in the first lifetime, and its repeat begins the second one.
#[test]
fn a_version_may_be_added_again_after_it_ended() {
    let second_version = |script: Script| script.then(40, 90, add(2), Outcome::Unknown);
    let script = Script(History::new()).then(0, 10, add(1), Outcome::Done);
    let script = second_version(script).version(60, 70, 2, 1).finished(72, 75, "v2", Outcome::Done);
    script.then(95, 99, add(2), Outcome::Done).then(115, 120, second(2), Outcome::Done).assert_valid();
}

/// The repeats of the first delete end with the answer that the job does not exist.
#[test]
fn a_job_may_be_deleted_twice() {
    let script = Script(History::new()).then(0, 10, add(1), Outcome::Done);
    let script = script.then(20, 25, Action::Delete, Outcome::Unknown);
    let script = script.then(30, 35, Action::Delete, Outcome::Gone).then(40, 50, add(2), Outcome::Done);
    let script = script.version(60, 65, 2, 1).then(70, 75, Action::Delete, Outcome::Done);
    script.then(80, 90, add(3), Outcome::Done).version(110, 115, 3, 1).assert_valid();
}

/// A finish of a job that was purged meets the next version, which was added anew.
#[test]
fn a_call_may_meet_the_next_lifetime_of_its_id() {
    let added = Script(History::new()).then(0, 10, add(1), Outcome::Done).version(20, 30, 1, 1);
    let purged =
        added.then(32, 35, Action::Delete, Outcome::Unknown).then(36, 37, Action::Read, Outcome::Gone);
    let again = |script: Script| script.then(40, 50, add(2), Outcome::Done);
    again(purged).finished(60, 65, "v1", Outcome::Refused).version(60, 70, 2, 1).assert_valid();
}
