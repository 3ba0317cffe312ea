//! Redis servers for the tests: one that the whole process shares, each bench under a prefix of its
//! own, and others that a test may stop, kill and start again. `LINGER_REDIS_SERVER` names the program.

use std::{
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};

use super::{certificates::CertificateFiles, resp::Resp};

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A command prefix, such as `nsenter` to run it in another network.
    pub before: Vec<String>,
    /// The address it listens on.
    pub host: IpAddr,
    /// The beginning of its configuration file; a sentinel must have one.
    pub file: Option<String>,
    /// Its arguments besides.
    pub arguments: Vec<String>,
    /// Its certificate if it speaks TLS, and nothing else.
    pub tls: Option<CertificateFiles>,
}

impl Launch {
    /// On the loopback, with these arguments besides.
    pub fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { before: Vec::new(), host: Ipv4Addr::LOCALHOST.into(), file: None, arguments, tls: None }
    }
}

/// A Redis server that ends with the process that started it.
pub struct RedisServer {
    pub port: u16,
    dir: tempfile::TempDir,
    launch: Launch,
    running: Mutex<Running>,
}

/// A running server, or one that was killed and not started again.
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
        Self::launch(Launch::new(arguments))
    }

    /// Starts a server, or a sentinel.
    pub fn launch(launch: Launch) -> Self {
        for _ in 0..20 {
            let port = free_port();
            let dir = tempfile::tempdir().expect("a temporary directory");
            if let Some(file) = &launch.file {
                std::fs::write(dir.path().join(FILE), file).expect("writes");
            }
            if let Some(running) = spawn(port, dir.path(), &launch) {
                return Self { port, dir, launch, running: Mutex::new(running) };
            }
        }
        panic!("redis-server found no free port in twenty tries");
    }

    /// Starts `redis-server` with TLS alone, and with these arguments besides. Its clients need no certificate.
    pub fn start_with_tls(files: &CertificateFiles, arguments: &[&str]) -> Self {
        let arguments = [&["--save", ""], arguments].concat();
        Self::launch(Launch { tls: Some(files.clone()), ..Launch::new(&arguments) })
    }

    pub fn url(&self) -> String {
        let scheme = if self.launch.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Its address as an item of `redis.nodes`.
    pub fn node(&self) -> String {
        if self.launch.tls.is_some() { self.url() } else { self.address().to_string() }
    }

    /// A connection to it.
    pub fn connect(&self) -> std::io::Result<Resp> {
        Resp::connect_with(self.address(), self.launch.tls.as_ref())
    }

    pub fn address(&self) -> SocketAddr {
        (self.launch.host, self.port).into()
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub fn kill(&self) {
        self.running.lock().expect("not poisoned").end();
    }

    /// Stops it (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a stopped server (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it again on its port and directory, after killing it if it still runs.
    pub fn restart(&self) {
        let mut running = self.running.lock().expect("not poisoned");
        running.end();
        *running = spawn(self.port, self.dir.path(), &self.launch).expect("its port is its own");
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

/// A port that nothing listens on and that is given out once, also beside other processes with tests: a
/// server of theirs would otherwise answer the clients of one of ours that is away. It lies below those
/// that the system gives to outgoing connections: one of these could take the port while its server is
/// away, or even connect to itself. The port ten thousand above it, which a Cluster's servers use among
/// themselves, does too.
pub fn free_port() -> u16 {
    // Above 10080, a port that callbacks refuse.
    const FIRST: u16 = 10_100;
    const COUNT: u16 = 11_900;
    static TURN: OnceLock<AtomicU16> = OnceLock::new();
    /// Sockets for UDP, which no server uses, on the ports that were given out: no other process has these.
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let turn = TURN.get_or_init(|| AtomicU16::new(rand::random()));
    loop {
        let port = FIRST + turn.fetch_add(1, Ordering::Relaxed) % COUNT;
        let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if [port, port + 10_000].iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
            CLAIMS.lock().expect("not poisoned").push(claim);
            return port;
        }
    }
}

#[test]
fn no_other_process_is_given_a_port_that_was_given_out() {
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_port()));
    assert_eq!(claim.expect_err("claimed").kind(), std::io::ErrorKind::AddrInUse);
}

/// Name of the configuration file, where there is one.
const FILE: &str = "redis.conf";

/// What a server logs once it serves, and what a sentinel does.
const READY: [&str; 2] = ["Ready to accept connections", "Sentinel ID is"];

/// Runs the server under a shell that reads from us, so that it ends when this process does, however
/// that comes about; `None` when the port was taken in between.
fn spawn(port: u16, dir: &Path, launch: &Launch) -> Option<Running> {
    // Killed outright: one that was stopped would not hear anything milder. The shell lets go of stdout,
    // so that it ends when the server does.
    // The server's process tells its id itself, before the server's first word.
    let script =
        "sh -c 'echo $$; exec \"$@\"' sh \"$@\" & server=$!; exec >&-; read -r _; kill -9 $server; wait";
    let program = std::env::var("LINGER_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let (port, host) = (port.to_string(), launch.host.to_string());
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(&launch.before).arg(&program);
    command.args(launch.file.iter().map(|_| dir.join(FILE)));
    match &launch.tls {
        None => command.args(["--port", &port]),
        Some(files) => {
            command.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"]);
            command.args(["--tls-replication", "yes", "--tls-cluster", "yes"]);
            command.arg("--tls-ca-cert-file").arg(&files.authority);
            command.arg("--tls-cert-file").arg(&files.certificate).arg("--tls-key-file").arg(&files.key)
        }
    };
    command.args(["--bind", &host]);
    command.args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"]);
    let mut keeper = command
        .arg("--dir")
        .arg(dir)
        .args(&launch.arguments)
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
        let ready = READY.iter().any(|ready| line.contains(ready));
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

/// A key prefix that no other test of this process uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
