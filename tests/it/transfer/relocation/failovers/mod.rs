//! `linger move` while a Redis fails over: the real program, and a primary that is lost in the middle. The run ends well
//! or says why not, and the next one completes the move; then all jobs are in the target alone.

mod cluster;
mod replaced;
mod sentinel;
mod unreplicated;

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::program::{add, run_to};
use crate::harness::{
    process::{Server, linger, refused, stderr, wait_for_exit},
    process_stats,
    proxy::Proxy,
    redis::{RedisServer, fresh_prefix, shared},
    resp::Resp,
    wait::{TimeLimit, join},
};

/// Jobs to move: three times as many as a mover stores at a time.
const JOBS: usize = 1_500;
/// Jobs of [`fill`] besides those that wait: reserved, dead and ready ones.
const OTHER_JOBS: usize = 3;

/// A move from the store of `source.toml` to that of `target.toml`.
struct Setup {
    directory: TempDir,
}

impl Setup {
    fn new(source: &str, target: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, settings) in [(SOURCE, source), (TARGET, target)] {
            fs::write(directory.path().join(name), settings).expect("writes");
        }
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn serve(&self, store: &str) -> Server {
        Server::serve(&["--config", store], &[], self.path())
    }

    /// Starts a run.
    fn start(&self, flags: &[&str]) -> Mover {
        self.start_command(&[&MOVE[..], flags].concat())
    }

    fn start_command(&self, arguments: &[&str]) -> Mover {
        let mut command = linger(arguments, self.path());
        Mover(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts"))
    }

    /// A run that succeeds.
    fn run(&self, flags: &[&str]) -> String {
        run_to(0, &[&MOVE[..], flags].concat(), self.path())
    }

    /// Why a server does not start on the store.
    fn why_refused(&self, store: &str) -> String {
        stderr(&refused(&["serve", "--listen", "127.0.0.1:0", "--config", store], self.path()))
    }

    /// Everything that the store has, by an export.
    fn content(&self, store: &str) -> Content {
        let name = format!("{store}.{}", rand::random::<u32>());
        run_to(0, &["export", &name, "--config", store], self.path());
        Content::parse(&fs::read_to_string(self.path().join(name)).expect("reads"))
    }

    /// Asserts that the move is complete: the target has exactly `expected` and serves it, and the source is closed.
    fn assert_moved(&self, expected: &Content) {
        let moved = self.content(TARGET);
        let differing = expected.difference(&moved);
        assert!(moved == *expected, "the target differs from the source, such as in {differing:?}");
        let why = self.why_refused(SOURCE);
        assert!(why.contains("its jobs were moved to "), "{why}");
        let verified = run_to(0, &["verify", "--config", TARGET], self.path());
        assert!(verified.contains(&format!("jobs       {} (", moved.jobs.len())), "{verified}");
        let server = self.serve(TARGET);
        let (id, job) = moved.jobs.iter().find(|(_, job)| job["state"] == WAITING).expect("jobs that wait");
        let there = server.call("GET", &format!("/jobs/{id}"), "").json();
        assert_eq!(there["due_at"], job["due_at"]);
        assert_eq!(server.call("DELETE", &format!("/jobs/{id}"), "").status, 204);
        assert!(server.stop().success());
    }
}

/// After how long without an answer a primary is replaced that a test has taken away, in milliseconds, and all others: none
/// is replaced only because the machine is busy. The first is longer than a machine stands still: the one that has just taken over
/// would be replaced by another one, without what it has acknowledged.
const REPLACED_AFTER_MS: [u32; 2] = [3_000, 60_000];

const SOURCE: &str = "source.toml";
const TARGET: &str = "target.toml";
const MOVE: [&str; 5] = ["move", "--config", SOURCE, "--to", TARGET];
const LAST: [&str; 1] = ["--last"];

/// A store on the Redis that all tests share, behind a proxy: its settings and its prefix.
fn standalone() -> (Proxy, String, String) {
    let (proxy, prefix) = (Proxy::start(shared().address()), fresh_prefix());
    let url = format!("redis://{}", proxy.address);
    let settings = format!("[store]\nengine = 'redis'\n[redis]\nurl = '{url}'\nprefix = '{prefix}'\n");
    (proxy, settings, prefix)
}

/// Jobs and settings of a store. A job that waits counts as waiting whether it is due already or not.
#[derive(Debug, PartialEq)]
struct Content {
    topics: Vec<Value>,
    jobs: BTreeMap<String, Value>,
}

const WAITING: &str = "waiting";

impl Content {
    fn parse(export: &str) -> Self {
        let mut content = Self { topics: Vec::new(), jobs: BTreeMap::new() };
        for line in export.lines() {
            let mut line: Value = serde_json::from_str(line).expect("is JSON");
            if line.get("topic").is_some() {
                content.topics.push(line);
            } else if let Some(job) = line.get_mut("job").map(Value::take) {
                content.add(job);
            }
        }
        content
    }

    fn add(&mut self, mut job: Value) {
        if job["state"] == "ready" || job["state"] == "delayed" {
            job["state"] = WAITING.into();
        }
        let id = job["id"].as_str().expect("an id").to_owned();
        let earlier = self.jobs.insert(id, job);
        assert_eq!(earlier, None, "a job is there twice");
    }

    /// Asserts that at least this number of jobs is there, besides those that were acknowledged.
    fn assert_has(&self, count: usize, acknowledged: &[String]) {
        assert!(self.jobs.len() >= count + acknowledged.len(), "{}", self.jobs.len());
        for id in acknowledged {
            assert!(self.jobs.contains_key(id), "{id} was acknowledged and is lost");
        }
    }

    /// Some jobs that differ, or are in one of both only.
    fn difference(&self, other: &Self) -> Vec<[Option<Value>; 2]> {
        let ids = self.jobs.keys().chain(other.jobs.keys());
        let differing = ids.filter(|id| self.jobs.get(*id) != other.jobs.get(*id)).take(3);
        differing.map(|id| [self, other].map(|content| content.jobs.get(id).cloned())).collect()
    }
}

/// Adds jobs in each state and settings of a topic: `count` jobs that wait, and [`OTHER_JOBS`].
fn fill(server: &Server, name: &str, count: usize) {
    assert_eq!(server.call("PUT", "/topics/t", r#"{"ttr":5}"#).status, 200);
    let pop = |id: &str| {
        assert_eq!(add(server, &format!(r#"{{"topic":"{name}","id":"{name}-{id}"}}"#)), 201);
        let popped = server.call("GET", &format!("/topics/{name}/pop?ttr=1h&wait=20s"), "").json();
        assert_eq!(popped["id"], format!("{name}-{id}"));
        popped["receipt"].clone()
    };
    pop("reserved");
    let bury = json!({"receipt": pop("dead"), "reason": "no such order"}).to_string();
    assert_eq!(server.call("POST", &format!("/jobs/{name}-dead/bury"), &bury).status, 200);
    assert_eq!(add(server, &format!(r#"{{"topic":"{name}","id":"{name}-ready"}}"#)), 201);
    for first in (0..count).step_by(1_000) {
        let job =
            |n: usize| format!(r#"{{"topic":"t","id":"{name}-{n}","delay":{},"body":{n}}}"#, 86_400 + n);
        let jobs: Vec<String> = (first..count.min(first + 1_000)).map(job).collect();
        let added = server.call("POST", "/batch/jobs", &format!(r#"{{"jobs":[{}]}}"#, jobs.join(",")));
        assert_eq!(added.status, 200, "{added:?}");
        assert_eq!(added.body.matches(r#""status":201"#).count(), jobs.len(), "{added:?}");
    }
}

/// Ends the producer and the server of the source after a move of two times [`fill`], and asserts that everything that was
/// acknowledged was moved.
fn assert_moved_whole(setup: &Setup, server: Server, producer: Producer) {
    let acknowledged = producer.end();
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    content.assert_has(2 * (JOBS + OTHER_JOBS), &acknowledged);
    setup.assert_moved(&content);
}

/// The jobs under a prefix at a primary.
fn jobs_at(primary: &RedisServer, prefix: &str) -> usize {
    jobs_in(&[primary.address()], prefix)
}

/// The jobs under a prefix at all of these primaries.
fn jobs_in(primaries: &[SocketAddr], prefix: &str) -> usize {
    let jobs = primaries.iter().map(|primary| {
        let mut connection = Resp::connect(*primary).expect("the server listens");
        let keys = connection.call(&["KEYS", &format!("{{{prefix}:*}}:jobs")]).list();
        keys.into_iter().map(|key| connection.call(&["HLEN", &key.text()]).int()).sum::<i64>()
    });
    usize::try_from(jobs.sum::<i64>()).expect("a count")
}

/// A moment in the copying: some jobs have been copied since it was planned, and others have not.
struct Middle<'a> {
    /// In front of either store. It holds back what follows, and the mover stands still, because it needs that store to go on.
    proxy: &'a Proxy,
    primaries: Vec<SocketAddr>,
    prefix: &'a str,
    before: usize,
}

impl<'a> Middle<'a> {
    /// Plans it for the next jobs that are copied to these primaries of the target.
    fn plan(proxy: &'a Proxy, primaries: Vec<SocketAddr>, prefix: &'a str) -> Self {
        let before = jobs_in(&primaries, prefix);
        let (at, under) = (primaries.clone(), prefix.to_owned());
        proxy.hold_when(move || jobs_in(&at, &under) > before);
        Self { proxy, primaries, prefix, before }
    }

    fn copied(&self) -> usize {
        jobs_in(&self.primaries, self.prefix) - self.before
    }
}

/// Asserts that a run that met a failover has ended well, or says in one sentence why not.
fn assert_explained((code, text): (i32, String)) {
    const REASONS: [&str; 3] =
        ["the store is unavailable: ", "the change is not durable: ", "run the command again"];
    let explains = REASONS.iter().any(|reason| text.contains(reason)) && text.lines().count() == 1;
    assert!(code == 0 || code == 1 && text.starts_with("linger: ") && explains, "{code}: {text}");
}

/// A run of `linger move`, or of another command; killed when dropped.
struct Mover(Child);

impl Mover {
    /// Stops the process in the middle of the copying. The call that it has just made is answered.
    fn suspend_in(&self, middle: &Middle<'_>) {
        middle.proxy.wait_until_held();
        self.suspend();
        let copied = middle.copied();
        assert!((1..JOBS).contains(&copied), "{copied} jobs are copied");
        middle.proxy.release();
    }

    fn suspend(&self) {
        self.signal(Signal::STOP);
        let limit = TimeLimit::new();
        while !process_stats::is_stopped(self.0.id()) {
            limit.check(|| "a thread still runs".to_owned());
            limit.pause_thread();
        }
    }

    fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a valid process id");
        kill_process(pid, signal).expect("the mover runs");
    }

    /// Waits for the end. Returns the exit code and what was printed.
    fn wait(mut self) -> (i32, String) {
        let code = wait_for_exit(&mut self.0).code().expect("ends by itself");
        let stdout = std::io::read_to_string(self.0.stdout.take().expect("piped")).expect("is text");
        let stderr = std::io::read_to_string(self.0.stderr.take().expect("piped")).expect("is text");
        (code, stdout + &stderr)
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds jobs one after the other until it is ended.
struct Producer {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Producer {
    fn start(server: &Server) -> Self {
        let (ended, address) = (Arc::new(AtomicBool::new(false)), server.address);
        let is_over = ended.clone();
        let thread = std::thread::spawn(move || {
            let (mut acknowledged, pace) = (Vec::new(), TimeLimit::new());
            for n in 0.. {
                // Some hundred jobs are as good as many thousand, which all have to be moved and compared.
                pace.pause_thread();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("produced-{n}");
                let job = format!(r#"{{"topic":"t","id":"{id}","delay":86400,"body":{n}}}"#);
                let added = crate::harness::blocking_http::call(address, "POST", "/jobs", &job);
                match added.expect("the server answers").status {
                    201 => acknowledged.push(id),
                    status => assert_eq!(status, 503),
                }
            }
            acknowledged
        });
        Self { ended, thread }
    }

    /// Ends it. Returns the jobs whose adds were acknowledged.
    fn end(self) -> Vec<String> {
        self.ended.store(true, Ordering::Relaxed);
        join("the producer", self.thread)
    }
}
