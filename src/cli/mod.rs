//! The command line: reads it, loads the settings, and hands over. Prints to stdout only what was
//! asked for, and never panics when nobody reads it.

mod args;
mod bench;
mod health;
mod health_tls;
mod token;
mod upkeep;

use std::{
    ffi::OsString,
    io::{ErrorKind, Write},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    config::{self, Config, Faults, Loaded, Sources},
    server::{self, Ended},
};
use args::{Cli, Command, ConfigCommand, Settings, TokenCommand};

/// Wrong usage or configuration; also what clap ends with.
const WRONG: u8 = 2;

/// Runs a command line, of which the first word is the program itself.
#[must_use]
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(help_or_error) => {
            // Nobody may be reading; the exit code says it too.
            let _ = help_or_error.print();
            return u8::try_from(help_or_error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => with_settings(&cli.settings, WRONG, |loaded| serve(&loaded.config)),
        Command::Config(ConfigCommand::Show) => {
            with_settings(&cli.settings, WRONG, |loaded| print(&loaded.show()))
        }
        Command::Config(ConfigCommand::Check) => {
            with_settings(&cli.settings, 1, |loaded| match server::check_files(&loaded.config) {
                Ok(()) => print("the configuration is valid\n"),
                Err(failure) => {
                    complain(&failure);
                    ExitCode::FAILURE
                }
            })
        }
        Command::Verify { file: Some(file) } => upkeep::verify_backup(&file),
        Command::Verify { file: None } => {
            with_settings(&cli.settings, WRONG, |loaded| upkeep::verify(&loaded.config))
        }
        Command::Backup { file } => {
            with_settings(&cli.settings, WRONG, |loaded| upkeep::backup(&loaded.config, &file))
        }
        Command::Restore { file } => {
            with_settings(&cli.settings, WRONG, |loaded| upkeep::restore(&loaded.config, &file))
        }
        Command::Bench(arguments) => bench::run(arguments, &cli.settings),
        Command::Token(TokenCommand::New { name, scopes, topics }) => token::new(&name, &scopes, &topics),
        Command::Health { url: Some(url), timeout } => health::ask_url(&url, timeout),
        Command::Health { url: None, timeout } => with_settings(&cli.settings, WRONG, |loaded| {
            health::ask_address(loaded.config.server.listen, loaded.config.tls.is_some(), timeout)
        }),
    }
}

fn serve(config: &Config) -> ExitCode {
    match server::run(config) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Badly) => ExitCode::FAILURE,
        Err(failure) => {
            complain(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Goes on with the settings, or lists every fault and ends with `wrong`.
fn with_settings(settings: &Settings, wrong: u8, go_on: impl FnOnce(Loaded) -> ExitCode) -> ExitCode {
    match load(settings) {
        Ok(loaded) => go_on(loaded),
        Err(faults) => {
            complain(&faults);
            ExitCode::from(wrong)
        }
    }
}

fn load(settings: &Settings) -> Result<Loaded, Faults> {
    config::load(Sources {
        file: config::choose_file(settings.config.clone()),
        environment: std::env::vars_os().collect(),
        flags: settings.flags(),
    })
}

/// Prints to stdout. A reader that has enough (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format_args!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says on stderr what is wrong; where that is closed, the exit code has to do.
fn complain(what: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "linger: {what}");
}
