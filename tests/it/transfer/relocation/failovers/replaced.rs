//! A primary that is replaced between two calls of the command, so that no call fails: what was compared, and how far a list
//! was read, counts no more.

use super::{
    JOBS, LAST, MOVE, OTHER_JOBS, SOURCE, Setup, fill, jobs_in,
    sentinel::{start_sentinels, wait_until_replaced},
    standalone,
    unreplicated::{
        LONG_RETRY, LONG_TIMEOUT, assert_completed_by_next_run, hold_replicas_back, lose, mark_at,
    },
};
use crate::harness::{
    monitor::Monitor,
    proxy::Proxy,
    redis::{RedisServer, fresh_prefix},
    resp::{Reply, until},
    sentinel::{Sentinels, connect},
};

/// So many jobs that their ids are listed for much longer than it takes to stop the command.
const MANY: usize = 16_000;

/// How often a command was called at a server.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = connect(server).call(&["INFO", "commandstats"]).text();
    let name = format!("cmdstat_{command}:calls=");
    let found = stats.lines().find_map(|line| line.strip_prefix(&name)?.split(',').next());
    found.map_or(0, |count| count.parse().expect("a number"))
}

/// The last run compares with a primary that is lost before the run waits for its replicas. It finds the new one, whose replicas
/// are not connected yet, and which lacks jobs.
#[test]
fn a_target_that_fails_over_after_it_was_compared_is_not_opened() {
    let (sentinels, prefix) = (start_sentinels(&LONG_TIMEOUT), fresh_prefix());
    let source = RedisServer::start();
    let proxy = Proxy::start(source.address());
    let settings =
        format!("[store]\nengine = 'redis'\n[redis]\nurl = 'redis://{}'\n{LONG_RETRY}", proxy.address);
    let setup = Setup::new(&settings, &(sentinels.settings(&prefix) + LONG_RETRY));
    let server = setup.serve(SOURCE);
    fill(&server, "job", JOBS);
    setup.run(&[]);
    fill(&server, "more", 300);
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    let primary = hold_replicas_back(&sentinels);
    let (at, all) = (vec![sentinels.servers[primary].address()], content.jobs.len());
    let mut left = 5;
    // Once the target has all jobs, the source is read only to compare, and the target has been read before.
    proxy.hold_when(move || {
        left -= usize::from(jobs_in(&at, &prefix) == all);
        left == 0
    });
    let mover = setup.start(&LAST);
    proxy.wait_until_held();
    mover.suspend();
    proxy.release();
    assert!(mark_at(&source, "linger").contains(r#""role":"source""#));
    let promoted = lose(primary, &sentinels);
    let inspected = || calls(&sentinels.servers[promoted], "config|get");
    let before = inspected();
    // The source is slow until the mover has found the new primary.
    source.pause();
    mover.resume();
    assert!(until(|| inspected() > before), "the mover finds the new primary");
    source.resume();
    let (code, text) = mover.wait();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a server was replaced or lost a replica meanwhile"), "{text}");
    assert_completed_by_next_run(&setup, &sentinels, primary, &content);
}

/// Stops a command when it has listed some ids at the primary, and lets it go on when another server has taken over.
fn fail_over_while_ids_are_listed(sentinels: &Sentinels, setup: &Setup, arguments: &[&str]) -> (i32, String) {
    let number = sentinels.primary();
    let primary = &sentinels.servers[number];
    let scans = Monitor::start(primary).lines().filter(|line| line.contains("\"HSCAN\""));
    let command = setup.start_command(arguments);
    assert_eq!(scans.take(3).count(), 3);
    command.suspend();
    primary.kill();
    wait_until_replaced(sentinels, number);
    command.resume();
    command.wait()
}

/// Waits until the replicas have everything.
fn wait_for_replicas(sentinels: &Sentinels) {
    let mut primary = connect(&sentinels.servers[sentinels.primary()]);
    primary.call(&["SET", "filler", ""]);
    assert_eq!(primary.call(&["WAIT", "2", "9000"]), Reply::Int(2));
}

#[test]
fn an_export_during_a_failover_has_every_job() {
    let sentinels = start_sentinels(&[]);
    // On a busy machine the new primary may be slow for longer than a call is repeated by default.
    let setup = Setup::new(&(sentinels.settings(&fresh_prefix()) + LONG_RETRY), "");
    let server = setup.serve(SOURCE);
    fill(&server, "job", MANY);
    assert!(server.stop().success());
    wait_for_replicas(&sentinels);
    let export = ["export", "out", "--config", SOURCE];
    let (code, text) = fail_over_while_ids_are_listed(&sentinels, &setup, &export);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("{} jobs", MANY + OTHER_JOBS)), "{text}");
}

#[test]
fn a_run_whose_target_fails_over_while_it_is_listed_says_so() {
    let (sentinels, prefix) = (start_sentinels(&[]), fresh_prefix());
    let (_, source, _) = standalone();
    // On a busy machine the new primary may be slow for longer than a call is repeated by default.
    let setup = Setup::new(&source, &(sentinels.settings(&prefix) + LONG_RETRY));
    let server = setup.serve(SOURCE);
    fill(&server, "job", MANY);
    assert!(server.stop().success());
    setup.run(&[]);
    wait_for_replicas(&sentinels);
    let content = setup.content(SOURCE);
    let (code, text) = fail_over_while_ids_are_listed(&sentinels, &setup, &[&MOVE[..], &LAST].concat());
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a server was replaced or lost a replica meanwhile"), "{text}");
    setup.run(&LAST);
    setup.assert_moved(&content);
}
