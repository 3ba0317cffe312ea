//! `linger work` from outside: the real worker, its commands and a real server, on each engine where it matters.
//!
//! Commands are lines of the shell. They say on stdout how far they are, which the worker passes on, and wait for a gate,
//! a named pipe that the test opens. No test sleeps.

mod documentation;
mod ends;
mod jobs;
mod leases;
mod open_files;
mod outages;
mod signals;
mod storm;
mod tokens;

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkfifoat},
    process::{Pid, Signal, kill_process, kill_process_group},
};
use serde_json::{Value, json};

use crate::harness::{
    process::{Server, linger, wait_for_exit},
    redis::{fresh_prefix, shared},
    wait::{TimeLimit, join},
};

/// Where the jobs of a test are.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Embedded,
    Redis,
}

/// Makes two tests of each case: one for each engine.
macro_rules! on_each_engine {
    ($($case:ident,)*) => {
        mod embedded {
            $(#[test]
            fn $case() {
                super::$case(&$crate::work::Site::new($crate::work::Engine::Embedded));
            })*
        }
        mod redis {
            $(#[test]
            fn $case() {
                super::$case(&$crate::work::Site::new($crate::work::Engine::Redis));
            })*
        }
    };
}
use on_each_engine;

/// A server, and a directory for it and for the commands of its jobs.
struct Site {
    directory: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new(engine: Engine) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        if let Engine::Redis = engine {
            let (url, prefix) = (shared().url(), fresh_prefix());
            let settings =
                format!("[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
            fs::write(directory.path().join("linger.toml"), settings).expect("can be written");
        }
        let server = Server::serve(&[], &[], directory.path());
        Self { directory, server }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Adds a job of the topic `t` with this id; `more` is merged into it.
    #[track_caller]
    fn add(&self, id: &str, more: Value) {
        let mut job = json!({ "topic": "t", "id": id });
        let more = more.as_object().expect("an object").clone();
        job.as_object_mut().expect("an object").extend(more);
        let added = self.server.call("POST", "/jobs", &job.to_string());
        assert_eq!(added.status, 201, "{added:?}");
    }

    /// A worker for the topic `t` with these flags whose command is a line of the shell.
    fn worker(&self, flags: &[&str], line: &str) -> Worker {
        self.worker_at(&self.server.url(), flags, line)
    }

    fn worker_at(&self, url: &str, flags: &[&str], line: &str) -> Worker {
        Worker::start(&[&["t", "--exec", line], flags].concat(), &[("LINGER_URL", url)], self.path())
    }

    /// The same, but its output goes elsewhere, where it is taken as fast as the command prints.
    fn worker_into(&self, output: impl Into<Stdio>, flags: &[&str], line: &str) -> Worker {
        let mut command = linger(&[&["work", "t", "--exec", line], flags].concat(), self.path());
        command.env("LINGER_URL", self.server.url()).stdout(output).stderr(Stdio::null());
        let child = command.spawn().expect("linger starts");
        Worker { child, events: Arc::default(), errors: Arc::default(), reading: Vec::new() }
    }

    /// Makes a gate that commands wait for by `read -r _ <NAME`.
    fn gate(&self, name: &str) {
        let path = self.path().join(name);
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a named pipe");
    }

    /// Lets one command through a gate; waits until it is there.
    #[track_caller]
    fn open(&self, name: &str) {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let time_limit = TimeLimit::new();
        loop {
            // Fails until the command reads from the gate.
            let opened = OpenOptions::new().write(true).custom_flags(flags).open(self.path().join(name));
            match opened {
                Ok(mut gate) => return gate.write_all(b"\n").expect("the command reads"),
                Err(error) => time_limit.check(|| format!("{name}: {error}")),
            }
            time_limit.pause_thread();
        }
    }

    /// What a command wrote into a file; nothing if it wrote none.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }
}

/// A running worker; killed when dropped, and with it the commands that said their process id.
struct Worker {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    errors: Arc<Mutex<String>>,
    reading: Vec<JoinHandle<()>>,
}

impl Worker {
    fn start(arguments: &[&str], variables: &[(&str, &str)], directory: &Path) -> Self {
        let mut command = linger(&[&["work"], arguments].concat(), directory);
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Starts a command line of a worker.
    fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("linger starts");
        let (events, errors) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<String>>::default());
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (to_events, to_errors) = (events.clone(), errors.clone());
        let reading = vec![
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let event = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "text": line }));
                    to_events.lock().expect("not poisoned").push(event);
                }
            }),
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut errors = to_errors.lock().expect("not poisoned");
                    errors.push_str(&line);
                    errors.push('\n');
                }
            }),
        ];
        Self { child, events, errors, reading }
    }

    fn events(&self) -> Vec<Value> {
        self.events.lock().expect("not poisoned").clone()
    }

    /// The names of the events, and the ids of their jobs, without what commands print.
    fn story(&self) -> Vec<String> {
        let events = self.events();
        let named = events.iter().filter(|event| event["line"].is_null());
        named
            .map(|event| [&event["event"], &event["id"]].map(|v| v.as_str().unwrap_or("-")).join(" "))
            .collect()
    }

    /// Waits for the first event that has these members.
    #[track_caller]
    fn wait_for(&self, members: &Value) -> Value {
        self.wait_for_number(1, members)
    }

    /// Waits for the n-th event that has these members.
    #[track_caller]
    fn wait_for_number(&self, number: usize, members: &Value) -> Value {
        let time_limit = TimeLimit::new();
        let members = members.as_object().expect("an object");
        loop {
            let has_all = |event: &Value| members.iter().all(|(name, value)| event[name] == *value);
            if let Some(event) = self.events().into_iter().filter(has_all).nth(number - 1) {
                return event;
            }
            time_limit.check(|| format!("no {members:?} in {:#?}\n{}", self.events(), self.errors()));
            time_limit.pause_thread();
        }
    }

    /// Waits until a command prints this line.
    #[track_caller]
    fn wait_for_line(&self, line: &str) -> Value {
        self.wait_for(&json!({ "line": line }))
    }

    /// Waits until a command prints `word` and a process id, which it returns.
    #[track_caller]
    fn wait_for_pid(&self, word: &str) -> Process {
        let time_limit = TimeLimit::new();
        loop {
            let events = self.events();
            let pid = events
                .iter()
                .find_map(|event| event["line"].as_str()?.strip_prefix(word)?.trim().parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                return Process(pid);
            }
            time_limit.check(|| format!("no {word} in {events:#?}"));
            time_limit.pause_thread();
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the worker runs");
    }

    fn errors(&self) -> String {
        self.errors.lock().expect("not poisoned").clone()
    }

    /// Waits for the worker's end.
    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let status = wait_for_exit(&mut self.child);
        self.reading.drain(..).for_each(|thread| join("the output", thread));
        status
    }

    /// Waits for the worker's end, which must have this exit code.
    #[track_caller]
    fn ends_with(&mut self, code: i32) {
        let status = self.wait();
        assert_eq!(status.code(), Some(code), "{:#?}\n{}", self.events(), self.errors());
    }

    /// Ends the worker in order.
    #[track_caller]
    fn stop(mut self) {
        self.signal(Signal::TERM);
        self.ends_with(0);
    }

    /// Ends the worker in order; this is all that happened to its jobs. A server that is slow for a moment may have counted as
    /// away.
    #[track_caller]
    fn stop_with_story_of_jobs(mut self, story: &[&str]) {
        self.signal(Signal::TERM);
        self.ends_with(0);
        let mut told = self.story();
        told.retain(|event| !["away -", "back -"].contains(&event.as_str()));
        assert_eq!(told, story, "{:#?}", self.events());
    }

    /// Ends the worker in order; this is all that happened, as in [`story`](Self::story).
    #[track_caller]
    fn stop_with_story(mut self, story: &[&str]) {
        self.signal(Signal::TERM);
        self.ends_with(0);
        assert_eq!(self.story(), story, "{:#?}", self.events());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that a command told of; its group is killed when dropped.
#[must_use]
struct Process(Pid);

impl Process {
    /// Whether it runs. A process that has ended may stay a zombie where the init process reaps no orphans.
    fn runs(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
    }

    #[track_caller]
    fn wait_until_gone(&self) {
        let time_limit = TimeLimit::new();
        while self.runs() {
            time_limit.check(|| format!("process {:?} still runs", self.0));
            time_limit.pause_thread();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.runs() {
            let _ = kill_process_group(self.0, Signal::KILL);
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}
