//! Changes of the oldest dead letters or ready jobs of a topic, within the call: requeueing and deleting.

use crate::{
    job::{Actor, State, Topic},
    metrics::Event,
    queue::{
        bulk::{SLICE, parts_of},
        ended::EndKind,
        error::{Error, Result},
        service::Queue,
    },
    store::{ChangeJob, JobChange, JobFilter, ListPosition, Order, Requeue, SeenJob, Steps},
};

/// How many of the oldest jobs were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedOldest {
    /// Those that were changed.
    pub changed: usize,
    /// Those that were not, because they changed meanwhile, or because their expiry has passed.
    pub skipped: u64,
}

/// What to do with dead letters or ready jobs, and who asked for it.
struct OldestChange<'a> {
    state: State,
    change: JobChange,
    event: Event,
    by: Option<&'a Actor>,
}

/// The result of a change of some of them.
struct Slice {
    examined: u64,
    changed: usize,
    next: Option<ListPosition>,
}

impl Queue {
    /// Requeues up to `limit` of the dead letters that exist when it begins, oldest first. Those whose expiry has passed are
    /// skipped, unless they get another one.
    ///
    /// # Errors
    /// [`Error::Draining`] when the shutdown ends it, or the store's; jobs requeued until then stay requeued.
    pub async fn requeue_dead(
        &self,
        topic: &Topic,
        requeue: Requeue,
        limit: usize,
        by: Option<&Actor>,
    ) -> Result<ChangedOldest> {
        let change = JobChange::Requeue(requeue);
        let requeue = OldestChange { state: State::Dead, change, event: Event::Requeued, by };
        self.change_oldest(topic, limit, &requeue).await
    }

    /// Deletes up to `limit` of the dead letters that exist when it begins, oldest first, and returns how many.
    ///
    /// # Errors
    /// [`Error::Draining`] when the shutdown ends it, or the store's; jobs deleted until then stay deleted.
    pub async fn delete_dead(&self, topic: &Topic, limit: usize, by: Option<&Actor>) -> Result<usize> {
        let delete =
            OldestChange { state: State::Dead, change: JobChange::Delete, event: Event::Deleted, by };
        Ok(self.change_oldest(topic, limit, &delete).await?.changed)
    }

    /// Deletes the ready jobs that exist when it begins, and returns how many.
    ///
    /// # Errors
    /// [`Error::Draining`] when the shutdown ends it, or the store's; jobs deleted until then stay deleted.
    pub async fn delete_ready(&self, topic: &Topic, by: Option<&Actor>) -> Result<usize> {
        let delete =
            OldestChange { state: State::Ready, change: JobChange::Delete, event: Event::Deleted, by };
        Ok(self.change_oldest(topic, usize::MAX, &delete).await?.changed)
    }

    /// Changes up to `limit` jobs, oldest first, and examines as many as there are when it begins. One that moves
    /// meanwhile counts, so that none that comes later, perhaps again, is changed in its place.
    async fn change_oldest(
        &self,
        topic: &Topic,
        limit: usize,
        change: &OldestChange<'_>,
    ) -> Result<ChangedOldest> {
        let mut result = ChangedOldest::default();
        let Some(stats) = self.store.topic(topic).await? else { return Ok(result) };
        let (mut left, mut after) = (stats.count(change.state), None);
        while left > 0 && result.changed < limit {
            // Not before the first slice, so that a few jobs can be changed during the shutdown, too.
            if after.is_some() && self.waiters.is_closed() {
                return Err(Error::Draining);
            }
            let most = SLICE.min(usize::try_from(left).unwrap_or(SLICE)).min(limit - result.changed);
            let slice = self.change_slice(topic, after.as_ref(), most, change).await?;
            left = left.saturating_sub(slice.examined);
            result.changed += slice.changed;
            result.skipped += slice.examined - slice.changed as u64;
            after = slice.next;
            if after.is_none() {
                break;
            }
        }
        Ok(result)
    }

    /// Changes up to `most` jobs after `after`.
    async fn change_slice(
        &self,
        topic: &Topic,
        after: Option<&ListPosition>,
        most: usize,
        change: &OldestChange<'_>,
    ) -> Result<Slice> {
        let list = self.store.list(&jobs_of(topic, change.state), Order::Ascending, after, most).await?;
        let mut slice = Slice { examined: list.jobs.len() as u64, changed: 0, next: list.next };
        for part in parts_of(&list.jobs) {
            let seen = part.iter().map(|listed| SeenJob::new(&listed.job));
            let jobs = seen.map(|seen| ChangeJob { seen, change: change.change.clone() }).collect();
            let results = self.store.change(jobs, change.by).await?;
            let done = part.iter().zip(results).filter(|(_, is_changed)| *is_changed);
            for (listed, _) in done {
                slice.changed += 1;
                self.metrics.count(change.event, topic.as_str(), 1);
                if change.change.makes_due(self.store.now()) {
                    self.metrics.count(Event::Due, topic.as_str(), 1);
                }
                if change.event == Event::Deleted {
                    self.remember_end(listed.job.id.clone(), topic.clone(), EndKind::Deleted, change.by);
                }
            }
        }
        Ok(slice)
    }
}

/// The jobs of a topic in this state.
pub(super) fn jobs_of(topic: &Topic, state: State) -> JobFilter {
    JobFilter { topic: Some(topic.clone()), ..JobFilter::all(state) }
}
