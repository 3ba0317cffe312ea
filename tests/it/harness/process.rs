//! The real program, started and ended as a user would.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
};

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// The line it printed when it was ready.
    pub line: String,
    /// Where it listens.
    pub address: SocketAddr,
    log: Option<JoinHandle<String>>,
}

/// The program with these arguments, without the environment's own settings, in `directory`.
pub fn linger(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LINGER__")) {
        command.env_remove(name);
    }
    command
}

impl Server {
    /// Starts a server and waits for its line; panics with its log when it ends instead.
    pub fn start(arguments: &[&str], directory: &Path) -> Self {
        Self::spawn(linger(arguments, directory))
    }

    /// The same for a command prepared by the caller.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut errors = child.stderr.take().expect("piped");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            // A log that is not text would be a fault of its own; what was read until then is kept.
            let _ = errors.read_to_string(&mut text);
            text
        });
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("readable");
        // Kept reading, so that a server which prints more is not stopped by a full pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let Some(address) = address(&line) else {
            let status = child.wait().expect("ended");
            panic!("{status}, printed {line:?}, logged:\n{}", log.join().expect("read"));
        };
        Self { child, line, address, log: Some(log) }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("is running");
        self.child.wait().expect("ends");
    }

    /// Waits until it has ended by itself; its status and everything it logged.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("ends");
        let log = self.log.take().expect("not yet taken").join().expect("read");
        (status, log)
    }
}

/// The address in the line that a server prints when it is ready.
fn address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    rest.split(|c: char| c == ',' || c.is_whitespace()).next()?.parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
