//! When a connection counts as dead: it owes an answer, and nothing has come back on it for too long.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use super::call::micros;
use crate::clock::{Clock, SystemClock};

/// How often a connection is asked for a sign of life: an answer that was lost unnoticed by the watchdog delays
/// the end of the connection by no more than this.
const PING_EVERY: Duration = Duration::from_millis(500);

/// In place of a moment: no answer is owed.
const NONE: i64 = i64::MAX;

/// Watches one connection.
#[derive(Debug)]
pub struct Watchdog {
    clock: SystemClock,
    limit: Duration,
    /// When the oldest call was sent that had no answer when something last came back.
    ///
    /// Calls that are still open when an answer comes are not counted again until the next one is sent. That is
    /// a ping at the latest, whose answer comes after theirs.
    owed_since_us: AtomicI64,
}

impl Watchdog {
    /// For a connection on which nothing may come back for `limit` while it owes an answer.
    pub fn new(limit: Duration) -> Self {
        Self { clock: SystemClock::new(), limit, owed_since_us: AtomicI64::new(NONE) }
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// A call was sent.
    pub fn sent(&self) {
        if self.owed_since_us.load(Ordering::Relaxed) == NONE {
            let now_us = self.clock.now_micros();
            let _ = self.owed_since_us.compare_exchange(NONE, now_us, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Something came back.
    pub fn received(&self) {
        self.owed_since_us.store(NONE, Ordering::Relaxed);
    }

    /// Waits until it is time to ask for a sign of life again.
    pub async fn ping_pause(&self) {
        self.clock.sleep(PING_EVERY).await;
    }

    /// Waits until the connection counts as dead.
    pub async fn silence(&self) {
        loop {
            let owed_since_us = self.owed_since_us.load(Ordering::Relaxed);
            let silent_us = self.clock.now_micros().saturating_sub(owed_since_us).max(0);
            let left_us = micros(self.limit).saturating_sub(silent_us);
            if left_us <= 0 {
                return;
            }
            self.clock.sleep(Duration::from_micros(left_us.unsigned_abs())).await;
        }
    }
}
