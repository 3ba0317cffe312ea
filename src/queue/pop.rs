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
        pop.wait = Duration::ZERO;
        while found.jobs().len() == asked && asked < wanted {
            pop.max = self.fitting(found.body_bytes()).min(wanted - asked);
            asked += pop.max;
            match self.pop_some(&pop).await {
                Ok(more) if !more.jobs().is_empty() => found.append(more),
                // What is there goes out, whatever became of the rest.
                Ok(_) | Err(_) => break,
            }
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
            let found = self.pop_ready(pop).await?;
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

    /// What is ready at once, topic by topic in the order asked.
    async fn pop_ready(&self, pop: &Pop) -> Result<Delivery> {
        let mut found = Delivery::empty();
        for topic in &pop.topics {
            let jobs = pop.max - found.jobs().len();
            if jobs == 0 {
                break;
            }
            let want = Want { jobs, ttr: pop.ttr, patient: false };
            let mut place = self.waiters.join(std::slice::from_ref(topic), want)?;
            found.append(place.answered().await?);
        }
        Ok(found)
    }
}
