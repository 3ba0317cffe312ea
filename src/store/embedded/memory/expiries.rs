//! When jobs expire. Only jobs that expire take memory here. Knows neither what happens to them then nor their states, but
//! which of them wait: a reservation keeps a job from expiring.

use std::collections::{BTreeSet, HashMap};

use super::{
    job_index::JobRef,
    topics::{ByKind, OutletNumber},
};
use crate::{
    job::{DueKind, ExpiresAt, Now, Timestamp},
    store::embedded::rows::key::RowKey,
};

#[derive(Debug, Default)]
pub(crate) struct Expiries {
    /// Of the jobs that are not dead.
    all: HashMap<RowKey, (ExpiresAt, OutletNumber)>,
    /// Of those that are delayed or ready.
    waiting: ByKind<BTreeSet<(Timestamp, RowKey)>>,
}

impl Expiries {
    /// When the job at `key` expires; `None` if it does not.
    pub fn get(&self, key: RowKey) -> Option<ExpiresAt> {
        if self.all.is_empty() {
            return None;
        }
        self.all.get(&key).map(|(expires_at, _)| *expires_at)
    }

    /// Sets when a job expires that does not wait. Returns what was set before.
    pub fn set(
        &mut self,
        key: RowKey,
        expiry: Option<(ExpiresAt, OutletNumber)>,
    ) -> Option<(ExpiresAt, OutletNumber)> {
        match expiry {
            Some(expiry) => self.all.insert(key, expiry),
            None if self.all.is_empty() => None,
            None => self.all.remove(&key),
        }
    }

    /// The job at `key` is delayed or ready from now on.
    pub fn begin_waiting(&mut self, key: RowKey) {
        if let Some(ExpiresAt { moment, kind }) = self.get(key) {
            self.waiting.get_mut(kind).insert((moment, key));
        }
    }

    /// The job at `key` is neither delayed nor ready any more.
    pub fn end_waiting(&mut self, key: RowKey) {
        if let Some(ExpiresAt { moment, kind }) = self.get(key) {
            self.waiting.get_mut(kind).remove(&(moment, key));
        }
    }

    /// The waiting job of this kind that expires first.
    pub fn first(&self, kind: DueKind) -> Option<(Timestamp, JobRef)> {
        let &(moment, key) = self.waiting.get(kind).first()?;
        let (_, outlet) = self.all[&key];
        Some((moment, JobRef { key, outlet, dead: false }))
    }

    /// Whether the job at `key` has expired when the clock of each kind shows `now_of`.
    pub fn has_expired(&self, key: RowKey, now_of: impl Fn(DueKind) -> Now) -> bool {
        self.get(key).is_some_and(|expires_at| expires_at.moment <= now_of(expires_at.kind).rounded_down)
    }

    /// All that wait, by moment.
    pub fn waiting(&self) -> impl Iterator<Item = (Timestamp, RowKey)> {
        self.waiting.iter().flatten().copied()
    }

    /// The jobs that expire.
    pub fn all(&self) -> impl Iterator<Item = (RowKey, ExpiresAt)> {
        self.all.iter().map(|(key, (expires_at, _))| (*key, *expires_at))
    }
}
