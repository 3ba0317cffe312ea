//! Lists of the model: all jobs that match, sorted, and cut behind the position.

use bytes::Bytes;
use linger::{
    job::{Actor, Body, HistoryEvent, State},
    store::{
        ChangeJob, Changed, JobChange, JobFilter, JobPage, ListPosition, ListedJob, Order, SeenJob, moment_of,
    },
};

use super::{Content, Entry, Naive};

impl Naive {
    pub(super) fn page(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> JobPage {
        let content = self.content();
        let place =
            |entry: &Entry| Place(moment_of(&entry.job).as_millis().unsigned_abs(), entry.job.id.to_string());
        let after = after.and_then(|after| Place::parse(&after.0));
        let matching = content.jobs.values().filter(|entry| filter.matches(&entry.job));
        let mut found: Vec<(Place, &Entry)> = matching.map(|entry| (place(entry), entry)).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        if order == Order::Descending {
            found.reverse();
        }
        found.retain(|(place, _)| {
            after.as_ref().is_none_or(|after| match order {
                Order::Ascending => place > after,
                Order::Descending => place < after,
            })
        });
        let next = found.get(limit.wrapping_sub(1)).filter(|_| found.len() > limit);
        let next = next.map(|(Place(moment_ms, id), _)| ListPosition(format!("{moment_ms} {id}")));
        let examined = found.len().min(limit);
        let jobs = found.iter().take(limit).map(|(_, entry)| listed(entry)).collect();
        JobPage { jobs, next, examined }
    }

    pub(super) fn change_one(
        &self,
        content: &mut Content,
        ChangeJob { seen, change }: &ChangeJob,
        by: Option<&Actor>,
    ) -> Changed {
        let Some(entry) = content.jobs.get_mut(&seen.id) else { return Changed::Skipped };
        if SeenJob::new(&entry.job) != *seen || !change.applies_to(entry.job.state()) {
            return Changed::Skipped;
        }
        match change {
            JobChange::Delete => drop(content.jobs.remove(&seen.id)),
            JobChange::Reschedule(due) => {
                self.remember(&mut entry.job, HistoryEvent::Rescheduled, by);
                self.wait_until(entry, due.resolve(self.clock.read()));
            }
            JobChange::Requeue(due) => {
                assert_eq!(entry.job.state(), State::Dead);
                self.remember(&mut entry.job, HistoryEvent::Requeued, by);
                entry.job.attempts = 0;
                entry.job.reason = None;
                self.wait_until(entry, due.resolve(self.clock.read()));
            }
        }
        Changed::Done
    }
}

/// A moment in milliseconds and an id.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64, String);

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (moment_ms, id) = text.split_once(' ')?;
        Some(Self(moment_ms.parse().ok()?, id.to_owned()))
    }
}

fn listed(entry: &Entry) -> ListedJob {
    let mut job = entry.job.clone();
    let body_bytes = job.body.as_bytes().len() as u64;
    job.body = Body::from_stored(Bytes::new());
    ListedJob { job, body_bytes }
}
