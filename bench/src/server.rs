//! The server that a bench starts for itself: this same program on a free loopback port, in a directory of its
//! own. Whatever happens, the process is ended and the directory removed.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    time::sleep,
};

use crate::{failure::Failure, plan::TOKEN_VARIABLE};

/// How long it may take to start. More than the default of `redis.start_timeout`, so that the server gives its reason.
const START: Duration = Duration::from_secs(90);

/// How long it may take to end; its own limit is 10 s.
const END: Duration = Duration::from_secs(20);

/// A server that was started; killed, and its directory removed, when dropped.
#[derive(Debug)]
pub(crate) struct OwnServer {
    // Before the directory, so that the process is killed first when both are dropped.
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    directory: Temporary,
}

impl OwnServer {
    /// Starts one with these settings beside the address and the directory, which is made in `parent`.
    pub fn spawn(settings: &[OsString], parent: &Path) -> Result<Self, Failure> {
        let directory = Temporary::new(parent)?;
        let log = fs::File::create(directory.log())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.data());
        command.args(settings).env_remove(TOKEN_VARIABLE);
        // All its clients are at one address, this one.
        command.env("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "1000000");
        // A process group of its own, so that Ctrl-C reaches only the bench, which ends the server in time.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Self { child, stdout, directory })
    }

    /// Waits until it listens; where.
    pub async fn listens(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            tokio::select! {
                read = stdout.read_line(&mut line) => drop(read?),
                () = sleep(START) => {
                    return Err(Failure::Unfit(format!("the server does not listen within {START:?}")));
                }
            }
        }
        match address_in(&line) {
            Some(authority) => Ok(authority.to_owned()),
            None => Err(Failure::Unfit(format!("the server did not start: {}", self.log_tail()))),
        }
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Where its store is.
    pub fn data(&self) -> PathBuf {
        self.directory.data()
    }

    /// Why it ended, if it ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("the server ended by itself, {status}: {}", self.log_tail()))
    }

    /// Ends it, orderly if possible, and removes its directory.
    pub async fn stop(mut self) -> Result<(), Failure> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Not reaped yet, so no other process has this id; it may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
        let in_order = tokio::select! {
            ended = self.child.wait() => ended.is_ok(),
            () = sleep(END) => false,
        };
        if !in_order {
            self.child.kill().await?;
        }
        self.directory.remove()?;
        if in_order { Ok(()) } else { Err(Failure::Unfit(format!("the server did not end within {END:?}"))) }
    }

    /// Kills it and removes its directory.
    pub async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await?;
        self.directory.remove()
    }

    /// The end of its log.
    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.directory.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

fn address_in(line: &str) -> Option<&str> {
    Some(line.split_once("http://")?.1.split_once(',')?.0)
}

/// A directory with a fresh name, readable by its owner only. Dropping it removes it and the parents that were
/// made for it.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    /// The innermost first.
    made: Vec<PathBuf>,
}

impl Temporary {
    fn new(parent: &Path) -> Result<Self, Failure> {
        let unfit = |error| Failure::Unfit(format!("{}: {error}", parent.display()));
        let parent = std::path::absolute(parent).map_err(unfit)?;
        let made = parent.ancestors().take_while(|dir| !dir.exists()).map(Path::to_owned).collect();
        let path = parent.join(format!("linger-bench-{:016x}", rand::random::<u64>()));
        let temporary = Self { path, made };
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&temporary.path).map_err(unfit)?;
        Ok(temporary)
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn remove(&self) -> Result<(), Failure> {
        let mut removed = fs::remove_dir_all(&self.path);
        for parent in &self.made {
            removed = removed.and_then(|()| fs::remove_dir(parent));
        }
        removed.map_err(|error| Failure::Unfit(format!("cannot remove {}: {error}", self.path.display())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Removed already when all went well.
        let _ = self.remove();
    }
}
