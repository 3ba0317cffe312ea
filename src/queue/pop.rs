//! Popping: reserve what is ready, or wait for it.

use std::time::Duration;

use super::{Delivery, Error, Queue, Result, waiters::Want};
use crate::job::{Topic, Ttr};

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

/// How long a pop that holds jobs already waits for more from another line, whose engine may hang: well
/// below the shortest TTR, for the reservations run meanwhile.
const FURTHER: Duration = Duration::from_millis(500);

impl Queue {
    /// Reserves up to `pop.max` jobs, fewer where their bodies would be over the limit of a delivery, waiting
    /// up to `pop.wait` for the first. An empty delivery
    /// means that nothing came in time, or that the server is shutting down.
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
        let mut seen = std::collections::HashSet::new();
        pop.topics.retain(|topic| seen.insert(topic.clone()));
        self.pop_within_bytes(pop).await
    }

    /// No store knows how large the next bodies are, so it is asked only for as many jobs as fit whatever
    /// they are, and for more while the bytes that came leave room.
    async fn pop_within_bytes(&self, mut pop: Pop) -> Result<Delivery> {
        let wanted = pop.max;
        let mut asked = self.fitting(0).clamp(1, wanted.max(1));
        pop.max = asked;
        let mut found = self.pop_some(&pop).await?;
        while found.jobs().len() == asked {
            pop.max = self.fitting(found.body_bytes()).min(wanted - asked);
            if pop.max == 0 {
                break;
            }
            asked += pop.max;
            self.pop_ready(&pop, &mut found).await?;
        }
        Ok(found)
    }

    /// Jobs that fit in a delivery beside `taken` bytes, however large their bodies.
    fn fitting(&self, taken: usize) -> usize {
        self.limits.max_delivery.saturating_sub(taken) / self.limits.max_body.max(1)
    }

    async fn pop_some(&self, pop: &Pop) -> Result<Delivery> {
        let wait = pop.wait.min(self.limits.max_wait);
        if pop.topics.len() > 1 || wait.is_zero() {
            let mut found = Delivery::empty();
            self.pop_ready(pop, &mut found).await?;
            if !found.jobs().is_empty() || wait.is_zero() {
                return Ok(found);
            }
        }
        let want = Want { jobs: pop.max, ttr: pop.ttr, patient: true };
        let mut place = self.waiters.join(&pop.topics, want)?;
        tokio::select! {
            // An answer that came goes out, also in the moment in which the wait ends.
            biased;
            answer = place.answered() => answer,
            () = self.clock.sleep(wait) => place.give_up(),
        }
    }

    /// Adds what is ready at once to `found`, up to `pop.max` jobs, topic by topic in the order asked. Once
    /// there is something, it goes out whatever becomes of the rest.
    async fn pop_ready(&self, pop: &Pop, found: &mut Delivery) -> Result<()> {
        let full = found.jobs().len() + pop.max;
        for topic in &pop.topics {
            let jobs = full - found.jobs().len();
            if jobs == 0 {
                break;
            }
            let want = Want { jobs, ttr: pop.ttr, patient: false };
            let holds = !found.jobs().is_empty();
            match self.ready_in(topic, want, holds).await {
                Ok(more) => found.append(more),
                Err(error) if !holds => return Err(error),
                Err(error) => {
                    tracing::warn!(%topic, %error, "a pop hands out fewer jobs than there may be");
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is ready at once in one topic; for a pop that holds jobs already, in a bounded time.
    async fn ready_in(&self, topic: &Topic, want: Want, holds: bool) -> Result<Delivery> {
        let mut place = self.waiters.join(std::slice::from_ref(topic), want)?;
        if !holds {
            return place.answered().await;
        }
        tokio::select! {
            biased;
            answer = place.answered() => answer,
            () = self.clock.sleep(FURTHER) => place.give_up(),
        }
    }
}
