//! Short functions to walk through lists of jobs and to change the jobs that they show.

use std::sync::Arc;

use bytes::Bytes;
use linger::{
    job::{Body, Due, Job, State},
    store::{ChangeJob, JobChange, JobFilter, ListedJob, Order, SeenJob, Steps, Store, moment_of},
};

use super::{
    jobs::{ALL, id, topic},
    wait::StepLimit,
};

/// Both orders of a list.
pub const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

/// The filter with another prefix of the ids.
pub fn with_ids(filter: &JobFilter, prefix: &str) -> JobFilter {
    JobFilter { id_prefix: Some(Arc::from(prefix)), ..filter.clone() }
}

/// The whole list in pages of up to `limit` jobs.
pub async fn walk(store: &dyn Store, filter: &JobFilter, order: Order, limit: usize) -> Vec<ListedJob> {
    let (mut found, mut after, mut step_limit) = (Vec::new(), None, StepLimit::new());
    loop {
        step_limit.step();
        let page = store.list(filter, order, after.as_ref(), limit).await.expect("lists");
        assert!(page.jobs.len() <= limit, "at most {limit} jobs on a page: {page:?}");
        assert!(page.examined >= page.jobs.len(), "a job on a page was examined: {page:?}");
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// All jobs in `state` on one page.
pub async fn in_state(store: &dyn Store, state: State) -> Vec<ListedJob> {
    walk(store, &JobFilter::all(state), Order::Ascending, 1_000).await
}

/// The dead letters of a topic, oldest first.
pub async fn dead_of(store: &dyn Store, name: &str) -> Vec<ListedJob> {
    walk(store, &dead_filter(name), Order::Ascending, 1_000).await
}

/// All dead letters of a topic.
pub fn dead_filter(name: &str) -> JobFilter {
    JobFilter { topic: Some(topic(name)), ..JobFilter::all(State::Dead) }
}

/// Requeues the oldest dead letters of a topic, up to `limit`, without delay. Returns how many.
pub async fn requeue_oldest(store: &dyn Store, name: &str, limit: usize) -> usize {
    let oldest = dead_of(store, name).await.into_iter().take(limit);
    let requeue = JobChange::Requeue(Due::default().into());
    let jobs: Vec<_> =
        oldest.flat_map(|listed| change(&SeenJob::new(&listed.job), requeue.clone())).collect();
    let count = jobs.len();
    assert_eq!(store.change(jobs, None).await.expect("answers"), vec![true; count]);
    count
}

/// The ids in a list.
pub fn ids(listed: &[ListedJob]) -> Vec<&str> {
    listed.iter().map(|listed| listed.job.id.as_str()).collect()
}

/// `names` in the order of a list.
pub fn in_order<T>(mut names: Vec<T>, order: Order) -> Vec<T> {
    if order == Order::Descending {
        names.reverse();
    }
    names
}

/// Whether the moments of a list are in order; equal ones may be in any.
pub fn is_ordered(listed: &[ListedJob], order: Order) -> bool {
    let moments = listed.iter().map(|listed| moment_of(&listed.job)).collect();
    in_order::<_>(moments, order).is_sorted()
}

/// The list sorted by moment and id.
pub fn sorted(mut listed: Vec<ListedJob>) -> Vec<ListedJob> {
    listed.sort_by_key(|listed| (moment_of(&listed.job), listed.job.id.clone()));
    listed
}

/// What a list shows of `job`.
pub fn listed(job: Job) -> ListedJob {
    let body_bytes = job.body.as_bytes().len() as u64;
    ListedJob { job: Job { body: Body::from_stored(Bytes::new()), ..job }, body_bytes }
}

/// The job called `name`, which must exist.
pub async fn get(store: &dyn Store, name: &str) -> Job {
    store.get(ALL, &id(name)).await.expect("gets").unwrap_or_else(|| panic!("{name} is there"))
}

/// The job called `name` as it is now.
pub async fn see(store: &dyn Store, name: &str) -> SeenJob {
    SeenJob::new(&get(store, name).await)
}

/// A change of one job.
pub fn change(seen: &SeenJob, change: JobChange) -> Vec<ChangeJob> {
    vec![ChangeJob { seen: seen.clone(), change }]
}
