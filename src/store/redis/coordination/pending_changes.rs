//! Changes whose outcome is unknown: nobody was notified of the jobs that they made ready, so the sweep rechecks their
//! shards. Knows no call.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::redis::keys::Shard;

/// Which shards the sweep must recheck.
#[derive(Debug)]
pub struct PendingChanges(Vec<AtomicBool>);

/// A change of a shard whose outcome is not known yet. If it is dropped before it is [confirmed](Self::confirm), the
/// sweep rechecks the shard: this process ignores its own announcements, so nobody else would notify its listener.
pub struct PendingChange<'a>(Option<&'a AtomicBool>);

impl PendingChange<'_> {
    /// The outcome is known.
    pub fn confirm(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        if let Some(recheck) = self.0 {
            recheck.store(true, Ordering::Relaxed);
        }
    }
}

impl PendingChanges {
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| AtomicBool::new(false)).collect())
    }

    /// Begins a change.
    pub fn begin(&self, shard: Shard) -> PendingChange<'_> {
        PendingChange(Some(&self.0[usize::from(shard)]))
    }

    /// Takes over an unconfirmed change of a shard, if there was any.
    pub fn take_unconfirmed(&self, shard: Shard) -> Option<PendingChange<'_>> {
        let recheck = &self.0[usize::from(shard)];
        // Created only if needed: dropping one would mark the shard again.
        recheck.swap(false, Ordering::Relaxed).then(|| PendingChange(Some(recheck)))
    }

    /// Has a shard rechecked.
    pub fn recheck(&self, shard: Shard) {
        if let Some(recheck) = self.0.get(usize::from(shard)) {
            recheck.store(true, Ordering::Relaxed);
        }
    }

    /// Has all shards rechecked.
    pub fn recheck_all(&self) {
        self.0.iter().for_each(|recheck| recheck.store(true, Ordering::Relaxed));
    }
}
