//! Reserving ready jobs on one shard.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use crate::{
    job::{Outlet, Receipt, Timestamp, Ttr},
    store::{
        Reservation, Result,
        redis::{
            codec::reservations::decode_reservations,
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
    /// Reserves a job for each of these TTRs, at most [`SLICE`], as far as the shard has ready ones.
    pub async fn reserve(
        &self,
        shard: Shard,
        outlet: &Outlet,
        ttrs: &[Option<Ttr>],
    ) -> Result<Vec<Reservation>> {
        let pop = self.lost_pops.begin(shard, outlet);
        let (mut packed, mut receipts) =
            (BytesMut::with_capacity(4 * ttrs.len()), BytesMut::with_capacity(16 * ttrs.len()));
        for ttr in ttrs {
            let ttr_ms = ttr.map_or(0, |ttr| ttr.as_duration().as_millis());
            packed.put_u32(u32::try_from(ttr_ms).expect("a TTR is at most a day"));
            receipts.put_slice(Receipt::generate().as_bytes());
        }
        let count = i64::try_from(ttrs.len()).expect("a slice is small");
        let call = pop.call(count, packed.freeze(), receipts.freeze());
        let (reply, durable) = self.shards.call_with_durability(call).await?;
        pop.answered();
        let mut reply = Reply::new(reply)?;
        self.notifier.ready_shards.set_count(outlet, shard, reply.int()?);
        let now = Timestamp::from_millis(reply.int()?);
        self.shards.report_set_aside(shard, reply.count()?);
        let granted = decode_reservations(reply, now)?;
        if !durable && !granted.is_empty() {
            self.canceller.cancel_unseen(outlet, &granted).await;
            return Err(not_durable());
        }
        if let Some(first_end) = granted.iter().filter_map(|grant| grant.job.reserved_until).min() {
            self.notifier.due_in(first_end.since(now));
        }
        Ok(granted)
    }
}
