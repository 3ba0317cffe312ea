//! Reserving ready jobs on one shard.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    job::{Actor, Outlet, Receipt, Timestamp},
    store::{
        Claim, Reservation, Result,
        redis::{
            codec::reservations::{assign_claims, decode_reservations},
            coordination::{
                cancel::Canceller,
                lost_pops::LostPops,
                notifier::Notifier,
                shards::{Shards, not_durable},
            },
            keys::Shard,
            reply::Reply,
        },
    },
};

/// Most jobs that one run of the script reserves, so that none blocks Redis for long.
pub const SLICE: usize = 100;

/// Reserves jobs on one shard.
pub struct ShardReserver {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub lost_pops: Arc<LostPops>,
    pub canceller: Arc<Canceller>,
}

impl ShardReserver {
    /// Reserves at most one ready job per claim, serving the first claims first. There are at most [`SLICE`] claims.
    pub async fn reserve(&self, shard: Shard, outlet: &Outlet, claims: &[Claim]) -> Result<Vec<Reservation>> {
        let pop = self.lost_pops.begin(shard, outlet);
        let (mut ttrs, mut receipts) =
            (BytesMut::with_capacity(4 * claims.len()), BytesMut::with_capacity(16 * claims.len()));
        for claim in claims {
            let ttr_ms = claim.ttr.map_or(0, |ttr| ttr.as_duration().as_millis());
            ttrs.put_u32(u32::try_from(ttr_ms).expect("30 days are fewer than 2^32 ms"));
            receipts.put_slice(Receipt::generate().as_bytes());
        }
        let (count, receipts) = (i64::try_from(claims.len()).expect("a slice is small"), receipts.freeze());
        let call = pop.call(count, ttrs.freeze(), receipts.clone(), encode_actors(claims));
        let (reply, durable) = self.shards.call_with_durability(call).await?;
        pop.answered();
        let mut reply = Reply::new(reply)?;
        self.notifier.ready_shards.set_count(outlet, shard, reply.int()?);
        let now = Timestamp::from_millis(reply.int()?);
        self.shards.report_set_aside(shard, reply.count()?);
        let mut granted = decode_reservations(reply, now)?;
        assign_claims(&mut granted, &receipts);
        if !durable && !granted.is_empty() {
            self.canceller.cancel_unseen(outlet, &granted).await;
            return Err(not_durable());
        }
        // Only if the reply to an earlier run of the script was lost, and the job was replaced before this run: the newer version waits
        // for the end of a reservation that no client has seen.
        let (replaced, granted): (Vec<_>, Vec<_>) =
            granted.into_iter().partition(|grant| grant.job.waits_for_older());
        if !replaced.is_empty() {
            self.canceller.cancel_unseen(outlet, &replaced).await;
        }
        if let Some(first_end) = granted.iter().filter_map(|grant| grant.job.reserved_until()).min() {
            self.notifier.due_in(first_end.since(now));
        }
        Ok(granted)
    }
}

/// Who makes the claims, as the script reads it: for each run of claims by the same actor their number, the length of the
/// name, and the name.
fn encode_actors(claims: &[Claim]) -> Bytes {
    let mut runs = BytesMut::new();
    for run in claims.chunk_by(|one, other| one.by == other.by) {
        let name = run[0].by.as_ref().map_or("", Actor::as_str);
        runs.put_u16(u16::try_from(run.len()).expect("a slice is small"));
        runs.put_u16(u16::try_from(name.len()).expect("a name has at most 256 bytes"));
        runs.put_slice(name.as_bytes());
    }
    runs.freeze()
}
