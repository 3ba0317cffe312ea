//! Lanes: how a script knows a second run of the same call.
//!
//! A call that must not happen twice takes a lane of its shard, which holds one such call at a time,
//! and a sequence number one higher than the lane's last. The script leaves the sequence and its
//! answer under the lane's name; run again, it finds them and gives the same answer. The next call
//! on the lane overwrites them, so there are never more than calls were in flight at once.

use std::{
    mem::ManuallyDrop,
    sync::{Mutex, MutexGuard},
};

use bytes::{BufMut, Bytes, BytesMut};

use crate::store::redis::keys::Shard;

/// The lanes of this process, per shard.
#[derive(Debug)]
pub struct Lanes {
    /// Random, so that no other process, nor an earlier life of this one, shares a lane.
    process: [u8; 8],
    shards: Vec<Mutex<Pool>>,
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<u32>,
    /// Last sequence used, by lane.
    sequences: Vec<u64>,
}

/// A lane that is held by one call, with the sequence of that call.
#[derive(Debug)]
pub struct Lane<'a> {
    lanes: &'a Lanes,
    shard: Shard,
    number: u32,
    sequence: u64,
}

impl Lanes {
    pub fn new(shards: u16) -> Self {
        Self { process: rand::random(), shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// This process, as it signs its announcements.
    pub fn process(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.process))
    }

    /// Takes the lane that was given back last, or a new one where none is free, so that there are never more lanes
    /// than calls were in flight at once.
    pub fn take(&self, shard: Shard) -> Lane<'_> {
        let mut pool = self.lock(shard);
        let number = pool.free.pop().unwrap_or_else(|| {
            pool.sequences.push(0);
            u32::try_from(pool.sequences.len() - 1).expect("fewer than 2^32 calls in flight")
        });
        let sequence = &mut pool.sequences[number as usize];
        *sequence += 1;
        Lane { lanes: self, shard, number, sequence: *sequence }
    }

    /// A lane that was kept, for the same call.
    pub fn resume(&self, shard: Shard, lane: KeptLane) -> Lane<'_> {
        Lane { lanes: self, shard, number: lane.number, sequence: lane.sequence }
    }

    fn lock(&self, shard: Shard) -> MutexGuard<'_, Pool> {
        self.shards[usize::from(shard)].lock().expect("no code panics while it holds the lanes")
    }
}

/// A lane that stays taken without a call, with the sequence of its last.
#[derive(Debug)]
pub struct KeptLane {
    number: u32,
    sequence: u64,
}

impl Lane<'_> {
    /// Keeps the lane taken, and with it what the server remembers of its call, until it is
    /// [resumed](Lanes::resume).
    pub fn keep(self) -> KeptLane {
        let lane = ManuallyDrop::new(self);
        KeptLane { number: lane.number, sequence: lane.sequence }
    }

    /// The lane's name in its shard.
    pub fn field(&self) -> Bytes {
        let mut field = BytesMut::with_capacity(12);
        field.put_slice(&self.lanes.process);
        field.put_u32(self.number);
        field.freeze()
    }

    pub fn sequence(&self) -> i64 {
        i64::try_from(self.sequence).expect("a lane is used fewer than 2^63 times")
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.lanes.lock(self.shard).free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_holds_one_call_and_never_repeats_a_sequence() {
        let lanes = Lanes::new(2);
        let first = lanes.take(0);
        let second = lanes.take(0);
        assert_ne!(first.field(), second.field());
        let (field, sequence) = (first.field(), first.sequence());
        drop(first);
        let third = lanes.take(0);
        assert_eq!((third.field(), third.sequence()), (field.clone(), sequence + 1));
        let (number, sequence) = (third.field(), third.sequence());
        let kept = third.keep();
        assert_ne!(lanes.take(0).field(), number, "a lane that is kept is not taken");
        let resumed = lanes.resume(0, kept);
        assert_eq!((resumed.field(), resumed.sequence()), (number, sequence));
        assert_eq!(lanes.take(1).field(), field, "shards have their own");
        assert_ne!(Lanes::new(1).take(0).field(), field, "processes have their own");
    }
}
