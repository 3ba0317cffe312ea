//! A process group of its own for a command: starts it, waits for its end and sends it signals. Knows no job.

use std::{
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use rustix::{
    io::Errno,
    process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, prlimit, waitid},
};
use tokio::task::JoinHandle;

/// A command and all processes that it has started, unless they left its group. Killed when dropped.
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    /// Whether the leader's exit status was collected, after which its id may belong to another group.
    is_collected: bool,
}

/// The ends of the pipes to a command.
pub(super) struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl ProcessGroup {
    /// Starts a command as the leader of a new group, with this limit of open files.
    pub fn start(mut command: Command, open_files: Rlimit) -> io::Result<(Self, Pipes)> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let piped = "the command was started with pipes";
        let pipes = Pipes {
            stdin: child.stdin.take().expect(piped),
            stdout: child.stdout.take().expect(piped),
            stderr: child.stderr.take().expect(piped),
        };
        let leader = Pid::from_child(&child);
        // It inherits that of this process. Afterwards is soon enough: what a program does first is to load its libraries.
        // Fails if the command has ended already, or runs as another user.
        let _ = prlimit(Some(leader), Resource::Nofile, open_files);
        Ok((Self { child, leader, is_collected: false }, pipes))
    }

    /// Waits for the leader's end on a thread of its own. The leader stays a zombie, which keeps the group's id.
    pub fn leader_exit(&self) -> JoinHandle<()> {
        let leader = self.leader;
        tokio::task::spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(leader), options).err() == Some(Errno::INTR) {}
        })
    }

    /// Sends a signal to every process of the group.
    pub fn signal(&self, signal: Signal) {
        if !self.is_collected {
            // Fails only if no process is left that this one may signal.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Asks the group to end. Processes that were stopped go on, or they would not notice.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Collects the exit status of the leader, which has ended. `kill_rest` decides by it about the others.
    pub fn collect(mut self, kill_rest: impl FnOnce(ExitStatus) -> bool) -> io::Result<ExitStatus> {
        let status = leader_status(self.leader)?;
        if kill_rest(status) {
            self.signal(Signal::KILL);
        }
        self.is_collected = true;
        self.child.wait()
    }
}

/// The exit status of a leader that has ended, without collecting it.
fn leader_status(leader: Pid) -> io::Result<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(leader), options)?.ok_or(io::ErrorKind::WouldBlock)?;
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, signal) => signal.unwrap_or(0),
    };
    Ok(ExitStatus::from_raw(raw))
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if !self.is_collected {
            let _ = self.child.try_wait();
        }
    }
}
