//! Lists of the model: all jobs that match, sorted, and cut behind the position.

use bytes::Bytes;
use linger::{
    job::Body,
    store::{JobFilter, JobPage, ListPosition, ListedJob, Order, moment_of},
};

use super::{Entry, Naive};

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
