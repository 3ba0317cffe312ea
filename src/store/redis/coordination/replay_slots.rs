//! Replay slots: how a script recognises the second run of a call.
//!
//! A call that must have its effect only once acquires a slot of its shard, for itself alone,
//! and a sequence number one higher than the last of that slot. The script stores the sequence number and its
//! reply in the slot; a second run finds them and returns the same reply. The next call
//! with the slot overwrites them, so there are never more slots than there were concurrent calls.

use std::{
    mem::ManuallyDrop,
    sync::{Mutex, MutexGuard},
};

use bytes::{BufMut, Bytes, BytesMut};

use crate::store::redis::keys::Shard;

/// The slots of this process, by shard.
#[derive(Debug)]
pub struct ReplaySlots {
    /// Random, so that neither another process nor an earlier run of this one uses the same slots.
    process: [u8; 8],
    shards: Vec<Mutex<SlotPool>>,
}

#[derive(Debug, Default)]
struct SlotPool {
    free: Vec<u32>,
    /// Last sequence number of each slot.
    sequences: Vec<u64>,
}

/// A slot in use by one call, with the sequence number of that call.
#[derive(Debug)]
pub struct ReplaySlot<'a> {
    slots: &'a ReplaySlots,
    shard: Shard,
    number: u32,
    sequence: u64,
}

impl ReplaySlots {
    pub fn new(shards: u16) -> Self {
        Self { process: rand::random(), shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// The name of this process in its announcements.
    pub fn process(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.process))
    }

    /// Acquires the slot that was freed last, or a new one if none is free, so that there are never more slots
    /// than there were concurrent calls.
    pub fn acquire(&self, shard: Shard) -> ReplaySlot<'_> {
        let mut pool = self.lock(shard);
        let number = pool.free.pop().unwrap_or_else(|| {
            pool.sequences.push(0);
            u32::try_from(pool.sequences.len() - 1).expect("fewer than 2^32 calls in flight")
        });
        let sequence = &mut pool.sequences[number as usize];
        *sequence += 1;
        ReplaySlot { slots: self, shard, number, sequence: *sequence }
    }

    /// Uses a retained slot again, for the same call.
    pub fn resume(&self, shard: Shard, slot: RetainedSlot) -> ReplaySlot<'_> {
        ReplaySlot { slots: self, shard, number: slot.number, sequence: slot.sequence }
    }

    fn lock(&self, shard: Shard) -> MutexGuard<'_, SlotPool> {
        self.shards[usize::from(shard)].lock().expect("no code panics while it holds the slots")
    }
}

/// A slot that stays in use without a call, with the sequence number of its last call.
#[derive(Debug)]
pub struct RetainedSlot {
    number: u32,
    sequence: u64,
}

impl ReplaySlot<'_> {
    /// Keeps the slot in use, so that the server keeps the reply to its call, until it is
    /// [resumed](ReplaySlots::resume).
    pub fn retain(self) -> RetainedSlot {
        let slot = ManuallyDrop::new(self);
        RetainedSlot { number: slot.number, sequence: slot.sequence }
    }

    /// The field of the slot in its shard.
    pub fn field(&self) -> Bytes {
        let mut field = BytesMut::with_capacity(12);
        field.put_slice(&self.slots.process);
        field.put_u32(self.number);
        field.freeze()
    }

    pub fn sequence(&self) -> i64 {
        i64::try_from(self.sequence).expect("a slot is used fewer than 2^63 times")
    }
}

impl Drop for ReplaySlot<'_> {
    fn drop(&mut self) {
        self.slots.lock(self.shard).free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_serves_one_call_and_never_repeats_a_sequence() {
        let slots = ReplaySlots::new(2);
        let first = slots.acquire(0);
        let second = slots.acquire(0);
        assert_ne!(first.field(), second.field());
        let (field, sequence) = (first.field(), first.sequence());
        drop(first);
        let third = slots.acquire(0);
        assert_eq!((third.field(), third.sequence()), (field.clone(), sequence + 1));
        let (number, sequence) = (third.field(), third.sequence());
        let retained = third.retain();
        assert_ne!(slots.acquire(0).field(), number, "a retained slot is not acquired");
        let resumed = slots.resume(0, retained);
        assert_eq!((resumed.field(), resumed.sequence()), (number, sequence));
        assert_eq!(slots.acquire(1).field(), field, "shards have their own slots");
        assert_ne!(ReplaySlots::new(1).acquire(0).field(), field, "processes have their own slots");
    }
}
