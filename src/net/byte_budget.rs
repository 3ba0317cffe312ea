//! Memory that requests share: so many bytes in all, and so many for each caller.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::Buffered;

/// So many bytes, for whoever comes first. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Room {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// What somebody has taken of a room; given back when dropped.
#[derive(Debug)]
pub struct Taken {
    permit: OwnedSemaphorePermit,
    shown: Buffered,
}

impl Room {
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Takes `len` bytes and shows them; the whole room for what is larger than it, or it could never be
    /// done. None when there is no room: waiting for it would let slow clients hold up all the others.
    pub fn take(&self, len: usize, shown: Buffered) -> Option<Taken> {
        let permit = self.permit(len.min(self.bytes))?;
        let mut taken = Taken { permit, shown };
        taken.shown.add(len);
        Some(taken)
    }

    fn permit(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_many_owned(u32::try_from(len).ok()?).ok()
    }
}

impl Taken {
    /// Takes `len` bytes more of `room`, all of which must fit; whether there was room.
    pub fn grow(&mut self, room: &Room, len: usize) -> bool {
        let Some(more) = room.permit(len) else { return false };
        self.permit.merge(more);
        self.shown.add(len);
        true
    }

    /// Gives back all but `len` bytes.
    pub fn shrink(&mut self, len: usize) {
        let spare = self.permit.num_permits().saturating_sub(len);
        drop(self.permit.split(spare));
        self.shown.shrink(len);
    }
}

/// Who holds bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The holder of the token with this name.
    Token(Arc<str>),
    /// Whoever calls from this address, where there are no tokens.
    Address(IpAddr),
}

/// The most that each caller may have of a room. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shares {
    max: usize,
    /// Callers that hold anything.
    held: Arc<Mutex<HashMap<Holder, usize>>>,
}

/// What one request has of its caller's share; given back when dropped.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    holder: Holder,
    bytes: usize,
}

impl Shares {
    pub fn new(max: usize) -> Self {
        Self { max, held: Arc::default() }
    }

    /// The share of `holder`, of which nothing is taken yet.
    pub fn of(&self, holder: Holder) -> Share {
        Share { shares: self.clone(), holder, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes `len` bytes more, all of which must fit; whether they did.
    pub fn grow(&mut self, len: usize) -> bool {
        let mut held = self.shares.lock();
        let own = held.get(&self.holder).copied().unwrap_or_default();
        if len > self.shares.max.saturating_sub(own) {
            return false;
        }
        held.insert(self.holder.clone(), own + len);
        self.bytes += len;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        if let Some(own) = held.get_mut(&self.holder) {
            *own -= self.bytes;
            if *own == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn what_is_taken_is_missing_until_it_is_dropped() {
        let (room, metrics) = (Room::new(10), Metrics::new());
        let take = |len| room.take(len, metrics.http.buffered());
        let mut first = take(4).expect("there is room");
        assert!(first.grow(&room, 5) && !first.grow(&room, 2));
        assert!(take(2).is_none());
        let second = take(1).expect("there is room");
        drop(first);
        assert!(take(9).is_some());
        assert!(take(11).is_none(), "what is larger than the room needs all of it");
        drop(second);
        let mut shrunk = take(10).expect("there is room");
        shrunk.shrink(12);
        assert!(take(1).is_none());
        shrunk.shrink(4);
        assert!(take(7).is_none() && take(6).is_some());
        drop(shrunk);
        let large = take(11).expect("there is room");
        assert!(take(1).is_none());
        drop(large);
        assert!(take(10).is_some());
    }

    #[test]
    fn nobody_gets_more_than_their_share_and_nobody_is_remembered() {
        let shares = Shares::new(10);
        let (one, other) = (Holder::Token("one".into()), Holder::Address([127, 0, 0, 1].into()));
        let (mut first, mut second) = (shares.of(one.clone()), shares.of(one.clone()));
        assert!(first.grow(6) && second.grow(4) && !second.grow(1));
        assert!(shares.of(other).grow(10), "the share of somebody else");
        drop(first);
        assert!(second.grow(6) && !second.grow(1));
        drop(second);
        assert!(shares.lock().is_empty());
    }
}
