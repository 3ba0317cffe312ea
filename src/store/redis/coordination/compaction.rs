//! Compacts ready lists with many stale entries. Must not know what made them stale.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use super::shards::{Shards, outlet_arg};
use crate::{
    job::Outlet,
    store::{
        Result,
        redis::{keys::Shard, scripts::Script},
    },
};

/// Entries per run of the script.
const SLICE: i64 = 1_000;
/// Most runs per sweep and list.
const MAX_RUNS: usize = 50;

/// Entries of a list that are still to be checked; `None` before the first run.
type EntriesLeft = Option<i64>;

/// The ready lists to compact. Only a full turn leaves the valid entries in their order.
pub struct Compaction {
    shards: Arc<Shards>,
    requested: Mutex<BTreeMap<(Shard, Outlet), EntriesLeft>>,
}

impl Compaction {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self { shards, requested: Mutex::default() }
    }

    /// Requests that a list is compacted at the next sweep.
    pub fn request(&self, shard: Shard, outlet: &Outlet) {
        self.lock().entry((shard, outlet.clone())).or_default();
    }

    /// Compacts the requested lists of these shards.
    pub async fn run(&self, group: &[Shard]) -> Result<()> {
        let mut outcome = Ok(());
        let requested: Vec<_> = self.lock().extract_if(.., |(shard, _), _| group.contains(shard)).collect();
        for ((shard, outlet), left) in requested {
            outcome = outcome.and(self.compact(shard, outlet, left).await);
        }
        outcome
    }

    /// Goes through a ready list once, or through a part of it.
    async fn compact(&self, shard: Shard, outlet: Outlet, mut left: EntriesLeft) -> Result<()> {
        for _ in 0..MAX_RUNS {
            let slice = left.unwrap_or(SLICE).min(SLICE);
            let call = self.shards.change(Script::Compact, shard, None, &[&outlet]);
            let length =
                self.shards.call(call.arg(outlet_arg(&outlet)).arg(slice)).await?.as_i64().unwrap_or(0);
            // At most the present length: jobs may have been popped meanwhile.
            let rest = left.unwrap_or(length).min(length) - slice;
            if rest <= 0 {
                return Ok(());
            }
            left = Some(rest);
        }
        self.lock().insert((shard, outlet), Some(left.unwrap_or(0)));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Shard, Outlet), EntriesLeft>> {
        self.requested.lock().expect("no code panics while it holds the lists")
    }
}
