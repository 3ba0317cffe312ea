//! The dead letters of a topic: pages with their bodies, requeueing and deleting the oldest. Ready jobs are deleted in the same way.

use futures_util::future::try_join_all;

use crate::{
    job::{Actor, Job, JobId, State, Timestamp, Topic, TopicFilter},
    metrics::Event,
    queue::{
        bulk::{SLICE, parts_of},
        ended::EndKind,
        error::Result,
        service::Queue,
    },
    store::{ChangeJob, JobChange, JobFilter, ListPosition, ListedJob, Order, Requeue, SeenJob, Steps},
};

/// Most bytes of the bodies of a page with more than one job.
const PAGE_BYTES: u64 = 8 << 20;

/// A position in the list of dead letters: behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCursor {
    /// When it died.
    pub dead_at: Timestamp,
    /// Its id.
    pub id: JobId,
}

/// Dead letters with their bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadPage {
    /// The oldest first.
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<DeadCursor>,
}

/// How many dead letters were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedDead {
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

/// The result of a change of some dead letters.
struct Slice {
    examined: u64,
    changed: usize,
    next: Option<ListPosition>,
}

/// How many of the first jobs a page takes that has bodies of so many bytes already. The first job of a page always fits.
fn fitting(listed: &[ListedJob], bytes: &mut u64) -> usize {
    for (n, job) in listed.iter().enumerate() {
        if *bytes > 0 && *bytes + job.body_bytes > PAGE_BYTES {
            return n;
        }
        *bytes += job.body_bytes;
    }
    listed.len()
}

impl Queue {
    /// Up to `limit` dead letters after `after`, ordered by time of death and id, and as many as fit a page by the length of
    /// their bodies. One that moves while the page is read is left out.
    ///
    /// # Errors
    /// The store's.
    pub async fn dead(&self, topic: &Topic, after: Option<&DeadCursor>, limit: usize) -> Result<DeadPage> {
        let _permit = self.read_permits.acquire().await?;
        let (filter, mut page) = (jobs_of(topic, State::Dead), DeadPage { jobs: Vec::new(), next: None });
        let mut bytes = 0;
        let (mut last, mut position) = (after.cloned(), after.map(behind));
        loop {
            // One more shows whether there is a next page.
            let left = limit - page.jobs.len();
            let mut list = self.store.list(&filter, Order::Ascending, position.as_ref(), left + 1).await?;
            let has_more = list.jobs.len() > left;
            list.jobs.truncate(left);
            let fit = fitting(&list.jobs, &mut bytes);
            let is_full = fit < list.jobs.len();
            list.jobs.truncate(fit);
            last = list.jobs.last().map(cursor_at).or(last);
            page.jobs.extend(self.read_bodies(&list.jobs).await?);
            if is_full || has_more && page.jobs.len() == limit {
                page.next = last;
                return Ok(page);
            }
            position = if has_more { last.as_ref().map(behind) } else { list.next };
            if position.is_none() {
                return Ok(page);
            }
        }
    }

    /// The listed jobs that are still as they were listed, with their bodies.
    async fn read_bodies(&self, listed: &[ListedJob]) -> Result<Vec<Job>> {
        let mut jobs = Vec::with_capacity(listed.len());
        // Part by part, so that others are not delayed for long.
        for part in parts_of(listed) {
            let reads = part.iter().map(|listed| self.store.get(&TopicFilter::ALL, &listed.job.id));
            let read = part.iter().zip(try_join_all(reads).await?);
            jobs.extend(
                read.filter_map(|(listed, job)| job.filter(|job| SeenJob::new(&listed.job).is_still(job))),
            );
        }
        Ok(jobs)
    }

    /// Requeues up to `limit` of the dead letters that exist when it begins, oldest first. Those whose expiry has passed are
    /// skipped, unless they get another one.
    ///
    /// # Errors
    /// The store's; jobs requeued until then stay requeued.
    pub async fn requeue_dead(
        &self,
        topic: &Topic,
        requeue: Requeue,
        limit: usize,
        by: Option<&Actor>,
    ) -> Result<ChangedDead> {
        let change = JobChange::Requeue(requeue);
        let requeue = OldestChange { state: State::Dead, change, event: Event::Requeued, by };
        self.change_oldest(topic, limit, &requeue).await
    }

    /// Deletes up to `limit` of the dead letters that exist when it begins, oldest first, and returns how many.
    ///
    /// # Errors
    /// The store's; jobs deleted until then stay deleted.
    pub async fn delete_dead(&self, topic: &Topic, limit: usize, by: Option<&Actor>) -> Result<usize> {
        let delete =
            OldestChange { state: State::Dead, change: JobChange::Delete, event: Event::Deleted, by };
        Ok(self.change_oldest(topic, limit, &delete).await?.changed)
    }

    /// Deletes the ready jobs that exist when it begins, and returns how many.
    ///
    /// # Errors
    /// The store's; jobs deleted until then stay deleted.
    pub async fn delete_ready(&self, topic: &Topic, by: Option<&Actor>) -> Result<usize> {
        let delete =
            OldestChange { state: State::Ready, change: JobChange::Delete, event: Event::Deleted, by };
        Ok(self.change_oldest(topic, usize::MAX, &delete).await?.changed)
    }

    /// Changes up to `limit` jobs, oldest first, and examines as many as there are when it begins. One that moves
    /// meanwhile counts, so that none that dies later, perhaps again, is changed in its place.
    async fn change_oldest(
        &self,
        topic: &Topic,
        limit: usize,
        change: &OldestChange<'_>,
    ) -> Result<ChangedDead> {
        let mut result = ChangedDead::default();
        let Some(stats) = self.store.topic(topic).await? else { return Ok(result) };
        let (mut left, mut after) = (stats.count(change.state), None);
        while left > 0 && result.changed < limit {
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
                if change.event == Event::Deleted {
                    self.remember_end(listed.job.id.clone(), topic.clone(), EndKind::Deleted, change.by);
                }
            }
        }
        Ok(slice)
    }
}

fn jobs_of(topic: &Topic, state: State) -> JobFilter {
    JobFilter { topic: Some(topic.clone()), ..JobFilter::all(state) }
}

fn behind(cursor: &DeadCursor) -> ListPosition {
    ListPosition::behind_dead_letter(cursor.dead_at, &cursor.id)
}

fn cursor_at(listed: &ListedJob) -> DeadCursor {
    let SeenJob { id, moment, .. } = SeenJob::new(&listed.job);
    DeadCursor { dead_at: moment, id }
}
