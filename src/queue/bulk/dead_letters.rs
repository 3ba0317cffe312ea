//! The dead letters of a topic: pages with their bodies.

use futures_util::future::try_join_all;

use crate::{
    job::{Job, JobId, State, Timestamp, Topic, TopicFilter},
    queue::{
        bulk::{oldest::jobs_of, parts_of},
        error::Result,
        service::Queue,
    },
    store::{ListPosition, ListedJob, Order, SeenJob},
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
}

fn behind(cursor: &DeadCursor) -> ListPosition {
    ListPosition::behind_dead_letter(cursor.dead_at, &cursor.id)
}

fn cursor_at(listed: &ListedJob) -> DeadCursor {
    let SeenJob { id, moment, .. } = SeenJob::new(&listed.job);
    DeadCursor { dead_at: moment, id }
}
