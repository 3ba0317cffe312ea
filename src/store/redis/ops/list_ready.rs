//! Lists of ready jobs. Redis has them in lists, one for each outlet of a shard, each about in the order of due times. As long
//! as they are few, all are read and sorted. Otherwise one list is walked after the other.

use std::{fmt, sync::Arc};

use futures_util::future::try_join_all;

use super::{
    counts::{CountsOfAll, CountsReader, ReadyList},
    list_query::{ListQuery, MAX_RUNS, Position, Run},
};
use crate::{
    job::{HostNumber, Outlet, Topic},
    store::{
        JobFilter, JobPage, ListPosition, ListedJob, Order, Result, moment_of,
        redis::{
            connection::call::ScriptCall,
            coordination::shards::{Shards, outlet_arg},
            keys::Shard,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Up to so many ready jobs are sorted.
const MAX_SORTED: u64 = 1_000;

/// Most lists that one run of the script reads.
const MAX_LISTS: usize = 64;

/// Lists ready jobs.
pub struct ReadyLister {
    shards: Arc<Shards>,
    counts: Arc<CountsReader>,
}

/// An entry of a ready list, and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListEntry {
    index: i64,
    generation: u32,
    since_ms: u64,
    id: String,
}

/// How far ready jobs have been listed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReadyPosition {
    /// They are sorted.
    Sorted(Position),
    /// They are listed in the order of the lists: everything before the entry of this list, or before this list.
    Walked(ReadyList, Option<ListEntry>),
}

impl fmt::Display for ReadyPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sorted(position) => write!(f, "sorted {position}"),
            Self::Walked(ReadyList { shard, outlet }, None) => write!(f, "list {shard} {outlet}"),
            Self::Walked(ReadyList { shard, outlet }, Some(entry)) => {
                let ListEntry { index, generation, since_ms, id } = entry;
                write!(f, "list {shard} {outlet} {index} {generation} {since_ms} {id}")
            }
        }
    }
}

impl ReadyPosition {
    /// Parses the text of [`Display`](fmt::Display).
    fn parse(text: &str) -> Option<Self> {
        if let Some(position) = text.strip_prefix("sorted ") {
            return Position::parse(position).map(Self::Sorted);
        }
        let mut words = text.strip_prefix("list ")?.splitn(6, ' ');
        let (shard, outlet) = (words.next()?.parse().ok()?, Outlet::parse(words.next()?)?);
        let mut entry = || {
            Some(ListEntry {
                // Others would make the script fail, as if the store were damaged.
                index: words.next()?.parse().ok().filter(|index: &i64| index.unsigned_abs() < 1 << 32)?,
                generation: words.next()?.parse().ok()?,
                since_ms: words.next()?.parse().ok().filter(|ms| (0..1 << 48).contains(ms))?,
                id: words.next()?.to_owned(),
            })
        };
        Some(Self::Walked(ReadyList { shard, outlet }, entry()))
    }
}

impl ReadyLister {
    pub fn new(shards: Arc<Shards>, counts: Arc<CountsReader>) -> Self {
        Self { shards, counts }
    }

    pub async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let query = ListQuery { filter, order };
        let counts = match &filter.topic {
            Some(topic) => Arc::new(self.counts_of(topic).await?),
            None => self.counts.read("", after.map(|after| &*after.0)).await?,
        };
        let page = self.list_from(query, &counts, after, limit).await?;
        page.next.iter().for_each(|next| counts.end_page(&next.0));
        Ok(page)
    }

    async fn list_from(
        &self,
        query: ListQuery<'_>,
        CountsOfAll { ready_lists, ready, .. }: &CountsOfAll,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let (sorted, walked) = match after.and_then(|after| ReadyPosition::parse(&after.0)) {
            Some(ReadyPosition::Sorted(position)) => (Some(position), None),
            Some(ReadyPosition::Walked(list, entry)) => (None, Some((list, entry))),
            None => (None, None),
        };
        if walked.is_none()
            && *ready <= MAX_SORTED
            && let Some(page) = self.sort(query, ready_lists, sorted.as_ref(), limit).await?
        {
            return Ok(page);
        }
        self.walk(query, ready_lists, walked, limit).await
    }

    /// The ready lists of one topic.
    async fn counts_of(&self, topic: &Topic) -> Result<CountsOfAll> {
        let lists = try_join_all(self.shards.keys.all().map(|shard| self.count(shard, topic))).await?;
        let mut counts = CountsOfAll::default();
        for (list, ready) in lists.into_iter().flatten() {
            counts.ready += ready;
            counts.ready_lists.push(list);
        }
        counts.ready_lists.sort_unstable();
        Ok(counts)
    }

    /// The ready lists of a topic on a shard, each with its number of jobs.
    async fn count(&self, shard: Shard, topic: &Topic) -> Result<Vec<(ReadyList, u64)>> {
        let hosts = (0..=u8::MAX).map(|number| Some(HostNumber(number)));
        let outlets = [None].into_iter().chain(hosts).map(|host| Outlet { topic: topic.clone(), host });
        let outlets: Vec<Outlet> = outlets.collect();
        let counts = self.shards.keys.shard(shard).counts.clone();
        let call = self.shards.read(Script::CountReady, &[shard], vec![counts]);
        let call = outlets.iter().fold(call, |call, outlet| call.arg(outlet_arg(outlet)));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let mut lists = Vec::new();
        for outlet in outlets {
            let ready = u64::try_from(reply.int()?).unwrap_or(0);
            lists.extend((ready > 0).then_some((ReadyList { shard, outlet }, ready)));
        }
        Ok(lists)
    }

    /// The page behind a position of all jobs sorted; `None` when they are too many.
    async fn sort(
        &self,
        query: ListQuery<'_>,
        lists: &[ReadyList],
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Option<JobPage>> {
        let of_shards = lists.chunk_by(|one, other| one.shard == other.shard);
        let ascending = ListQuery { order: Order::Ascending, ..query };
        let parts = of_shards.map(|lists| self.walk(ascending, lists, None, usize::MAX));
        let parts = try_join_all(parts).await?;
        if parts.iter().any(|part| part.next.is_some()) {
            return Ok(None);
        }
        let examined = parts.iter().map(|part| part.examined).sum();
        let mut jobs: Vec<ListedJob> = parts.into_iter().flat_map(|part| part.jobs).collect();
        sort_jobs(query, &mut jobs);
        jobs.retain(|listed| after.is_none_or(|after| query.compare(&position_of(listed), after).is_gt()));
        let is_end = jobs.len() <= limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| !is_end).map(|last| ReadyPosition::Sorted(position_of(last)));
        Ok(Some(JobPage { jobs, next: next.map(|next| ListPosition(next.to_string())), examined }))
    }

    /// Walks one list after the other, from a position on.
    async fn walk(
        &self,
        query: ListQuery<'_>,
        lists: &[ReadyList],
        after: Option<(ReadyList, Option<ListEntry>)>,
        limit: usize,
    ) -> Result<JobPage> {
        let mut page = JobPage { jobs: Vec::new(), next: None, examined: 0 };
        let (mut at, mut entry) = (0, None);
        if let Some((list, last)) = after {
            at = lists.partition_point(|other| *other < list);
            entry = last.filter(|_| lists.get(at) == Some(&list));
        }
        for round in 1.. {
            let Some(first) = lists.get(at) else { break };
            let is_complete = page.jobs.len() >= limit || page.examined >= JobPage::MAX_EXAMINED;
            if is_complete || round > MAX_RUNS {
                let next = ReadyPosition::Walked(first.clone(), entry);
                page.next = Some(ListPosition(next.to_string()));
                break;
            }
            let of_shard = lists[at..].iter().take_while(|list| list.shard == first.shard).count();
            let lists = &lists[at..at + of_shard.min(MAX_LISTS)];
            let limits = Run { wanted: limit - page.jobs.len(), most: JobPage::MAX_EXAMINED - page.examined };
            let mut reply = self.read(query, lists, entry.as_ref(), limits).await?;
            let is_end = reply.int()? == 1;
            page.examined += usize::try_from(reply.count()?).unwrap_or(usize::MAX);
            let ended_in = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
            let last = read_entry(&mut reply)?;
            page.jobs.extend(query.read_jobs(reply.list()?)?.into_iter().map(|(_, listed)| listed));
            (at, entry) =
                if is_end { (at + lists.len(), None) } else { (at + ended_in.saturating_sub(1), last) };
        }
        sort_jobs(query, &mut page.jobs);
        Ok(page)
    }

    /// Reads lists of one shard, the first of them behind an entry.
    async fn read(
        &self,
        query: ListQuery<'_>,
        lists: &[ReadyList],
        after: Option<&ListEntry>,
        run: Run,
    ) -> Result<Reply> {
        let shard = lists[0].shard;
        let keys = self.shards.keys.shard(shard);
        let all = [keys.jobs.clone()].into_iter().chain(lists.iter().map(|list| keys.ready(&list.outlet)));
        let call = self.shards.read(Script::ListReady, &[shard], all.collect());
        let call = query.add_args(call, run);
        let add_entry = |call: ScriptCall, ListEntry { index, generation, since_ms, id }: &ListEntry| {
            let since_ms = i64::try_from(*since_ms).unwrap_or(i64::MAX);
            call.arg(id.as_str()).arg(i64::from(*generation)).arg(since_ms).arg(*index)
        };
        let call = after.into_iter().fold(call, add_entry);
        Reply::new(self.shards.call(call).await?)
    }
}

/// Reads the entry where a run ended; `None` when it ended before the first entry of a list.
fn read_entry(reply: &mut Reply) -> Result<Option<ListEntry>> {
    let id = String::from_utf8_lossy(&reply.bytes()?).into_owned();
    let generation = u32::try_from(reply.count()?).unwrap_or(0);
    let (since_ms, index) = (reply.count()?, reply.int()?);
    Ok((!id.is_empty()).then_some(ListEntry { index, generation, since_ms, id }))
}

fn position_of(listed: &ListedJob) -> Position {
    Position { moment_ms: moment_of(&listed.job).as_millis(), id: listed.job.id.to_string() }
}

/// Sorts the jobs of a page. A job that moved while its list was read may be there twice.
fn sort_jobs(query: ListQuery<'_>, jobs: &mut Vec<ListedJob>) {
    jobs.sort_by(|one, other| query.compare(&position_of(one), &position_of(other)));
    jobs.dedup_by(|one, other| one.job.id == other.job.id);
}
