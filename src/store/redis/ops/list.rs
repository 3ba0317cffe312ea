//! Lists of jobs. Those of delayed, reserved and dead ones are the lists of all shards merged by moment and id.

use std::{collections::VecDeque, sync::Arc};

use futures_util::future::try_join_all;

use super::{
    counts::CountsReader,
    list_query::{ListQuery, MAX_RUNS, Position, Run},
    list_ready::ReadyLister,
};
use crate::{
    job::State,
    store::{
        JobFilter, JobPage, ListPosition, ListedJob, Order, Result,
        redis::{coordination::shards::Shards, keys::Shard, reply::Reply, scripts::Script},
    },
};

/// Lists jobs.
pub struct JobLister {
    shards: Arc<Shards>,
    ready: ReadyLister,
}

/// How far a shard has been read.
struct ShardProgress {
    shard: Shard,
    /// Everything up to here has been examined.
    reached: Position,
    is_end: bool,
    /// Jobs that match and are not on the page yet.
    found: VecDeque<(Position, ListedJob)>,
}

impl JobLister {
    pub fn new(shards: Arc<Shards>, counts: Arc<CountsReader>) -> Self {
        Self { ready: ReadyLister::new(shards.clone(), counts), shards }
    }

    pub async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        match filter.state {
            State::Ready => self.ready.list(filter, order, after, limit).await,
            State::Delayed | State::Reserved | State::Dead => {
                self.list_indexed(filter, order, after, limit).await
            }
        }
    }

    /// Lists jobs that an index has in order. A position is the same for all shards: everything up to it has been examined.
    async fn list_indexed(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let query = ListQuery { filter, order };
        let (start, bound_ms) = query.bounds();
        let after = after.and_then(|after| Position::parse(&after.0));
        let start = after.filter(|after| query.compare(after, &start).is_gt()).unwrap_or(start);
        let begin =
            |shard| ShardProgress { shard, reached: start.clone(), is_end: false, found: VecDeque::new() };
        let mut parts: Vec<ShardProgress> = self.shards.keys.all().map(begin).collect();
        let mut page = JobPage { jobs: Vec::new(), next: None, examined: 0 };
        for round in 1.. {
            // The share of each shard and some more: what lies behind the page would be read in vain.
            let share = |number: usize| number.div_ceil(parts.len());
            let wanted = share(limit.saturating_sub(page.jobs.len())) + 8;
            let limits = Run { wanted, most: share(JobPage::MAX_EXAMINED - page.examined) };
            let empty = parts.iter_mut().filter(|part| part.found.is_empty() && !part.is_end);
            let reads = empty.map(|part| self.read(query, bound_ms, part, limits));
            page.examined += try_join_all(reads).await?.into_iter().sum::<usize>();
            page.next = add_to_page(query, &mut parts, &mut page.jobs, limit).map(ListPosition);
            let is_complete = page.jobs.len() >= limit || page.examined >= JobPage::MAX_EXAMINED;
            if page.next.is_none() || is_complete || round >= MAX_RUNS {
                break;
            }
        }
        Ok(page)
    }

    /// Reads on in a shard. Returns how many jobs were examined.
    async fn read(
        &self,
        query: ListQuery<'_>,
        bound_ms: i64,
        part: &mut ShardProgress,
        run: Run,
    ) -> Result<usize> {
        let keys = self.shards.keys.shard(part.shard);
        let index = match (query.filter.state, &query.filter.topic) {
            (State::Delayed | State::Ready, _) => keys.index(State::Delayed).clone(),
            (state @ State::Reserved, _) | (state @ State::Dead, None) => keys.index(state).clone(),
            (State::Dead, Some(topic)) => keys.dead(topic),
        };
        let mut all = vec![keys.jobs.clone(), index];
        if query.filter.state == State::Delayed && query.filter.topic.is_some() {
            // To skip the minutes in which no job of the topic is due.
            all.push(keys.timeline.clone());
        }
        let call = self.shards.read(Script::List, &[part.shard], all);
        let call = query.add_args(call, run).arg(part.reached.moment_ms).arg(part.reached.id.as_str());
        let mut reply = Reply::new(self.shards.call(call.arg(bound_ms)).await?)?;
        part.is_end = reply.int()? == 1;
        let examined = reply.count()?;
        let (moment_ms, id) = (reply.int()?, reply.bytes()?);
        part.reached = Position { moment_ms, id: String::from_utf8_lossy(&id).into_owned() };
        let jobs = query.read_jobs(reply.list()?)?.into_iter();
        part.found.extend(
            jobs.map(|(moment_ms, listed)| (Position { moment_ms, id: listed.job.id.to_string() }, listed)),
        );
        Ok(usize::try_from(examined).unwrap_or(usize::MAX))
    }
}

/// Moves the next jobs to the page, up to the position that every shard has reached. Returns the position behind the
/// page; `None` at the end of the list.
fn add_to_page(
    query: ListQuery<'_>,
    parts: &mut [ShardProgress],
    page: &mut Vec<ListedJob>,
    limit: usize,
) -> Option<String> {
    let unfinished = parts.iter().filter(|part| !part.is_end).map(|part| &part.reached);
    let reached = unfinished.min_by(|one, other| query.compare(one, other)).cloned();
    let mut last = None;
    while page.len() < limit {
        let heads = parts.iter_mut().filter_map(|part| Some((part.found.front()?.0.clone(), part)));
        let first = heads.min_by(|one, other| query.compare(&one.0, &other.0));
        let Some((position, part)) = first else { return reached.map(|reached| reached.to_string()) };
        if reached.as_ref().is_some_and(|reached| query.compare(&position, reached).is_gt()) {
            return reached.map(|reached| reached.to_string());
        }
        page.extend(part.found.pop_front().map(|(_, listed)| listed));
        last = Some(position);
    }
    let is_end = reached.is_none() && parts.iter().all(|part| part.found.is_empty());
    last.filter(|_| !is_end).map(|last| last.to_string())
}
