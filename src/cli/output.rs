//! Output of the commands: stdout for what was requested, stderr for everything else. Text is printed with control
//! characters escaped; JSON is printed as it is.

use std::{
    cell::Cell,
    fmt::Display,
    io::{ErrorKind, IsTerminal, Write},
    process::ExitCode,
};

use clap::Args;

use super::exit::{Exit, Failure, USAGE_ERROR, one_line};
use crate::messages::printable;

/// The flags that choose the form of the output.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct FormArgs {
    /// Print text, as on a terminal
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Print JSON lines, as into a pipe or a file, and errors as problem documents
    #[arg(long)]
    json: bool,
}

/// The output of a command that calls a server.
#[derive(Debug)]
pub(super) struct Output {
    /// The command, which its errors name.
    command: &'static str,
    is_text: bool,
    /// Whether errors are printed as problem documents.
    has_problems: bool,
    /// Whether the reader of stdout has gone, as `head` does.
    is_closed: Cell<bool>,
}

impl Output {
    /// Text on a terminal and JSON lines otherwise, unless a flag says so. `command` is what errors begin with.
    pub fn new(command: &'static str, form: FormArgs) -> Self {
        let is_text = form.text || (!form.json && std::io::stdout().is_terminal());
        Self { command, is_text, has_problems: form.json, is_closed: Cell::new(false) }
    }

    /// Whether text is printed rather than JSON lines.
    pub fn is_text(&self) -> bool {
        self.is_text
    }

    /// Whether the reader of stdout has gone.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Prints lines of text, or JSON in one line, and flushes. Does nothing once the reader has gone.
    pub fn print(&self, text: impl FnOnce() -> String, json: &str) -> Result<(), Failure> {
        if self.is_text {
            let mut text = printable::escape_lines(&text()).into_owned();
            text.push('\n');
            self.write(text.as_bytes())
        } else {
            self.write(format!("{}\n", one_line(json)).as_bytes())
        }
    }

    /// Writes bytes as they are, and flushes.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        if self.is_closed() {
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed.set(true);
                Ok(())
            }
            Err(error) => Err(Failure::new(Exit::Failed, format!("cannot write to stdout: {error}"))),
        }
    }

    /// Prints a failure to stderr. Returns how the command ends.
    pub fn fail(&self, failure: &Failure) -> Exit {
        if matches!(failure.exit, Exit::Signal(_)) {
            // The sender of the signal knows.
        } else if self.has_problems {
            print_to_stderr(&format!("{}\n", failure.problem()));
        } else {
            print_error(&format_args!("{}: {}", self.command, failure.message));
        }
        failure.exit
    }

    /// Says something on stderr that is no failure, unless programs read this command's output.
    pub fn say(&self, message: &dyn Display) {
        if self.is_text {
            print_error(message);
        }
    }
}

/// Prints to stdout. A reader that closes the pipe early (`| head`) is no failure.
pub(super) fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(printable::escape_lines(text).as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format_args!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints an error to stderr. If that is closed, only the exit code reports the error.
pub(super) fn print_error(error: &dyn Display) {
    print_to_stderr(&format!("linger: {error}\n"));
}

/// Prints an error and returns the exit code for wrong usage.
pub(super) fn usage_error(error: &dyn Display) -> ExitCode {
    print_error(error);
    ExitCode::from(USAGE_ERROR)
}

/// Prints text to stderr.
pub(super) fn print_to_stderr(text: &str) {
    let _ = std::io::stderr().write_all(printable::escape_lines(text).as_bytes());
}
