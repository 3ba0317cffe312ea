//! Changes of listed jobs: over several calls, by two processes, and when a reply is lost.

use linger::{
    clock::Clock,
    job::{Due, Job, JobId, State},
    store::{AddJob, ChangeJob, JobChange, SeenJob, Steps, Store, redis::Options},
};

use super::{Process, Raw, options, proxy::Proxy};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

async fn stored(store: &dyn Store, id: &JobId) -> Job {
    store.get(ALL, id).await.expect("gets").expect("is there")
}

/// A change of a job as it is now.
async fn seen(store: &dyn Store, name: &str, change: JobChange) -> ChangeJob {
    ChangeJob { seen: SeenJob::new(&stored(store, &id(name)).await), change }
}

fn after(wait: u64) -> JobChange {
    JobChange::Reschedule(Due::After(delay(seconds(wait))))
}

/// Reserves the only ready job of topic `t` and makes it a dead letter.
async fn bury(store: &dyn Store) {
    let held = reserve(store).await;
    store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
}

/// More jobs of a shard than one run of the script changes, some of them named twice, of outlets that the first call does
/// not know.
#[tokio::test]
async fn many_jobs_of_many_outlets_are_changed_in_order() {
    let process = Process::start(&Options { shards: Some(2), ..options() }).await;
    let store = process.store();
    let names: Vec<String> = (0..300).map(|n| format!("job-{n}")).collect();
    let new = |(n, name): (usize, &String)| match n % 3 {
        0 => called(name, &format!("https://host-{}.example/x", n % 9)),
        1 => job(name),
        _ => delayed(name, seconds(5)),
    };
    store.add(names.iter().enumerate().map(new).collect()).await.expect("adds");
    let mut changes = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let change = if n % 2 == 0 { JobChange::Delete } else { after(100 + n as u64) };
        changes.push(seen(store, name, change).await);
    }
    // Each is no longer as it was seen when it is named again.
    changes.extend(changes.clone());
    changes.push(ChangeJob {
        change: JobChange::Requeue(Due::After(delay(seconds(0))).into()),
        ..changes[1].clone()
    });
    let changed = store.change(changes, None).await.expect("changes");
    assert_eq!(changed[..300], [true; 300]);
    assert_eq!(changed[300..], [false; 301]);
    let now = process.clock.now();
    for (n, name) in names.iter().enumerate() {
        let job = store.get(ALL, &id(name)).await.expect("gets");
        let due = job.map(|job| (job.state(), job.due_at));
        let expected = (n % 2 == 1).then(|| (State::Delayed, now.after(seconds(100 + n as u64))));
        assert_eq!(due, expected, "{name}");
    }
    assert_eq!(store.verify().await.expect("verifies").faults, [""; 0]);
}

/// The first change of the job needs the keys of its outlet, and so a second call; the second change does not.
#[tokio::test]
async fn a_job_that_is_named_twice_is_changed_by_the_first() {
    let process = Process::start(&options()).await;
    let store = process.store();
    add(store, AddJob { due: Due::After(delay(seconds(9))), ..called("a", "https://a.example/x") }).await;
    let changes = vec![seen(store, "a", after(0)).await, seen(store, "a", JobChange::Delete).await];
    let changed = store.change(changes, None).await.expect("changes");
    assert_eq!(changed, [true, false]);
    assert_eq!(stored(store, &id("a")).await.state(), State::Ready);
}

/// The other process changes each job between the list and the change.
#[tokio::test]
async fn what_another_process_changed_first_stays() {
    let options = options();
    let one = Process::start(&options).await;
    let other = Process::with_clock_of(&one, &options).await;
    add(one.store(), job("dead")).await;
    bury(one.store()).await;
    add(one.store(), job("ready")).await;
    add(one.store(), delayed("later", seconds(9))).await;
    let requeue = JobChange::Requeue(Due::After(delay(seconds(0))).into());
    let changes = vec![
        seen(one.store(), "dead", requeue.clone()).await,
        seen(one.store(), "ready", JobChange::Delete).await,
        seen(one.store(), "later", after(90)).await,
    ];
    let first = vec![changes[0].clone(), seen(other.store(), "later", after(20)).await];
    reserve(other.store()).await;
    one.events.take_ready();
    assert_eq!(other.store.change(first, None).await.expect("changes"), [true; 2]);
    one.wait_for_ready_event("t").await;
    assert_eq!(one.store.change(changes, None).await.expect("changes"), [false; 3]);
    let state = async |name| stored(one.store(), &id(name)).await.state();
    assert_eq!(state("dead").await, State::Ready, "requeued once");
    assert_eq!(state("ready").await, State::Reserved, "reserved meanwhile");
    assert_eq!(stored(one.store(), &id("later")).await.due_at, one.clock.now().after(seconds(20)));
}

/// The record is the truth, not the index that a list reads: a change of a broken one does nothing.
#[tokio::test]
async fn a_broken_record_is_skipped() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    add(process.store(), delayed("a", seconds(9))).await;
    let change = seen(process.store(), "a", JobChange::Delete).await;
    let raw = Raw::connect(&shared().url()).await;
    let jobs = format!("{{{}:0}}:jobs", options.prefix);
    raw.send(&["HSET", &jobs, "a", "not a record"]).await;
    assert_eq!(process.store.change(vec![change], None).await.expect("changes"), [false]);
    assert_eq!(raw.send(&["HGET", &jobs, "a"]).await.as_string().expect("a text"), "not a record");
}

/// A second run would find the jobs changed, and report that it skipped them.
#[tokio::test]
async fn a_change_whose_reply_was_cut_off_happens_once_and_is_reported() {
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), shards: Some(1), ..options() }).await;
    let store = process.store();
    add(store, job("dead")).await;
    bury(store).await;
    add(store, delayed("victim", seconds(9))).await;
    add(store, delayed("later", seconds(9))).await;
    let changes = vec![
        seen(store, "dead", JobChange::Requeue(Due::After(delay(seconds(7))).into())).await,
        seen(store, "victim", JobChange::Delete).await,
        seen(store, "later", after(0)).await,
    ];
    proxy.cut_replies("victim", 2);
    assert_eq!(store.change(changes, None).await.expect("changes"), [true; 3]);
    assert!(proxy.all_faults_happened());
    assert_eq!(stored(store, &id("dead")).await.due_at, process.clock.now().after(seconds(7)));
    assert_eq!(store.get(ALL, &id("victim")).await.expect("gets"), None);
    assert_eq!(reserve(store).await.job.id, id("later"));
    assert_eq!(reserve_any(store).await, None);
}

/// Ready jobs that get another due time leave entries in their list, which is compacted.
#[tokio::test]
async fn the_list_of_rescheduled_jobs_is_compacted() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let store = process.store();
    let names: Vec<String> = (0..1_200).map(|n| n.to_string()).collect();
    store.add(names.iter().map(|name| job(name)).collect()).await.expect("adds");
    let now = process.clock.now();
    let change = |name: &String| {
        let seen = SeenJob { id: id(name), topic: topic("t"), state: State::Ready, moment: now };
        ChangeJob { seen, change: after(9) }
    };
    let changed = store.change(names.iter().map(change).collect(), None).await.expect("changes");
    assert_eq!(changed, [true; 1_200]);
    let raw = Raw::connect(&shared().url()).await;
    let ready = format!("{{{}:0}}:ready:t", options.prefix);
    let time_limit = TimeLimit::new();
    while raw.send(&["LLEN", &ready]).await.as_u64() != Some(0) {
        time_limit.check(|| "the list was not compacted".to_owned());
        time_limit.pause().await;
    }
}
