//! `linger top`: the topics and the figures of the whole queue, live on a terminal, else once.
//!
//! `live.rs` is its loop: it waits for keys and signals (`input.rs`, `keys.rs`), reads (`reading.rs`), and turns
//! the `State` into lines (`draw.rs`, `table.rs`). `screen.rs` has the terminal. It gives the terminal back when it
//! is dropped, before a panic prints its message, before SIGTSTP stops the process, and before a signal ends a
//! process that does not end by itself. The keys for SIGINT, SIGQUIT and SIGTSTP stay signals, so that they reach a
//! shell's job as a whole.

mod args;
mod draw;
mod input;
mod keys;
mod live;
mod reading;
mod screen;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use linger_client::{Request, Timestamp};

use super::{
    exit::{Exit, Failure},
    session::Session,
    terminal,
};
pub(super) use args::TopArgs;

/// Runs `linger top`.
pub(super) fn run(arguments: &TopArgs) -> ExitCode {
    arguments.read.run("top", async |session| {
        if session.output.is_text() && terminal::is_there() {
            live::run(session, arguments).await
        } else {
            print(session, arguments).await
        }
    })
}

/// Prints the figures once.
async fn print(session: &Session, arguments: &TopArgs) -> Result<Exit, Failure> {
    let call = async |request: Request| session.call(&request).await;
    let answers = reading::read(call, arguments.sort, arguments.prefix.as_deref()).await?;
    let now = Timestamp::from_microsecond(session.clock.now_micros()).unwrap_or_default();
    // Read in both forms, so that no other answer than Linger's is printed as one.
    let reading = answers.reading(now)?;
    let table = || {
        let rows = table::rows(&reading, usize::MAX);
        rows.into_iter().map(|row| row.text).collect::<Vec<_>>().join("\n")
    };
    session.output.print(table, &answers.json()?)?;
    Ok(Exit::Done)
}
