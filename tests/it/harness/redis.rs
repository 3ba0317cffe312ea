//! One Redis for the whole test process, each bench under a prefix of its own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A Redis server that ends with the process that started it.
pub struct RedisServer {
    pub port: u16,
    _dir: tempfile::TempDir,
    _child: Child,
}

impl RedisServer {
    /// Starts `redis-server` on a free port of the loopback, without persistence.
    pub fn start() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts `redis-server` with these arguments besides.
    pub fn start_with(arguments: &[&str]) -> Self {
        for _ in 0..20 {
            let port = free_port();
            let dir = tempfile::tempdir().expect("a temporary directory");
            if let Some(child) = spawn(port, dir.path(), arguments) {
                return Self { port, _dir: dir, _child: child };
            }
        }
        panic!("redis-server found no free port in twenty tries");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("has an address").port()
}

/// Runs the server under a shell that reads from us, so that it ends when this process does, however
/// that comes about; `None` when the port was taken in between.
fn spawn(port: u16, dir: &std::path::Path, arguments: &[&str]) -> Option<Child> {
    let script = "redis-server \"$@\" & server=$!; read -r _; kill $server; wait $server";
    let port = port.to_string();
    let mut child = Command::new("sh")
        .args(["-c", script, "sh", "--port", &port, "--bind", "127.0.0.1"])
        .args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"])
        .arg("--dir")
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let mut log = Vec::new();
    let ready = lines.by_ref().any(|line| {
        let ready = line.contains("Ready to accept connections");
        log.push(line);
        ready
    });
    if ready {
        // Kept reading, or the server would block once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        return Some(child);
    }
    drop(child.stdin.take());
    let _ = child.wait();
    let taken = log.iter().any(|line| line.contains("Address already in use"));
    assert!(taken, "redis-server did not start; install it with scripts/test. It said: {log:?}");
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
