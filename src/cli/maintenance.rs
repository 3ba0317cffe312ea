//! `linger verify`, `backup`, `restore` and `store`: operations on a store without serving it.

use std::{
    io::{IsTerminal, stdin, stdout},
    path::Path,
    process::ExitCode,
};

use super::{
    exit::USAGE_ERROR,
    output::{print, print_error, usage_error},
    progress::ProgressLine,
};
use crate::{
    config::Config,
    server::{self, MaintenanceError, VerifyReport},
};

/// Verifies the configured store.
pub(super) fn verify(config: &Config) -> ExitCode {
    report(in_time("verify", || server::verify(config)))
}

/// Accepts a store that was emptied or replaced.
pub(super) fn accept_store(config: &Config) -> ExitCode {
    server::accept_store(config).map_or_else(|error| fail(&error), |done| print(&done))
}

/// Verifies a backup.
pub(super) fn verify_backup(file: &Path) -> ExitCode {
    report(in_time("verify", || server::verify_backup(file)))
}

/// Sets the store's clock back to that of this machine.
pub(super) fn accept_clock(config: &Config) -> ExitCode {
    server::accept_clock(config).map_or_else(|error| fail(&error), |done| print(&done))
}

/// Makes a backup; `-` for stdout.
pub(super) fn backup(config: &Config, file: &Path) -> ExitCode {
    if file == Path::new("-") {
        return backup_to_stdout(config);
    }
    let done = in_time("backup", || server::backup(config, file));
    done.map_or_else(|error| fail(&error), |done| print(&done))
}

/// Writes nothing but the backup to stdout.
fn backup_to_stdout(config: &Config) -> ExitCode {
    if stdout().is_terminal() {
        return usage_error(
            &"a backup cannot go to a terminal; redirect stdout to a file, as in: linger backup - >FILE",
        );
    }
    match in_time("backup", || server::backup_to(config, &mut stdout().lock())) {
        Ok(done) => {
            print_error(&done);
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Restores a backup; `-` for stdin.
pub(super) fn restore(config: &Config, file: &Path) -> ExitCode {
    if file != Path::new("-") {
        let restored = in_time("restore", || server::restore(config, file));
        return restored.map_or_else(|error| fail(&error), |done| print(&done));
    }
    if stdin().is_terminal() {
        return usage_error(
            &"a terminal has no backup to read; redirect stdin, as in: linger restore - <FILE",
        );
    }
    let restored = in_time("restore", || server::restore_from(config, &mut stdin().lock()));
    restored.map_or_else(|error| fail(&error), |done| print(&done))
}

/// Does something while a terminal shows how long it takes.
fn in_time<T>(command: &'static str, work: impl FnOnce() -> T) -> T {
    let progress = ProgressLine::time(command);
    let done = work();
    drop(progress);
    done
}

/// Prints the report: exit code 0 for a sound store, 1 for one with faults.
fn report(result: Result<VerifyReport, MaintenanceError>) -> ExitCode {
    match result {
        Ok(report) => {
            let printed = print(&report.text);
            if report.is_sound { printed } else { ExitCode::FAILURE }
        }
        Err(error) => fail(&error),
    }
}

pub(super) fn fail(error: &MaintenanceError) -> ExitCode {
    print_error(error);
    match error {
        MaintenanceError::Refused(_) => ExitCode::from(USAGE_ERROR),
        MaintenanceError::Failed(_) => ExitCode::FAILURE,
    }
}
