//! Entries that another program has changed, lost announcements, and lists with many stale entries.

use linger::{
    clock::{Clock, SystemClock},
    job::{RetrySchedule, State},
    store::{
        AddJob, MoveKind, Steps,
        redis::{Mode, Options},
    },
};

use super::{Process, Raw, options, proxy::Proxy, tag};
use crate::harness::{
    jobs::*,
    redis::shared,
    wait::{TimeLimit, until},
};

#[tokio::test]
async fn fault_a_broken_entry_at_the_head_of_an_index_stops_nothing() {
    let options = options();
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let tag = tag(&options, &id("witness"));
    add(process.store(), delayed("witness", seconds(1))).await;
    raw.send(&["ZADD", &format!("{tag}:due"), "1", "no-record", "2", "nonsense"]).await;
    raw.send(&["HSET", &format!("{tag}:jobs"), "nonsense", "\u{21}not a record at all, whatever it says"])
        .await;
    process.clock.advance(seconds(1));
    let promoted = process.store.promote(10).await.expect("promotes");
    assert_eq!(promoted.set_aside, 2);
    assert_eq!(promoted.moves.iter().map(|step| step.kind).collect::<Vec<_>>(), [MoveKind::Ready]);
    assert_eq!(process.store.promote(10).await.expect("promotes").set_aside, 0, "once");
    let aside = raw.send(&["HKEYS", &format!("{tag}:broken")]).await;
    assert_eq!(aside.into_array().len(), 2);
    assert_eq!(reserve(process.store()).await.job.id, id("witness"));
}

#[tokio::test]
async fn a_ready_job_whose_record_is_broken_is_set_aside_and_no_longer_counted() {
    let options = options();
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    add(process.store(), job("victim")).await;
    add(process.store(), job("witness")).await;
    raw.send(&["HSET", &format!("{}:jobs", tag(&options, &id("victim"))), "victim", "broken"]).await;
    let ready = format!("{}:ready:t", tag(&options, &id("victim")));
    raw.send(&["LPUSH", &ready, "x"]).await;
    let got = process.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    assert_eq!(one(got).job.id, id("witness"));
    let stats = process.store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved), (0, 1));
    add(process.store(), job("victim")).await;
    assert_eq!(reserve(process.store()).await.job.id, id("victim"), "its id is free again");
}

/// 10,000 broken records are kept apart. When there are so many, another one stays where it is: nothing is deleted to
/// save space.
#[tokio::test]
async fn a_broken_record_that_cannot_be_set_aside_is_not_deleted() {
    const FILL: &str = "for n = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'old-' .. n, 'broken') end";
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let [jobs, broken] = ["jobs", "broken"].map(|name| format!("{{{}:0}}:{name}", options.prefix));
    for name in ["first", "second", "witness"] {
        add(process.store(), delayed(name, seconds(1))).await;
    }
    raw.send(&["EVAL", FILL, "1", &broken, "9999"]).await;
    raw.send(&["HSET", &jobs, "first", "no record 1", "second", "no record 2"]).await;
    process.clock.advance(seconds(1));
    let promoted = process.store.promote(10).await.expect("promotes");
    assert_eq!((promoted.set_aside, promoted.moves.len(), promoted.more), (2, 1, false));
    let stored = async |key: &str, id: &str| raw.send(&["HGET", key, id]).await.into_string();
    assert_eq!(stored(&broken, "first").await.as_deref(), Some("no record 1"));
    assert_eq!(stored(&jobs, "first").await, None);
    assert_eq!(stored(&broken, "second").await, None);
    assert_eq!(stored(&jobs, "second").await.as_deref(), Some("no record 2"), "the record is lost");
    assert_eq!(process.store.promote(10).await.expect("promotes").set_aside, 0, "it is in no index");
    assert_eq!(reserve(process.store()).await.job.id, id("witness"));
}

/// However short a truncated record is, other jobs are delivered, and a record that cannot be a job is set aside.
#[tokio::test]
async fn truncated_records_stop_nothing() {
    const CUT: &str = "redis.call('HSET', KEYS[1], ARGV[1],
        string.sub(redis.call('HGET', KEYS[1], ARGV[1]), 1, ARGV[2]))";
    /// Bytes before the body: the head, a topic of one byte, a schedule of one step.
    const HEAD: usize = 48 + 1 + 3 + 5;
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let jobs = format!("{{{}:0}}:jobs", options.prefix);
    let retry = RetrySchedule::new(vec![seconds(1)]).expect("a schedule");
    let names = |kind| (0..HEAD + 2).map(move |left| (format!("{kind}-{left}"), left));
    for (name, _) in names("ready") {
        add(
            process.store(),
            AddJob { spec: JobSpec { retry: retry.clone(), ..JobSpec::default() }, ..job(&name) },
        )
        .await;
    }
    for (name, _) in names("late") {
        add(
            process.store(),
            AddJob {
                spec: JobSpec { retry: retry.clone(), ..JobSpec::default() },
                ..delayed(&name, seconds(1))
            },
        )
        .await;
    }
    for (name, left) in names("ready").chain(names("late")) {
        raw.send(&["EVAL", CUT, "1", &jobs, &name, &left.to_string()]).await;
    }
    add(process.store(), job("witness")).await;
    process.clock.advance(seconds(1));
    let promoted = process.store.promote(1_000).await.expect("promotes");
    assert_eq!(
        (promoted.set_aside, promoted.moves.len()),
        (HEAD + 1, 1),
        "one record has a byte of its body left"
    );
    let got = process.store.reserve(&plain("t"), &claims(2 * HEAD), Wait::No).await.expect("reserves");
    let got: Vec<String> = got.iter().map(|reservation| reservation.job.id.to_string()).collect();
    let whole = HEAD + 1;
    assert_eq!(got, [format!("ready-{whole}"), "witness".to_owned(), format!("late-{whole}")]);
    let stats = process.store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved), (0, 3));
}

/// A due job is promoted with the keys of its topic. A record with an invalid topic must not be retried for ever.
#[tokio::test]
async fn a_due_record_with_an_invalid_topic_stops_nothing() {
    const TOPIC_AT: usize = 46;
    const RENAME: &str = "local raw = redis.call('HGET', KEYS[1], ARGV[1])
        local at, name = tonumber(ARGV[2]), ARGV[3]
        redis.call('HSET', KEYS[1], ARGV[1], string.sub(raw, 1, at - 1)
            .. string.char(#name) .. string.sub(raw, at + 1, at + 2) .. name
            .. string.sub(raw, at + 3 + string.byte(raw, at)))";
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let jobs = format!("{{{}:0}}:jobs", options.prefix);
    let names = [".", "..", "a b", &"t".repeat(129)];
    for (at, name) in names.iter().enumerate() {
        add(process.store(), delayed(&at.to_string(), seconds(1))).await;
        raw.send(&["EVAL", RENAME, "1", &jobs, &at.to_string(), &TOPIC_AT.to_string(), name]).await;
    }
    add(process.store(), delayed("witness", seconds(1))).await;
    process.clock.advance(seconds(1));
    let promoted = process.store.promote(10).await.expect("promotes");
    assert_eq!((promoted.set_aside, promoted.moves.len(), promoted.more), (names.len(), 1, false));
    assert_eq!(reserve(process.store()).await.job.id, id("witness"));
}

#[tokio::test]
async fn a_count_that_is_too_high_is_corrected_when_its_list_is_empty() {
    let options = options();
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    raw.send(&["HSET", &format!("{}:counts", tag(&options, &id("a"))), "rt", "3"]).await;
    assert_eq!(reserve_any(process.store()).await, None);
    assert_eq!(process.store.topic(&topic("t")).await.expect("reads"), None);
}

#[tokio::test]
async fn jobs_behind_many_deleted_ones_are_reached() {
    let process = Process::start(&Options { shards: Some(1), ..options() }).await;
    let names: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    process.store.add(names.iter().map(|name| job(name)).collect()).await.expect("adds");
    let all_but_the_last = names[..2_999].iter().map(|name| id(name)).collect();
    let deleted = process.store.delete(ALL, all_but_the_last, DeleteRule::AnyState).await.expect("deletes");
    assert!(deleted.iter().all(|deleted| deleted.is_ok()));
    assert_eq!(reserve(process.store()).await.job.id, id("2999"));
    assert_eq!(reserve_any(process.store()).await, None);
}

#[tokio::test]
async fn a_list_that_is_mostly_stale_is_compacted_in_order() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let names: Vec<String> = (0..2_100).map(|n| n.to_string()).collect();
    process.store.add(names.iter().map(|name| job(name)).collect()).await.expect("adds");
    let most = names.iter().filter(|name| !name.ends_with("00")).map(|name| id(name)).collect();
    process.store.delete(ALL, most, DeleteRule::AnyState).await.expect("deletes");
    let ready = format!("{{{}:0}}:ready:t", options.prefix);
    let time_limit = TimeLimit::new();
    while raw.send(&["LLEN", &ready]).await.as_u64() != Some(20) {
        time_limit.check(|| "the list was not compacted".to_owned());
        time_limit.pause().await;
    }
    let left = process.store.reserve(&plain("t"), &claims(30), Wait::No).await.expect("reserves");
    let order: Vec<String> = left.iter().map(|reservation| reservation.job.id.to_string()).collect();
    let expected: Vec<String> = names.into_iter().filter(|name| name.ends_with("00")).collect();
    assert_eq!(order, expected);
}

#[tokio::test]
async fn another_process_is_notified_of_ready_jobs_when_announcements_are_lost() {
    let server = crate::harness::redis::RedisServer::start();
    let options = linger::store::redis::Options::new(&server.url());
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    let raw = Raw::connect(&server.url()).await;
    add(one.store(), job("a")).await;
    other.wait_for_ready_event("t").await;
    reserve(other.store()).await;
    // From here on no announcement arrives, so the sweep must find the ready job.
    raw.send(&["ACL", "SETUSER", "default", "resetchannels"]).await;
    let forged = format!("{}:counts", tag(&options, &id("a")));
    other.events.take_ready();
    raw.send(&["HINCRBY", &forged, "#", "1"]).await;
    raw.send(&["HSET", &forged, "rt", "1"]).await;
    other.wait_for_ready_event("t").await;
}

/// Two processes on one shard, of which the second one receives the announcements of the first.
async fn announcing() -> (Process, Process, Raw, String) {
    announcing_in(options().mode).await
}

/// The same, with the mode of the second process.
async fn announcing_in(mode: Mode) -> (Process, Process, Raw, String) {
    let options = Options { shards: Some(1), ..options() };
    let (one, other) =
        (Process::start(&options).await, Process::start(&Options { mode, ..options.clone() }).await);
    // The first event may be from a sweep. After the second one, the start of the process is over.
    for name in ["a", "b"] {
        add(one.store(), job(name)).await;
        other.wait_for_ready_event("t").await;
        reserve(other.store()).await;
    }
    other.events.take_ready();
    let counts = format!("{{{}:0}}:counts", options.prefix);
    (one, other, Raw::connect(&shared().url()).await, counts)
}

/// Makes a topic have a ready job by its counts, as if the announcement had been lost.
const LOSE_ANNOUNCEMENT: &str =
    "redis.call('HINCRBY', KEYS[1], '#', 1) redis.call('HSET', KEYS[1], 'r' .. ARGV[1], 1)";

/// What only the script of the sweep names among its keys, while nothing else is done.
const SWEEP: &str = ":dead_by_time";

/// The promise is a second: two rounds of the sweep, which runs twice a second. Half seconds that pass on the same thread
/// are counted beside the rounds, so that a busy machine slows both.
#[tokio::test]
async fn a_lost_announcement_is_recovered_within_seconds_while_the_connection_lives() {
    const ROUNDS: usize = 4;
    let proxy = Proxy::start(shared().port).await;
    let (_one, other, raw, counts) = announcing_in(proxy.mode()).await;
    proxy.count(SWEEP);
    let (clock, rounds) = (SystemClock::new(), until(|| proxy.seen() >= ROUNDS));
    let passing = async {
        for _ in 0..2 * ROUNDS {
            clock.sleep(millis(500)).await;
        }
    };
    tokio::select! {
        () = rounds => {}
        () = passing => panic!("{} rounds of the sweep in the time of {}", proxy.seen(), 2 * ROUNDS),
    }
    other.events.take_ready();
    raw.send(&["EVAL", LOSE_ANNOUNCEMENT, "1", &counts, "t"]).await;
    let before = proxy.seen();
    other.wait_for_ready_event("t").await;
    // The event may be noticed only after another round has begun.
    assert!(proxy.seen() - before <= 3, "it took {} rounds", proxy.seen() - before);
}

#[tokio::test]
async fn a_lost_announcement_is_recovered_although_a_later_one_arrives() {
    let (one, other, raw, counts) = announcing().await;
    raw.send(&["EVAL", LOSE_ANNOUNCEMENT, "1", &counts, "lost"]).await;
    add(one.store(), AddJob { topic: topic("heard"), ..job("c") }).await;
    other.wait_for_ready_event("lost").await;
}

#[tokio::test]
async fn a_dead_process_leaves_its_jobs_to_the_others() {
    let options = options();
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    add(one.store(), delayed("a", seconds(30))).await;
    add(one.store(), job("b")).await;
    reserve(one.store()).await;
    drop(one);
    other.clock.advance(seconds(60));
    promote(other.store()).await;
    for _ in 0..2 {
        assert_eq!(reserve(other.store()).await.job.state(), State::Reserved);
    }
}

/// Redis expires keys by its own clock, so a time to live could delete a backlog.
#[tokio::test]
async fn fault_a_time_to_live_is_on_nothing_that_is_stored() {
    let options = options();
    let process = Process::start(&options).await;
    for name in ["held", "dead", "ready"] {
        add(process.store(), job(name)).await;
    }
    add(process.store(), delayed("delayed", seconds(60))).await;
    reserve(process.store()).await;
    let buried = reserve(process.store()).await;
    process.store.bury(ALL, &buried.job.id, &buried.receipt, None).await.expect("asks").expect("buries");
    let raw = Raw::connect(&shared().url()).await;
    let keys = raw.send(&["KEYS", &format!("*{}*", options.prefix)]).await.into_array();
    assert!(keys.len() > 4, "{keys:?}");
    for key in keys {
        let key = key.as_string().expect("a name");
        assert_eq!(raw.send(&["PTTL", &key]).await.as_i64(), Some(-1), "{key}");
    }
}
