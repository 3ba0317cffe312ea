//! The command line: parses it, loads the configuration and runs the command. Stdout gets only what was requested,
//! and a closed stdout or stderr never causes a panic.
//!
//! The commands that call a server have one file for each noun. `connection.rs` resolves flags, variables and the
//! profile into a client, `exit.rs` has the exit codes and what causes each, `output.rs` the two forms of the
//! output, and `session.rs` runs a command and ends it when a signal comes. They print the server's JSON as it
//! came, so they send the calls as data; they read it all the same, so that no page of a proxy is printed as a job.
//! `progress.rs` is the line on stderr that long work has on a terminal: the server's parts tell a
//! `transfer::Watcher` how far they are. `tips.rs` has the tips for words that are no command.
//!
//! Text from Redis, a file or a stored job goes through `printable` before it is printed, so that none of it
//! reaches a terminal as a control sequence.

mod activity;
mod add;
mod args;
mod audit;
mod bench;
mod bulk;
mod cause;
#[cfg(test)]
mod commands_page;
mod confirm;
mod connection;
mod dead;
mod definition;
mod exit;
mod export;
mod generate;
mod health;
mod help;
mod import;
mod inspect;
mod job_args;
mod job_filter;
mod job_list;
mod jobs;
mod json_argument;
mod line_source;
mod lines;
mod load;
mod maintenance;
mod output;
mod pipe;
mod pop;
mod profile;
mod profiles;
mod progress;
mod relocate;
mod schedule;
mod session;
mod settings;
mod terminal;
mod text;
mod timeline;
mod tips;
mod token;
mod top;
mod topic_secret;
mod topic_set;
mod topics;
mod trace;
mod work;

use std::{ffi::OsString, process::ExitCode};

use crate::{
    config::{self, Config, Loaded, Purpose},
    server::{self, RunOutcome},
};
use args::{Command, ConfigCommand, StoreCommand};
use exit::{Failure, USAGE_ERROR};
use load::{sources, with_config};
use output::{print, print_error, print_to_stderr};
use settings::Settings;

/// Runs a command line. The first word is the program itself.
#[must_use]
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    match args::parse(&words) {
        Ok((command, settings)) => dispatch(command, &settings),
        Err(help_or_error) => print_help_or_error(&words, &help_or_error),
    }
}

fn print_help_or_error(words: &[OsString], help_or_error: &clap::Error) -> ExitCode {
    if help_or_error.use_stderr() && args::wants_problems(words) {
        let failure = Failure::usage(help_or_error.to_string().trim_end());
        print_to_stderr(&format!("{}\n", failure.problem()));
    } else {
        // If printing fails, the exit code still reports the error.
        let _ = help_or_error.print();
    }
    match u8::try_from(help_or_error.exit_code()) {
        Ok(0) => ExitCode::SUCCESS,
        // Docker reserves 2 for its health checks.
        Ok(code) if !args::is_health(words) => ExitCode::from(code),
        _ => ExitCode::FAILURE,
    }
}

fn dispatch(command: Command, settings: &Settings) -> ExitCode {
    match command {
        Command::Serve(_) => with_config(settings, Purpose::Serve, USAGE_ERROR, |loaded| serve(&loaded)),
        Command::Config(ConfigCommand::Show(_)) => {
            with_config(settings, Purpose::Use, USAGE_ERROR, |loaded| show_config(&loaded))
        }
        Command::Config(ConfigCommand::Check(_)) => check_config(settings),
        Command::Config(ConfigCommand::Default) => print(config::DEFAULTS),
        Command::Verify(arguments) => match arguments.backup {
            Some(file) => maintenance::verify_backup(&file),
            None => on_store(settings, maintenance::verify),
        },
        Command::Store(StoreCommand::Accept(_)) => on_store(settings, maintenance::accept_store),
        Command::Store(StoreCommand::AcceptClock(_)) => on_store(settings, maintenance::accept_clock),
        Command::Backup(arguments) => {
            on_store(settings, |config| maintenance::backup(config, &arguments.backup))
        }
        Command::Restore(arguments) => {
            on_store(settings, |config| maintenance::restore(config, &arguments.backup))
        }
        Command::Export(arguments) => on_store(settings, |config| export::export(config, &arguments.export)),
        Command::Import(arguments) => {
            on_store(settings, |config| import::import(config, &arguments.export, arguments.partial))
        }
        Command::Move(arguments) => on_store(settings, |config| relocate::run(config, &arguments)),
        Command::Bench(arguments) => bench::run(&arguments, settings),
        Command::Token(command) => token::run(&command),
        Command::Add(arguments) => add::run(&arguments),
        Command::Pop(arguments) => pop::run(&arguments),
        Command::Finish(arguments) => jobs::finish(&arguments),
        Command::Release(arguments) => jobs::release(&arguments),
        Command::Revoke(arguments) => jobs::revoke(&arguments),
        Command::Touch(arguments) => jobs::touch(&arguments),
        Command::Bury(arguments) => jobs::bury(&arguments),
        Command::Get(arguments) => jobs::get(&arguments),
        Command::Reschedule(arguments) => jobs::reschedule(&arguments),
        Command::Cancel(arguments) => jobs::cancel(&arguments),
        Command::Jobs(arguments) => job_list::run(&arguments),
        Command::Bulk(command) => bulk::run(&command),
        Command::Dead(command) => dead::run(&command),
        Command::Topics(arguments) => topics::list(&arguments),
        Command::Topic(command) => topics::run(&command),
        Command::Schedule(command) => schedule::run(&command),
        Command::Callbacks(arguments) => activity::callbacks(&arguments),
        Command::Workers(arguments) => activity::workers(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Stats(arguments) => inspect::stats(&arguments),
        Command::Whoami(arguments) => inspect::whoami(&arguments),
        Command::Timeline(arguments) => timeline::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Profile(command) => profile::run(&command),
        Command::Completions(arguments) => generate::completions(arguments.shell),
        Command::Man(arguments) => generate::manual(&arguments.directory),
        Command::Work(arguments) => work::run(&arguments),
        Command::Health(arguments) => health::run(&arguments, settings),
    }
}

/// Runs a command that uses the store of the configuration itself, without a server.
fn on_store(settings: &Settings, command: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
    with_config(settings, Purpose::Use, USAGE_ERROR, |loaded| command(&loaded.config))
}

fn serve(loaded: &Loaded) -> ExitCode {
    match server::run(&loaded.config, &loaded.warnings) {
        Ok(RunOutcome::Clean) => ExitCode::SUCCESS,
        Ok(RunOutcome::Failed) => ExitCode::FAILURE,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn show_config(loaded: &Loaded) -> ExitCode {
    print_warnings(&loaded.warnings);
    print(&loaded.show())
}

/// Lists the sources of the configuration, and that it is valid or every fault.
fn check_config(settings: &Settings) -> ExitCode {
    let sources = sources(settings);
    let description = sources.describe();
    match config::check(sources, server::check_files) {
        Ok(loaded) => {
            print_warnings(&loaded.warnings);
            print(&format!("{description}the configuration is valid\n"))
        }
        Err(faults) => {
            print_to_stderr(&description);
            print_error(&faults);
            ExitCode::FAILURE
        }
    }
}

fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        print_error(&format_args!("warning: {warning}"));
    }
}
