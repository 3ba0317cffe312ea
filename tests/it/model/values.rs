//! The random values of a sequence.

use std::time::Duration;

use linger::{
    job::{Actor, Due, Expire, Expiry, ExpiryChange, JobId, NoteText, OnExpiry, Reason, Receipt, Topic, Ttr},
    store::{Claim, IfExists, Touch},
};
use rand::{RngExt, seq::IndexedRandom};

use super::Sequence;
use crate::harness::jobs::{JobSpec, callback, delay, millis, retry, trace, ttr, window};

impl Sequence<'_> {
    pub(super) fn id(&mut self) -> JobId {
        self.ids.choose(&mut self.random).expect("not empty").clone()
    }

    pub(super) fn topic(&mut self) -> Topic {
        self.topics.choose(&mut self.random).expect("not empty").clone()
    }

    /// The URL of a host for a callback, more often none.
    pub(super) fn host(&mut self) -> Option<String> {
        self.hosts.get(self.random.random_range(0..self.hosts.len() * 2 + 1)).cloned()
    }

    /// Zero, or a random number of milliseconds up to about a minute.
    pub(super) fn wait(&mut self) -> Duration {
        if self.random.random_bool(0.3) {
            Duration::ZERO
        } else {
            millis(self.random.random_range(1..70_000))
        }
    }

    pub(super) fn due(&mut self) -> Due {
        if self.random.random_bool(0.2) {
            Due::At(self.fixture.now().after(self.wait()))
        } else {
            Due::After(delay(self.wait()))
        }
    }

    /// Often one that passes before the job is done.
    pub(super) fn expiry(&mut self) -> Expiry {
        let expire = if self.random.random_bool(0.3) {
            Expire::At(self.fixture.now().after(self.wait() * 2))
        } else {
            Expire::After(delay(self.wait()))
        };
        let on_expiry = OnExpiry::ALL[self.random.random_range(0..2)];
        Expiry { expire, on_expiry }
    }

    pub(super) fn if_exists(&mut self) -> IfExists {
        if self.random.random_bool(0.4) {
            IfExists::Replace { by: self.sometimes(Self::actor) }
        } else {
            IfExists::Keep
        }
    }

    pub(super) fn expiry_change(&mut self) -> ExpiryChange {
        match self.random.random_range(0..4) {
            0 => ExpiryChange::Clear,
            1 => ExpiryChange::Set(self.expiry().expire, self.sometimes(Self::expiry).map(|e| e.on_expiry)),
            _ => ExpiryChange::Keep,
        }
    }

    pub(super) fn spec(&mut self) -> JobSpec {
        let steps: Vec<u64> =
            (0..self.random.random_range(0..3)).map(|_| self.random.random_range(0..40)).collect();
        JobSpec {
            ttr: self.ttr(),
            max_attempts: self.random.random_range(0..4),
            retry: retry(&steps),
            require_receipt: self.random.random_bool(0.3),
            late_finish: self.random.random_bool(0.8),
            expiry: self.sometimes(Self::expiry),
            revision: self.sometimes(|sequence| sequence.random.random_range(0..3)),
            dedup: self.random.random_bool(0.15).then(|| window(self.random.random_range(1..60))),
            callback: self.host().map(|url| callback(&url)),
            trace: self.random.random_bool(0.3).then(|| trace(self.random.random_range(1..3))),
        }
    }

    pub(super) fn ttr(&mut self) -> Ttr {
        ttr(self.random.random_range(1..100))
    }

    pub(super) fn claim(&mut self) -> Claim {
        Claim { ttr: self.sometimes(Self::ttr), by: self.sometimes(Self::actor) }
    }

    pub(super) fn actor(&mut self) -> Actor {
        let names =
            ["w-1", "w-2", "wörker 3", "longest-name-that-is-allowed-0123456789-0123456789-0123456789-01"];
        Actor::parse(names[self.random.random_range(0..4)]).expect("valid")
    }

    pub(super) fn sometimes<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.random.random_bool(0.5).then(|| make(self))
    }

    pub(super) fn reason(&mut self) -> Option<Reason> {
        self.sometimes(|sequence| Reason::new(&format!("reason {}", sequence.random.random_range(0..9))))
            .flatten()
    }

    pub(super) fn touch_values(&mut self) -> Touch {
        let note = |sequence: &mut Self| NoteText::new(&format!("é {}", sequence.random.random_range(0..9)));
        Touch { ttr: self.sometimes(Self::ttr), note: self.sometimes(note).flatten() }
    }

    /// A known receipt with its job, which is valid more often than stale, or sometimes a receipt that never existed.
    pub(super) fn receipt(&mut self) -> (JobId, Receipt) {
        if self.receipts.is_empty() || self.random.random_bool(0.05) {
            return (self.id(), Receipt::generate());
        }
        let newest = self.random.random_bool(0.6);
        let index =
            if newest { self.receipts.len() - 1 } else { self.random.random_range(0..self.receipts.len()) };
        self.receipts[index].clone()
    }
}
