//! `linger work`: runs a command for each job. The worker itself is that of the client library; here are processes,
//! signals and output.
//!
//! `Commands` is the worker's `Host`; `command.rs` runs the command of one job. `group.rs` keeps the leader of a
//! process group as a zombie until the group has been killed, because its id could belong to others afterwards. It
//! therefore waits with `waitid` on a thread for each command; tokio's processes collect the leader at once.
//! `printer.rs` writes on a thread of its own: a log that is not read would otherwise stop the heartbeats.

mod args;
mod command;
mod events;
mod group;
mod lines;
mod open_files;
mod printer;

use std::{process::ExitCode, sync::Arc, time::Duration};

use linger_client::{
    Client, ReservedJob,
    worker::{self, Cause, Command, Ended, Event, Host, Urgency},
};
use serde_json::json;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};

pub(super) use args::WorkArgs;
use command::CommandLine;
use printer::{Entry, Printer};

use super::{
    confirm,
    connection::Connection,
    exit::{Exit, Failure},
    output::Output,
};
use crate::process::signals::Signals;

/// How long one call may take, beside what it waits for.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads that wait for commands come on top of those for files.
const OTHER_BLOCKING_THREADS: usize = 16;

/// Runs `linger work`.
pub(super) fn run(arguments: &WorkArgs) -> ExitCode {
    let output = Output::new("work", arguments.form);
    let ended = match arguments.server.resolve(CALL_TIMEOUT) {
        Ok(connection) => work(arguments, connection, output.is_text()),
        Err(failure) => Err(failure),
    };
    ended.map_or_else(|failure| output.fail(&failure), |()| Exit::Done).into()
}

fn work(arguments: &WorkArgs, connection: Connection, is_text: bool) -> Result<(), Failure> {
    confirm::change(&connection, arguments.yes, &arguments.change())?;
    let failed = |error: std::io::Error| Failure::new(Exit::Failed, error.to_string());
    let command = arguments.command_line(open_files::make_room_for(arguments.parallel())?);
    command.check_program().map_err(|why| Failure::new(Exit::Failed, why))?;
    let threads = arguments.parallel() + OTHER_BLOCKING_THREADS;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(threads).build().map_err(failed)?;
    let (printer, writer) = Printer::start(is_text).map_err(failed)?;
    let client = reopen(&connection)?;
    let url = connection.url.to_string();
    let commands = Commands { command, url, printer, connection: Arc::new(connection) };
    let options = arguments.options(worker_name());
    let cause = runtime.block_on(async {
        // A parent may have had this signal ignored. The system would then collect commands that end, and their exit codes.
        let _ends_of_commands = signal(SignalKind::child())?;
        let (sender, mut receiver) = mpsc::channel(16);
        let signals = tokio::spawn(forward_signals(Signals::new()?, signal(SignalKind::hangup())?, sender));
        let cause = worker::work(options, Arc::new(commands), client, &mut receiver).await;
        signals.abort();
        Ok(cause)
    });
    // A command that cannot be killed would keep its thread, and this process, for ever.
    runtime.shutdown_background();
    writer.flush();
    result(&cause.map_err(failed)?)
}

/// How the process ends.
fn result(cause: &Cause) -> Result<(), Failure> {
    let words = || events::words(cause);
    match cause {
        Cause::Signal | Cause::Empty | Cause::Enough => Ok(()),
        Cause::Broken(_) => Err(Failure::new(Exit::Failed, words())),
        Cause::NotAllowed(error) | Cause::Refused(error) => Err(error.clone().into()),
        Cause::Away(_) | Cause::Unreported(_) => Err(Failure::new(Exit::NoAnswer, words())),
    }
}

/// Host and process id, as operators see it: at most 64 characters.
fn worker_name() -> String {
    let system = rustix::system::uname();
    let host: String =
        system.nodename().to_string_lossy().chars().filter(|c| !c.is_control()).take(48).collect();
    format!("{host}:{}", std::process::id())
}

/// Hands signals over to the worker, in their order.
async fn forward_signals(
    mut stops: Signals,
    mut hangups: tokio::signal::unix::Signal,
    to: mpsc::Sender<Command>,
) {
    loop {
        let command = tokio::select! {
            _ = stops.next() => Command::Stop,
            _ = hangups.recv() => Command::ReadToken,
        };
        if to.send(command).await.is_err() {
            return;
        }
    }
}

/// A client that sends each call once, with a token that is read now.
fn reopen(connection: &Connection) -> Result<Client, Failure> {
    connection.reopen(|options| {
        options.repeat_for = Duration::ZERO;
        options.max_connections = usize::MAX;
    })
}

/// The surroundings of the worker: each job is a command.
struct Commands {
    command: CommandLine,
    url: String,
    printer: Arc<Printer>,
    connection: Arc<Connection>,
}

impl Host for Commands {
    async fn run(&self, job: Arc<ReservedJob>, urgency: watch::Receiver<Urgency>) -> Ended {
        self.command.run(&job, &self.url, &self.printer, urgency).await
    }

    async fn connect(&self) -> Option<Client> {
        let connection = self.connection.clone();
        // Reading may take its time: a file on the network, a command.
        let reopened = tokio::task::spawn_blocking(move || reopen(&connection)).await;
        let (client, text) = match reopened.expect("reading a token does not panic") {
            Ok(client) => (Some(client), "the token was read again".to_owned()),
            Err(failure) => (None, failure.message),
        };
        let fields = json!({ "read": client.is_some(), "message": text });
        self.printer.print(&Entry { job: None, event: "token", text, fields });
        client
    }

    fn event(&self, event: Event<'_>) {
        self.printer.print(&events::entry(&event));
    }
}
