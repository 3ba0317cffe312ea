//! Loads the configuration for a command.

use std::process::ExitCode;

use super::{output::print_error, settings::Settings};
use crate::config::{self, Loaded, Purpose, Sources};

/// Calls `run` with the configuration, or prints every fault and returns `fault_code`.
pub(super) fn with_config(
    settings: &Settings,
    purpose: Purpose,
    fault_code: u8,
    run: impl FnOnce(Loaded) -> ExitCode,
) -> ExitCode {
    match config::load(sources(settings), purpose) {
        Ok(loaded) => run(loaded),
        Err(faults) => {
            print_error(&faults);
            ExitCode::from(fault_code)
        }
    }
}

/// The sources of the configuration: the file, the environment and the flags.
pub(super) fn sources(settings: &Settings) -> Sources {
    Sources {
        file: config::choose_file(settings.config_file(), std::env::var_os("LINGER_CONFIG")),
        environment: std::env::vars_os().collect(),
        flags: settings.flags(),
    }
}
