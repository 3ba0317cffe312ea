//! Stored formats: every version from the first one on reads data of format 2 exactly. The fixtures are in
//! `tests/fixtures`. The version of that time wrote each of them once, with a list of its content.
//!
//! `LINGER_WRITE_FIXTURE=<new folder>` makes the last test store what the present program writes. That is for a new
//! format only; an old set is never written again, because it represents the data that users have on their disks.

mod attributes;
mod content;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::Arc,
};

use linger::{
    clock::{Clock, ManualClock},
    job::{Outlet, PausedOperations, Receipt, State, Timestamp},
    metrics::Metrics,
    store::{FinishJob, Put, ScheduleUpdates, Store, StoredSchedule, TopicUpdates, embedded, redis},
};
use serde_json::{Value, json};

use crate::harness::{
    jobs::{ALL, Wait, claims, id, promote, seconds},
    lists::requeue_oldest,
    records::{all_schedules, schedule},
    redis::RedisServer,
    resp::Resp,
    stores::{Recorder, START},
    wait::StepLimit,
};
use content::{Content, fill, job_json, topic_json};

const PREFIX: &str = "format-2";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-2")
}

fn start() -> Arc<ManualClock> {
    ManualClock::new(Timestamp::parse(START).expect("a moment"))
}

async fn open(directory: &Path, clock: &Arc<ManualClock>) -> Result<Arc<dyn Store>, String> {
    let (mut options, listener) = (embedded::Options::new(directory), Arc::new(Recorder::default()));
    options.promotes_by_itself = false;
    let opened = embedded::open(options, clock.clone(), listener, Metrics::new().engine).await;
    opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string())
}

async fn connect(server: &RedisServer, clock: &Arc<ManualClock>) -> Result<Arc<dyn Store>, String> {
    let (mut options, listener) = (redis::Options::new(&server.url()), Arc::new(Recorder::default()));
    options.prefix = PREFIX.to_owned();
    let time = redis::TimeSource::Manual(clock.clone());
    let opened = redis::connect(options, time, listener, Metrics::new().engine).await;
    opened.map(|store| -> Arc<dyn Store> { store }).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The list beside a fixture, and a clock at the moment of its last step.
fn expected_content() -> (Value, Arc<ManualClock>) {
    let list: Value = serde_json::from_slice(&read(&fixture().join("content.json"))).expect("is JSON");
    let now = Timestamp::parse(list["now"].as_str().expect("a moment")).expect("a moment");
    (list, ManualClock::new(now))
}

fn receipt(name: &str) -> Receipt {
    let text = String::from_utf8(read(&fixture().join(name))).expect("is text");
    Receipt::parse(text.trim()).expect("a receipt")
}

/// Asserts that `store` contains exactly what is listed.
async fn assert_content(store: &dyn Store, list: &Value) {
    let jobs = list["jobs"].as_array().expect("a list");
    for expected in jobs {
        let found = store.get(ALL, &id(expected["id"].as_str().expect("an id"))).await.expect("reads");
        assert_eq!(found.as_ref().map(job_json).as_ref(), Some(expected));
    }
    let topics = store.topics(ALL, None, 1_000).await.expect("reads").into_iter();
    let topics: Vec<Value> = topics.map(|(name, stats)| topic_json(name.as_str(), &stats)).collect();
    assert_eq!(Some(&topics), list["topics"].as_array());
    let verified = store.verify().await.expect("reads");
    assert_eq!((verified.jobs, verified.set_aside), (jobs.len() as u64, 0));
    assert_eq!(verified.faults, [""; 0]);
}

/// Asserts that every job of `store` can be reserved when it is due and finished, and `held` with its stored receipt.
async fn assert_all_jobs_run(store: &dyn Store, clock: &ManualClock, receipt: Receipt) {
    let held = FinishJob { id: id("held"), receipt: Some(receipt) };
    let finished = store.finish(ALL, vec![held]).await.expect("answers");
    assert!(matches!(finished[..], [Ok(_)]), "{finished:?}");
    let names: Vec<_> =
        store.topics(ALL, None, 1_000).await.expect("reads").into_iter().map(|(name, _)| name).collect();
    for name in &names {
        store.resume(name, PausedOperations::ALL).await.expect("resumes");
        requeue_oldest(store, name.as_str(), 1_000).await;
    }
    // The first wait makes all jobs due except the last; the second one ends the retry step of those that expired.
    for wait in [2 * 31_536_000, 3_600] {
        clock.advance(seconds(wait));
        promote(store).await;
    }
    let mut done = 1;
    for name in &names {
        let mut step_limit = StepLimit::new();
        loop {
            step_limit.step();
            let granted =
                store.reserve(&Outlet::plain(name.clone()), &claims(7), Wait::No).await.expect("reserves");
            assert!(granted.iter().all(|grant| grant.job.due_at <= linger::clock::Clock::now(clock)));
            let finishes = granted.into_iter();
            let finishes = finishes.map(|grant| FinishJob { id: grant.job.id, receipt: Some(grant.receipt) });
            let finished = store.finish(ALL, finishes.collect()).await.expect("answers");
            assert!(finished.iter().all(|done| done.is_ok()), "{finished:?}");
            done += finished.len();
            if finished.is_empty() {
                break;
            }
        }
    }
    let last = store.get(ALL, &id("at-last")).await.expect("reads").expect("is there");
    assert_eq!(last.state(), State::Delayed);
    let verified = store.verify().await.expect("reads");
    assert_eq!((verified.jobs, verified.faults.len()), (1, 0), "{verified:?}");
    let (list, _) = expected_content();
    assert_eq!(done + 1, list["jobs"].as_array().expect("a list").len(), "each job was handed out once");
}

/// A copy of one of the embedded fixtures, to open.
fn copy_of_fixture(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(fixture().join(name)).expect("is there") {
        let entry = entry.expect("reads");
        fs::copy(entry.path(), directory.path().join(entry.file_name())).expect("copies");
    }
    directory
}

/// A Redis with the commands of the fixture.
fn redis_with_fixture() -> RedisServer {
    let server = RedisServer::start();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
    stream.write_all(&read(&fixture().join("redis.aof"))).expect("sends");
    stream.write_all(b"*1\r\n$4\r\nQUIT\r\n").expect("sends");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("answers");
    assert!(answers.starts_with("+OK\r\n") && !answers.contains("\r\n-"), "{answers}");
    server
}

#[tokio::test]
async fn a_directory_of_a_stopped_server_is_read() {
    let (directory, (list, clock)) = (copy_of_fixture("stopped"), expected_content());
    let store = open(directory.path(), &clock).await.expect("opens");
    assert_content(&*store, &list).await;
    attributes::assert_present(directory.path());
    assert_all_jobs_run(&*store, &clock, receipt("embedded.receipt")).await;
}

#[tokio::test]
async fn a_directory_of_a_killed_server_is_read() {
    let (directory, (list, clock)) = (copy_of_fixture("killed"), expected_content());
    let store = open(directory.path(), &clock).await.expect("opens");
    assert_content(&*store, &list).await;
    store.close().await.expect("closes");
    let store = open(directory.path(), &clock).await.expect("opens again");
    assert_content(&*store, &list).await;
    attributes::assert_present(directory.path());
    assert_all_jobs_run(&*store, &clock, receipt("embedded.receipt")).await;
}

#[tokio::test]
async fn the_content_of_a_redis_is_read() {
    let (server, (list, clock)) = (redis_with_fixture(), expected_content());
    let store = connect(&server, &clock).await.expect("connects");
    assert_content(&*store, &list).await;
    assert_all_jobs_run(&*store, &clock, receipt("redis.receipt")).await;
}

/// The fixtures were written before there were schedules.
#[tokio::test]
async fn a_store_from_before_there_were_schedules_takes_them() {
    let (directory, (list, clock)) = (copy_of_fixture("killed"), expected_content());
    let records = embedded::read_records(directory.path(), &*clock, false).map(drop);
    records.expect("is read as it is");
    let schedules =
        vec![schedule("daily", Some(clock.now().after(seconds(60))), "{}"), schedule("idle", None, "{}")];
    for is_new in [true, false] {
        let store = open(directory.path(), &clock).await.expect("opens");
        assert_schedules(&*store, &list, &schedules, is_new).await;
        store.close().await.expect("closes");
    }
    let server = redis_with_fixture();
    for is_new in [true, false] {
        let store = connect(&server, &clock).await.expect("connects");
        assert_schedules(&*store, &list, &schedules, is_new).await;
        store.close().await.expect("closes");
    }
}

/// Puts schedules if they are new, and asserts that they are there beside everything that is listed.
async fn assert_schedules(store: &dyn Store, list: &Value, schedules: &[StoredSchedule], is_new: bool) {
    let expected = if is_new { Put::Done } else { Put::Exists };
    assert_eq!(all_schedules(store).await, if is_new { &[] } else { schedules });
    let put = store.put_schedules(schedules.to_vec()).await.expect("puts");
    assert_eq!(put, vec![expected; schedules.len()]);
    assert_eq!(all_schedules(store).await, schedules);
    assert_content(store, list).await;
}

#[tokio::test]
async fn a_newer_format_is_refused_by_its_number() {
    let (directory, clock) = (copy_of_fixture("stopped"), start());
    let conn = rusqlite::Connection::open(directory.path().join("linger.db")).expect("opens");
    conn.execute_batch("PRAGMA user_version = 3").expect("is set");
    drop(conn);
    let refused = open(directory.path(), &clock).await.map(drop).expect_err("is refused");
    assert!(refused.contains("has format 3, but this version of Linger knows only 2"), "{refused}");

    let server = redis_with_fixture();
    let mut redis = Resp::connect(([127, 0, 0, 1], server.port).into()).expect("connects");
    redis.call(&["HSET", &format!("{{{PREFIX}}}:meta"), "format", "3"]);
    let refused = connect(&server, &clock).await.map(drop).expect_err("is refused");
    assert!(refused.contains("it has format 3, this version reads 2"), "{refused}");
}

#[tokio::test]
async fn the_format_of_a_pre_release_is_refused_and_the_error_says_what_to_do() {
    let directory = copy_of_fixture("stopped");
    let conn = rusqlite::Connection::open(directory.path().join("linger.db")).expect("opens");
    conn.execute_batch("PRAGMA user_version = 1").expect("is set");
    drop(conn);
    let refused = open(directory.path(), &start()).await.map(drop).expect_err("is refused");
    for part in ["has format 1", "Let the version that wrote the store drain it", "remove the data directory"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }

    let server = RedisServer::start();
    let mut redis = Resp::connect(([127, 0, 0, 1], server.port).into()).expect("connects");
    redis.call(&["HSET", &format!("{{{PREFIX}}}:meta"), "format", "1", "shards", "4"]);
    let refused = connect(&server, &start()).await.map(drop).expect_err("is refused");
    for part in ["in format 1", "drain the queue with the version that wrote it", "another redis.prefix"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

/// Data that the present program writes reads back the same, on both engines.
#[tokio::test]
async fn what_is_written_today_is_read_back() {
    let (directory, killed, clock) = (temporary(), temporary(), start());
    let store = open(directory.path(), &clock).await.expect("opens");
    let embedded = fill(&*store, &clock).await;
    attributes::add_to(directory.path());
    for name in ["linger.db", "linger.db-wal"] {
        fs::copy(directory.path().join(name), killed.path().join(name)).expect("copies");
    }
    store.close().await.expect("closes");

    let plain = ["--save", "", "--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let (server, clock) = (RedisServer::start_with(&plain), start());
    let store = connect(&server, &clock).await.expect("connects");
    let redis = fill(&*store, &clock).await;
    store.close().await.expect("closes");
    let list = listing(&embedded);
    assert_eq!(list, listing(&redis));

    if let Some(folder) = std::env::var_os("LINGER_WRITE_FIXTURE") {
        let folder = PathBuf::from(folder);
        write_fixture_file(&folder, "stopped/linger.db", &read(&directory.path().join("linger.db")));
        for name in ["linger.db", "linger.db-wal"] {
            write_fixture_file(&folder, &format!("killed/{name}"), &read(&killed.path().join(name)));
        }
        write_fixture_file(&folder, "redis.aof", &commands(&server));
        write_fixture_file(&folder, "content.json", format!("{list:#}\n").as_bytes());
        write_fixture_file(&folder, "embedded.receipt", format!("{}\n", embedded.receipt).as_bytes());
        write_fixture_file(&folder, "redis.receipt", format!("{}\n", redis.receipt).as_bytes());
    }

    let clock = ManualClock::new(embedded.now);
    for directory in [&directory, &killed] {
        let store = open(directory.path(), &clock).await.expect("opens");
        assert_content(&*store, &list).await;
        attributes::assert_present(directory.path());
        store.close().await.expect("closes");
    }
    let store = connect(&server, &clock).await.expect("connects");
    assert_content(&*store, &list).await;
    store.close().await.expect("closes");
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn listing(content: &Content) -> Value {
    json!({ "now": content.now.to_string(), "jobs": content.jobs, "topics": content.topics })
}

/// Writes a file of a new set. An existing file is not overwritten.
fn write_fixture_file(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("has a folder")).expect("is made");
    let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    file.expect("a new set has a new folder").write_all(bytes).expect("writes");
}

/// The whole content of a Redis as commands: its rewritten append-only file.
fn commands(server: &RedisServer) -> Vec<u8> {
    let mut redis = Resp::connect(([127, 0, 0, 1], server.port).into()).expect("connects");
    let dir = redis.call(&["CONFIG", "GET", "dir"]).list().pop().expect("a value").text();
    redis.call(&["BGREWRITEAOF"]);
    let base = Path::new(&dir).join("appendonlydir/appendonly.aof.2.base.aof");
    let mut rounds = 0;
    while !base.exists() || !redis.call(&["INFO", "persistence"]).text().contains("_rewrite_in_progress:0") {
        rounds += 1;
        assert!(rounds < 1_000_000, "Redis did not rewrite the file");
    }
    read(&base)
}
