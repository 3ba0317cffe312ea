//! The real program from outside: started in a directory of its own with a clean environment, ended by
//! signals. Everything that it starts ends with the test.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    plain::{Answer, call},
    wait::Patience,
};

/// `linger` with these arguments, in `directory`, with no environment variable of this process except the path. `LINGER_PROGRAM` names another build to test, such as a release.
pub fn linger(arguments: &[&str], directory: &Path) -> Command {
    linger_under(&[], arguments, directory)
}

/// The same started by another program, whose words come first.
pub fn linger_under(wrapper: &[&str], arguments: &[&str], directory: &Path) -> Command {
    let built = || env!("CARGO_BIN_EXE_linger").into();
    let program = std::env::var_os("LINGER_PROGRAM").unwrap_or_else(built);
    let words = wrapper.iter().map(OsString::from).chain([program]);
    let mut words = words.chain(arguments.iter().map(OsString::from));
    let mut command = Command::new(words.next().expect("at least the program"));
    command.args(words).current_dir(directory).env_clear();
    command.env("PATH", std::env::var_os("PATH").expect("there is a path")).stdin(Stdio::null());
    command
}

/// Runs `linger` until it ends.
pub fn run(arguments: &[&str], directory: &Path) -> Output {
    linger(arguments, directory).output().expect("linger runs")
}

/// Runs a command line that should be refused; one that serves instead fails the test.
pub fn refused(arguments: &[&str], directory: &Path) -> Output {
    let mut command = linger(arguments, directory);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linger starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("stdout is text");
    if !line.is_empty() {
        child.kill().expect("it runs");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(line, "", "was not refused");
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

/// A server that ended before it listened.
#[derive(Debug)]
pub struct Refused {
    pub status: ExitStatus,
    /// What it wrote.
    pub log: String,
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// The line that says where it listens.
    pub line: String,
    /// The address it listens on.
    pub address: SocketAddr,
    log: Arc<Mutex<String>>,
    /// Yields what stdout had after the line.
    rest: Option<JoinHandle<String>>,
    logging: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server with these arguments and waits until it listens; panics with its log when it ends
    /// instead.
    pub fn start(arguments: &[&str], directory: &Path) -> Self {
        Self::spawn(linger(arguments, directory))
    }

    /// Starts one on a free port, with these arguments and variables besides.
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
        Self::try_adopt(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
    }

    /// Takes over a server that was just started with its stdout piped, perhaps its stderr too.
    pub fn adopt(child: Child) -> Self {
        Self::try_adopt(child).unwrap_or_else(|refused| panic!("linger did not start: {refused:?}"))
    }

    /// The same for one that may refuse to start.
    pub fn try_adopt(mut child: Child) -> Result<Self, Refused> {
        let log = Arc::new(Mutex::new(String::new()));
        let logging = child.stderr.take().map(|stderr| collect(stderr, log.clone()));
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout is text");
        let Some(address) = address_in(&line) else {
            let status = child.wait().expect("it ends");
            if let Some(logging) = logging {
                logging.join().expect("does not panic");
            }
            let log = format!("{line}{}", log.lock().expect("not poisoned"));
            return Err(Refused { status, log });
        };
        let rest = Some(std::thread::spawn(move || {
            let mut rest = String::new();
            stdout.read_to_string(&mut rest).expect("stdout is text");
            rest
        }));
        Ok(Self { child, line, address, log, rest, logging })
    }

    /// Its process, to look at from outside.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("is a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end: the status, and what it wrote to stdout after its line.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        if let Some(logging) = self.logging.take() {
            logging.join().expect("does not panic");
        }
        let rest = self.rest.take().map(|rest| rest.join().expect("does not panic"));
        (status, rest.unwrap_or_default())
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("is a child of ours").is_some()
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait().0
    }

    /// What it has logged so far; all of it after [`wait`](Self::wait).
    pub fn log(&self) -> String {
        self.log.lock().expect("not poisoned").clone()
    }

    /// Waits until it has logged `text`.
    #[track_caller]
    pub fn logged(&self, text: &str) {
        let patience = Patience::new();
        while !self.log().contains(text) {
            patience.or_fail(|| format!("no {text:?} in {}", self.log()));
            std::thread::yield_now();
        }
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls it on a connection of its own.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        self.try_call(method, path, body).expect("it answers")
    }

    /// The same, where it may have gone.
    pub fn try_call(&self, method: &str, path: &str, body: &str) -> std::io::Result<Answer> {
        call(self.address, method, path, body)
    }

    /// Waits until `/readyz` answers 503.
    #[track_caller]
    pub fn turns_unready(&self) {
        self.turns(503);
    }

    /// Waits until `/readyz` answers 200.
    #[track_caller]
    pub fn turns_ready(&self) {
        self.turns(200);
    }

    #[track_caller]
    fn turns(&self, status: u16) {
        let patience = Patience::new();
        while self.call("GET", "/readyz", "").status != status {
            patience.or_fail(|| format!("/readyz does not answer {status}: {}", self.log()));
            std::thread::yield_now();
        }
    }

    /// Waits until exactly `polls` polls are parked.
    #[track_caller]
    pub fn parked(&self, polls: usize) {
        self.shows("linger_parked_polls", polls as f64);
    }

    /// Waits until a metric has exactly this value.
    #[track_caller]
    pub fn shows(&self, figure: &str, value: f64) {
        let patience = Patience::new();
        loop {
            let seen = self.figure(figure);
            if seen == Some(value) {
                return;
            }
            patience.or_fail(|| format!("{figure} {seen:?}, not {value}"));
        }
    }

    /// The present value of a metric; `None` when it is not there.
    pub fn figure(&self, figure: &str) -> Option<f64> {
        let page = self.call("GET", "/metrics", "").body;
        let value = page.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(' '))?;
        Some(value.parse().expect("a number"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut part = [0; 4_096];
        while let Ok(len) = from.read(&mut part)
            && len > 0
        {
            into.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&part[..len]));
        }
    })
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.split_once("://")?.1.split_once(',')?.0.parse().ok()
}
