//! `linger verify`, `backup` and `restore`: what is done to a store without serving it.

use std::{
    io::{IsTerminal, stdout},
    path::Path,
    process::ExitCode,
};

use super::{WRONG, complain, print};
use crate::{
    config::Config,
    server::{self, Refusal, Report},
};

/// Verifies what `config` names.
pub(super) fn verify(config: &Config) -> ExitCode {
    tell(server::verify(config))
}

/// Verifies a backup, whatever is configured.
pub(super) fn verify_backup(file: &Path) -> ExitCode {
    tell(server::verify_backup(file))
}

/// Makes a backup; `-` for stdout.
pub(super) fn backup(config: &Config, file: &Path) -> ExitCode {
    if file == Path::new("-") {
        return backup_to_stdout(config);
    }
    server::backup(config, file).map_or_else(|refusal| refuse(&refusal), |done| print(&done))
}

/// Only the backup goes to stdout.
fn backup_to_stdout(config: &Config) -> ExitCode {
    if stdout().is_terminal() {
        complain(&"a backup is not for a terminal; send stdout to a file, as in: linger backup - >FILE");
        return ExitCode::from(WRONG);
    }
    match server::backup_to(config, &mut stdout().lock()) {
        Ok(done) => {
            complain(&done);
            ExitCode::SUCCESS
        }
        Err(refusal) => refuse(&refusal),
    }
}

/// Takes a backup back.
pub(super) fn restore(config: &Config, file: &Path) -> ExitCode {
    server::restore(config, file).map_or_else(|refusal| refuse(&refusal), |done| print(&done))
}

/// Exit code 0 for a sound store, 1 for one with faults.
fn tell(found: Result<Report, Refusal>) -> ExitCode {
    match found {
        Ok(report) => {
            let printed = print(&report.text);
            if report.is_sound { printed } else { ExitCode::FAILURE }
        }
        Err(refusal) => refuse(&refusal),
    }
}

fn refuse(refusal: &Refusal) -> ExitCode {
    complain(refusal);
    match refusal {
        Refusal::Wrong(_) => ExitCode::from(WRONG),
        Refusal::Failed(_) => ExitCode::FAILURE,
    }
}
