//! Memory that requests share: a number of bytes in total, and a number for each caller.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::ByteGauge;

/// A number of bytes, handed out in the order of the calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ByteBudget {
    available: Arc<Semaphore>,
    total: usize,
}

/// Bytes acquired from a budget, released when dropped.
#[derive(Debug)]
pub(crate) struct BytePermit {
    permit: OwnedSemaphorePermit,
    gauge: ByteGauge,
}

impl ByteBudget {
    pub fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        Self { available: Arc::new(Semaphore::new(total)), total }
    }

    /// Acquires `len` bytes and adds them to `gauge`. A request for more than the whole budget acquires all of it, or it
    /// could never succeed. `None` if too few bytes are available: waiting would let slow clients delay all others.
    pub fn try_acquire(&self, len: usize, gauge: ByteGauge) -> Option<BytePermit> {
        let permit = self.permit(len.min(self.total))?;
        let mut acquired = BytePermit { permit, gauge };
        acquired.gauge.add(len);
        Some(acquired)
    }

    fn permit(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        self.available.clone().try_acquire_many_owned(u32::try_from(len).ok()?).ok()
    }
}

impl BytePermit {
    /// Acquires `len` more bytes of `budget`, all or none. Returns whether they were available.
    pub fn try_grow(&mut self, budget: &ByteBudget, len: usize) -> bool {
        let Some(more) = budget.permit(len) else { return false };
        self.permit.merge(more);
        self.gauge.add(len);
        true
    }

    /// Releases all but `len` bytes.
    pub fn shrink_to(&mut self, len: usize) {
        let spare = self.permit.num_permits().saturating_sub(len);
        drop(self.permit.split(spare));
        self.gauge.shrink(len);
    }
}

/// The caller whose bytes are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    /// The holder of the token with this name.
    Token(Arc<str>),
    /// All clients at this address, where no tokens are required.
    Address(IpAddr),
}

/// A budget for each caller. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CallerBudgets {
    max_per_caller: usize,
    /// Only callers that use any bytes.
    used: Arc<Mutex<HashMap<CallerKey, usize>>>,
}

/// Bytes that one request acquired from its caller's budget, released when dropped.
#[derive(Debug)]
pub(crate) struct CallerPermit {
    budgets: CallerBudgets,
    caller: CallerKey,
    bytes: usize,
}

impl CallerBudgets {
    pub fn new(max_per_caller: usize) -> Self {
        Self { max_per_caller, used: Arc::default() }
    }

    /// A permit of no bytes from the budget of `caller`.
    pub fn empty_permit(&self, caller: CallerKey) -> CallerPermit {
        CallerPermit { budgets: self.clone(), caller, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallerKey, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallerPermit {
    /// Acquires `len` more bytes, all or none. Returns whether they were available.
    pub fn try_grow(&mut self, len: usize) -> bool {
        let mut used = self.budgets.lock();
        let own = used.get(&self.caller).copied().unwrap_or_default();
        if len > self.budgets.max_per_caller.saturating_sub(own) {
            return false;
        }
        used.insert(self.caller.clone(), own + len);
        self.bytes += len;
        true
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        let mut used = self.budgets.lock();
        if let Some(own) = used.get_mut(&self.caller) {
            *own -= self.bytes;
            if *own == 0 {
                used.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn acquired_bytes_are_unavailable_until_the_permit_is_dropped() {
        let (budget, metrics) = (ByteBudget::new(10), Metrics::new());
        let acquire = |len| budget.try_acquire(len, metrics.http.buffered());
        let mut first = acquire(4).expect("available");
        assert!(first.try_grow(&budget, 5) && !first.try_grow(&budget, 2));
        assert!(acquire(2).is_none());
        let second = acquire(1).expect("available");
        drop(first);
        assert!(acquire(9).is_some());
        assert!(acquire(11).is_none(), "more than the budget needs all of it");
        drop(second);
        let mut shrunk = acquire(10).expect("available");
        shrunk.shrink_to(12);
        assert!(acquire(1).is_none());
        shrunk.shrink_to(4);
        assert!(acquire(7).is_none() && acquire(6).is_some());
        drop(shrunk);
        let large = acquire(11).expect("available");
        assert!(acquire(1).is_none());
        drop(large);
        assert!(acquire(10).is_some());
    }

    #[test]
    fn no_caller_exceeds_its_budget_and_idle_callers_are_forgotten() {
        let budgets = CallerBudgets::new(10);
        let (one, other) = (CallerKey::Token("one".into()), CallerKey::Address([127, 0, 0, 1].into()));
        let (mut first, mut second) = (budgets.empty_permit(one.clone()), budgets.empty_permit(one.clone()));
        assert!(first.try_grow(6) && second.try_grow(4) && !second.try_grow(1));
        assert!(budgets.empty_permit(other).try_grow(10), "another caller has a budget of its own");
        drop(first);
        assert!(second.try_grow(6) && !second.try_grow(1));
        drop(second);
        assert!(budgets.lock().is_empty());
    }
}
