//! Histories with one violation each, which the checker must report, and valid histories, which it must accept.

mod lifetimes;
mod versions;

use std::time::Duration;

use super::{Action, Add, Event, FinalJob, FinalState, History, Law, Outcome, check};

const TTR: Duration = Duration::from_millis(100);

/// A history of one job `j`, with times in milliseconds.
struct Script(History);

impl Script {
    /// An add, acknowledged at 10 ms, of a job that is due at 20 ms and has three attempts.
    fn added() -> Self {
        let add = Action::Add(Add { delay: Duration::from_millis(20), max_attempts: 3, ..Add::default() });
        Self(History::new()).then(0, 10, add, Outcome::Done)
    }

    fn then(self, sent: u64, answered: u64, action: Action, outcome: Outcome) -> Self {
        let [sent, answered] = [sent, answered].map(Duration::from_millis);
        self.0.push(Event { job: "j".to_owned(), sent, answered, action, outcome });
        self
    }

    /// A delivery as attempt `attempt`, with the receipt `r<attempt>`.
    fn delivered(self, sent: u64, answered: u64, attempt: u32) -> Self {
        let receipt = format!("r{attempt}");
        self.then(sent, answered, Action::Deliver { receipt, revision: 0, attempt, ttr: TTR }, Outcome::Done)
    }

    fn finished(self, sent: u64, answered: u64, receipt: &str, outcome: Outcome) -> Self {
        self.then(sent, answered, Action::Finish { receipt: receipt.to_owned() }, outcome)
    }

    fn released(self, sent: u64, answered: u64, receipt: &str, delay: u64) -> Self {
        let delay = Duration::from_millis(delay);
        self.then(sent, answered, Action::Release { receipt: receipt.to_owned(), delay }, Outcome::Done)
    }

    /// An answer that lets attempt `attempt` fail, with a delay of 50 ms and a step of 40 ms.
    fn failed(self, sent: u64, attempt: u32) -> Self {
        let [delay, step] = [50, 40].map(Duration::from_millis);
        let action = Action::Fail { receipt: format!("r{attempt}"), delay, step };
        self.then(sent, sent + 1, action, Outcome::Unknown)
    }

    fn violated_laws(&self, final_state: Option<&FinalState>) -> Vec<Law> {
        let mut laws: Vec<Law> =
            check(&self.0, final_state).violations.iter().map(|violation| violation.law).collect();
        laws.dedup();
        laws
    }

    #[track_caller]
    fn assert_valid(&self) {
        check(&self.0, None).assert_clean();
    }

    #[track_caller]
    fn assert_violates(&self, law: Law) {
        assert_eq!(self.violated_laws(None), [law]);
    }

    #[track_caller]
    fn assert_final_state_violates(&self, final_state: &FinalState, law: Law) {
        assert_eq!(self.violated_laws(Some(final_state)), [law]);
    }
}

fn bury(receipt: &str) -> Action {
    Action::Bury { receipt: receipt.to_owned() }
}

fn touch(receipt: &str) -> Action {
    Action::Touch { receipt: receipt.to_owned(), ttr: TTR }
}

/// A topic that contains only the job `j`.
fn only_job(dead: bool, attempts: u32) -> FinalState {
    let mut final_state = FinalState { counts: (u64::from(!dead), u64::from(dead)), ..FinalState::default() };
    final_state.jobs.insert("j".to_owned(), FinalJob { dead, attempts });
    final_state.dead.extend(dead.then(|| "j".to_owned()));
    final_state
}

#[test]
fn valid_histories_have_no_violations() {
    Script::added().delivered(15, 20, 1).finished(30, 40, "r1", Outcome::Done).assert_valid();
    // A parked poll that was sent before the job, and a reservation that timed out.
    Script::added()
        .delivered(0, 25, 1)
        .delivered(30, 100, 2)
        .finished(50, 60, "r2", Outcome::Done)
        .assert_valid();
    // A worker that is too late, and a finish that is repeated because its response was lost.
    Script::added()
        .delivered(20, 30, 1)
        .finished(130, 140, "r1", Outcome::Refused)
        .delivered(125, 126, 2)
        .finished(150, 160, "r2", Outcome::Unknown)
        .finished(170, 180, "r2", Outcome::Gone)
        .assert_valid();
    let release = Action::Release { receipt: "r1".to_owned(), delay: TTR };
    Script::added()
        .delivered(20, 30, 1)
        .then(40, 50, release, Outcome::Unknown)
        .delivered(41, 45, 2)
        .assert_valid();
    // A delivery at the earliest end of a touched reservation.
    Script::added()
        .delivered(20, 30, 1)
        .then(100, 110, touch("r1"), Outcome::Done)
        .delivered(115, 200, 2)
        .assert_valid();
    let script = Script::added().delivered(20, 30, 1).then(40, 50, bury("r1"), Outcome::Done);
    check(&script.0, Some(&only_job(true, 1))).assert_clean();
}

#[test]
fn jobs_deliveries_and_refusals_are_counted() {
    let script = Script::added()
        .delivered(20, 30, 1)
        .finished(140, 150, "r1", Outcome::Refused)
        .delivered(131, 132, 2)
        .finished(150, 160, "r2", Outcome::Done);
    let verdict = check(&script.0, None);
    let counts =
        (verdict.acknowledged, verdict.gone, verdict.deliveries, verdict.redeliveries, verdict.refused);
    assert_eq!((counts, verdict.late, verdict.violations.len()), ((1, 1, 2, 1, 1), 0, 0));
    let late = Script::added().delivered(20, 30, 1).finished(140, 150, "r1", Outcome::Done);
    assert_eq!(check(&late.0, None).late, 1);
}

#[test]
fn a_lost_job_is_reported() {
    Script::added().assert_final_state_violates(&FinalState::default(), Law::NothingLost);
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 50, "r1", Outcome::Gone)
        .assert_violates(Law::NothingLost);
    // A later call may have deleted the job, but the first response was wrong all the same.
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 50, "r1", Outcome::Gone)
        .then(60, 70, Action::Delete, Outcome::Unknown)
        .assert_violates(Law::NothingLost);
}

#[test]
fn an_invented_job_is_reported() {
    Script(History::new()).delivered(0, 30, 1).assert_violates(Law::NothingInvented);
    Script(History::new()).assert_final_state_violates(&only_job(false, 0), Law::NothingInvented);
}

#[test]
fn an_early_delivery_is_reported() {
    Script::added().delivered(5, 19, 1).assert_violates(Law::NeverEarly);
    Script::added()
        .delivered(20, 30, 1)
        .released(40, 50, "r1", 60)
        .delivered(60, 99, 2)
        .assert_violates(Law::NeverEarly);
}

#[test]
fn a_retry_before_its_step_is_reported() {
    Script::added().delivered(20, 30, 1).failed(40, 1).delivered(50, 89, 2).assert_violates(Law::NeverEarly);
    Script::added().delivered(20, 30, 1).failed(40, 1).delivered(50, 90, 2).assert_valid();
    // The answer came too late: the step follows the end of the TTR.
    let late = || Script::added().delivered(20, 30, 1).failed(150, 1);
    late().delivered(150, 159, 2).assert_violates(Law::NeverEarly);
    late().delivered(150, 160, 2).assert_valid();
}

#[test]
fn a_delivery_before_the_step_of_the_retry_schedule_is_reported() {
    const STEPS: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(70)];
    let added = || {
        let add = Action::Add(Add { retry: &STEPS, ..Add::default() });
        Script(History::new()).then(0, 10, add, Outcome::Done).delivered(20, 30, 1)
    };
    // The TTR is 100 ms.
    added().delivered(30, 159, 2).assert_violates(Law::NeverEarly);
    added().delivered(30, 160, 2).assert_valid();
    let third = || added().delivered(150, 160, 2);
    third().delivered(160, 319, 3).assert_violates(Law::NeverEarly);
    third().delivered(160, 320, 3).assert_valid();
    // The last step repeats.
    let fourth = || third().delivered(310, 320, 3);
    fourth().delivered(320, 479, 4).assert_violates(Law::NeverEarly);
    fourth().delivered(320, 480, 4).assert_valid();
    // A touch moves the end of the reservation; a release, or a change of the due time, replaces the step.
    added()
        .then(100, 110, touch("r1"), Outcome::Done)
        .delivered(120, 239, 2)
        .assert_violates(Law::NeverEarly);
    added().released(40, 50, "r1", 10).delivered(50, 51, 2).assert_valid();
    let released = Action::Release { receipt: "r1".to_owned(), delay: Duration::ZERO };
    added().then(40, 50, released, Outcome::Unknown).delivered(41, 45, 2).assert_valid();
    added().then(121, 122, reschedule(3), Outcome::Done).delivered(123, 124, 2).assert_valid();
}

fn reschedule(delay: u64) -> Action {
    Action::Reschedule { delay: Duration::from_millis(delay) }
}

#[test]
fn a_delivery_before_a_changed_due_time_is_reported() {
    let postponed = |outcome| Script::added().then(12, 15, reschedule(100), outcome);
    postponed(Outcome::Done).delivered(0, 111, 1).assert_violates(Law::NeverEarly);
    postponed(Outcome::Done).delivered(0, 112, 1).assert_valid();
    postponed(Outcome::Refused).delivered(0, 20, 1).assert_valid();
    postponed(Outcome::Unknown).delivered(0, 20, 1).assert_valid();
    // The history does not show which of the two changes was the last one.
    postponed(Outcome::Done)
        .then(13, 20, reschedule(10), Outcome::Unknown)
        .delivered(0, 23, 1)
        .assert_valid();
    let hastened = Script::added().then(12, 13, reschedule(2), Outcome::Done);
    hastened.delivered(13, 14, 1).assert_valid();
    let add = Action::Add(Add { delay: Duration::from_millis(500), max_attempts: 3, ..Add::default() });
    let hastened = Script(History::new()).then(0, 10, add, Outcome::Done);
    let hastened = hastened.then(12, 13, reschedule(2), Outcome::Done);
    hastened.delivered(13, 14, 1).delivered(14, 114, 2).assert_valid();
    let released = || Script::added().delivered(20, 30, 1).released(40, 45, "r1", 60);
    released().then(50, 55, reschedule(10), Outcome::Done).delivered(55, 60, 2).assert_valid();
    released()
        .then(50, 55, reschedule(10), Outcome::Done)
        .delivered(55, 59, 2)
        .assert_violates(Law::NeverEarly);
    // A change before the reservation does not count after it.
    let before = || Script::added().then(10, 12, reschedule(3), Outcome::Done).delivered(13, 15, 1);
    before().released(20, 25, "r1", 60).delivered(25, 79, 2).assert_violates(Law::NeverEarly);
}

fn requeue(delay: u64) -> Action {
    Action::Requeue { delay: Duration::from_millis(delay) }
}

#[test]
fn after_a_requeue_the_attempts_start_again() {
    let buried = || Script::added().delivered(20, 30, 1).then(40, 45, bury("r1"), Outcome::Done);
    let again = || Action::Deliver { receipt: "again".to_owned(), revision: 0, attempt: 1, ttr: TTR };
    let requeued = |outcome| buried().then(50, 60, requeue(20), outcome);
    requeued(Outcome::Done).then(0, 70, again(), Outcome::Done).assert_valid();
    requeued(Outcome::Unknown).then(0, 70, again(), Outcome::Done).assert_valid();
    requeued(Outcome::Done).then(0, 69, again(), Outcome::Done).assert_violates(Law::NeverEarly);
    requeued(Outcome::Unknown).then(0, 69, again(), Outcome::Done).assert_violates(Law::NeverEarly);
    requeued(Outcome::Refused).then(0, 70, again(), Outcome::Done).assert_violates(Law::Attempts);
    requeued(Outcome::Done)
        .then(0, 70, again(), Outcome::Done)
        .finished(80, 85, "r1", Outcome::Done)
        .assert_violates_among_others(Law::StaleReceipt);
    check(&requeued(Outcome::Done).0, Some(&only_job(false, 0))).assert_clean();
    check(&requeued(Outcome::Unknown).0, Some(&only_job(true, 1))).assert_clean();
    requeued(Outcome::Done).assert_final_state_violates(&only_job(true, 1), Law::DeadLetters);
}

#[test]
fn two_holders_at_a_time_are_reported() {
    Script::added().delivered(20, 30, 1).delivered(40, 119, 2).assert_violates(Law::OneHolder);
    Script::added()
        .delivered(20, 30, 1)
        .then(100, 110, touch("r1"), Outcome::Done)
        .delivered(115, 199, 2)
        .assert_violates(Law::OneHolder);
    // The end of the second reservation does not shorten the first one.
    Script::added()
        .delivered(20, 90, 1)
        .delivered(60, 119, 2)
        .finished(119, 119, "r2", Outcome::Done)
        .assert_violates(Law::OneHolder);
}

#[test]
fn a_refusal_during_the_reservation_is_reported() {
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 119, "r1", Outcome::Refused)
        .assert_violates(Law::OneHolder);
    Script::added()
        .delivered(20, 30, 1)
        .then(40, 50, touch("r1"), Outcome::Refused)
        .assert_violates(Law::OneHolder);
}

#[test]
fn an_accepted_stale_receipt_is_reported() {
    let again = || Script::added().delivered(20, 30, 1).delivered(125, 130, 2);
    again().finished(140, 150, "r1", Outcome::Done).assert_violates_among_others(Law::StaleReceipt);
    again().then(140, 150, touch("r1"), Outcome::Done).assert_violates_among_others(Law::StaleReceipt);
    again().then(140, 150, bury("r1"), Outcome::Done).assert_violates(Law::StaleReceipt);
    Script::added()
        .delivered(20, 30, 1)
        .released(40, 50, "r1", 0)
        .finished(60, 70, "r1", Outcome::Done)
        .assert_violates(Law::StaleReceipt);
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 50, "r9", Outcome::Done)
        .assert_violates(Law::StaleReceipt);
    // A finish after the TTR, which ends at 120 or later, is none, unless the job was changed before.
    let timed_out = || Script::added().delivered(20, 30, 1);
    assert_eq!(timed_out().finished(140, 150, "r1", Outcome::Done).violated_laws(None), []);
    timed_out()
        .then(131, 139, reschedule(0), Outcome::Done)
        .finished(140, 150, "r1", Outcome::Done)
        .assert_violates_among_others(Law::StaleReceipt);
}

impl Script {
    /// For histories that violate other laws too, as a stale receipt does that finishes or touches the job.
    #[track_caller]
    fn assert_violates_among_others(&self, law: Law) {
        assert!(self.violated_laws(None).contains(&law), "{:?}", self.violated_laws(None));
    }

    #[track_caller]
    fn assert_final_state_violates_among_others(&self, final_state: &FinalState, law: Law) {
        let laws = self.violated_laws(Some(final_state));
        assert!(laws.contains(&law), "{laws:?}");
    }
}

#[test]
fn a_removed_job_that_appears_again_is_reported() {
    let removed = || Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Outcome::Done);
    removed().delivered(60, 70, 2).assert_violates(Law::GoneStaysGone);
    // The same for a poll that was parked before the removal.
    removed().delivered(20, 70, 2).assert_violates(Law::GoneStaysGone);
    removed().then(60, 70, Action::Delete, Outcome::Done).assert_violates(Law::GoneStaysGone);
    removed().then(60, 70, touch("r1"), Outcome::Done).assert_violates_among_others(Law::GoneStaysGone);
    removed().assert_final_state_violates(&only_job(false, 1), Law::GoneStaysGone);
    Script::added()
        .then(20, 30, Action::Delete, Outcome::Done)
        .delivered(40, 50, 1)
        .assert_violates(Law::GoneStaysGone);
}

#[test]
fn a_job_that_a_read_did_not_find_and_that_appears_again_is_reported() {
    let finished = || Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Outcome::Unknown);
    let missed = || finished().then(60, 70, Action::Read, Outcome::Gone);
    missed().assert_valid();
    finished().delivered(125, 130, 2).assert_valid();
    missed().delivered(125, 130, 2).assert_violates(Law::GoneStaysGone);
    Script::added()
        .delivered(20, 30, 1)
        .then(60, 70, Action::Read, Outcome::Gone)
        .assert_violates(Law::NothingLost);
}

#[test]
fn a_stale_finish_does_not_explain_a_missing_job() {
    let stale = |sent| {
        let script = Script::added().delivered(20, 30, 1).delivered(125, 130, 2);
        script.finished(sent, sent + 10, "r1", Outcome::Unknown)
    };
    stale(130).assert_final_state_violates(&FinalState::default(), Law::NothingLost);
    assert_eq!(stale(129).violated_laws(Some(&FinalState::default())), []);
}

#[test]
fn wrong_attempts_are_reported() {
    Script::added().delivered(20, 30, 4).assert_violates(Law::Attempts);
    Script::added().delivered(20, 30, 0).assert_violates(Law::Attempts);
    Script::added().delivered(20, 30, 2).delivered(140, 150, 2).assert_violates(Law::Attempts);
    Script::added().delivered(20, 30, 2).delivered(140, 150, 1).assert_violates_among_others(Law::Attempts);
    let mut final_state = only_job(true, 4);
    Script::added().assert_final_state_violates(&final_state, Law::Attempts);
    final_state.jobs.insert("j".to_owned(), FinalJob { dead: true, attempts: 3 });
    check(&Script::added().0, Some(&final_state)).assert_clean();
}

#[test]
fn wrong_dead_letters_are_reported() {
    Script::added().delivered(20, 30, 1).assert_final_state_violates(&only_job(true, 1), Law::DeadLetters);
    let buried = || Script::added().delivered(20, 30, 1).then(40, 50, bury("r1"), Outcome::Done);
    buried().assert_final_state_violates(&only_job(false, 1), Law::DeadLetters);
    let used_up = Script::added().delivered(20, 30, 3).released(40, 50, "r3", 0);
    used_up.assert_final_state_violates(&only_job(false, 3), Law::DeadLetters);
    let failed = Script::added().delivered(20, 30, 3).failed(40, 3);
    failed.assert_final_state_violates(&only_job(false, 3), Law::DeadLetters);
    let unlisted = FinalState { dead: Default::default(), ..only_job(true, 1) };
    buried().assert_final_state_violates(&unlisted, Law::DeadLetters);
    let mut listed_only = only_job(true, 1);
    listed_only.jobs.clear();
    listed_only.counts = (0, 0);
    assert!(buried().violated_laws(Some(&listed_only)).contains(&Law::DeadLetters));
}

#[test]
fn wrong_counts_are_reported() {
    let final_state = FinalState { counts: (0, 1), ..only_job(false, 0) };
    Script::added().assert_final_state_violates(&final_state, Law::Counts);
}
