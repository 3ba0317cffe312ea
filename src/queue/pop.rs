//! Popping: reserve what is ready, or wait for it.

use std::{collections::HashSet, time::Duration};

use super::{Delivery, Error, Queue, Result, waiters::Want};
use crate::{
    clock::Clock,
    job::{Topic, Ttr},
};

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pop {
    /// From which topics, first come first asked; at least one.
    pub topics: Vec<Topic>,
    /// Most jobs wanted.
    pub max: usize,
    /// How long to wait when nothing is ready; clamped to the limit.
    pub wait: Duration,
    /// How long the reservations last; `None` is each job's own TTR.
    pub ttr: Option<Ttr>,
}

/// How long a pop that holds jobs looks for more in other lines, whose engine may hang: well below the
/// shortest TTR, for the reservations run meanwhile.
const FURTHER_US: i64 = 500_000;

impl Queue {
    /// Reserves up to `pop.max` jobs, fewer where their bodies would be over the limit of a delivery, waiting
    /// up to `pop.wait` for the first. An empty delivery
    /// means that nothing came in time, that the server is shutting down, or that a reservation ended before
    /// it could be handed out.
    ///
    /// # Errors
    /// [`Error::Draining`] once shutdown has begun, [`Error::TooManyWaiting`], [`Error::BatchTooLarge`],
    /// or the store's.
    pub async fn pop(&self, mut pop: Pop) -> Result<Delivery> {
        let limit = self.limits.max_batch_pop;
        if pop.max > limit {
            return Err(Error::BatchTooLarge { limit, got: pop.max });
        }
        if pop.topics.len() > self.limits.max_pop_topics {
            return Err(Error::BatchTooLarge { limit: self.limits.max_pop_topics, got: pop.topics.len() });
        }
        if pop.topics.len() > 1 {
            let mut seen = HashSet::new();
            pop.topics.retain(|topic| seen.insert(topic.clone()));
        }
        let delivery = self.pop_within_bytes(&mut pop).await?;
        if delivery.has_ended() {
            tracing::warn!(
                jobs = delivery.jobs().len(),
                "a reservation ended before it could be handed out; was the process stopped?"
            );
            return Ok(Delivery::empty());
        }
        Ok(delivery)
    }

    /// No store knows how large the next bodies are, so it is asked only for as many jobs as fit whatever
    /// they are, and for more while the bytes that came leave room.
    async fn pop_within_bytes(&self, pop: &mut Pop) -> Result<Delivery> {
        let wanted = pop.max;
        let mut asked = self.fitting(0).clamp(1, wanted.max(1));
        pop.max = asked;
        let mut found = self.pop_some(pop).await?;
        while found.count() == asked {
            pop.max = self.fitting(found.delivery.body_bytes()).min(wanted - asked);
            if pop.max == 0 {
                break;
            }
            asked += pop.max;
            self.pop_ready(pop, &mut found).await?;
        }
        Ok(found.delivery)
    }

    /// Jobs that fit in a delivery beside `taken` bytes, however large their bodies.
    fn fitting(&self, taken: usize) -> usize {
        self.limits.max_delivery.saturating_sub(taken) / self.limits.max_body.max(1)
    }

    async fn pop_some(&self, pop: &Pop) -> Result<Found> {
        let wait = pop.wait.min(self.limits.max_wait);
        let mut found = Found { delivery: Delivery::empty(), until_us: None };
        if pop.topics.len() > 1 || wait.is_zero() {
            self.pop_ready(pop, &mut found).await?;
            if found.count() > 0 || wait.is_zero() {
                return Ok(found);
            }
        }
        let want = Want { jobs: pop.max, ttr: pop.ttr, patient: true };
        let mut place = self.waiters.join(&pop.topics, want)?;
        let answer = tokio::select! {
            // An answer that came goes out, also in the moment in which the wait ends.
            biased;
            answer = place.answered() => answer,
            () = self.clock.sleep(wait) => place.give_up(),
        };
        found.append(answer?, &*self.clock);
        Ok(found)
    }

    /// Adds what is ready at once to `found`, up to `pop.max` jobs, topic by topic in the order asked. Once
    /// there is something, it goes out whatever becomes of the rest.
    async fn pop_ready(&self, pop: &Pop, found: &mut Found) -> Result<()> {
        let full = found.count() + pop.max;
        for topic in &pop.topics {
            let jobs = full - found.count();
            let left = found.until_us.map(|until_us| self.left_until(until_us));
            if jobs == 0 || left == Some(Duration::ZERO) {
                break;
            }
            let want = Want { jobs, ttr: pop.ttr, patient: false };
            match self.ready_in(topic, want, left).await {
                Ok(more) => found.append(more, &*self.clock),
                Err(error) if found.count() == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%topic, %error, "a pop hands out fewer jobs than there may be");
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is ready at once in one topic, as far as that is known in the time that is `left`, if it is
    /// bounded.
    async fn ready_in(&self, topic: &Topic, want: Want, left: Option<Duration>) -> Result<Delivery> {
        if !self.store.may_have_ready(topic) {
            return if self.waiters.is_closed() { Err(Error::Draining) } else { Ok(Delivery::empty()) };
        }
        let mut place = self.waiters.join(std::slice::from_ref(topic), want)?;
        let Some(left) = left else { return place.answered().await };
        tokio::select! {
            biased;
            answer = place.answered() => answer,
            () = self.clock.sleep(left) => place.give_up(),
        }
    }

    fn left_until(&self, until_us: i64) -> Duration {
        Duration::from_micros(u64::try_from(until_us - self.clock.now_micros()).unwrap_or(0))
    }
}

/// What a pop holds already.
struct Found {
    delivery: Delivery,
    /// How long it may look for more, by the queue's clock; no bound while it holds nothing.
    until_us: Option<i64>,
}

impl Found {
    fn count(&self) -> usize {
        self.delivery.jobs().len()
    }

    fn append(&mut self, more: Delivery, clock: &dyn Clock) {
        if self.until_us.is_none() && !more.jobs().is_empty() {
            self.until_us = Some(clock.now_micros() + FURTHER_US);
        }
        self.delivery.append(more);
    }
}
