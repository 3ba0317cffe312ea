//! Output of the commands: stdout for what was requested, stderr for everything else. Control characters are escaped.

use std::{
    fmt::Display,
    io::{ErrorKind, Write},
    process::ExitCode,
};

use crate::printable;

/// Exit code for wrong usage or an invalid configuration; clap uses the same.
pub(super) const USAGE_ERROR: u8 = 2;

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
