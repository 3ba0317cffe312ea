//! Jobs on their way to a worker. A delivery that is never accepted returns its jobs to the store.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::{
    clock::Clock,
    job::{Delay, JobId, Receipt, Ttr, schedule::schedule_of_run},
    metrics::{Event, QueueMetrics},
    store::{self, Reservation, Steps, Store},
    traces::Tracer,
};

/// Reserved jobs that no client has seen yet.
///
/// Dropping it without [`accept`](Self::accept), because the client disconnected or the response was never written,
/// returns the jobs to the store at once, and the attempt is not counted. If the store fails to take them back, the
/// jobs return when their TTR ends.
#[derive(Debug)]
pub struct Delivery {
    jobs: Vec<Reservation>,
    /// When the first of the reservations may end, by the queue's clock.
    ends_us: i64,
    return_context: Option<Arc<ReturnContext>>,
}

/// What a dropped delivery needs to return its jobs, wherever it is dropped.
pub(in crate::queue) struct ReturnContext {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub metrics: QueueMetrics,
    pub tasks: TaskTracker,
    pub runtime: tokio::runtime::Handle,
    pub tracer: Arc<OnceLock<Tracer>>,
}

impl ReturnContext {
    /// Gives reservations back. On a full disk a delay has no room; the jobs are then ready at once.
    async fn give_back(&self, grants: Vec<(JobId, Receipt)>, delay: Option<Delay>) -> store::Result<()> {
        if let Some(delay) = delay {
            match self.store.postpone(grants.clone(), delay).await {
                Err(store::Error::Full(_)) => {}
                result => return result,
            }
        }
        self.store.cancel(grants).await
    }

    /// Records the span of a delivery.
    fn trace(&self, Reservation { job, receipt, .. }: &Reservation) {
        if let (Some(tracer), Some(since)) = (self.tracer.get(), job.reserved_at()) {
            tracer.delivered(job, receipt, since.as_millis().saturating_mul(1_000), self.clock.wall_micros());
        }
    }
}

impl std::fmt::Debug for ReturnContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReturnContext")
    }
}

impl Delivery {
    pub(in crate::queue) fn new(
        jobs: Vec<Reservation>,
        ends_us: i64,
        return_context: Arc<ReturnContext>,
    ) -> Self {
        Self { jobs, ends_us, return_context: Some(return_context) }
    }

    /// A delivery without jobs.
    pub(in crate::queue) fn empty() -> Self {
        Self { jobs: Vec::new(), ends_us: i64::MAX, return_context: None }
    }

    /// The jobs, in the order in which the worker should process them.
    #[must_use]
    pub fn jobs(&self) -> &[Reservation] {
        &self.jobs
    }

    /// Total size of the jobs' bodies.
    pub(in crate::queue) fn body_bytes(&self) -> usize {
        self.jobs.iter().map(|reservation| reservation.job.body.as_bytes().len()).sum()
    }

    /// Whether a reservation may have ended already, for example because the process was suspended. Another worker
    /// may hold that job now.
    pub(in crate::queue) fn has_ended(&self) -> bool {
        self.return_context.as_ref().is_some_and(|context| context.clock.now_micros() >= self.ends_us)
    }

    /// Keeps the jobs reserved: the client has them, or will have them in a moment. Returns false, and returns the
    /// jobs to the store, if a reservation has ended already.
    pub fn accept(self) -> bool {
        self.accept_jobs().is_some()
    }

    /// Keeps the jobs reserved, as [`accept`](Self::accept) does, and returns them; `None` if a reservation has ended
    /// already.
    pub fn accept_jobs(mut self) -> Option<Vec<Reservation>> {
        if self.has_ended() {
            return None;
        }
        if let Some(context) = self.return_context.take() {
            for reservation in &self.jobs {
                let topic = reservation.job.topic.as_str();
                context.metrics.delivered(topic, reservation.late, reservation.waited);
                if reservation.job.attempts == 1
                    && let Some(schedule) = schedule_of_run(&reservation.job.id)
                {
                    context.metrics.schedules.delivered(schedule, reservation.late);
                }
                context.trace(reservation);
            }
        }
        Some(std::mem::take(&mut self.jobs))
    }

    /// Returns the jobs to the store, due again after `delay`, so that others come first. The attempt is not counted. Waits
    /// until the store has them or could not take them; they are returned also if the caller stops waiting.
    pub fn postpone(mut self, delay: Delay) -> impl Future<Output = ()> {
        let returned = self.return_jobs(Some(delay));
        async {
            if let Some(returned) = returned {
                // A panic there is logged where it happens.
                let _ = returned.await;
            }
        }
    }

    /// How long the first of the reservations still lasts if the queue's clock shows `now_us`.
    #[must_use]
    pub fn time_left(&self, now_us: i64) -> Duration {
        Duration::from_micros(u64::try_from(self.ends_us.saturating_sub(now_us)).unwrap_or(0))
    }

    /// Appends the jobs of `other`.
    pub(in crate::queue) fn append(&mut self, mut other: Self) {
        if self.jobs.is_empty() {
            // The list as it is: an empty one would grow to room for four jobs, where most pops want one.
            std::mem::swap(&mut self.jobs, &mut other.jobs);
        } else {
            self.jobs.append(&mut other.jobs);
        }
        self.ends_us = self.ends_us.min(other.ends_us);
        self.return_context = self.return_context.take().or(other.return_context.take());
    }

    /// Begins to return the jobs to the store, unless they were accepted: due again after `delay`, or ready at once.
    fn return_jobs(&mut self, delay: Option<Delay>) -> Option<JoinHandle<()>> {
        let context = self.return_context.take().filter(|_| !self.jobs.is_empty())?;
        let jobs = std::mem::take(&mut self.jobs);
        let (tasks, runtime) = (context.tasks.clone(), context.runtime.clone());
        let return_jobs = async move {
            for reservation in jobs.iter().filter(|_| delay.is_none()) {
                context.metrics.count(Event::Cancelled, reservation.job.topic.as_str(), 1);
            }
            let grants = jobs.into_iter().map(|r| (r.job.id, r.receipt)).collect();
            if let Err(error) = context.give_back(grants, delay).await {
                tracing::warn!(%error, "cannot return jobs that no client has seen; they return when their TTR ends");
            }
        };
        Some(tasks.spawn_on(return_jobs, &runtime))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.return_jobs(None);
    }
}

/// The shortest duration of these reservations, which last for `ttr`, or for each job's own TTR.
pub(in crate::queue) fn shortest_ttr_us(reservations: &[Reservation], ttr: Option<Ttr>) -> i64 {
    let ttrs = reservations.iter().map(|reservation| ttr.unwrap_or(reservation.job.spec.ttr).as_duration());
    ttrs.min().and_then(|shortest| i64::try_from(shortest.as_micros()).ok()).unwrap_or(i64::MAX)
}
