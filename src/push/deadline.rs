//! The moment at which a step has to be done.

use std::{sync::Arc, time::Duration};

use crate::clock::Clock;

/// A moment on a clock. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    clock: Arc<dyn Clock>,
    ends_us: i64,
}

impl Deadline {
    pub fn after(clock: &Arc<dyn Clock>, limit: Duration) -> Self {
        let limit_us = i64::try_from(limit.as_micros()).unwrap_or(i64::MAX);
        Self { clock: clock.clone(), ends_us: clock.now_micros().saturating_add(limit_us) }
    }

    /// The earlier of this moment and `limit` from now.
    pub fn within(&self, limit: Duration) -> Self {
        let nearer = Self::after(&self.clock, limit);
        if nearer.ends_us < self.ends_us { nearer } else { self.clone() }
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        let left_us = self.ends_us.saturating_sub(self.clock.now_micros());
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }

    /// What `step` returns, or `None` if it is not done in time; it is dropped then.
    pub async fn run<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = step => Some(done),
            // The time is read when the step waits for the first time.
            () = async { self.clock.sleep(self.remaining()).await } => None,
        }
    }
}
