//! Attempts on a clock of their own.

use super::*;

const LIMITS: Limits = Limits {
    timeout: Duration::from_secs(3_600),
    kill_after: Duration::from_secs(10),
    on_lost: OnLost::Kill,
};

const MINUTE: Duration = Duration::from_secs(60);

fn second(second: u64) -> BootTime {
    ms(second * 1_000)
}

fn ms(ms: u64) -> BootTime {
    BootTime::since_boot(Duration::from_millis(ms))
}

/// An attempt that started at second 0 under a lease of a minute.
fn started(limits: Limits) -> Attempt {
    let mut attempt = Attempt::new(MINUTE, second(0), second(0), limits);
    assert_eq!(attempt.next(second(0)), Step::Start);
    attempt
}

/// When the heartbeat is due that the attempt asks for.
fn heartbeat_due(attempt: &mut Attempt, now: BootTime) -> BootTime {
    match attempt.next(now) {
        Step::AskForHeartbeat(time) => time.due,
        other => panic!("{other:?}"),
    }
}

/// The same attempt once it has asked for its first heartbeat.
fn beating(limits: Limits) -> Attempt {
    let mut attempt = started(limits);
    assert_eq!(heartbeat_due(&mut attempt, second(0)), second(20));
    attempt
}

fn ended(verdict: Verdict, what: &str) -> Ended {
    Ended { verdict, what: what.to_owned(), detail: Some("psp timeout".to_owned()) }
}

fn release(delay: Option<u64>, reason: &str) -> Report {
    Report::Release { delay: delay.map(Duration::from_secs), reason: reason.to_owned() }
}

#[test]
fn a_heartbeat_follows_each_third_of_the_lease_from_when_the_last_one_was_sent() {
    let mut attempt = beating(LIMITS);
    for round in 1..100 {
        let due = second(20 * round);
        assert_eq!(attempt.next(due), Step::Wait(second(20 * round + 34)));
        // Its answer took five seconds, which do not count.
        attempt.heartbeat_succeeded(due);
        let (early, next) = (second(20 * round + 10), second(20 * round + 20));
        let asked = Step::AskForHeartbeat(HeartbeatTime { early, due: next });
        assert_eq!(attempt.next(due + Duration::from_secs(5)), asked);
    }
    assert_eq!(attempt.report(Some(&ended(Verdict::Done, "exit 0"))), Some(Report::Finish));
}

#[test]
fn a_job_without_heartbeats_is_over_before_its_lease() {
    let mut attempt = beating(LIMITS);
    for tried in [20, 26, 34, 42, 50] {
        attempt.heartbeat_failed(second(tried + 2));
        assert_eq!(heartbeat_due(&mut attempt, second(tried + 2)), second(tried + 4), "two seconds later");
    }
    assert_eq!(attempt.next(second(54)), Step::Terminate);
    assert_eq!(attempt.next(second(54)), Step::Wait(ms(59_750)), "no more heartbeats");
    assert_eq!(attempt.next(ms(59_750)), Step::Kill);
    assert!(attempt.is_lost());
    for verdict in [Verdict::Done, Verdict::Failed, Verdict::Unacceptable] {
        assert_eq!(attempt.report(Some(&ended(verdict, "exit 0"))), None);
    }
}

#[test]
fn a_late_answer_does_not_bring_a_lost_lease_back() {
    let mut attempt = beating(LIMITS);
    assert_eq!(attempt.next(second(54)), Step::Terminate);
    attempt.lease_timed_out(second(54));
    attempt.heartbeat_succeeded(second(53));
    assert!(attempt.is_lost());
    assert_eq!(attempt.next(ms(59_750)), Step::Kill);
}

/// An attempt whose process was stopped beyond the end of its lease, and goes on at second 90. The heartbeat that it has asked for
/// may have been sent before.
fn stopped(limits: Limits) -> Attempt {
    let mut attempt = beating(limits);
    assert_eq!(heartbeat_due(&mut attempt, second(90)), second(90), "it asks first");
    assert_eq!(attempt.next(second(90)), Step::Wait(second(96)));
    attempt
}

#[test]
fn a_stopped_process_whose_job_was_taken_ends_it_when_it_goes_on() {
    let mut taken = stopped(LIMITS);
    taken.lease_is_gone(second(91));
    assert_eq!(taken.next(second(91)), Step::Terminate);
    assert_eq!(taken.next(second(91)), Step::Kill, "at once: its lease is over");
    // A heartbeat was under way, and failed when the process went on.
    let mut failed = beating(LIMITS);
    failed.heartbeat_failed(second(90));
    assert_eq!(heartbeat_due(&mut failed, second(90)), second(90));
    assert_eq!(failed.next(second(95)), Step::Wait(second(96)));
    assert_eq!(failed.next(second(96)), Step::Terminate);
    // It succeeded, but too long ago.
    let mut renewed = beating(LIMITS);
    renewed.heartbeat_succeeded(second(20));
    assert_eq!(heartbeat_due(&mut renewed, second(90)), second(90));
    assert_eq!(renewed.next(second(96)), Step::Terminate);
    let mut unanswered = stopped(LIMITS);
    unanswered.heartbeat_failed(second(92));
    assert_eq!(heartbeat_due(&mut unanswered, second(92)), second(94));
    assert_eq!(unanswered.next(second(94)), Step::Wait(second(96)));
    assert_eq!(unanswered.next(second(96)), Step::Terminate);
    assert_eq!(unanswered.next(second(96)), Step::Kill);
}

#[test]
fn a_job_that_only_timed_out_goes_on_until_another_worker_has_it_or_its_time_is_over() {
    for on_lost in [OnLost::Kill, OnLost::Keep] {
        let mut attempt = stopped(Limits { on_lost, ..LIMITS });
        attempt.lease_timed_out(second(91));
        assert!(!attempt.is_lost());
        assert_eq!(heartbeat_due(&mut attempt, second(91)), second(93), "it asks every two seconds");
        attempt.heartbeat_failed(second(99));
        assert_eq!(heartbeat_due(&mut attempt, second(99)), second(101), "nothing is new");
        assert_eq!(attempt.next(second(99)), Step::Wait(second(3_600)));
        assert_eq!(attempt.report(Some(&ended(Verdict::Done, "exit 0"))), Some(Report::Finish));
        let mut overdue = stopped(Limits { on_lost, timeout: Duration::from_secs(100), ..LIMITS });
        overdue.lease_timed_out(second(91));
        assert_eq!(heartbeat_due(&mut overdue, second(91)), second(93));
        assert_eq!(overdue.next(second(91)), Step::Wait(second(100)));
        assert_eq!(overdue.next(second(100)), Step::Terminate);
        attempt.lease_is_gone(second(101));
        match on_lost {
            OnLost::Kill => assert_eq!(attempt.next(second(101)), Step::Terminate),
            OnLost::Keep => assert_eq!(attempt.next(second(101)), Step::Wait(second(3_600))),
        }
    }
}

#[test]
fn a_job_that_was_taken_back_is_ended_within_kill_after() {
    let mut attempt = started(LIMITS);
    attempt.lease_is_gone(second(20));
    assert_eq!(attempt.next(second(20)), Step::Terminate);
    assert_eq!(attempt.next(second(20)), Step::Wait(second(30)));
    assert_eq!(attempt.next(second(30)), Step::Kill);
    assert_eq!(attempt.report(Some(&ended(Verdict::Done, "exit 0"))), None);
}

#[test]
fn a_job_that_was_replaced_gives_way_once_it_has_ended() {
    let done = ended(Verdict::Done, "exit 0");
    let release = Report::Release { delay: Some(Duration::ZERO), reason: "replaced".to_owned() };
    let mut attempt = started(LIMITS);
    attempt.job_was_replaced(second(20));
    assert_eq!(attempt.next(second(20)), Step::Terminate);
    assert_eq!((attempt.report(Some(&done)), attempt.gives_way()), (None, Some(release)));
    // Otherwise a finish ends the reservation.
    let mut kept = started(Limits { on_lost: OnLost::Keep, ..LIMITS });
    kept.job_was_replaced(second(20));
    assert_eq!((kept.report(Some(&done)), kept.gives_way()), (Some(Report::Finish), None));
    let mut taken = started(LIMITS);
    taken.lease_is_gone(second(20));
    assert_eq!(taken.gives_way(), None);
}

#[test]
fn a_lost_job_may_be_kept_and_then_still_tries_to_finish() {
    let limits = Limits { on_lost: OnLost::Keep, ..LIMITS };
    let mut attempt = beating(limits);
    assert_eq!(attempt.next(second(54)), Step::Wait(second(3_600)));
    attempt.heartbeat_failed(second(68));
    assert_eq!(heartbeat_due(&mut attempt, second(68)), second(70), "also after its end");
    attempt.heartbeat_succeeded(second(70));
    assert_eq!(heartbeat_due(&mut attempt, second(71)), second(90), "it may be there after all");
    assert_eq!(attempt.next(second(71)), Step::Wait(second(124)));
    attempt.lease_is_gone(second(90));
    assert_eq!(attempt.next(second(200)), Step::Wait(second(3_600)), "no more heartbeats");
    assert_eq!(attempt.report(Some(&ended(Verdict::Done, "exit 0"))), Some(Report::Finish));
}

#[test]
fn a_job_over_its_time_is_terminated_killed_and_released_whatever_it_exits_with() {
    let mut attempt = beating(Limits { timeout: Duration::from_secs(5), ..LIMITS });
    assert_eq!(attempt.next(second(4)), Step::Wait(second(5)));
    assert_eq!(attempt.next(second(5)), Step::Terminate);
    assert_eq!(attempt.next(second(5)), Step::Wait(second(15)));
    assert_eq!(attempt.next(second(15)), Step::Kill);
    attempt.heartbeat_succeeded(second(14));
    assert_eq!(heartbeat_due(&mut attempt, second(15)), second(34), "the lease is held until it is gone");
    let report = attempt.report(Some(&ended(Verdict::Done, "exit 0")));
    assert_eq!(report, Some(release(None, "timed out after 5s: psp timeout")));
}

#[test]
fn a_lease_that_is_lost_while_a_job_ends_hastens_its_end() {
    let limits = Limits { timeout: Duration::from_secs(50), kill_after: MINUTE, ..LIMITS };
    let mut attempt = beating(limits);
    assert_eq!(attempt.next(second(50)), Step::Terminate);
    assert_eq!(attempt.next(second(50)), Step::Wait(second(54)));
    assert_eq!(attempt.next(second(54)), Step::Wait(ms(59_750)));
    assert_eq!(attempt.next(ms(59_750)), Step::Kill);
    assert_eq!(attempt.report(Some(&ended(Verdict::Failed, "exit 143"))), None);
}

#[test]
fn the_end_of_the_worker_releases_a_running_job_at_once() {
    let mut attempt = beating(LIMITS);
    attempt.stop(Stop::Terminate, second(5));
    attempt.stop(Stop::Terminate, second(6));
    assert_eq!(attempt.next(second(6)), Step::Terminate);
    assert_eq!(attempt.next(second(6)), Step::Wait(second(15)));
    attempt.stop(Stop::Kill, second(7));
    assert_eq!(attempt.next(second(7)), Step::Kill);
    let report = attempt.report(Some(&ended(Verdict::Done, "exit 0")));
    assert_eq!(report, Some(release(Some(0), "the worker ended: psp timeout")));
    attempt.stop(Stop::Abandon, second(8));
    assert_eq!(attempt.next(second(8)), Step::Abandon);
}

#[test]
fn an_end_of_its_own_is_reported_by_its_worth() {
    let attempt = started(LIMITS);
    let bury = Report::Bury { reason: "exit 65: psp timeout".to_owned() };
    for (verdict, what, report) in [
        (Verdict::Done, "exit 0", Report::Finish),
        (Verdict::Unacceptable, "exit 65", bury),
        (Verdict::Failed, "exit 1", release(None, "exit 1: psp timeout")),
        (Verdict::Broken, "exit 127", release(None, "exit 127: psp timeout")),
    ] {
        assert_eq!(attempt.report(Some(&ended(verdict, what))), Some(report));
    }
}

#[test]
fn a_job_that_may_have_been_on_the_way_for_long_is_confirmed_before_it_starts() {
    let mut attempt = Attempt::new(MINUTE, second(0), second(25), LIMITS);
    assert_eq!(heartbeat_due(&mut attempt, second(25)), second(20), "at once");
    assert_eq!(attempt.next(second(26)), Step::Wait(second(85)));
    attempt.heartbeat_failed(second(27));
    assert_eq!(heartbeat_due(&mut attempt, second(27)), second(29));
    attempt.heartbeat_succeeded(second(29));
    assert_eq!(attempt.next(second(30)), Step::Start);
    assert_eq!(heartbeat_due(&mut attempt, second(30)), second(49));
}

#[test]
fn a_job_that_is_lost_before_its_start_is_not_started() {
    let arrived = || Attempt::new(MINUTE, second(0), second(25), LIMITS);
    let mut taken_back = arrived();
    taken_back.lease_is_gone(second(26));
    assert_eq!((taken_back.next(second(26)), taken_back.report(None)), (Step::Skip, None));
    let mut timed_out = arrived();
    timed_out.lease_timed_out(second(26));
    assert_eq!((timed_out.next(second(26)), timed_out.report(None)), (Step::Skip, None));
    let mut unconfirmed = arrived();
    assert_eq!((unconfirmed.next(second(85)), unconfirmed.report(None)), (Step::Skip, None));
    let mut draining = arrived();
    draining.stop(Stop::Terminate, second(26));
    assert_eq!(draining.next(second(26)), Step::Skip);
    assert_eq!(draining.report(None), Some(release(Some(0), "the worker ended")));
}
