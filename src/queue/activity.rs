//! Workers and endpoints of all processes: the workers that poll for jobs or have reserved some, and the endpoints that are called.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::IpAddr,
};

use super::{
    callbacks::called_endpoint::CalledEndpoint, error::Result, service::Queue,
    views::process_activity::Activity,
};
use crate::{
    job::{Actor, JobId, ProgressNote, State, Timestamp, Topic},
    store::{JobFilter, Order},
};

/// How many reserved jobs are examined for their holders: those whose reservations end first.
const MAX_EXAMINED: usize = 10_000;
/// Reserved jobs read by one step.
const SLICE: usize = 1_000;
/// Most workers in an answer.
const MAX_WORKERS: usize = 1_000;
/// Most notes of a worker in an answer.
const MAX_NOTES: usize = 5;

/// What a worker does with a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// The topic.
    pub topic: Topic,
    /// The worker's name; `None` for all whose names are not known.
    pub worker: Option<Actor>,
    /// Where its polls came from lately.
    pub addresses: BTreeSet<IpAddr>,
    /// How many of its polls wait for a job.
    pub waiting: u32,
    /// When its last poll began or ended, if that was in the last minute.
    pub polled_at: Option<Timestamp>,
    /// How many jobs it has reserved.
    pub reserved: u64,
    /// Since when it has the oldest of them.
    pub oldest_reserved_at: Option<Timestamp>,
    /// The latest notes of these jobs, the newest first: at most five.
    pub notes: Vec<(JobId, ProgressNote)>,
}

impl WorkerView {
    fn add_note(&mut self, id: &JobId, note: &ProgressNote) {
        let place = self.notes.partition_point(|(_, known)| known.at >= note.at);
        if place < MAX_NOTES {
            self.notes.insert(place, (id.clone(), note.clone()));
            self.notes.truncate(MAX_NOTES);
        }
    }
}

/// Rows of an answer, and whether these are all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether these are all, with all that they count.
    pub is_complete: bool,
}

impl Queue {
    /// The workers that poll for jobs of a topic, or of all, at any process, or have reserved some: those with reserved jobs first,
    /// then by topic and name.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), or the store's.
    pub async fn workers(&self, topic: Option<&Topic>) -> Result<Rows<WorkerView>> {
        let mut workers = BTreeMap::new();
        let (own, (others, mut is_complete)) =
            (self.processes.own_activity(), self.processes.other_activities().await?);
        for Activity { pollers, is_complete: has_all, .. } in others.iter().chain([&own]) {
            is_complete &= *has_all;
            for poller in pollers.iter().filter(|poller| topic.is_none_or(|topic| poller.topic == *topic)) {
                let view = view_of(&mut workers, &poller.topic, poller.worker.as_ref());
                view.waiting = view.waiting.saturating_add(poller.waiting);
                view.polled_at = view.polled_at.max(Some(poller.polled_at));
                view.addresses.extend(poller.address);
            }
        }
        is_complete &= self.add_holders(topic, &mut workers).await?;
        let mut rows: Vec<WorkerView> = workers.into_values().collect();
        rows.sort_by_key(|view| view.reserved == 0);
        is_complete &= rows.len() <= MAX_WORKERS;
        rows.truncate(MAX_WORKERS);
        Ok(Rows { rows, is_complete })
    }

    /// Adds the workers that hold jobs. Returns whether these are all.
    async fn add_holders(&self, topic: Option<&Topic>, workers: &mut WorkersByTopic) -> Result<bool> {
        let _permit = self.read_permits.acquire().await?;
        let filter = JobFilter { topic: topic.cloned(), ..JobFilter::all(State::Reserved) };
        let (mut examined, mut seen, mut after) = (0, HashSet::new(), None);
        loop {
            let page = self.store.list(&filter, Order::Ascending, after.as_ref(), SLICE).await?;
            for job in page.jobs.iter().map(|listed| &listed.job) {
                // A job whose reservation was extended meanwhile comes again.
                if !seen.insert(job.id.clone()) {
                    continue;
                }
                let view = view_of(workers, &job.topic, job.holder().as_ref());
                view.reserved += 1;
                view.oldest_reserved_at = match (view.oldest_reserved_at, job.reserved_at()) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                if let Some(note) = &job.note {
                    view.add_note(&job.id, note);
                }
            }
            examined += page.jobs.len();
            after = page.next;
            if after.is_none() || examined >= MAX_EXAMINED {
                return Ok(after.is_none());
            }
        }
    }

    /// The endpoints that processes have called lately for a topic, or for all, by topic and host.
    ///
    /// # Errors
    /// The store's.
    pub async fn endpoints(&self, topic: Option<&Topic>) -> Result<Rows<CalledEndpoint>> {
        let mut endpoints = BTreeMap::<(Topic, String), CalledEndpoint>::new();
        let (own, (others, mut is_complete)) =
            (self.processes.own_activity(), self.processes.other_activities().await?);
        for Activity { endpoints: called, is_complete: has_all, .. } in others.iter().chain([&own]) {
            is_complete &= *has_all;
            for endpoint in called.iter().filter(|one| topic.is_none_or(|topic| one.topic == *topic)) {
                let key = (endpoint.topic.clone(), endpoint.host.clone());
                match endpoints.get_mut(&key) {
                    Some(known) => known.add(endpoint),
                    None => drop(endpoints.insert(key, endpoint.clone())),
                }
            }
        }
        Ok(Rows { rows: endpoints.into_values().collect(), is_complete })
    }
}

/// By topic, and by the name of the worker.
type WorkersByTopic = BTreeMap<(Topic, String), WorkerView>;

fn view_of<'a>(workers: &'a mut WorkersByTopic, topic: &Topic, worker: Option<&Actor>) -> &'a mut WorkerView {
    let key = (topic.clone(), worker.map_or(String::new(), |worker| worker.as_str().to_owned()));
    workers.entry(key).or_insert_with(|| WorkerView {
        topic: topic.clone(),
        worker: worker.cloned(),
        addresses: BTreeSet::new(),
        waiting: 0,
        polled_at: None,
        reserved: 0,
        oldest_reserved_at: None,
        notes: Vec::new(),
    })
}
