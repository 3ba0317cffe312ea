//! Failovers behind Sentinel, of the source or the target, beside its servers and in the last run.

use super::{
    JOBS, LAST, Middle, Mover, OTHER_JOBS, Producer, REPLACED_AFTER_MS, SOURCE, Setup, assert_explained,
    assert_moved_whole, fill, standalone,
};
use crate::harness::{
    redis::{fresh_prefix, shared},
    resp::until,
    sentinel::Sentinels,
};

/// Every replica must receive a change before it is acknowledged, so that no failover loses it.
const EVERY_REPLICA: &str = "wait_replicas = 2\nwait_timeout = '3s'\n";
/// Makes a server refuse writes that no replica would receive.
const REFUSE_WITHOUT_REPLICAS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

/// Starts Redis behind Sentinel, whose primary is replaced only in [`wait_until_replaced`].
pub fn start_sentinels(arguments: &[&str]) -> Sentinels {
    let sentinels = Sentinels::start(arguments);
    sentinels.set_down_after(REPLACED_AFTER_MS[1]);
    sentinels
}

/// Waits until another server has taken over from a primary that does not answer.
pub fn wait_until_replaced(sentinels: &Sentinels, primary: usize) {
    sentinels.set_down_after(REPLACED_AFTER_MS[0]);
    assert!(until(|| sentinels.primary() != primary), "no server took over from {primary}");
    sentinels.set_down_after(REPLACED_AFTER_MS[1]);
}

/// What happens to the primary while a mover is stopped in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is killed, and the mover goes on at once: it meets the failover.
    KilledAsItGoesOn,
    /// It is killed, and the mover goes on once another server has taken over.
    Killed,
    /// It is stopped until another server has taken over. Then it goes on together with the mover, as a primary until
    /// Sentinel makes it a replica.
    Stopped,
}

/// Takes the primary away while a mover is in the middle, and waits for the end of the run.
fn fail_over(mover: Mover, sentinels: &Sentinels, middle: &Middle<'_>, fault: Fault) {
    mover.suspend_in(middle);
    let number = sentinels.primary();
    let primary = &sentinels.servers[number];
    if fault == Fault::Stopped {
        primary.pause()
    } else {
        primary.kill()
    }
    if fault == Fault::KilledAsItGoesOn {
        mover.resume();
    }
    wait_until_replaced(sentinels, number);
    if fault == Fault::Stopped {
        primary.resume();
    }
    mover.resume();
    assert_explained(mover.wait());
    if fault != Fault::Stopped {
        primary.restart();
    }
    sentinels.wait_until_healthy();
}

/// Moves a store behind Sentinel to another Redis, while its server keeps running. The primary of the store is lost
/// in a pass, and in the last one.
fn fail_over_the_source([in_pass, in_last]: [Fault; 2]) {
    let sentinels = start_sentinels(&REFUSE_WITHOUT_REPLICAS);
    let (proxy, target, prefix) = standalone();
    let setup = Setup::new(&(sentinels.settings(&fresh_prefix()) + EVERY_REPLICA), &target);
    let server = setup.serve(SOURCE);
    fill(&server, "job", JOBS);
    let producer = Producer::start(&server);
    let middle = || Middle::plan(&proxy, vec![shared().address()], &prefix);
    let in_middle = middle();
    fail_over(setup.start(&[]), &sentinels, &in_middle, in_pass);
    fill(&server, "more", JOBS);
    let in_middle = middle();
    fail_over(setup.start(&LAST), &sentinels, &in_middle, in_last);
    setup.run(&LAST);
    assert_moved_whole(&setup, server, producer);
}

#[test]
fn a_source_that_fails_over_during_each_run_is_moved_whole() {
    fail_over_the_source([Fault::Killed, Fault::KilledAsItGoesOn]);
}

#[test]
fn a_source_with_two_primaries_during_the_last_run_is_moved_whole() {
    fail_over_the_source([Fault::KilledAsItGoesOn, Fault::Stopped]);
}

/// Moves a store from another Redis behind Sentinel, with the default settings, under which Redis may lose what was
/// copied last. The primary is lost in a pass, and in the last one.
fn fail_over_the_target([in_pass, in_last]: [Fault; 2]) {
    let sentinels = start_sentinels(&[]);
    let ((proxy, source, _), prefix) = (standalone(), fresh_prefix());
    let setup = Setup::new(&source, &sentinels.settings(&prefix));
    let server = setup.serve(SOURCE);
    fill(&server, "job", JOBS);
    let producer = Producer::start(&server);
    let middle = || Middle::plan(&proxy, vec![sentinels.servers[sentinels.primary()].address()], &prefix);
    let in_middle = middle();
    fail_over(setup.start(&[]), &sentinels, &in_middle, in_pass);
    fill(&server, "more", JOBS);
    let acknowledged = producer.end();
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    assert_eq!(content.jobs.len(), 2 * (JOBS + OTHER_JOBS) + acknowledged.len());
    let in_middle = middle();
    fail_over(setup.start(&LAST), &sentinels, &in_middle, in_last);
    setup.run(&LAST);
    setup.assert_moved(&content);
}

#[test]
fn a_target_that_fails_over_during_each_run_receives_all_jobs() {
    fail_over_the_target([Fault::Stopped, Fault::KilledAsItGoesOn]);
}
