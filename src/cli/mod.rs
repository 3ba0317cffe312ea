//! The command line: reads it, loads the settings, and hands over. Prints to stdout only what was
//! asked for, and never panics when nobody reads it.

mod args;
mod bench;
mod health;
mod health_tls;
mod help;
mod maintenance;
mod settings;
mod token;

use std::{
    ffi::OsString,
    io::{ErrorKind, Write},
    process::ExitCode,
};

use crate::{
    config::{self, Config, Faults, Loaded, Purpose, Sources},
    printable,
    server::{self, Ended},
};
use args::{Command, ConfigCommand, TokenCommand};
use settings::Settings;

/// Wrong usage or configuration; also what clap ends with.
const WRONG: u8 = 2;

/// Runs a command line, of which the first word is the program itself.
#[must_use]
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let (command, settings) = match args::parse(&words) {
        Ok(parsed) => parsed,
        Err(help_or_error) => {
            // Nobody may be reading; the exit code says it too.
            let _ = help_or_error.print();
            return match u8::try_from(help_or_error.exit_code()) {
                Ok(0) => ExitCode::SUCCESS,
                // Docker reserves 2 for its health checks.
                Ok(code) if !args::is_health(&words) => ExitCode::from(code),
                _ => ExitCode::FAILURE,
            };
        }
    };
    match command {
        Command::Serve(_) => with_settings(&settings, Purpose::Serve, WRONG, |loaded| serve(&loaded)),
        Command::Config(ConfigCommand::Show(_)) => {
            with_settings(&settings, Purpose::Use, WRONG, |loaded| show(&loaded))
        }
        Command::Config(ConfigCommand::Check(_)) => check(&settings),
        Command::Config(ConfigCommand::Default) => print(config::DEFAULTS),
        Command::Verify(arguments) => match arguments.backup {
            Some(file) => maintenance::verify_backup(&file),
            None => {
                with_settings(&settings, Purpose::Use, WRONG, |loaded| maintenance::verify(&loaded.config))
            }
        },
        Command::Backup(arguments) => with_settings(&settings, Purpose::Use, WRONG, |loaded| {
            maintenance::backup(&loaded.config, &arguments.backup)
        }),
        Command::Restore(arguments) => with_settings(&settings, Purpose::Use, WRONG, |loaded| {
            maintenance::restore(&loaded.config, &arguments.backup)
        }),
        Command::Bench(arguments) => bench::run(&arguments, &settings),
        Command::Token(TokenCommand::New(arguments)) => token::new(&arguments),
        Command::Health(arguments) => match arguments.url {
            Some(url) => health::ask_url(&url, arguments.timeout),
            None => with_settings(&settings, Purpose::Use, 1, |loaded| {
                let Config { server, tls, .. } = &loaded.config;
                health::ask_address(server.listen, tls.is_some(), arguments.timeout)
            }),
        },
    }
}

fn serve(loaded: &Loaded) -> ExitCode {
    match server::run(&loaded.config, &loaded.warnings) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Badly) => ExitCode::FAILURE,
        Err(failure) => {
            complain(&failure);
            ExitCode::FAILURE
        }
    }
}

fn show(loaded: &Loaded) -> ExitCode {
    warn(&loaded.warnings);
    print(&loaded.show())
}

/// Lists what the settings were read from and that they are valid, or every fault.
fn check(settings: &Settings) -> ExitCode {
    let sources = sources(settings);
    let read_from = sources.describe();
    match config::check(sources, server::check_files) {
        Ok(loaded) => {
            warn(&loaded.warnings);
            print(&format!("{read_from}the configuration is valid\n"))
        }
        Err(faults) => {
            remark(&read_from);
            complain(&faults);
            ExitCode::FAILURE
        }
    }
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        complain(&format_args!("warning: {warning}"));
    }
}

/// Goes on with the settings, or lists every fault and ends with `wrong`.
fn with_settings(
    settings: &Settings,
    purpose: Purpose,
    wrong: u8,
    go_on: impl FnOnce(Loaded) -> ExitCode,
) -> ExitCode {
    match load(settings, purpose) {
        Ok(loaded) => go_on(loaded),
        Err(faults) => {
            complain(&faults);
            ExitCode::from(wrong)
        }
    }
}

fn load(settings: &Settings, purpose: Purpose) -> Result<Loaded, Faults> {
    config::load(sources(settings), purpose)
}

fn sources(settings: &Settings) -> Sources {
    Sources {
        file: config::choose_file(settings.named_file(), std::env::var_os("LINGER_CONFIG")),
        environment: std::env::vars_os().collect(),
        flags: settings.flags(),
    }
}

/// Prints to stdout, without anything that a terminal would obey. A reader that has enough (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(printable::lines(text).as_bytes()).and_then(|()| stdout.flush()) {
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
    remark(&format!("linger: {what}\n"));
}

/// Prints to stderr, without anything that a terminal would obey.
fn remark(text: &str) {
    let _ = std::io::stderr().write_all(printable::lines(text).as_bytes());
}
