//! `linger import`: puts the jobs of an export into a store.

use std::{path::Path, process::ExitCode};

use super::{maintenance::fail, output::print, progress::ProgressLine};
use crate::{config::Config, server};

/// Imports `file` into the configured store. With `partial`, also one without its end.
pub(super) fn import(config: &Config, file: &Path, partial: bool) -> ExitCode {
    let progress = ProgressLine::counting("import", "job");
    let imported = server::import(config, file, partial, &mut &progress);
    drop(progress);
    match imported {
        Ok(report) => {
            let printed = print(&report.text);
            if report.is_complete { printed } else { ExitCode::FAILURE }
        }
        Err(error) => fail(&error),
    }
}
