//! The calls by job id, for somebody who may use some topics only. A job of any other topic is as good as
//! none, so that nobody learns what they may not see.
//!
//! The topic is looked up first. Between the look and the step the job may go and another topic's take its
//! id: a step that a receipt proves cannot meet that one, and the others tell the store which topic they
//! mean. Knows no tokens.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::{
    Error, FinishJob, Patch, Queue, Release, Result,
    jobs::{missing_answer, patched},
};
use crate::job::{Delay, Job, JobId, Reason, Receipt, Topic, TopicFilter, Ttr};

/// A queue as somebody sees it who may use `topics`.
#[derive(Debug, Clone, Copy)]
pub struct Within<'a> {
    queue: &'a Queue,
    topics: &'a TopicFilter,
}

impl Queue {
    /// The queue as far as `topics` go.
    #[must_use]
    pub fn within<'a>(&'a self, topics: &'a TopicFilter) -> Within<'a> {
        Within { queue: self, topics }
    }
}

impl Within<'_> {
    /// As [`Queue::get`].
    ///
    /// # Errors
    /// Its own; [`Error::JobNotFound`] also for a job of another topic, as in all that follow.
    pub async fn get(&self, id: &JobId) -> Result<Job> {
        let job = self.queue.get(id).await?;
        if self.topics.allows(&job.topic) { Ok(job) } else { Err(Error::JobNotFound) }
    }

    /// The topic that the job `id` is of, which is allowed; `None` when all are.
    async fn topic_of(&self, id: &JobId) -> Result<Option<Topic>> {
        if self.topics.is_all() { Ok(None) } else { Ok(Some(self.get(id).await?.topic)) }
    }

    /// As [`Queue::patch`].
    ///
    /// # Errors
    /// Its own.
    pub async fn patch(&self, id: &JobId, patch: Patch) -> Result<Job> {
        let Some(topic) = self.topic_of(id).await? else { return self.queue.patch(id, patch).await };
        self.queue.check_patch(&patch)?;
        patched(self.queue.store.patch_in(&topic, id, patch).await?)
    }

    /// As [`Queue::requeue`].
    ///
    /// # Errors
    /// Its own.
    pub async fn requeue(&self, id: &JobId, delay: Delay) -> Result<Job> {
        let Some(topic) = self.topic_of(id).await? else { return self.queue.requeue(id, delay).await };
        self.queue.requeued(self.queue.store.requeue_in(&topic, id, delay).await?)
    }

    /// As [`Queue::delete`].
    ///
    /// # Errors
    /// Its own.
    pub async fn delete(&self, id: &JobId) -> Result<()> {
        if self.topics.is_all() {
            return self.queue.delete(id).await;
        }
        self.delete_batch(vec![id.clone()]).await?.into_iter().next().ok_or_else(missing_answer)?
    }

    /// As [`Queue::delete_batch`].
    ///
    /// # Errors
    /// Its own.
    pub async fn delete_batch(&self, ids: Vec<JobId>) -> Result<Vec<Result<()>>> {
        if self.topics.is_all() {
            return self.queue.delete_batch(ids).await;
        }
        self.queue.check_batch(ids.len())?;
        let mut outcomes: Vec<Result<()>> = Vec::with_capacity(ids.len());
        let mut by_topic: BTreeMap<Topic, Vec<(usize, JobId)>> = BTreeMap::new();
        for (at, topic) in join_all(ids.iter().map(|id| self.get(id))).await.into_iter().enumerate() {
            outcomes.push(Err(Error::JobNotFound));
            match topic {
                Ok(job) => by_topic.entry(job.topic).or_default().push((at, ids[at].clone())),
                Err(error) => outcomes[at] = Err(error),
            }
        }
        for (topic, jobs) in by_topic {
            let (places, ids): (Vec<usize>, Vec<JobId>) = jobs.into_iter().unzip();
            let deleted = self.queue.store.delete_in(&topic, ids).await?;
            for (at, deleted) in places.into_iter().zip(deleted) {
                outcomes[at] = self.queue.deleted(deleted);
            }
        }
        Ok(outcomes)
    }

    /// As [`Queue::finish`], but with a receipt always: without one, whichever job has the id is meant.
    ///
    /// # Errors
    /// Its own.
    pub async fn finish(&self, job: FinishJob) -> Result<()> {
        self.check_finish(&job).await?;
        self.queue.finish(job).await
    }

    /// As [`Queue::finish_batch`], with receipts as in [`finish`](Self::finish).
    ///
    /// # Errors
    /// Its own.
    pub async fn finish_batch(&self, jobs: Vec<FinishJob>) -> Result<Vec<Result<()>>> {
        if self.topics.is_all() {
            return self.queue.finish_batch(jobs).await;
        }
        self.queue.check_batch(jobs.len())?;
        let checks = join_all(jobs.iter().map(|job| self.check_finish(job))).await;
        let allowed = jobs.into_iter().zip(&checks).filter(|(_, check)| check.is_ok());
        let allowed: Vec<FinishJob> = allowed.map(|(job, _)| job).collect();
        let mut finished = self.queue.finish_batch(allowed).await?.into_iter();
        let outcome = |check: Result<()>| check.and_then(|()| finished.next().ok_or_else(missing_answer)?);
        Ok(checks.into_iter().map(outcome).collect())
    }

    async fn check_finish(&self, job: &FinishJob) -> Result<()> {
        match (self.topic_of(&job.id).await?, &job.receipt) {
            (Some(_), None) => Err(Error::ReceiptRequired),
            (Some(_), Some(_)) | (None, _) => Ok(()),
        }
    }

    /// As [`Queue::release`].
    ///
    /// # Errors
    /// Its own.
    pub async fn release(&self, id: &JobId, receipt: &Receipt, release: Release) -> Result<Job> {
        self.topic_of(id).await?;
        self.queue.release(id, receipt, release).await
    }

    /// As [`Queue::touch`].
    ///
    /// # Errors
    /// Its own.
    pub async fn touch(&self, id: &JobId, receipt: &Receipt, ttr: Option<Ttr>) -> Result<Job> {
        self.topic_of(id).await?;
        self.queue.touch(id, receipt, ttr).await
    }

    /// As [`Queue::bury`].
    ///
    /// # Errors
    /// Its own.
    pub async fn bury(&self, id: &JobId, receipt: &Receipt, reason: Option<Reason>) -> Result<Job> {
        self.topic_of(id).await?;
        self.queue.bury(id, receipt, reason).await
    }
}
