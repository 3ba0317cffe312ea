//! The promotions of a Cluster's shards: each runs at its own pace, so that a server that does not answer
//! delays only the due jobs on its own shards. Makes no calls.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use crate::{
    messages::failure_log::FailureLog,
    store::{
        Promoted, Result,
        redis::{keys::Shard, time::micros},
    },
};

/// Time until a failed promotion is retried.
const RETRY_IN: Duration = Duration::from_secs(1);

/// Which promotions are running, failed, or ended late.
#[derive(Debug, Default)]
pub struct Promotions {
    state: Mutex<PromotionState>,
    log: FailureLog,
}

#[derive(Debug, Default)]
struct PromotionState {
    running: HashSet<Shard>,
    /// When a failed promotion may be retried, by our clock.
    retry_at_us: HashMap<Shard, i64>,
    /// The results of promotions that took longer than their callers waited.
    late: Vec<Promoted>,
}

impl Promotions {
    /// Begins a shard's promotion; returns false if it is running or must not be retried yet.
    pub fn begin(&self, shard: Shard, now_us: i64) -> bool {
        let mut state = self.lock();
        state.retry_at_us.get(&shard).is_none_or(|at_us| now_us >= *at_us) && state.running.insert(shard)
    }

    pub fn end(&self, shard: Shard, result: &Result<Promoted>, now_us: i64) {
        let mut state = self.lock();
        state.running.remove(&shard);
        match result {
            Ok(_) => state.retry_at_us.remove(&shard),
            Err(_) => state.retry_at_us.insert(shard, now_us + micros(RETRY_IN)),
        };
        drop(state);
        match result {
            Ok(_) => {}
            // The health check reports that a server cannot be reached.
            Err(error) if error.is_unavailable() => {
                tracing::debug!(%error, shard, "cannot promote the due jobs of a shard");
            }
            Err(error) => {
                if self.log.failed(now_us) {
                    tracing::warn!(%error, shard, "cannot promote the due jobs of a shard");
                }
            }
        }
    }

    /// Keeps a result whose caller no longer waits.
    pub fn add_late(&self, result: Promoted) {
        self.lock().late.push(result);
    }

    /// Takes the results whose callers no longer waited.
    pub fn take_late(&self) -> Vec<Promoted> {
        std::mem::take(&mut self.lock().late)
    }

    fn lock(&self) -> MutexGuard<'_, PromotionState> {
        self.state.lock().expect("no code panics while it holds the promotions")
    }
}
