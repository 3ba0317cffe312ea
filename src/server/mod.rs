//! The composition root: the only module that names an engine and sees the whole configuration. It builds the
//! parts, waits for a signal, and stops the parts in order.
//!
//! # Shutdown
//!
//! On a signal `/readyz` fails, and everything goes on for `server.drain_delay`. Then new polls are refused and
//! parked ones answered (`Queue::drain`), accepting stops, requests and callbacks in flight finish, then the timer
//! stops, then the store flushes and closes. Callbacks that have no answer two seconds before the end of
//! `server.shutdown_grace` are given up and keep their reservations, because their endpoints may be at work. A part
//! that panics ends the process with a failure (`tasks.rs`) instead of leaving it half alive.
//!
//! # systemd and SIGHUP
//!
//! `supervisor.rs` tells systemd when the server is ready (its store has recovered, and it listens) and when it
//! stops, and feeds the watchdog of the unit. SIGHUP reads the tokens and the certificates again (`reload.rs`); a
//! file that cannot be used changes nothing. It never ends the server, also if there is nothing to read, since
//! service managers and closed terminals send it.

mod clock_watch;
mod file_permissions;
mod listeners;
mod maintenance;
mod open_files;
mod outcome;
mod reload;
mod relocation;
mod running;
mod supervisor;
mod tasks;
mod traces;
mod transfer;
mod wiring;

use std::{sync::Arc, time::Duration};

use tokio::runtime;

pub use crate::transfer::Watcher;
use crate::{
    clock::{Clock, SystemClock},
    config::{Config, FileFault},
    metrics::Metrics,
    process::signals::{Signals, StopSignal},
    push,
    telemetry::{self, Logging},
};
pub use maintenance::{
    MaintenanceError, VerifyReport, accept_clock, accept_store, backup, backup_to, restore, restore_from,
    verify, verify_backup,
};
pub use outcome::{RunOutcome, StartError};
use reload::Reload;
pub use relocation::{MoveStep, abandon, relocate};
use running::Running;
pub use transfer::{TransferReport, export, export_to, import};

/// A second signal within this time counts as the first one: GNU timeout sends two at once.
const DUPLICATE_SIGNAL_US: i64 = 1_000_000;

/// Checks the files that the settings name, without starting anything. Returns what is wrong.
#[must_use]
pub fn check_files(config: &Config) -> Vec<FileFault> {
    let mut faults = Reload::new(config).err().unwrap_or_default();
    if let Err(problem) = push::check_authorities(config.callbacks.ca_file.as_deref()) {
        faults.push(FileFault { key: "callbacks.ca_file", problem });
    }
    faults
}

/// Logs `warnings`, then serves until SIGINT or SIGTERM. A second signal, a second or more later, ends the process at
/// once.
///
/// # Errors
/// Why it did not start.
pub fn run(config: &Config, warnings: &[String]) -> Result<RunOutcome, StartError> {
    let metrics = Metrics::new();
    let logging = telemetry::init(&config.log, metrics.log.clone())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = runtime::Builder::new_multi_thread().enable_all().thread_name("linger-worker").build()?;
    let outcome = runtime.block_on(serve(config, metrics, &logging));
    // Not dropped: that would wait for a thread that hangs in the store.
    runtime.shutdown_background();
    outcome
}

async fn serve(config: &Config, metrics: Metrics, logging: &Logging) -> Result<RunOutcome, StartError> {
    let mut signals = Signals::new()?;
    let clock = Arc::new(SystemClock::new());
    let running = tokio::select! {
        running = Running::start(config, clock.clone(), metrics) => running?,
        signal = signals.next() => {
            tracing::info!(signal = signal.name(), "stopped before the server had started");
            return Ok(RunOutcome::Clean);
        }
    };
    running.announce();
    let drain_delay = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal = signal.name(), "shutting down");
            config.server.drain_delay
        }
        () = running.failed() => Duration::ZERO,
    };
    let first_us = clock.now_micros();
    tokio::select! {
        outcome = shut_down(running, drain_delay, config.server.shutdown_grace, &*clock) => Ok(outcome),
        signal = second_signal(&mut signals, first_us, &*clock) => {
            tracing::warn!(signal = signal.name(), "a second signal: stopping at once");
            logging.flush();
            std::process::exit(signal.exit_code().into())
        }
    }
}

/// Shuts down in order: the server goes on for `drain_delay`, then has `grace` to finish what is in flight.
async fn shut_down(
    running: Running,
    drain_delay: Duration,
    grace: Duration,
    clock: &dyn Clock,
) -> RunOutcome {
    supervisor::notify_stopping();
    running.announce_shutdown();
    tokio::select! {
        () = clock.sleep(drain_delay) => {}
        () = running.failed() => {}
    }
    tokio::select! {
        outcome = running.stop() => {
            if outcome == RunOutcome::Clean {
                tracing::info!("stopped");
            }
            outcome
        }
        () = clock.sleep(grace) => {
            tracing::error!(?grace, "the shutdown took longer than server.shutdown_grace");
            RunOutcome::Failed
        }
    }
}

/// Waits for the next signal that is not a duplicate of the one at `first_us`.
async fn second_signal(signals: &mut Signals, first_us: i64, clock: &dyn Clock) -> StopSignal {
    loop {
        let signal = signals.next().await;
        if clock.now_micros() - first_us >= DUPLICATE_SIGNAL_US {
            return signal;
        }
        tracing::debug!(signal = signal.name(), "ignoring a second signal within a second of the first");
    }
}
