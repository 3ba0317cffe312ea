//! Redis servers for the tests: one that the whole process shares, each bench under a prefix of its
//! own, and others that a test may stop, kill and start again. `LINGER_REDIS_SERVER` names the program.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};

/// A Redis server that ends with the process that started it.
pub struct RedisServer {
    pub port: u16,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
    running: Mutex<Running>,
}

/// A server at work, or one that was killed and not started again.
struct Running {
    /// The shell that ends the server when its stdin is closed; it keeps the server's id from being given
    /// to another process.
    keeper: Child,
    server: Pid,
}

impl RedisServer {
    /// Starts `redis-server` on a free port of the loopback, without persistence.
    pub fn start() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts `redis-server` with these arguments besides.
    pub fn start_with(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        for _ in 0..20 {
            let port = free_port();
            let dir = tempfile::tempdir().expect("a temporary directory");
            if let Some(running) = spawn(port, dir.path(), &arguments) {
                return Self { port, dir, arguments, running: Mutex::new(running) };
            }
        }
        panic!("redis-server found no free port in twenty tries");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it on the spot (SIGKILL) and waits for the end.
    pub fn kill(&self) {
        self.running.lock().expect("not poisoned").end();
    }

    /// Stops it in its tracks (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped one go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it again on its port and directory, after killing it if it still runs.
    pub fn restart(&self) {
        let mut running = self.running.lock().expect("not poisoned");
        running.end();
        *running = spawn(self.port, self.dir.path(), &self.arguments).expect("its port is its own");
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.running.lock().expect("not poisoned").server, signal).expect("it runs");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Has the shell kill the server; nothing happens when that was done before.
    fn end(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().expect("is a child of ours");
    }
}

/// A port that nothing listens on and that this process gives out once. It lies below those that the
/// system gives to outgoing connections: one of these could take the port while its server is away, or
/// even connect to itself. The port ten thousand above it, which a Cluster's servers use among
/// themselves, does too.
fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 12_000;
    static TURN: OnceLock<AtomicU16> = OnceLock::new();
    let turn = TURN.get_or_init(|| AtomicU16::new(rand::random()));
    loop {
        let port = FIRST + turn.fetch_add(1, Ordering::Relaxed) % COUNT;
        if [port, port + 10_000].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            return port;
        }
    }
}

/// Runs the server under a shell that reads from us, so that it ends when this process does, however
/// that comes about; `None` when the port was taken in between.
fn spawn(port: u16, dir: &Path, arguments: &[String]) -> Option<Running> {
    // Killed outright: one that was stopped would not hear anything milder. The shell lets go of stdout,
    // so that it ends when the server does.
    let script = "\"$@\" & server=$!; echo $server; exec >&-; read -r _; kill -9 $server; wait $server";
    let program = std::env::var("LINGER_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let port = port.to_string();
    let mut keeper = Command::new("sh")
        .args(["-c", script, "sh", &program, "--port", &port, "--bind", "127.0.0.1"])
        .args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"])
        .arg("--dir")
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs");
    let output = BufReader::new(keeper.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let server = lines.next().and_then(|pid| Pid::from_raw(pid.parse().ok()?)).expect("sh tells the id");
    let mut running = Running { keeper, server };
    let mut log = Vec::new();
    let ready = lines.by_ref().any(|line| {
        let ready = line.contains("Ready to accept connections");
        log.push(line);
        ready
    });
    if ready {
        // Kept reading, or the server would block once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        return Some(running);
    }
    running.end();
    let taken = log.iter().any(|line| line.contains("Address already in use"));
    assert!(taken, "{program} did not start; install it with scripts/test. It said: {log:?}");
    None
}

/// The server that all tests share.
pub fn shared() -> &'static RedisServer {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    SERVER.get_or_init(RedisServer::start)
}

/// A key prefix that nobody else in this process uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
