//! Runs the command of a job: its input, its environment, its output, its end. Does not know what is reported of it.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus},
    sync::Arc,
};

use linger_client::{
    ReservedJob,
    worker::{Ended, Urgency, Verdict},
};
use rustix::{
    fs::{Access, access},
    io::Errno,
    process::{Rlimit, Signal},
};
use tokio::{io::AsyncWriteExt, net::unix::pipe::Sender, sync::watch};

use super::{
    group::{Pipes, ProcessGroup},
    lines::LineReader,
    printer::{Printer, Stream},
};

/// What a shell exits with if it cannot run a program, or finds none.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// The command of every job.
#[derive(Debug, Clone)]
pub(super) struct CommandLine {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Exit codes by which a command says that its job can never be done.
    pub bury_on: Vec<u8>,
    /// Whether a body that is a JSON string is given without its quotes.
    pub is_raw: bool,
    /// The limit of open files that a command gets.
    pub open_files: Rlimit,
}

impl CommandLine {
    /// Looks for the program, as the start of a command will: an attempt of a job should not be used up to find that
    /// there is none.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn check_program(&self) -> Result<(), String> {
        let program = Path::new(&self.words[0]);
        let can_run = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
        if program.components().count() > 1 || program.is_absolute() {
            return match can_run(program) {
                true => Ok(()),
                false if program.is_file() => Err(format!("{} may not be executed", program.display())),
                false => Err(format!("there is no program {}", program.display())),
            };
        }
        // Without the variable the system looks where it chooses.
        let Some(path) = std::env::var_os("PATH") else { return Ok(()) };
        match std::env::split_paths(&path).any(|directory| can_run(&directory.join(program))) {
            true => Ok(()),
            false => Err(format!("no directory of PATH has the program {}", program.display())),
        }
    }

    /// Runs the command for a job until it ends.
    pub async fn run(
        &self,
        job: &Arc<ReservedJob>,
        url: &str,
        printer: &Arc<Printer>,
        mut urgency: watch::Receiver<Urgency>,
    ) -> Ended {
        let started = ProcessGroup::start(self.command(job, url), self.open_files);
        let started = started.and_then(|(group, Pipes { stdin, stdout, stderr })| {
            let lines = |stream| printer.line_form(job.clone(), stream);
            let stdin = Sender::from_owned_fd(OwnedFd::from(stdin))?;
            let stdout = LineReader::new(stdout, lines(Stream::Stdout), printer.sink())?;
            let stderr = LineReader::new(stderr, lines(Stream::Stderr), printer.sink())?;
            Ok((group, stdin, stdout, stderr))
        });
        let (group, mut stdin, mut stdout, mut stderr) = match started {
            Ok(started) => started,
            Err(error) => {
                let verdict = if is_passing(&error) { Verdict::Failed } else { Verdict::Broken };
                let what = format!("cannot start {}", self.words[0].to_string_lossy());
                return Ended { verdict, what, detail: Some(error.to_string()) };
            }
        };
        let mut leader_exit = group.leader_exit();
        let body = self.input(job);
        let feed = async move {
            // A command that does not read its input is no fault.
            let _ = stdin.write_all(body.as_bytes()).await;
        };
        let mut is_stopped = false;
        {
            let mut streams = std::pin::pin!(async { tokio::join!(feed, stdout.run(), stderr.run()) });
            let (mut has_exited, mut has_closed) = (false, false);
            // A command that was asked to end may leave others behind that still do so: they have until they are killed.
            while !has_exited || is_stopped && !has_closed && *urgency.borrow() < Urgency::Kill {
                tokio::select! {
                    biased;
                    _ = &mut leader_exit, if !has_exited => has_exited = true,
                    Ok(()) = urgency.changed() => {
                        is_stopped = true;
                        match *urgency.borrow_and_update() {
                            Urgency::None => {}
                            Urgency::Terminate => group.terminate(),
                            Urgency::Kill => group.signal(Signal::KILL),
                        }
                    }
                    _ = &mut streams, if !has_closed => has_closed = true,
                }
            }
        }
        // After a failure the job runs again, beside which nothing of this run may go on.
        let status = group.collect(|status| is_stopped || !status.success());
        drop(stdout.finish().await);
        let detail = stderr.finish().await;
        match status {
            Ok(status) => self.ended(status, detail),
            Err(error) => {
                let (what, detail) = ("cannot be waited for".to_owned(), Some(error.to_string()));
                Ended { verdict: Verdict::Broken, what, detail }
            }
        }
    }

    fn command(&self, job: &ReservedJob, url: &str) -> Command {
        let (program, arguments) = self.words.split_first().expect("clap demands a program");
        let mut command = Command::new(program);
        command.args(arguments).envs(variables(job, url));
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_secret(name)) {
            command.env_remove(name);
        }
        // The worker's own trace is not that of the job.
        for (name, value) in [("TRACEPARENT", &job.traceparent), ("TRACESTATE", &job.tracestate)] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// What the command reads: the body as it was sent, or the text of a JSON string.
    fn input(&self, job: &ReservedJob) -> String {
        let body = job.body.get();
        let text = self.is_raw.then(|| serde_json::from_str(body).ok()).flatten();
        text.unwrap_or_else(|| body.to_owned())
    }

    fn ended(&self, status: ExitStatus, detail: Option<String>) -> Ended {
        let Some(code) = status.code() else {
            let signal = status.signal().unwrap_or_default();
            return Ended { verdict: Verdict::Failed, what: format!("killed by signal {signal}"), detail };
        };
        let verdict = match code {
            0 => Verdict::Done,
            code if CANNOT_RUN.contains(&code) => Verdict::Broken,
            code if self.bury_on.iter().any(|bury| i32::from(*bury) == code) => Verdict::Unacceptable,
            _ => Verdict::Failed,
        };
        Ended { verdict, what: format!("exit {code}"), detail }
    }
}

/// Whether a command can probably be started later: this process or the system has too many files or processes, or too
/// little memory.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

/// Whether a variable may contain a token, which commands have no need of.
fn is_secret(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"LINGER_TOKEN")
}

/// The variables that a command has besides those of this process.
fn variables(job: &ReservedJob, url: &str) -> [(&'static str, String); 10] {
    [
        ("LINGER_JOB_ID", job.id.clone()),
        ("LINGER_JOB_TOPIC", job.topic.clone()),
        ("LINGER_JOB_ATTEMPT", job.attempt.to_string()),
        ("LINGER_JOB_MAX_ATTEMPTS", job.max_attempts.to_string()),
        ("LINGER_JOB_CREATED_AT", format!("{:.3}", job.created_at)),
        ("LINGER_JOB_DUE_AT", format!("{:.3}", job.due_at)),
        ("LINGER_JOB_LATE", format!("{:.3}", job.late.as_secs_f64())),
        ("LINGER_JOB_RECEIPT", job.receipt.clone()),
        ("LINGER_JOB_URL", format!("{url}/jobs/{}", job.id)),
        ("LINGER_URL", url.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_does_not_mean_that_the_command_is_broken() {
        let is_passing = |errno: Errno| is_passing(&errno.into());
        assert!([Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM].into_iter().all(is_passing));
        assert!(![Errno::NOENT, Errno::ACCESS, Errno::NOEXEC, Errno::TOOBIG].into_iter().any(is_passing));
    }
}
