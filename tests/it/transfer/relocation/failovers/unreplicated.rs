//! A primary that is lost before its replicas have received what the last run did. A move is complete only once they have,
//! also with the default settings.

use super::{
    Content, JOBS, LAST, Middle, OTHER_JOBS, SOURCE, Setup, TARGET, fill, jobs_at,
    sentinel::{start_sentinels, wait_until_replaced},
    standalone,
};
use crate::{
    harness::{
        process::Server,
        proxy::Proxy,
        redis::{RedisServer, fresh_prefix, shared},
        resp::{Reply, Resp, until},
        sentinel::{Sentinels, connect},
    },
    transfer::program::add,
};

/// Few jobs, where no pass is disturbed.
const FEW: usize = 300;
/// Keeps a replica that is stopped connected.
pub const LONG_TIMEOUT: [&str; 2] = ["--repl-timeout", "60"];
/// A mover that was stopped for a while goes on with the call that it had made.
pub const LONG_RETRY: &str = "retry_for = '60s'\n";
/// More than the kernel keeps for a connection, in bytes.
const FILLER: usize = 64 << 20;

/// Stops the replicas once they have everything, and fills their connections: they are connected, and whatever happens at
/// the primary from now on is lost with it. Returns its number.
pub fn hold_replicas_back(sentinels: &Sentinels) -> usize {
    let number = sentinels.primary();
    let mut primary = connect(&sentinels.servers[number]);
    primary.call(&["SET", "filler", ""]);
    assert_eq!(primary.call(&["WAIT", "2", "9000"]), Reply::Int(2));
    replicas(sentinels, number).for_each(RedisServer::pause);
    let fill = "redis.call('SET', KEYS[1], string.rep('x', ARGV[1]))";
    primary.call(&["EVAL", fill, "1", "filler", &FILLER.to_string()]);
    number
}

fn replicas(sentinels: &Sentinels, primary: usize) -> impl Iterator<Item = &RedisServer> {
    sentinels.servers.iter().enumerate().filter(move |(n, _)| *n != primary).map(|(_, server)| server)
}

/// Kills the primary and lets the replicas continue. Returns the number of the one that took over.
pub fn lose(primary: usize, sentinels: &Sentinels) -> usize {
    sentinels.servers[primary].kill();
    replicas(sentinels, primary).for_each(RedisServer::resume);
    wait_until_replaced(sentinels, primary);
    sentinels.primary()
}

/// Waits until the mover waits for the replicas of `primary`.
fn wait_until_waiting(primary: &RedisServer) {
    let mut connection = connect(primary);
    let waits = || connection.call(&["INFO", "clients"]).text().contains("blocked_clients:1\r\n");
    assert!(until(waits), "the mover does not wait for the replicas");
}

/// The mark of a move, as a primary has it.
pub fn mark_at(primary: &RedisServer, prefix: &str) -> String {
    let mut connection = Resp::connect(primary.address()).expect("the server listens");
    match connection.call(&["HGET", &format!("{{{prefix}}}:meta"), "move"]) {
        Reply::Nil => String::new(),
        mark => mark.text(),
    }
}

/// Whether a server of the source adds a job.
fn adds(server: &Server, id: &str) -> bool {
    match add(server, &format!(r#"{{"topic":"t","id":"{id}","delay":86400}}"#)) {
        201 => true,
        status => {
            assert_eq!(status, 503);
            false
        }
    }
}

/// The last run when it loses what it has done to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// In the middle of the copying. It goes on with the new primary.
    Copies,
    /// When everything is copied and compared.
    WaitsForReplicas,
}

/// The source loses its mark and its fences with its primary, while its server keeps running.
fn lose_mark_of_source(run: Run, count: usize, why: &str) {
    // Of four shards, the mover has yet to read that of the jobs that are added in the middle.
    let settings = if run == Run::Copies { &format!("{LONG_RETRY}shards = 4\n") } else { "" };
    let (sentinels, prefix) = (start_sentinels(&LONG_TIMEOUT), fresh_prefix());
    let (proxy, target, target_prefix) = standalone();
    let setup = Setup::new(&(sentinels.settings(&prefix) + settings), &(target + settings));
    let server = setup.serve(SOURCE);
    fill(&server, "job", count);
    let primary = hold_replicas_back(&sentinels);
    let mover = match run {
        Run::Copies => {
            let middle = Middle::plan(&proxy, vec![shared().address()], &target_prefix);
            let mover = setup.start(&LAST);
            mover.suspend_in(&middle);
            mover
        }
        Run::WaitsForReplicas => {
            let mover = setup.start(&LAST);
            wait_until_waiting(&sentinels.servers[primary]);
            mover
        }
    };
    let mark = mark_at(&sentinels.servers[primary], &prefix);
    assert!(mark.contains(r#""role":"source""#), "it decided before the replicas had everything: {mark}");
    assert!(!adds(&server, "refused"), "the source is closed");
    let promoted = lose(primary, &sentinels);
    assert_eq!(mark_at(&sentinels.servers[promoted], &prefix), "", "the replicas had not received it");
    // Only the source is open, and what it takes now is not to be lost.
    assert!(until(|| adds(&server, "later")), "{}", server.log());
    mover.resume();
    let (code, text) = mover.wait();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(why), "{text}");
    let refused = setup.why_refused(TARGET);
    assert!(refused.contains("the move is not complete"), "{refused}");
    assert!(adds(&server, "last"), "{}", server.log());
    sentinels.servers[primary].restart();
    sentinels.wait_until_healthy();
    setup.run(&LAST);
    assert!(!adds(&server, "too-late"), "the source is closed");
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    content.assert_has(count + OTHER_JOBS, &["later".to_owned(), "last".to_owned()]);
    setup.assert_moved(&content);
}

#[test]
fn a_source_that_lost_its_mark_while_the_mover_waited_was_not_given_up() {
    lose_mark_of_source(Run::WaitsForReplicas, FEW, "the store is unavailable: ");
}

#[test]
fn a_source_that_lost_its_mark_in_the_middle_is_not_given_up() {
    lose_mark_of_source(Run::Copies, JOBS, "a server was replaced or lost a replica meanwhile");
}

/// A target behind Sentinel with a first pass, and jobs that it lacks. With the proxy and the prefix of the source, and what
/// that has.
fn target_to_complete(
    sentinels: &Sentinels,
    prefix: &str,
    (count, settings): (usize, &str),
) -> (Setup, (Proxy, String), Content) {
    let (proxy, source, source_prefix) = standalone();
    let setup = Setup::new(&(source + settings), &(sentinels.settings(prefix) + settings));
    let server = setup.serve(SOURCE);
    fill(&server, "job", FEW);
    setup.run(&[]);
    fill(&server, "more", count);
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    assert_eq!(content.jobs.len(), FEW + count + 2 * OTHER_JOBS);
    (setup, (proxy, source_prefix), content)
}

/// Asserts that the last run did not complete the move, and that the next one does.
pub fn assert_completed_by_next_run(setup: &Setup, sentinels: &Sentinels, lost: usize, content: &Content) {
    let why = setup.why_refused(TARGET);
    assert!(why.contains("the move is not complete"), "{why}");
    let why = setup.why_refused(SOURCE);
    assert!(why.contains("its jobs are being moved to "), "{why}");
    sentinels.servers[lost].restart();
    sentinels.wait_until_healthy();
    setup.run(&LAST);
    setup.assert_moved(content);
}

#[test]
fn a_target_that_lost_jobs_while_the_mover_waited_was_not_opened() {
    let (sentinels, prefix) = (start_sentinels(&LONG_TIMEOUT), fresh_prefix());
    let (setup, (_, source_prefix), content) = target_to_complete(&sentinels, &prefix, (FEW, ""));
    let primary = hold_replicas_back(&sentinels);
    let mover = setup.start(&LAST);
    wait_until_waiting(&sentinels.servers[primary]);
    assert_eq!(jobs_at(&sentinels.servers[primary], &prefix), content.jobs.len());
    let mark = mark_at(shared(), &source_prefix);
    assert!(mark.contains(r#""role":"source""#), "it decided before the replicas had everything: {mark}");
    let promoted = lose(primary, &sentinels);
    let (code, text) = mover.wait();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("the store is unavailable: "), "{text}");
    let left = jobs_at(&sentinels.servers[promoted], &prefix);
    assert_eq!(left, FEW + OTHER_JOBS, "the replicas had not received the others");
    assert_completed_by_next_run(&setup, &sentinels, primary, &content);
}

#[test]
fn a_target_that_lost_jobs_in_the_middle_is_not_opened() {
    let (sentinels, prefix) = (start_sentinels(&LONG_TIMEOUT), fresh_prefix());
    let (setup, (proxy, _), content) = target_to_complete(&sentinels, &prefix, (JOBS, LONG_RETRY));
    let middle = || Middle::plan(&proxy, vec![sentinels.servers[sentinels.primary()].address()], &prefix);
    let in_middle = middle();
    let mover = setup.start(&LAST);
    mover.suspend_in(&in_middle);
    let primary = hold_replicas_back(&sentinels);
    let kept = jobs_at(&sentinels.servers[primary], &prefix);
    let later = middle();
    mover.resume();
    mover.suspend_in(&later);
    let promoted = lose(primary, &sentinels);
    let left = jobs_at(&sentinels.servers[promoted], &prefix);
    assert_eq!(left, kept, "the replicas had not received the others");
    mover.resume();
    let (code, text) = mover.wait();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("the target differed from the source after everything was copied"), "{text}");
    assert_completed_by_next_run(&setup, &sentinels, primary, &content);
}
