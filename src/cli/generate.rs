//! What is generated from the command line's own description: completions for shells, and manual pages.

use std::{fs, path::Path, process::ExitCode};

use clap_complete::Shell;

use super::{args, output::print, output::print_error};

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::description(), "linger", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for each command into a directory, which is made if it is missing.
pub(super) fn manual(directory: &Path) -> ExitCode {
    let written =
        fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(args::description(), directory));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format_args!("{}: {error}", directory.display()));
            ExitCode::FAILURE
        }
    }
}
