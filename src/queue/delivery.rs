//! Jobs on their way to a worker: given back, uncounted, unless somebody takes them.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::{
    clock::Clock,
    metrics::{Event, QueueMetrics},
    store::{Reservation, Store},
};

/// Reserved jobs that no client has seen yet. Dropped without [`accept`](Self::accept) (the client
/// went away, the answer was never written), it returns them to the store at once and their
/// attempts are not counted. Should that fail, their TTR brings them back.
#[derive(Debug)]
pub struct Delivery {
    jobs: Vec<Reservation>,
    /// When the first of the reservations may have ended, by the queue's clock.
    ends_us: i64,
    giver: Option<Arc<Giver>>,
}

/// What it takes to return jobs from wherever a delivery is dropped.
pub(super) struct Giver {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub metrics: QueueMetrics,
    pub tasks: TaskTracker,
    pub runtime: tokio::runtime::Handle,
}

impl std::fmt::Debug for Giver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Giver")
    }
}

impl Delivery {
    pub(super) fn new(jobs: Vec<Reservation>, ends_us: i64, giver: Arc<Giver>) -> Self {
        Self { jobs, ends_us, giver: Some(giver) }
    }

    /// Nothing to deliver.
    pub(super) fn empty() -> Self {
        Self { jobs: Vec::new(), ends_us: i64::MAX, giver: None }
    }

    /// The jobs, in the order they are to be worked on.
    #[must_use]
    pub fn jobs(&self) -> &[Reservation] {
        &self.jobs
    }

    /// Bytes of the jobs' bodies.
    pub(super) fn body_bytes(&self) -> usize {
        self.jobs.iter().map(|reservation| reservation.job.body.as_bytes().len()).sum()
    }

    /// Whether a reservation may have ended meanwhile, as in a process that was stopped for a while. Its job may
    /// be somebody else's now.
    pub(super) fn has_ended(&self) -> bool {
        self.giver.as_ref().is_some_and(|giver| giver.clock.now_micros() >= self.ends_us)
    }

    /// The jobs are with the client, or so close that nobody can tell: they stay reserved. False, and the jobs are
    /// given back, when a reservation ended before.
    pub fn accept(mut self) -> bool {
        if self.has_ended() {
            return false;
        }
        if let Some(giver) = self.giver.take() {
            for reservation in &self.jobs {
                let topic = reservation.job.topic.as_str();
                giver.metrics.count(Event::Delivered, topic, 1);
                giver.metrics.reserved(topic, reservation.waited);
            }
        }
        true
    }

    /// Takes the jobs of `other` in behind its own.
    pub(super) fn append(&mut self, mut other: Self) {
        self.jobs.append(&mut other.jobs);
        self.ends_us = self.ends_us.min(other.ends_us);
        self.giver = self.giver.take().or(other.giver.take());
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let Some(giver) = self.giver.take().filter(|_| !self.jobs.is_empty()) else { return };
        let jobs = std::mem::take(&mut self.jobs);
        let (tasks, runtime) = (giver.tasks.clone(), giver.runtime.clone());
        let give_back = async move {
            for reservation in &jobs {
                giver.metrics.count(Event::Cancelled, reservation.job.topic.as_str(), 1);
            }
            let grants = jobs.into_iter().map(|r| (r.job.id, r.receipt)).collect();
            if let Err(error) = giver.store.cancel(grants).await {
                tracing::warn!(%error, "jobs of a client that went away could not be given back; their TTR will");
            }
        };
        tasks.spawn_on(give_back, &runtime);
    }
}
