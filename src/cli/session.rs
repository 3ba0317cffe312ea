//! Runs a command that calls a server: connects, prints its failure, and ends it when a signal comes. Knows no command.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use clap::Args;
use linger_client::{Client, Error, Job, Request, Response};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{runtime::Builder, sync::watch};

use super::{
    confirm,
    connection::{Connection, ConnectionArgs},
    exit::{Exit, Failure},
    output::{FormArgs, Output},
    text::Wording,
};
use crate::{
    clock::{Clock, SystemClock},
    process::signals::{Signals, StopSignal},
};

/// How long a command may take to clean up after a signal, such as to give jobs back.
const CLEAN_UP: Duration = Duration::from_secs(3);

/// The flags of a command that only reads.
#[derive(Debug, Clone, Args)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The flags of a command that changes something.
#[derive(Debug, Clone, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Ask nothing
    #[arg(long, help_heading = "Connection")]
    yes: bool,
}

/// What a command needs while it runs.
pub(super) struct Session {
    pub client: Client,
    pub output: Output,
    pub clock: Arc<dyn Clock>,
    connection: Connection,
    yes: bool,
    /// What is left to do if the command does not end in time after a signal; not set if it need not clean up.
    last_step: Arc<OnceLock<fn()>>,
    stopped: watch::Receiver<Option<StopSignal>>,
}

impl ReadArgs {
    /// Runs a command that only reads. Errors begin with its name.
    pub fn run(
        &self,
        name: &'static str,
        command: impl AsyncFnOnce(&Session) -> Result<Exit, Failure>,
    ) -> ExitCode {
        run(Output::new(name, self.form), &self.connection, false, command)
    }
}

impl ChangeArgs {
    /// Runs a command that changes something. Errors begin with its name.
    pub fn run(
        &self,
        name: &'static str,
        command: impl AsyncFnOnce(&Session) -> Result<Exit, Failure>,
    ) -> ExitCode {
        run(Output::new(name, self.form), &self.connection, self.yes, command)
    }

    /// Prints a failure that came before the command of this name ran.
    pub fn fail(&self, name: &'static str, failure: &Failure) -> ExitCode {
        Output::new(name, self.form).fail(failure).into()
    }
}

fn run(
    output: Output,
    connection: &ConnectionArgs,
    yes: bool,
    command: impl AsyncFnOnce(&Session) -> Result<Exit, Failure>,
) -> ExitCode {
    let opened = connection.resolve().and_then(|connection| Ok((connection.reopen(|_| {})?, connection)));
    let (client, connection) = match opened {
        Ok(opened) => opened,
        Err(failure) => return output.fail(&failure).into(),
    };
    // One worker beside the thread of the command: it sees signals also while the command waits for a full pipe.
    let runtime = match Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output.fail(&Failure::new(Exit::Failed, error.to_string())).into(),
    };
    let exit = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let last_step = Arc::new(OnceLock::new());
        let stopped = match watch_signals(clock.clone(), last_step.clone()) {
            Ok(stopped) => stopped,
            Err(error) => return output.fail(&Failure::new(Exit::Failed, error.to_string())),
        };
        let session = Session { client, output, clock, connection, yes, last_step, stopped };
        let ended = command(&session).await;
        ended.unwrap_or_else(|failure| session.output.fail(&failure))
    });
    runtime.shutdown_background();
    exit.into()
}

/// A signal ends the process, at once unless the command cleans up. Then it is published first, and a second one ends
/// the process after the last step.
fn watch_signals(
    clock: Arc<dyn Clock>,
    last_step: Arc<OnceLock<fn()>>,
) -> std::io::Result<watch::Receiver<Option<StopSignal>>> {
    let mut signals = Signals::new()?;
    let (sender, stopped) = watch::channel(None);
    tokio::spawn(async move {
        let mut last = signals.next().await;
        if let Some(last_step) = last_step.get() {
            sender.send_replace(Some(last));
            tokio::select! {
                second = signals.next() => last = second,
                () = clock.sleep(CLEAN_UP) => {}
            }
            last_step();
        }
        std::process::exit(i32::from(last.exit_code()))
    });
    Ok(stopped)
}

impl Session {
    /// For how long calls are tried again.
    pub fn timeout(&self) -> Duration {
        self.connection.timeout
    }

    /// The address of the server.
    pub fn server(&self) -> String {
        self.connection.url.to_string()
    }

    /// From now on, a signal leaves the command some time to clean up. After that, or at a second signal, `last_step` is
    /// called before the process ends.
    pub fn clean_up_on_signal(&self, last_step: fn()) {
        self.last_step.get_or_init(|| last_step);
    }

    /// Runs `work` until it ends or a signal comes, which is a failure.
    pub async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            ended = work => ended,
            signal = self.stopped() => Err(Failure::new(Exit::Signal(signal), "")),
        }
    }

    /// Waits for a signal that stops the command.
    pub async fn stopped(&self) -> StopSignal {
        let mut stopped = self.stopped.clone();
        let signal = stopped.wait_for(Option::is_some).await.ok().and_then(|signal| *signal);
        signal.expect("the task that watches signals ends with the process")
    }

    /// Calls the server; the answer is a success.
    pub async fn call(&self, request: &Request) -> Result<Response, Failure> {
        self.client.send(request).await.map_err(|error| self.failure(error))
    }

    /// The object in an answer. Another success than Linger's is a failure.
    pub fn read<T: DeserializeOwned>(&self, response: &Response) -> Result<T, Failure> {
        response.read().map_err(|error| self.failure(error))
    }

    /// A job, or another object, that is a part of an answer.
    pub fn part<T: DeserializeOwned>(&self, json: &RawValue) -> Result<T, Failure> {
        let read = serde_json::from_str(json.get());
        read.map_err(|error| {
            Failure::new(Exit::Failed, format!("the server's answer cannot be read: {error}"))
        })
    }

    /// The words for moments as seen now.
    pub fn wording(&self) -> Wording {
        Wording::at_micros(self.clock.now_micros())
    }

    /// Prints the job in an answer: as a line of text, or its JSON.
    pub fn print_job(&self, response: &Response) -> Result<(), Failure> {
        self.print(response, |job: Job| self.wording().job(&job))
    }

    /// Prints the object in an answer: as text, or its JSON. It is read in both forms, so that no other answer than Linger's is
    /// printed as one.
    pub fn print<T: DeserializeOwned>(
        &self,
        response: &Response,
        text: impl FnOnce(T) -> String,
    ) -> Result<(), Failure> {
        let object = self.read(response)?;
        self.output.print(|| text(object), response.text()?)
    }

    /// Prints an object that is a part of an answer, like [`print`](Self::print).
    pub fn print_part<T: DeserializeOwned>(
        &self,
        json: &RawValue,
        text: impl FnOnce(T) -> String,
    ) -> Result<(), Failure> {
        let object = self.part(json)?;
        self.output.print(|| text(object), json.get())
    }

    /// Prints the result of a call about a job whose response has no body: in JSON as an item of a batch.
    pub fn print_done(&self, response: Response, id: &str, done: &str) -> Result<(), Failure> {
        self.print_done_to(response, ("id", id), done)
    }

    /// The same about what a member of the JSON names.
    pub fn print_done_to(
        &self,
        response: Response,
        (member, name): (&str, &str),
        done: &str,
    ) -> Result<(), Failure> {
        response.done().map_err(|error| self.failure(error))?;
        let json = format!(r#"{{"status":204,"{member}":{}}}"#, serde_json::Value::from(name));
        self.output.print(|| format!("{name}  {done}"), &json)
    }

    /// The failure of a call; names the server if there is none.
    fn failure(&self, error: Error) -> Failure {
        let advice = match error {
            Error::WrongScheme { server_speaks_tls: true, .. } => "; use https://",
            Error::WrongScheme { server_speaks_tls: false, .. } => "; use http://",
            Error::Untrusted { .. } => {
                "; trust its issuer, or itself, by `linger profile set NAME --ca FILE` or SSL_CERT_FILE=FILE"
            }
            Error::Refused { .. }
            | Error::NotConnected { .. }
            | Error::Cut { .. }
            | Error::TimedOut { .. }
            | Error::Foreign { .. }
            | Error::Unreadable { .. } => "",
        };
        let failure = Failure::from(error);
        if failure.has_answer() {
            return failure;
        }
        let message = format!("{} ({}{advice})", failure.message, self.connection.url);
        failure.with_message(message)
    }

    /// Asks before a change if the profile wants that. `change` is what happens, such as `add a job to mail`.
    pub fn confirm_change(&self, change: &str) -> Result<(), Failure> {
        confirm::change(&self.connection, self.yes, change)
    }

    /// Asks for the name of a topic, or for "all", before many jobs are deleted. `change` says how many.
    pub async fn confirm_deletion(
        &self,
        topic: Option<&str>,
        change: impl AsyncFnOnce() -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        confirm::deletion(&self.connection, self.yes, topic, change).await
    }
}
