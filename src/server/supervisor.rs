//! Tells systemd how the server stands: ready, stopping, and alive. Does nothing under any other parent.

use std::{io, time::Duration};

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, SystemClock},
    messages::failure_log::FailureLog,
};

/// The server serves: its store has recovered, and it listens. `status` is shown by `systemctl status`.
pub(super) fn notify_ready(status: &str) {
    log_error(sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]));
}

/// The shutdown has begun.
pub(super) fn notify_stopping() {
    log_error(sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("shutting down")]));
}

/// Feeds the watchdog until `until`, if there is one (`WatchdogSec` in the unit). It is fed by a task among those that serve,
/// so it starves when none of them makes progress. A store that is away does not starve it: a restart would not help.
pub(super) async fn feed_watchdog(clock: &SystemClock, until: CancellationToken) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return until.cancelled().await };
    // The manual of sd_watchdog_enabled(3) recommends half of the limit.
    let interval = (limit / 2).max(Duration::from_millis(1));
    let failures = FailureLog::default();
    loop {
        let fed = sd_notify::notify(&[NotifyState::Watchdog]);
        if fed.is_ok() {
            let _ = failures.succeeded(clock.now_micros());
        } else if failures.failed(clock.now_micros()) {
            log_error(fed);
        }
        tokio::select! {
            () = clock.sleep(interval) => {}
            () = until.cancelled() => return,
        }
    }
}

fn log_error(notified: io::Result<()>) {
    if let Err(error) = notified {
        tracing::warn!(%error, "cannot notify systemd");
    }
}
