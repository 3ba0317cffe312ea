//! Reserving ready jobs over all shards, and taking reservations back.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use futures_util::future::{join_all, try_join_all};
use tokio::sync::oneshot;

use super::{
    Engine,
    call::not_durable,
    jobs::{MOVES_LIMIT, code, keeps_moving},
    keys::Shard,
    record,
    reply::Reply,
    script::Op,
};
use crate::{
    clock::Clock,
    job::{JobId, Receipt, Timestamp, Topic, Ttr},
    store::{Error, Reservation, Result},
};

/// Most jobs that one run of the script reserves, so that none holds Redis up for long.
const SLICE: usize = 100;

/// The share of the shortest TTR that a pop which holds jobs may spend on more of them: the reservations
/// run meanwhile.
const FURTHER: f64 = 0.5;

impl Engine {
    /// Reserves from the shards that may have something, in turns; when none may, looks at all, and
    /// answers with less than was asked only when there is nothing. What was reserved is returned when a
    /// later step fails, or takes so long that the first reservations would suffer.
    pub(super) async fn reserve_jobs(
        self: &Arc<Self>,
        topic: &Topic,
        ttrs: &[Option<Ttr>],
    ) -> Result<Vec<Reservation>> {
        let began_us = self.context.real.now_micros();
        let mut granted = self.reserve_step(topic, &ttrs[..ttrs.len().min(SLICE)]).await?;
        let mut more = !granted.is_empty();
        while more && granted.len() < ttrs.len() {
            let spent_us = self.context.real.now_micros().saturating_sub(began_us).unsigned_abs();
            let left = time_for_more(&granted, ttrs).saturating_sub(Duration::from_micros(spent_us));
            let slice = &ttrs[granted.len()..ttrs.len().min(granted.len() + SLICE)];
            match self.reserve_further(topic, slice, left).await {
                Ok(further) => {
                    more = !further.is_empty();
                    granted.extend(further);
                }
                Err(error) => {
                    tracing::warn!(%topic, %error, "reserved fewer jobs than there may be");
                    more = false;
                    // Who waits for them must not wait for a job that comes later.
                    self.listener.ready(topic);
                }
            }
        }
        Ok(granted)
    }

    /// Reserves from the next shard that has something; nothing when none has.
    async fn reserve_step(&self, topic: &Topic, ttrs: &[Option<Ttr>]) -> Result<Vec<Reservation>> {
        while !ttrs.is_empty() {
            let granted = match self.hints.pick(topic) {
                Some(shard) => self.reserve_from(shard, topic, ttrs).await?,
                None if self.look_for_ready(topic).await? => continue,
                None => break,
            };
            if !granted.is_empty() {
                return Ok(granted);
            }
        }
        Ok(Vec::new())
    }

    /// The same, in the time that is left. What is reserved too late is given back: no client has seen it.
    async fn reserve_further(
        self: &Arc<Self>,
        topic: &Topic,
        ttrs: &[Option<Ttr>],
        left: Duration,
    ) -> Result<Vec<Reservation>> {
        let late = || Err(Error::Unavailable("a shard takes too long".to_owned()));
        if left.is_zero() {
            return late();
        }
        let (answer, mut answered) = oneshot::channel();
        let (engine, name, ttrs) = (self.clone(), topic.clone(), ttrs.to_vec());
        let step = async move {
            let step = engine.reserve_step(&name, &ttrs).await;
            if let Err(Ok(unseen)) = answer.send(step) {
                engine.give_back(&name, &unseen).await;
            }
        };
        self.context.tasks.spawn_on(step, &self.context.runtime);
        let in_time = tokio::select! {
            step = &mut answered => step.ok(),
            () = self.context.real.sleep(left) => {
                answered.close();
                answered.try_recv().ok()
            }
        };
        in_time.unwrap_or_else(late)
    }

    /// Looks at every shard for ready jobs of a topic and keeps hints of them; whether there are any.
    async fn look_for_ready(&self, topic: &Topic) -> Result<bool> {
        let looks = self.groups().into_iter().map(|group| async move {
            let keys = group.iter().map(|shard| self.keys.shard(*shard).counts.clone()).collect();
            let reply = self.call(self.read(Op::Ready, &group, keys).arg(topic.as_str())).await?;
            let mut reply = Reply::new(reply)?;
            let mut found = false;
            for shard in group {
                if reply.int()? > 0 {
                    self.hints.mark(topic, shard);
                    found = true;
                }
            }
            Ok(found)
        });
        let found: Vec<Result<bool>> = join_all(looks).await;
        if found.iter().any(|found| matches!(found, Ok(true))) {
            return Ok(true);
        }
        found.into_iter().try_fold(false, |any, found| found.map(|found| any || found))
    }

    async fn reserve_from(
        &self,
        shard: Shard,
        topic: &Topic,
        ttrs: &[Option<Ttr>],
    ) -> Result<Vec<Reservation>> {
        let lane = self.lanes.take(shard);
        let (mut packed, mut receipts) =
            (BytesMut::with_capacity(4 * ttrs.len()), BytesMut::with_capacity(16 * ttrs.len()));
        for ttr in ttrs {
            let ttr_ms = ttr.map_or(0, |ttr| ttr.as_duration().as_millis());
            packed.put_u32(u32::try_from(ttr_ms).expect("a TTR is at most a day"));
            receipts.put_slice(Receipt::generate().as_bytes());
        }
        let call = self
            .change(Op::Reserve, shard, Some(&lane), &[topic])
            .arg(i64::try_from(ttrs.len()).expect("a slice is small"))
            .bytes(packed)
            .bytes(receipts);
        let (reply, durable) = self.call_until(call).await?;
        let mut reply = Reply::new(reply)?;
        if reply.int()? == 0 {
            self.hints.clear(topic, shard);
        }
        let now = Timestamp::from_millis(reply.int()?);
        self.set_aside(shard, reply.count()?);
        let granted = self.grants(reply, now)?;
        if !durable && !granted.is_empty() {
            self.give_back(topic, &granted).await;
            return Err(not_durable());
        }
        if let Some(soonest) = granted.iter().filter_map(|grant| grant.job.reserved_until).min() {
            self.listener.due_in(soonest.since(now));
        }
        Ok(granted)
    }

    /// Reads `id, record, ms since ready` over and over.
    fn grants(&self, mut reply: Reply, now: Timestamp) -> Result<Vec<Reservation>> {
        let mut granted = Vec::with_capacity(reply.len() / 3);
        while !reply.is_empty() {
            let id: JobId = reply.name()?;
            let raw = reply.bytes()?;
            let waited = Duration::from_millis(reply.count()?);
            let (Some(job), Some(receipt)) = (record::read(&id, &raw), record::receipt(&raw)) else {
                // It must not cost the others; it comes back by its TTR until its attempts are used.
                tracing::error!(%id, "a reserved job's record cannot be read");
                continue;
            };
            let late = now.since(job.due_at);
            granted.push(Reservation { job, receipt: Receipt::from_bytes(receipt), late, waited });
        }
        Ok(granted)
    }

    /// Cancels reservations that no client has seen: better ready again at once than after their TTR.
    async fn give_back(&self, topic: &Topic, granted: &[Reservation]) {
        let receipts = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone())).collect();
        if let Err(error) = self.cancel_grants(receipts).await {
            tracing::warn!(%topic, %error, "reservations that nobody has seen end by their TTR");
        }
    }

    pub(super) async fn cancel_grants(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        let shards = self.by_shard(grants.into_iter().enumerate(), |(id, _)| id);
        let cancels = shards.into_iter().map(|(shard, grants)| {
            self.cancel_in(shard, grants.into_iter().map(|(_, grant)| grant).collect())
        });
        try_join_all(cancels).await.map(drop)
    }

    /// Cancels on one shard: the first run tells the topics, the second has their keys. What was taken
    /// back in one run has another receipt by the next and is passed over.
    async fn cancel_in(&self, shard: Shard, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        let mut topics: Vec<Topic> = Vec::new();
        for _ in 0..MOVES_LIMIT {
            let known: Vec<&Topic> = topics.iter().collect();
            let mut call = self.change(Op::Cancel, shard, None, &known);
            for (id, receipt) in &grants {
                call = call.arg(id.as_str()).bytes(receipt.as_bytes().to_vec());
            }
            let mut reply = Reply::new(self.call(call).await?)?;
            let mut ready: Vec<Topic> = Vec::new();
            let mut moved = false;
            while !reply.is_empty() {
                let (code, topic) = (reply.int()?, reply.name::<Topic>()?);
                let list = if code == code::MOVED { &mut topics } else { &mut ready };
                moved |= code == code::MOVED;
                if !list.contains(&topic) {
                    list.push(topic);
                }
            }
            ready.iter().for_each(|topic| self.tell_ready(topic, shard));
            if !moved {
                return Ok(());
            }
        }
        Err(keeps_moving())
    }
}

/// How long a pop that holds these, each for the TTR at its index, may go on.
fn time_for_more(granted: &[Reservation], ttrs: &[Option<Ttr>]) -> Duration {
    let ttrs = granted.iter().zip(ttrs).map(|(grant, ttr)| ttr.unwrap_or(grant.job.ttr).as_duration());
    ttrs.min().unwrap_or_default().mul_f64(FURTHER)
}
