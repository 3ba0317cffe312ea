//! Reserving ready jobs over all shards, and taking reservations back.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use futures_util::future::try_join_all;

use super::{
    get::{MOVES_LIMIT, code, keeps_moving},
    reserve_round::Round,
};
use crate::store::redis::{
    Engine,
    codec::record,
    connection::call::{micros, not_durable},
    coordination::lost_pops::SentPop,
    keys::Shard,
    reply::Reply,
    scripts::Op,
};
use crate::{
    clock::Clock,
    job::{JobId, Receipt, Timestamp, Topic, Ttr},
    store::{Error, Reservation, Result, Wait},
};

/// Most jobs that one run of the script reserves, so that none holds Redis up for long.
pub const SLICE: usize = 100;

/// The share of the shortest TTR that a pop which holds jobs may spend on more of them: the reservations
/// run meanwhile.
const FURTHER: f64 = 0.5;

/// A pop under way.
pub struct Pop<'a> {
    pub topic: &'a Topic,
    /// One per job that is wanted: the first is that of the first job granted, and so on.
    ttrs: &'a [Option<Ttr>],
    pub granted: Vec<Reservation>,
    began_us: i64,
    wait: Wait,
}

impl<'a> Pop<'a> {
    pub fn wanted(&self) -> &'a [Option<Ttr>] {
        &self.ttrs[self.granted.len()..]
    }

    /// How long it may go on, once it holds jobs.
    pub fn left(&self, now_us: i64) -> Option<Duration> {
        (!self.granted.is_empty()).then(|| self.left_with(&self.granted, self.ttrs, now_us))
    }

    /// How long it may go on when it holds these, each for the TTR at its index.
    pub fn left_with(&self, granted: &[Reservation], ttrs: &[Option<Ttr>], now_us: i64) -> Duration {
        let ttrs = granted.iter().zip(ttrs).map(|(grant, ttr)| ttr.unwrap_or(grant.job.ttr).as_duration());
        let spent = between(self.began_us, now_us);
        ttrs.min().unwrap_or_default().mul_f64(FURTHER).saturating_sub(spent)
    }
}

impl Engine {
    /// Reserves from the shards that may have something; when none may, looks at all, and answers with
    /// less than was asked only when there is nothing; for those who wait anyway it has that look taken soon,
    /// by the way. When a step fails or takes so long that the reservations would suffer, it answers with those
    /// that it has.
    pub async fn reserve_jobs(
        self: &Arc<Self>,
        topic: &Topic,
        ttrs: &[Option<Ttr>],
        wait: Wait,
    ) -> Result<Vec<Reservation>> {
        let began_us = self.context.real.now_micros();
        let mut pop = Pop { topic, ttrs, granted: Vec::new(), began_us, wait };
        while !pop.wanted().is_empty() {
            match self.reserve_step(&mut pop).await {
                Ok(true) => {}
                Ok(false) => break,
                // The other servers may have something for who waits; a look that finds none says so.
                Err(_) if pop.granted.is_empty() && self.may_wait_on(&pop) => break,
                Err(error) if pop.granted.is_empty() => return Err(error),
                Err(error) => {
                    tracing::debug!(%topic, %error, "reserved fewer jobs than there may be");
                    // Who waits for them must not wait for a job that comes later.
                    self.listener.ready(topic);
                    break;
                }
            }
        }
        Ok(pop.granted)
    }

    /// Reserves from the next shards that have something; false when none has.
    async fn reserve_step(self: &Arc<Self>, pop: &mut Pop<'_>) -> Result<bool> {
        let before = pop.granted.len();
        while pop.granted.len() == before {
            let wanted = pop.wanted();
            // Asked together, they do not know how many the others give, and so not whose TTR is whose turn.
            let alike = wanted.iter().all(|ttr| *ttr == wanted[0]);
            let may = |shard| !self.is_unresponsive(shard);
            let shards = self.hints.pick(pop.topic, if alike { wanted.len() } else { 1 }, SLICE, may);
            match &shards[..] {
                [] if pop.wait == Wait::Yes && self.looks_for(pop) => return Ok(false),
                [] if !self.look_in_time(pop).await? => return Ok(false),
                [] => {}
                [shard] if before == 0 && self.routes.spans_slots() => {
                    let slice = &wanted[..wanted.len().min(SLICE)];
                    pop.granted = self.reserve_from(*shard, pop.topic, slice).await?;
                }
                shards => {
                    let (jobs, outcome) = Round::new(self, pop, alike).run(shards).await;
                    pop.granted.extend(jobs);
                    outcome?;
                }
            }
        }
        Ok(true)
    }

    /// Has a look taken soon for those who wait anyway; false when they must be told that it failed.
    fn looks_for(&self, pop: &Pop<'_>) -> bool {
        !self.context.closing.is_cancelled() && self.looks.ask(pop.topic)
    }

    /// Whether those who want jobs wait on when a part of the shards could not be asked.
    fn may_wait_on(&self, pop: &Pop<'_>) -> bool {
        pop.wait == Wait::Yes && !self.routes.spans_slots() && self.looks_for(pop)
    }

    /// Looks at every shard, in the time that is left. In a Cluster it ends as soon as there is something, once
    /// a server takes long to answer.
    async fn look_in_time(self: &Arc<Self>, pop: &Pop<'_>) -> Result<bool> {
        let (real, one_server) = (&self.context.real, self.routes.spans_slots());
        let prompt = self.context.options.prompt_timeout;
        let began_us = real.now_micros();
        let left = pop.left(began_us);
        if one_server && left.is_none() {
            return self.look_for_ready(pop.topic).await;
        }
        let left = left.map_or(i64::MAX, |left| micros(if one_server { left } else { left.min(prompt) }));
        let end_us = began_us.saturating_add(left);
        let prompt_us = if one_server { i64::MAX } else { began_us.saturating_add(micros(prompt)) };
        let (engine, topic) = (self.clone(), pop.topic.clone());
        // Aside: what it finds out is of use also when nobody waits for it any more.
        let look = async move { engine.look_for_ready(&topic).await };
        let mut look = self.context.tasks.spawn_on(look, &self.context.runtime);
        loop {
            let mut hinted = pin!(self.hints.changed());
            hinted.as_mut().enable();
            let now_us = real.now_micros();
            let late = now_us >= prompt_us;
            if late && self.hints.any(pop.topic, |shard| !self.is_unresponsive(shard)) {
                return Ok(true);
            }
            tokio::select! {
                found = &mut look => return found.unwrap_or_else(|_| Err(too_long())),
                () = real.sleep(between(now_us, end_us)), if end_us < i64::MAX => return Err(too_long()),
                () = real.sleep(between(now_us, prompt_us)), if !late && prompt_us < i64::MAX => {}
                () = hinted, if late => {}
            }
        }
    }

    pub async fn reserve_from(
        &self,
        shard: Shard,
        topic: &Topic,
        ttrs: &[Option<Ttr>],
    ) -> Result<Vec<Reservation>> {
        let pop = SentPop::new(self, shard, topic);
        let (mut packed, mut receipts) =
            (BytesMut::with_capacity(4 * ttrs.len()), BytesMut::with_capacity(16 * ttrs.len()));
        for ttr in ttrs {
            let ttr_ms = ttr.map_or(0, |ttr| ttr.as_duration().as_millis());
            packed.put_u32(u32::try_from(ttr_ms).expect("a TTR is at most a day"));
            receipts.put_slice(Receipt::generate().as_bytes());
        }
        let count = i64::try_from(ttrs.len()).expect("a slice is small");
        let (reply, durable) = self.call_until(pop.call(count, packed.freeze(), receipts.freeze())).await?;
        pop.answered();
        let mut reply = Reply::new(reply)?;
        self.hints.set(topic, shard, reply.int()?);
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
    pub fn grants(&self, mut reply: Reply, now: Timestamp) -> Result<Vec<Reservation>> {
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
    pub async fn give_back(&self, topic: &Topic, granted: &[Reservation]) {
        let receipts = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone())).collect();
        if let Err(error) = self.cancel_grants(receipts).await {
            tracing::warn!(%topic, %error, "reservations that nobody has seen end by their TTR");
        }
    }

    pub async fn cancel_grants(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
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

pub fn too_long() -> Error {
    Error::Unavailable("a shard takes too long".to_owned())
}

pub fn between(from_us: i64, to_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(to_us.saturating_sub(from_us)).unwrap_or_default())
}
