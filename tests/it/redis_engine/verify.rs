//! Verification reports every contradiction by its name, and reports nothing about a sound store.

use linger::{
    clock::Clock,
    job::Body,
    store::{AddJob, RecordPage, ScheduleUpdates, Steps, TopicUpdates, Verified, redis::Options},
};

use super::{Process, Raw, SEVERAL_SHARDS, options, proxy::Proxy, tag};
use crate::harness::{jobs::*, records::schedule, redis::shared};

/// A process with jobs in every state and schedules on one shard, and the hash tag of that shard.
async fn jobs_in_every_state() -> (Process, Raw, String) {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let store = process.store();
    for name in ["held", "buried"] {
        add(store, job(name)).await;
    }
    let reserved = store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    let buried = reserved.iter().find(|held| held.job.id == id("buried")).expect("is held");
    store.bury(ALL, &id("buried"), &buried.receipt, None).await.expect("answers").expect("is held");
    add(store, job("ready")).await;
    add(store, delayed("delayed", seconds(9))).await;
    let next = Some(process.clock.now().after(seconds(9)));
    let schedules = vec![schedule("daily", next, "{}"), schedule("idle", None, "{}")];
    store.put_schedules(schedules).await.expect("puts");
    let raw = Raw::connect(&shared().url()).await;
    (process, raw, tag(&options, &id("held")))
}

async fn verified(process: &Process) -> Verified {
    process.store.verify().await.expect("verifies")
}

#[tokio::test]
async fn a_sound_store_has_no_faults() {
    let (process, _, _) = jobs_in_every_state().await;
    let settings = linger::job::TopicSettings { ttr: Some(ttr(5)), ..Default::default() };
    process.store.put_settings(&topic("t"), settings).await.expect("sets");
    assert_eq!(verified(&process).await, Verified { jobs: 4, ..Verified::default() });
    add(process.store(), job("stale")).await;
    process.store.delete(ALL, vec![id("stale")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(verified(&process).await, Verified { jobs: 4, stale: 1, ..Verified::default() });
}

#[tokio::test]
async fn all_jobs_of_a_shard_that_takes_several_runs_are_counted() {
    let process = Process::start(&Options { shards: Some(1), ..options() }).await;
    for thousand in 0..12 {
        let jobs = (0..1_000).map(|n| delayed(&format!("{thousand}-{n}"), seconds(1 + n % 2)));
        process.store.add(jobs.collect()).await.expect("adds");
    }
    process.clock.advance(seconds(1));
    promote(process.store()).await;
    assert_eq!(verified(&process).await, Verified { jobs: 12_000, ..Verified::default() });
}

#[tokio::test]
async fn every_contradiction_is_reported() {
    // The command that damages the keys (`@` is the tag of the shard), and the fault that must be reported.
    let cases: [(&[&str], &str); 28] = [
        (&["HDEL", "@:jobs", "held"], "entry held of leases: it leads to no job"),
        (&["HDEL", "@:jobs", "ready"], "topic t: 1 jobs are counted as ready, 0 are"),
        (&["HSET", "@:jobs", "held", "nonsense"], "job held: its record cannot be read"),
        (&["HSET", "@:jobs", "nobody", "nonsense"], "job nobody: its record cannot be read"),
        (&["ZREM", "@:due", "delayed"], "job delayed: it is missing in due"),
        (&["ZREM", "@:leases", "held"], "job held: it is missing in leases"),
        (&["ZINCRBY", "@:leases", "1", "held"], "job held: it has a wrong score in leases"),
        (&["ZADD", "@:due", "5", "ready"], "job ready: it should not be in due"),
        (&["ZADD", "@:leases", "5", "delayed"], "job delayed: it should not be in leases"),
        (&["ZADD", "@:due", "5", "ghost"], "entry ghost of due: it leads to no job"),
        (&["ZADD", "@:leases", "5", "ghost"], "leases has 2 entries, 1 are counted"),
        (&["ZREM", "@:dead_by_time", "buried"], "job buried: it is missing in dead_by_time"),
        (&["ZREM", "@:dead:t", "buried"], "job buried: it is missing in the dead letters"),
        (&["ZADD", "@:dead:other", "5", "ghost"], "entry ghost of the dead letters: it leads to no job"),
        (&["DEL", "@:ready:t"], "topic t: 1 jobs are counted as ready, 0 are in its list"),
        (&["HINCRBY", "@:counts", "vt", "1"], "count vt: it says 2, there are 1"),
        (&["HDEL", "@:counts", "xt"], "count xt: it is missing, there are 1"),
        (&["HSET", "@:counts", "dother", "0"], "count dother: 0 is none"),
        (&["HSET", "@:replay", "lane", "x"], "a replay slot cannot be read"),
        (&["SET", "@:pond", "x"], ":pond: it is not of this engine"),
        (&["HSET", "@:counts", "zt", "1"], "count zt: 1 is none"),
        (&["DEL", "@:timeline"], "timeline of topic t, minute "),
        (&["ZREM", "@:agenda", "daily"], "schedule daily: it is missing in the agenda, so it does not run"),
        (&["ZINCRBY", "@:agenda", "1", "daily"], "schedule daily: it is at a wrong moment in the agenda"),
        (&["ZADD", "@:agenda", "5", "idle"], "schedule idle: it should not be in the agenda"),
        (&["HDEL", "@:schedules", "daily"], "schedule daily: it is in the agenda, and is not stored"),
        (&["HSET", "@:schedules", "daily", "cut"], "schedule daily: it cannot be read"),
        (&["HSET", "@:schedules", "no name", ""], "schedule no name: it cannot be read"),
    ];
    for (command, expected) in cases {
        let (process, raw, tag) = jobs_in_every_state().await;
        let words: Vec<String> = command.iter().map(|word| word.replace('@', &tag)).collect();
        raw.send(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let faults = verified(&process).await.faults;
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{command:?}: {faults:?}");
    }
}

#[tokio::test]
async fn a_job_that_is_twice_in_its_list_or_on_a_wrong_shard_is_reported() {
    let (process, raw, tag) = jobs_in_every_state().await;
    let ready = format!("{tag}:ready:t");
    raw.send(&["COPY", &ready, &format!("{tag}:ready:copy")]).await;
    raw.send(&["LMOVE", &format!("{tag}:ready:copy"), &ready, "LEFT", "LEFT"]).await;
    let faults = verified(&process).await.faults;
    assert!(faults.iter().any(|fault| fault.contains("job ready: it is twice")), "{faults:?}");

    // The shard that the job leaves is empty then.
    let options = Options { accept_empty: true, shards: Some(SEVERAL_SHARDS), ..options() };
    let process = Process::start(&options).await;
    add(process.store(), job("stray")).await;
    let (there, elsewhere) = (tag_of(&options, "stray"), tag_of(&options, "neighbour"));
    assert_ne!(there, elsewhere);
    for key in ["jobs", "counts", "ready:t"] {
        raw.send(&["RENAME", &format!("{there}:{key}"), &format!("{elsewhere}:{key}")]).await;
    }
    let faults = verified(&process).await.faults;
    assert!(faults.iter().any(|fault| fault.contains("job stray: it does not belong")), "{faults:?}");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_read_or_is_on_a_wrong_shard_is_named_and_the_others_are_read() {
    let options = Options { shards: Some(SEVERAL_SHARDS), ..options() };
    let process = Process::start(&options).await;
    let names: Vec<String> = (0..150).map(|n| format!("s{n:03}")).collect();
    let schedules: Vec<_> = names.iter().map(|name| schedule(name, None, "{}")).collect();
    process.store.put_schedules(schedules).await.expect("puts");
    let (there, elsewhere) = (tag_of(&options, "stray"), tag_of(&options, "neighbour"));
    let raw = Raw::connect(&shared().url()).await;
    raw.send(&["HSET", &format!("{elsewhere}:schedules"), "stray", "\0\0\0\0\0\0{}"]).await;
    raw.send(&["HSET", &format!("{there}:schedules"), "a cut", "", "stray", "\0\0\0\0\0\0{}"]).await;
    let faults = verified(&process).await.faults;
    let expected = ["schedule stray: it does not belong to this shard", "schedule a cut: it cannot be read"];
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(expected.iter().all(|end| faults.iter().any(|fault| fault.ends_with(end))), "{faults:?}");
    let (mut reader, mut read) = (process.store.records().await.expect("reads"), RecordPage::default());
    while let Some(page) = reader.next().await.expect("reads") {
        read.schedules.extend(page.schedules);
        read.broken.extend(page.broken);
    }
    assert_eq!(read.broken, ["the schedule \"a cut\" cannot be read"]);
    assert_eq!(read.schedules.len(), 152);
}

/// The bodies are so large that one run does not reach all jobs.
#[tokio::test]
async fn a_verification_that_meets_another_server_counts_each_job_once() {
    const JOBS: usize = 500;
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), shards: Some(1), ..options() }).await;
    let large = Body::parse(format!("\"{}\"", "x".repeat(32 * 1_024)).into()).expect("is JSON");
    for first in (0..JOBS).step_by(100) {
        let jobs = (first..first + 100).map(|n| AddJob { body: large.clone(), ..job(&format!("job-{n}")) });
        process.store.add(jobs.collect()).await.expect("adds");
    }
    proxy.move_next_cursor();
    assert_eq!(verified(&process).await, Verified { jobs: JOBS as u64, ..Verified::default() });
    assert!(proxy.has_moved_cursor(), "one run reached all jobs");
}

fn tag_of(options: &Options, name: &str) -> String {
    tag(options, &id(name))
}
