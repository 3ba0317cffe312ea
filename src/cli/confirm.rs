//! Questions before a change. Does not know what is changed.

use std::io::IsTerminal;

use super::{
    connection::Connection,
    exit::{Exit, Failure},
    output::print_to_stderr,
};
use crate::messages::printable;

/// Asks before a change if the profile wants that and no `--yes` was given. `change` is what happens, such as
/// `add a job to mail`.
pub(super) fn change(connection: &Connection, yes: bool, change: &str) -> Result<(), Failure> {
    if !connection.confirm || yes {
        return Ok(());
    }
    let answer = prompt(&format!("{change} at {}? [y/N] ", connection.url))?;
    if ["y", "yes"].contains(&answer.to_lowercase().as_str()) { Ok(()) } else { Err(declined()) }
}

/// Asks for the name of a topic, many of whose jobs are about to be deleted, or for the word "all" where that is no single topic,
/// unless `--yes` was given. `change` counts them; it is called only if there is a terminal to ask.
pub(super) async fn deletion(
    connection: &Connection,
    yes: bool,
    topic: Option<&str>,
    change: impl AsyncFnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    expect_terminal()?;
    let wanted = if topic.is_some() { "the topic's name" } else { "all" };
    let question = format!("{} at {}. Type {wanted} to go on: ", change().await?, connection.url);
    if prompt(&question)? == topic.unwrap_or("all") { Ok(()) } else { Err(declined()) }
}

fn declined() -> Failure {
    Failure::new(Exit::Failed, "not confirmed; nothing was changed")
}

/// Without a terminal, the question cannot be answered.
fn expect_terminal() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage("this needs --yes where there is no terminal to ask; nothing was changed"))
}

/// Asks on the terminal.
fn prompt(question: &str) -> Result<String, Failure> {
    expect_terminal()?;
    print_to_stderr(&printable::escape_line(question));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.map_err(|error| Failure::new(Exit::Failed, format!("cannot read the answer: {error}")))?;
    Ok(answer.trim().to_owned())
}
