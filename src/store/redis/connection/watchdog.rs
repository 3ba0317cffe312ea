//! Decides when a connection is dead: a reply is outstanding, and the server has sent nothing for too long.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use crate::{
    clock::{Clock, SystemClock},
    store::redis::time::micros,
};

/// Time between pings. A reply that the watchdog did not see delays the end of a connection by at most this.
const PING_INTERVAL: Duration = Duration::from_millis(500);

/// In place of a moment: no reply is outstanding.
const NONE: i64 = i64::MAX;

/// Watches one connection.
#[derive(Debug)]
pub struct Watchdog {
    clock: SystemClock,
    limit: Duration,
    /// When the oldest request was sent that had no reply when the server last sent one.
    ///
    /// Requests that are still open when a reply comes count again only when the next one is sent. That is
    /// a ping at the latest, whose reply comes after theirs.
    waiting_since_us: AtomicI64,
}

impl Watchdog {
    /// Watches a connection on which the server may send nothing for `limit` while a reply is outstanding.
    pub fn new(limit: Duration) -> Self {
        Self { clock: SystemClock::new(), limit, waiting_since_us: AtomicI64::new(NONE) }
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    pub fn request_sent(&self) {
        if self.waiting_since_us.load(Ordering::Relaxed) == NONE {
            let now_us = self.clock.now_micros();
            let _ =
                self.waiting_since_us.compare_exchange(NONE, now_us, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub fn reply_received(&self) {
        self.waiting_since_us.store(NONE, Ordering::Relaxed);
    }

    /// Waits until it is time for the next ping.
    pub async fn wait_before_ping(&self) {
        self.clock.sleep(PING_INTERVAL).await;
    }

    /// Waits until the connection is dead.
    pub async fn unresponsive(&self) {
        loop {
            let since_us = self.waiting_since_us.load(Ordering::Relaxed);
            let waited_us = self.clock.now_micros().saturating_sub(since_us).max(0);
            let left_us = micros(self.limit).saturating_sub(waited_us);
            if left_us <= 0 {
                return;
            }
            self.clock.sleep(Duration::from_micros(left_us.unsigned_abs())).await;
        }
    }
}
