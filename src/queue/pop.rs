//! Popping: reserves ready jobs, or waits for one.

pub(super) mod delivery;
pub(super) mod pauses;
pub(super) mod pollers;
pub(super) mod waiters;

use std::{collections::HashSet, net::IpAddr, time::Duration};

use self::{delivery::Delivery, waiters::PopRequest};
use super::{
    error::{Error, Result},
    limits::Limits,
    service::Queue,
};
use crate::{
    clock::Clock,
    job::{Actor, Outlet, Topic, Ttr},
    metrics::{OpenPoll, RecentPolls},
    store::Claim,
};

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pop {
    /// The topics, at least one. Earlier ones are served first.
    pub topics: Vec<Topic>,
    /// Most jobs wanted.
    pub max: usize,
    /// How long to wait if no job is ready; shortened to the limit.
    pub wait: Duration,
    /// Duration of the reservations; `None` is each job's own TTR.
    pub ttr: Option<Ttr>,
    /// Who reserves the jobs.
    pub by: Option<Actor>,
    /// Where the poll comes from.
    pub address: Option<IpAddr>,
}

impl Pop {
    fn claim(&self) -> Claim {
        Claim { ttr: self.ttr, by: self.by.clone() }
    }
}

/// How much longer a pop that has jobs waits for more from other topics, for which the engine may hang. Well below the
/// shortest TTR, since the reservations are running.
const EXTRA_WAIT_US: i64 = 500_000;

impl Queue {
    /// Reserves up to `pop.max` jobs, fewer where their bodies would exceed the limit of a delivery. Waits up to
    /// `pop.wait` for the first one.
    ///
    /// The delivery is empty if no job became ready in time, if the server is shutting down, or if a reservation ended
    /// before it could be delivered.
    ///
    /// # Errors
    /// [`Error::TopicHasCallback`], [`Error::Draining`] once shutdown has begun, [`Error::TooManyWaiting`],
    /// [`Error::BatchTooLarge`], or the store's.
    pub fn pop(&self, mut pop: Pop) -> impl Future<Output = Result<Delivery>> + Send {
        pop.wait = pop.wait.min(self.limits.max_wait);
        self.pop_unshortened(pop)
    }

    /// Pops as [`pop`](Self::pop) does, but waits for the whole of `pop.wait`: for a protocol with a limit of its own.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub async fn pop_unshortened(&self, mut pop: Pop) -> Result<Delivery> {
        let limit = self.limits.max_batch_pop;
        if pop.max > limit {
            return Err(Error::BatchTooLarge { limit, got: pop.max });
        }
        if pop.topics.len() > Limits::MAX_POP_TOPICS {
            return Err(Error::BatchTooLarge { limit: Limits::MAX_POP_TOPICS, got: pop.topics.len() });
        }
        if pop.topics.len() > 1 {
            let mut seen = HashSet::new();
            pop.topics.retain(|topic| seen.insert(topic.clone()));
        }
        self.check_pop(&pop.topics)?;
        let _counted = CountedPoll::begin(&pop.topics, &self.metrics.polls, &*self.clock);
        let _shown = self.pollers.began(&pop.topics, pop.by.as_ref(), pop.address);
        let delivery = self.pop_within_max_delivery(&mut pop).await?;
        if delivery.has_ended() {
            tracing::warn!(
                jobs = delivery.jobs().len(),
                "a reservation ended before it was delivered; was the process suspended?"
            );
            return Ok(Delivery::empty());
        }
        Ok(delivery)
    }

    /// The store does not know how large the next bodies are. So it is asked for as many jobs as fit if all have the
    /// largest body, and for more while the bodies received leave room.
    async fn pop_within_max_delivery(&self, pop: &mut Pop) -> Result<Delivery> {
        let wanted = pop.max;
        let mut requested = self.max_jobs_beside(0).clamp(1, wanted.max(1));
        pop.max = requested;
        let mut partial = self.pop_first(pop).await?;
        while partial.count() == requested {
            pop.max = self.max_jobs_beside(partial.delivery.body_bytes()).min(wanted - requested);
            if pop.max == 0 {
                break;
            }
            requested += pop.max;
            self.pop_ready(pop, &mut partial).await?;
        }
        Ok(partial.delivery)
    }

    /// How many jobs fit into a delivery beside `bytes`, however large their bodies are.
    fn max_jobs_beside(&self, bytes: usize) -> usize {
        self.limits.max_delivery.saturating_sub(bytes) / self.limits.max_body.max(1)
    }

    /// Reserves ready jobs, or waits for one.
    async fn pop_first(&self, pop: &Pop) -> Result<PartialPop> {
        let wait = pop.wait;
        let mut partial = PartialPop { delivery: Delivery::empty(), deadline_us: None };
        if pop.topics.len() > 1 || wait.is_zero() {
            self.pop_ready(pop, &mut partial).await?;
            if partial.count() > 0 || wait.is_zero() {
                return Ok(partial);
            }
        }
        let request = PopRequest { jobs: pop.max, claim: pop.claim(), blocking: true };
        let outlets = pop.topics.iter().cloned().map(Outlet::plain).collect();
        let mut waiter = self.waiters.join(outlets, request)?;
        let result = tokio::select! {
            // A result is returned also if it arrives in the moment in which the wait ends.
            biased;
            result = waiter.result() => result,
            () = self.clock.sleep(wait) => waiter.cancel(),
        };
        partial.append(result?, &*self.clock);
        Ok(partial)
    }

    /// Adds up to `pop.max` ready jobs to `partial`, topic by topic. Once it has jobs, an error does not fail the pop.
    async fn pop_ready(&self, pop: &Pop, partial: &mut PartialPop) -> Result<()> {
        let full = partial.count() + pop.max;
        for topic in &pop.topics {
            let jobs = full - partial.count();
            let time_left = partial.deadline_us.map(|deadline_us| self.time_until(deadline_us));
            if jobs == 0 || time_left == Some(Duration::ZERO) {
                break;
            }
            let request = PopRequest { jobs, claim: pop.claim(), blocking: false };
            match self.pop_ready_of(topic, request, time_left).await {
                Ok(more) => partial.append(more, &*self.clock),
                Err(error) if partial.count() == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%topic, %error, "a pop delivers fewer jobs than may be ready");
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reserves ready jobs of one topic, within `time_left` if it is bounded.
    async fn pop_ready_of(
        &self,
        topic: &Topic,
        request: PopRequest,
        time_left: Option<Duration>,
    ) -> Result<Delivery> {
        let outlet = Outlet::plain(topic.clone());
        if !self.store.may_have_ready(&outlet) {
            return if self.waiters.is_closed() { Err(Error::Draining) } else { Ok(Delivery::empty()) };
        }
        let mut waiter = self.waiters.join(vec![outlet], request)?;
        let Some(time_left) = time_left else { return waiter.result().await };
        tokio::select! {
            biased;
            result = waiter.result() => result,
            () = self.clock.sleep(time_left) => waiter.cancel(),
        }
    }

    fn time_until(&self, deadline_us: i64) -> Duration {
        Duration::from_micros(u64::try_from(deadline_us - self.clock.now_micros()).unwrap_or(0))
    }
}

/// A poll that is counted until it ends, also if its client leaves.
struct CountedPoll<'a> {
    open: Vec<OpenPoll>,
    polls: &'a RecentPolls,
    clock: &'a dyn Clock,
}

impl<'a> CountedPoll<'a> {
    fn begin(topics: &[Topic], polls: &'a RecentPolls, clock: &'a dyn Clock) -> Self {
        let now_us = clock.now_micros();
        let open = topics.iter().map(|topic| polls.began(topic.as_str(), now_us)).collect();
        Self { open, polls, clock }
    }
}

impl Drop for CountedPoll<'_> {
    fn drop(&mut self) {
        let now_us = self.clock.now_micros();
        self.open.iter().for_each(|poll| self.polls.ended(poll, now_us));
    }
}

/// The jobs that a pop has reserved so far.
struct PartialPop {
    delivery: Delivery,
    /// Until when it may wait for more jobs, by the queue's clock; no bound while it has none.
    deadline_us: Option<i64>,
}

impl PartialPop {
    fn count(&self) -> usize {
        self.delivery.jobs().len()
    }

    fn append(&mut self, more: Delivery, clock: &dyn Clock) {
        if self.deadline_us.is_none() && !more.jobs().is_empty() {
            self.deadline_us = Some(clock.now_micros() + EXTRA_WAIT_US);
        }
        self.delivery.append(more);
    }
}
