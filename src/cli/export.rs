//! `linger export`: writes all jobs of a store into one file that every engine can import.

use std::{
    io::{BufWriter, IsTerminal, stdout},
    path::Path,
    process::ExitCode,
};

use super::{
    maintenance::fail,
    output::{print, print_to_stderr, usage_error},
    progress::ProgressLine,
};
use crate::{config::Config, server};

/// Exports the configured store; `-` for stdout.
pub(super) fn export(config: &Config, file: &Path) -> ExitCode {
    let to_stdout = file == Path::new("-");
    if to_stdout && stdout().is_terminal() {
        return usage_error(
            &"an export contains secrets and cannot go to a terminal; redirect stdout to a file, as in: linger export - >FILE",
        );
    }
    let progress = ProgressLine::counting("export", "job");
    let exported = if to_stdout {
        server::export_to(config, &mut BufWriter::new(stdout()), &mut &progress)
    } else {
        server::export(config, file, &mut &progress)
    };
    drop(progress);
    match exported {
        Ok(report) => {
            let printed = if to_stdout {
                print_to_stderr(&report.text);
                ExitCode::SUCCESS
            } else {
                print(&report.text)
            };
            if report.is_complete { printed } else { ExitCode::FAILURE }
        }
        Err(error) => fail(&error),
    }
}
