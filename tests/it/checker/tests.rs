//! Broken histories that the checker must reject, one by one, and sound ones that it must not.

use std::time::Duration;

use super::{Act, Event, History, Law, Rest, Resting, Said, check};

const TTR: Duration = Duration::from_millis(100);

/// A history of one job `j`, written down by milliseconds.
struct Script(History);

impl Script {
    /// An add, acknowledged at 10 ms, of a job due at 20 ms that may be tried three times.
    fn added() -> Self {
        let add = Act::Add { delay: Duration::from_millis(20), max_attempts: 3 };
        Self(History::new()).then(0, 10, add, Said::Done)
    }

    fn then(self, sent: u64, answered: u64, act: Act, said: Said) -> Self {
        let [sent, answered] = [sent, answered].map(Duration::from_millis);
        self.0.push(Event { job: "j".to_owned(), sent, answered, act, said });
        self
    }

    /// A delivery as attempt `attempt`, with the receipt `r<attempt>`.
    fn delivered(self, sent: u64, answered: u64, attempt: u32) -> Self {
        let receipt = format!("r{attempt}");
        self.then(sent, answered, Act::Deliver { receipt, attempt, ttr: TTR }, Said::Done)
    }

    fn finished(self, sent: u64, answered: u64, receipt: &str, said: Said) -> Self {
        self.then(sent, answered, Act::Finish { receipt: receipt.to_owned() }, said)
    }

    fn released(self, sent: u64, answered: u64, receipt: &str, delay: u64) -> Self {
        let delay = Duration::from_millis(delay);
        self.then(sent, answered, Act::Release { receipt: receipt.to_owned(), delay }, Said::Done)
    }

    fn broken(&self, rest: Option<&Rest>) -> Vec<Law> {
        let mut laws: Vec<Law> = check(&self.0, rest).violations.iter().map(|broken| broken.law).collect();
        laws.dedup();
        laws
    }

    #[track_caller]
    fn is_sound(&self) {
        check(&self.0, None).assert_clean();
    }

    #[track_caller]
    fn breaks(&self, law: Law) {
        assert_eq!(self.broken(None), [law]);
    }

    #[track_caller]
    fn at_rest_breaks(&self, rest: &Rest, law: Law) {
        assert_eq!(self.broken(Some(rest)), [law]);
    }
}

fn bury(receipt: &str) -> Act {
    Act::Bury { receipt: receipt.to_owned() }
}

fn touch(receipt: &str) -> Act {
    Act::Touch { receipt: receipt.to_owned(), ttr: TTR }
}

/// The job `j` in the topic, alone.
fn resting(dead: bool, attempts: u32) -> Rest {
    let mut rest = Rest { counts: (u64::from(!dead), u64::from(dead)), ..Rest::default() };
    rest.jobs.insert("j".to_owned(), Resting { dead, attempts });
    rest.dead.extend(dead.then(|| "j".to_owned()));
    rest
}

#[test]
fn sound_histories_are_sound() {
    Script::added().delivered(15, 20, 1).finished(30, 40, "r1", Said::Done).is_sound();
    // A parked poll that was sent before the job, and an expired reservation.
    Script::added().delivered(0, 25, 1).delivered(30, 100, 2).finished(50, 60, "r2", Said::Done).is_sound();
    // A worker too late, a repeat after a cut connection, a release that nobody answered.
    Script::added()
        .delivered(20, 30, 1)
        .finished(130, 140, "r1", Said::Refused)
        .delivered(125, 126, 2)
        .finished(150, 160, "r2", Said::Unknown)
        .finished(170, 180, "r2", Said::Gone)
        .is_sound();
    let release = Act::Release { receipt: "r1".to_owned(), delay: TTR };
    Script::added().delivered(20, 30, 1).then(40, 50, release, Said::Unknown).delivered(41, 45, 2).is_sound();
    // The last moment of a touched reservation.
    Script::added()
        .delivered(20, 30, 1)
        .then(100, 110, touch("r1"), Said::Done)
        .delivered(115, 200, 2)
        .is_sound();
    let script = Script::added().delivered(20, 30, 1).then(40, 50, bury("r1"), Said::Done);
    check(&script.0, Some(&resting(true, 1))).assert_clean();
}

#[test]
fn figures_are_counted() {
    let script = Script::added()
        .delivered(20, 30, 1)
        .finished(140, 150, "r1", Said::Refused)
        .delivered(131, 132, 2)
        .finished(150, 160, "r2", Said::Done);
    let verdict = check(&script.0, None);
    let figures = (verdict.acknowledged, verdict.gone, verdict.deliveries, verdict.again, verdict.refused);
    assert_eq!((figures, verdict.violations.len()), ((1, 1, 2, 1, 1), 0));
}

#[test]
fn a_lost_job_is_seen() {
    Script::added().at_rest_breaks(&Rest::default(), Law::NothingLost);
    Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Said::Gone).breaks(Law::NothingLost);
    // Deleted by a call that came later: the first answer was false all the same.
    Script::added()
        .delivered(20, 30, 1)
        .finished(40, 50, "r1", Said::Gone)
        .then(60, 70, Act::Delete, Said::Unknown)
        .breaks(Law::NothingLost);
}

#[test]
fn an_invented_job_is_seen() {
    Script(History::new()).delivered(0, 30, 1).breaks(Law::NothingInvented);
    Script(History::new()).at_rest_breaks(&resting(false, 0), Law::NothingInvented);
}

#[test]
fn an_early_delivery_is_seen() {
    Script::added().delivered(5, 19, 1).breaks(Law::NeverEarly);
    Script::added()
        .delivered(20, 30, 1)
        .released(40, 50, "r1", 60)
        .delivered(60, 99, 2)
        .breaks(Law::NeverEarly);
}

#[test]
fn two_holders_are_seen() {
    Script::added().delivered(20, 30, 1).delivered(40, 119, 2).breaks(Law::OneHolder);
    Script::added()
        .delivered(20, 30, 1)
        .then(100, 110, touch("r1"), Said::Done)
        .delivered(115, 199, 2)
        .breaks(Law::OneHolder);
    // The first holder's time is not shortened by the second's end.
    Script::added()
        .delivered(20, 90, 1)
        .delivered(60, 119, 2)
        .finished(119, 119, "r2", Said::Done)
        .breaks(Law::OneHolder);
}

#[test]
fn a_holder_refused_in_its_time_is_seen() {
    Script::added().delivered(20, 30, 1).finished(40, 119, "r1", Said::Refused).breaks(Law::OneHolder);
    Script::added().delivered(20, 30, 1).then(40, 50, touch("r1"), Said::Refused).breaks(Law::OneHolder);
}

#[test]
fn a_stale_receipt_that_works_is_seen() {
    let again = || Script::added().delivered(20, 30, 1).delivered(125, 130, 2);
    again().finished(140, 150, "r1", Said::Done).breaks_first(Law::StaleReceipt);
    again().then(140, 150, touch("r1"), Said::Done).breaks_first(Law::StaleReceipt);
    again().then(140, 150, bury("r1"), Said::Done).breaks(Law::StaleReceipt);
    Script::added()
        .delivered(20, 30, 1)
        .released(40, 50, "r1", 0)
        .finished(60, 70, "r1", Said::Done)
        .breaks(Law::StaleReceipt);
    Script::added().delivered(20, 30, 1).finished(40, 50, "r9", Said::Done).breaks(Law::StaleReceipt);
}

impl Script {
    /// A stale receipt that finishes or holds the job breaks other laws besides.
    #[track_caller]
    fn breaks_first(&self, law: Law) {
        assert!(self.broken(None).contains(&law), "{:?}", self.broken(None));
    }
}

#[test]
fn a_job_that_comes_back_is_seen() {
    let gone = || Script::added().delivered(20, 30, 1).finished(40, 50, "r1", Said::Done);
    gone().delivered(60, 70, 2).breaks(Law::GoneStaysGone);
    // Also for a poll that was parked before.
    gone().delivered(20, 70, 2).breaks(Law::GoneStaysGone);
    gone().then(60, 70, Act::Delete, Said::Done).breaks(Law::GoneStaysGone);
    gone().then(60, 70, touch("r1"), Said::Done).breaks_first(Law::GoneStaysGone);
    gone().at_rest_breaks(&resting(false, 1), Law::GoneStaysGone);
    Script::added().then(20, 30, Act::Delete, Said::Done).delivered(40, 50, 1).breaks(Law::GoneStaysGone);
}

#[test]
fn wrong_attempts_are_seen() {
    Script::added().delivered(20, 30, 4).breaks(Law::Attempts);
    Script::added().delivered(20, 30, 0).breaks(Law::Attempts);
    Script::added().delivered(20, 30, 2).delivered(140, 150, 2).breaks(Law::Attempts);
    Script::added().delivered(20, 30, 2).delivered(140, 150, 1).breaks_first(Law::Attempts);
    let mut rest = resting(true, 4);
    Script::added().at_rest_breaks(&rest, Law::Attempts);
    rest.jobs.insert("j".to_owned(), Resting { dead: true, attempts: 3 });
    check(&Script::added().0, Some(&rest)).assert_clean();
}

#[test]
fn wrong_dead_letters_are_seen() {
    Script::added().delivered(20, 30, 1).at_rest_breaks(&resting(true, 1), Law::DeadLetters);
    let buried = || Script::added().delivered(20, 30, 1).then(40, 50, bury("r1"), Said::Done);
    buried().at_rest_breaks(&resting(false, 1), Law::DeadLetters);
    let used_up = Script::added().delivered(20, 30, 3).released(40, 50, "r3", 0);
    used_up.at_rest_breaks(&resting(false, 3), Law::DeadLetters);
    let unlisted = Rest { dead: Default::default(), ..resting(true, 1) };
    buried().at_rest_breaks(&unlisted, Law::DeadLetters);
    let mut twice = resting(true, 1);
    twice.jobs.clear();
    twice.counts = (0, 0);
    assert!(buried().broken(Some(&twice)).contains(&Law::DeadLetters));
}

#[test]
fn wrong_counts_are_seen() {
    let rest = Rest { counts: (0, 1), ..resting(false, 0) };
    Script::added().at_rest_breaks(&rest, Law::Counts);
}

/// An add that is answered 503 at 60 ms, after its job was finished, and is then sent again.
fn added_in_doubt() -> Script {
    let add = Act::Add { delay: Duration::ZERO, max_attempts: 0 };
    let first = Script(History::new()).then(0, 60, add, Said::Unknown);
    first.delivered(10, 20, 1).finished(30, 40, "r1", Said::Done)
}

/// A delivery as attempt 1 with the receipt `again`, and its finish.
fn second_life(script: Script) -> Script {
    let deliver = Act::Deliver { receipt: "again".to_owned(), attempt: 1, ttr: TTR };
    script.then(80, 85, deliver, Said::Done).finished(90, 95, "again", Said::Done)
}

#[test]
fn an_add_that_is_sent_again_may_begin_a_second_life() {
    let add = || Act::Add { delay: Duration::ZERO, max_attempts: 0 };
    second_life(added_in_doubt().then(61, 70, add(), Said::Done)).is_sound();
    added_in_doubt().then(61, 70, add(), Said::Done).is_sound();
    assert_eq!(added_in_doubt().then(61, 70, add(), Said::Done).broken(Some(&resting(false, 0))), []);
}

#[test]
fn each_call_of_an_add_begins_one_life() {
    let laws = [Law::Attempts, Law::GoneStaysGone];
    assert_eq!(second_life(added_in_doubt()).broken(None), laws, "the add was sent once");
    let add = || Act::Add { delay: Duration::ZERO, max_attempts: 0 };
    let before = Script(History::new()).then(0, 4, add(), Said::Unknown).then(5, 9, add(), Said::Done);
    let before = before.delivered(10, 20, 1).finished(30, 40, "r1", Said::Done);
    assert_eq!(second_life(before).broken(None), laws, "both adds were answered before the end");
    let third = second_life(added_in_doubt().then(61, 70, add(), Said::Done));
    let deliver = Act::Deliver { receipt: "third".to_owned(), attempt: 1, ttr: TTR };
    assert_eq!(third.then(100, 105, deliver, Said::Done).broken(None), laws, "two adds, three lives");
}
