//! `linger move`: moves all jobs, schedules and settings of a store to another one.

use std::process::ExitCode;

use super::{
    USAGE_ERROR,
    args::MoveArgs,
    maintenance::fail,
    output::{print, print_error},
    progress::ProgressLine,
};
use crate::{
    config::{self, Config, Purpose, Sources},
    server::{self, MoveStep},
};

/// Makes the requested step of the move from the configured store.
pub(super) fn run(from: &Config, arguments: &MoveArgs) -> ExitCode {
    let done = match &arguments.to {
        None => server::abandon(from),
        Some(to) => {
            // Only the file counts: the environment and the flags describe the old store.
            let sources = Sources { file: Some(to.clone()), ..Sources::default() };
            let to = match config::load(sources, Purpose::Use) {
                Ok(loaded) => loaded.config,
                Err(faults) => {
                    print_error(&faults);
                    return ExitCode::from(USAGE_ERROR);
                }
            };
            let step = if arguments.last {
                MoveStep::Last { without_broken: arguments.without_broken }
            } else {
                MoveStep::Copy
            };
            server::relocate(from, &to, step, &mut &ProgressLine::counting("move", "job"))
        }
    };
    match done {
        Ok(report) => {
            let printed = print(&report.text);
            if report.is_complete { printed } else { ExitCode::FAILURE }
        }
        Err(error) => fail(&error),
    }
}
