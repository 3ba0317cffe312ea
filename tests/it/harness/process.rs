//! The real program from outside: it is started in a directory of its own with a clean environment, and ended by
//! signals. Every process that is started here ends with the test.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    blocking_http::{Response, call_until_begun},
    process_stats,
    wait::{LONGEST, TimeLimit, join},
};

/// The command `linger` with these arguments, in `directory`, with no environment variable of this process except `PATH`.
/// The variable `LINGER_PROGRAM` names another build to test, such as a release.
pub fn linger(arguments: &[&str], directory: &Path) -> Command {
    linger_under(&[], arguments, directory)
}

/// Like [`linger`], started by another program whose words come first.
pub fn linger_under(wrapper: &[&str], arguments: &[&str], directory: &Path) -> Command {
    let default_program = || env!("CARGO_BIN_EXE_linger").into();
    let program = std::env::var_os("LINGER_PROGRAM").unwrap_or_else(default_program);
    let words = wrapper.iter().map(OsString::from).chain([program]);
    let mut words = words.chain(arguments.iter().map(OsString::from));
    let mut command = Command::new(words.next().expect("the words contain the program"));
    command.args(words).current_dir(directory).env_clear();
    command.env("PATH", std::env::var_os("PATH").expect("PATH is set")).stdin(Stdio::null());
    command
}

/// Runs `linger` until it ends.
#[track_caller]
pub fn run(arguments: &[&str], directory: &Path) -> Output {
    run_to_end(linger(arguments, directory))
}

/// Runs a command until it ends. One that takes too long is killed.
#[track_caller]
pub fn run_to_end(mut command: Command) -> Output {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let [stdout, stderr] = [read_to_end(stdout), read_to_end(stderr)];
    let status = wait_for_exit(&mut child);
    // A process that the program started may still have them open.
    let [stdout, stderr] = [("stdout", stdout), ("stderr", stderr)].map(|(what, thread)| join(what, thread));
    Output { status, stdout, stderr }
}

fn read_to_end(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("can be read");
        all
    })
}

/// Waits for the end of a child. Kills it if that takes too long.
#[track_caller]
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let time_limit = TimeLimit::new();
    loop {
        if let Some(status) = child.try_wait().expect("is a child of this process") {
            return status;
        }
        time_limit.check(|| {
            let _ = child.kill();
            "the process has not ended".to_owned()
        });
        time_limit.pause_thread();
    }
}

/// Reads the first line, within the time limit. Returns it, and the thread that reads the rest.
pub fn read_first_line(from: impl Read + Send + 'static) -> (String, JoinHandle<String>) {
    let (sender, first) = mpsc::channel();
    let rest = std::thread::spawn(move || {
        let (mut from, mut line, mut rest) = (BufReader::new(from), String::new(), String::new());
        from.read_line(&mut line).expect("is text");
        let _ = sender.send(line);
        from.read_to_string(&mut rest).expect("is text");
        rest
    });
    (first.recv_timeout(*LONGEST).expect("the program prints a line or ends in time"), rest)
}

/// Runs a command line that must be refused. Panics if it starts to serve instead.
#[track_caller]
pub fn refused(arguments: &[&str], directory: &Path) -> Output {
    let output = run(arguments, directory);
    assert_eq!(stdout(&output), "", "the command line was not refused");
    output
}

/// What a command wrote to stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command wrote to stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The end of a server that never listened.
#[derive(Debug)]
pub struct Refused {
    pub status: ExitStatus,
    /// What the server wrote.
    pub log: String,
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// The line with the address that the server listens on.
    pub line: String,
    /// The address that the server listens on.
    pub address: SocketAddr,
    log: Arc<Mutex<String>>,
    /// Returns what stdout had after the line.
    rest: Option<JoinHandle<String>>,
    log_thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server with these arguments and waits until it listens. Panics with its log if it ends instead.
    pub fn start(arguments: &[&str], directory: &Path) -> Self {
        Self::spawn(linger(arguments, directory))
    }

    /// Starts a server on a free port, with these additional arguments and variables.
    pub fn serve(arguments: &[&str], variables: &[(&str, &str)], directory: &Path) -> Self {
        let mut command = linger(&["serve", "--listen", "127.0.0.1:0"], directory);
        command.args(arguments).envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Starts a command line that serves.
    pub fn spawn(command: Command) -> Self {
        Self::try_spawn(command).unwrap_or_else(|refused| panic!("linger did not start: {refused:?}"))
    }

    /// Starts a command line that may be refused.
    pub fn try_spawn(mut command: Command) -> Result<Self, Refused> {
        Self::try_from_child(
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linger starts"),
        )
    }

    /// Takes over a server that was just started with its stdout piped, and possibly its stderr.
    pub fn from_child(child: Child) -> Self {
        Self::try_from_child(child).unwrap_or_else(|refused| panic!("linger did not start: {refused:?}"))
    }

    /// Like [`from_child`](Self::from_child), for a server that may refuse to start.
    pub fn try_from_child(mut child: Child) -> Result<Self, Refused> {
        let log = Arc::new(Mutex::new(String::new()));
        let log_thread = child.stderr.take().map(|stderr| collect(stderr, log.clone()));
        let (line, rest) = read_first_line(child.stdout.take().expect("piped"));
        let Some(address) = address_in(&line) else {
            let status = wait_for_exit(&mut child);
            if let Some(log_thread) = log_thread {
                join("stderr", log_thread);
            }
            let log = format!("{line}{}", log.lock().expect("not poisoned"));
            return Err(Refused { status, log });
        };
        Ok(Self { child, line, address, log, rest: Some(rest), log_thread })
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a valid process id");
        kill_process(pid, signal).expect("the server runs");
    }

    /// Stops the process until it gets [`Signal::CONT`]. Returns once all its threads have stopped.
    pub fn suspend(&self) {
        self.signal(Signal::STOP);
        let time_limit = TimeLimit::new();
        while !process_stats::is_stopped(self.pid()) {
            time_limit.check(|| "a thread still runs".to_owned());
            time_limit.pause_thread();
        }
    }

    /// Waits for the server's end. Returns its status and what it wrote to stdout after its line.
    #[track_caller]
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let status = wait_for_exit(&mut self.child);
        // A process that the server started may still have them open.
        if let Some(log_thread) = self.log_thread.take() {
            join("stderr", log_thread);
        }
        let rest = self.rest.take().map(|rest| join("stdout", rest));
        (status, rest.unwrap_or_default())
    }

    /// Whether the server has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the server is a child of this process").is_some()
    }

    /// Kills the server (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Sends SIGTERM and waits for the server's end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait().0
    }

    /// The log so far; the whole log after [`wait`](Self::wait).
    pub fn log(&self) -> String {
        self.log.lock().expect("not poisoned").clone()
    }

    /// Waits until the log contains `text`.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        let time_limit = TimeLimit::new();
        while !self.log().contains(text) {
            time_limit.check(|| format!("no {text:?} in {}", self.log()));
            time_limit.pause_thread();
        }
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls the server on a new connection.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Response {
        self.try_call(method, path, body).expect("the server answers")
    }

    /// Like [`call`](Self::call), for a server that may have ended.
    pub fn try_call(&self, method: &str, path: &str, body: &str) -> std::io::Result<Response> {
        call_until_begun(self.address, method, path, body)
    }

    /// Waits until the server begins changes: for a second after it was paused it begins none.
    #[track_caller]
    pub fn wait_until_it_begins_changes(&self) {
        assert_eq!(self.call("DELETE", "/jobs/none", "").status, 404);
    }

    /// Waits until `/readyz` answers 503.
    #[track_caller]
    pub fn wait_until_unready(&self) {
        self.wait_for_readyz(503);
    }

    /// Waits until `/readyz` answers 200.
    #[track_caller]
    pub fn wait_until_ready(&self) {
        self.wait_for_readyz(200);
    }

    #[track_caller]
    fn wait_for_readyz(&self, status: u16) {
        let time_limit = TimeLimit::new();
        while self.call("GET", "/readyz", "").status != status {
            time_limit.check(|| format!("/readyz does not answer {status}: {}", self.log()));
            time_limit.pause_thread();
        }
    }

    /// The job as it is now; null if it is gone.
    pub fn job(&self, id: &str) -> Value {
        let found = self.call("GET", &format!("/jobs/{id}"), "");
        if found.status == 404 { Value::Null } else { found.json() }
    }

    /// Waits until the job is in this state; null for gone.
    #[track_caller]
    pub fn wait_for_state(&self, id: &str, state: &Value) {
        let time_limit = TimeLimit::new();
        while self.job(id)["state"] != *state {
            time_limit.check(|| self.job(id).to_string());
            time_limit.pause_thread();
        }
    }

    /// Waits until heartbeats have renewed the reservation of a job this many times.
    #[track_caller]
    pub fn wait_for_renewals(&self, id: &str, number: usize) {
        let time_limit = TimeLimit::new();
        let mut seen = vec![self.job(id)["reserved_until"].clone()];
        while seen.len() <= number {
            let until = self.job(id)["reserved_until"].clone();
            assert!(until.is_string(), "the reservation is over: {}", self.job(id));
            if seen.last() != Some(&until) {
                seen.push(until);
            }
            time_limit.check(|| format!("{seen:?}"));
            time_limit.pause_thread();
        }
    }

    /// Waits until exactly this number of polls is parked.
    #[track_caller]
    pub fn wait_for_parked_polls(&self, polls: usize) {
        self.wait_for_metric("linger_parked_polls", polls as f64);
    }

    /// Waits until a metric has exactly this value.
    #[track_caller]
    pub fn wait_for_metric(&self, name: &str, value: f64) {
        let time_limit = TimeLimit::new();
        loop {
            let seen = self.metric(name);
            if seen == Some(value) {
                return;
            }
            time_limit.check(|| format!("{name} {seen:?}, not {value}"));
            time_limit.pause_thread();
        }
    }

    /// The present value of a metric, or `None` if the server does not have it.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let page = self.call("GET", "/metrics", "").body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(value.parse().expect("a number"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects whole lines, so that no test reads part of a line.
fn collect(from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut from, mut line) = (BufReader::new(from), Vec::new());
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            into.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.split_once("://")?.1.split_once(',')?.0.parse().ok()
}
