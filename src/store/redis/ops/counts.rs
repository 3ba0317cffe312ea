//! The counts of all topics. Redis has them in no order, so a reading goes through all of them: callers that wait at the same
//! time share one, and the pages of a list go on with that of the first page.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::Clock,
    job::{Outlet, State, Topic},
    store::{
        Result,
        redis::{coordination::shards::Shards, keys::Shard, reply::Reply, scripts::Script},
    },
};

/// About how many counts one run of the script reads: half a millisecond of Redis.
const PAGE: i64 = 1_000;
/// How long the pages of a list go on with the counts of its first page.
const KEEP_US: i64 = 2_000_000;
/// Most ends of pages that a reading remembers. A page behind a forgotten one reads the counts again.
const MAX_PAGE_ENDS: usize = 1_000;

/// Reads counts, once at a time.
pub struct CountsReader {
    shards: Arc<Shards>,
    /// How many readings have begun.
    begun: AtomicU64,
    /// Locked during a reading, for which other callers then wait.
    last: tokio::sync::Mutex<Option<SharedCounts>>,
}

struct SharedCounts {
    number: u64,
    prefix: String,
    outcome: Result<Arc<CountsOfAll>>,
}

/// The ready list of an outlet on a shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyList {
    pub shard: Shard,
    pub outlet: Outlet,
}

/// The jobs of each topic by state, in the order of [`State::ALL`].
pub type TopicCounts = [u64; State::ALL.len()];

/// The counts of the topics whose names begin with a prefix.
#[derive(Debug, Default)]
pub struct CountsOfAll {
    read_us: i64,
    pub topics: BTreeMap<Topic, TopicCounts>,
    /// The ready lists that have jobs, in order, and how many jobs they have together.
    pub ready_lists: Vec<ReadyList>,
    pub ready: u64,
    page_ends: Mutex<HashSet<String>>,
}

impl CountsOfAll {
    /// Remembers where a page ends that was made of these counts: the next one may be made of them, too.
    pub fn end_page(&self, end: &str) {
        let mut ends = self.page_ends.lock().expect("no code panics while it holds the ends of pages");
        if ends.len() < MAX_PAGE_ENDS {
            ends.insert(end.to_owned());
        }
    }

    fn has_page_end(&self, end: &str) -> bool {
        self.page_ends.lock().expect("no code panics while it holds the ends of pages").contains(end)
    }
}

impl CountsReader {
    pub fn new(shards: Arc<Shards>) -> Arc<Self> {
        Arc::new(Self { shards, begun: AtomicU64::new(0), last: tokio::sync::Mutex::default() })
    }

    /// The counts of the topics whose names begin with `prefix`, of a moment after the call began. If they are for the page
    /// behind `after`, they may be those of the page before.
    pub async fn read(&self, prefix: &str, after: Option<&str>) -> Result<Arc<CountsOfAll>> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some(reading) = &*last
            && prefix.starts_with(&reading.prefix)
        {
            // A caller that has waited for a reading that failed gets its error, so that callers do not repeat it one after
            // the other.
            if reading.number > begun_before {
                return reading.outcome.clone();
            }
            let now_us = self.shards.context().now_us();
            let goes_on = |counts: &&Arc<CountsOfAll>| {
                now_us - counts.read_us < KEEP_US && after.is_some_and(|after| counts.has_page_end(after))
            };
            if let Some(counts) = reading.outcome.as_ref().ok().filter(goes_on) {
                return Ok(counts.clone());
            }
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = self.read_all(prefix).await.map(Arc::new);
        *last = Some(SharedCounts { number, prefix: prefix.to_owned(), outcome: outcome.clone() });
        outcome
    }

    async fn read_all(&self, prefix: &str) -> Result<CountsOfAll> {
        let mut counts = CountsOfAll { read_us: self.shards.context().now_us(), ..CountsOfAll::default() };
        for shard in self.shards.keys.all() {
            for (outlet, state, count) in self.read_shard(shard, prefix).await? {
                if state == State::Ready && count > 0 {
                    counts.ready += count;
                    counts.ready_lists.push(ReadyList { shard, outlet: outlet.clone() });
                }
                let place = State::ALL.iter().position(|other| *other == state);
                let place = place.expect("every state is one of all states");
                counts.topics.entry(outlet.topic).or_default()[place] += count;
            }
        }
        counts.ready_lists.sort_unstable();
        Ok(counts)
    }

    /// The counts of a shard, page by page if there are many. Ready jobs are counted by outlet, all others by topic.
    async fn read_shard(&self, shard: Shard, prefix: &str) -> Result<Vec<(Outlet, State, u64)>> {
        let (key, context) = (&self.shards.keys.shard(shard).counts, self.shards.context());
        // A scan of a table that grows or shrinks may return a field twice.
        let (mut fields, mut cursor) = (HashMap::new(), "0".to_owned());
        loop {
            let start_us = context.now_us();
            let call = self.shards.read(Script::GetCounts, &[shard], vec![key.clone()]);
            let mut reply = Reply::new(self.shards.call(call.arg(cursor).arg(PAGE).arg(prefix)).await?)?;
            cursor = reply.text()?;
            let mut page = reply.list()?;
            while !page.is_empty() {
                let (field, count) = (page.text()?, page.value()?.as_u64());
                // Another program may have written a value that is no count: the sweep mends it.
                if let Some(count) = count {
                    fields.insert(field, count);
                }
            }
            if cursor == "0" {
                break;
            }
            // As long as the page took, so that a reading uses at most half of the time of Redis.
            let took_us = context.now_us().saturating_sub(start_us).unsigned_abs();
            context.clock.sleep(Duration::from_micros(took_us)).await;
        }
        Ok(fields.into_iter().filter_map(decode).collect())
    }
}

fn decode((field, count): (String, u64)) -> Option<(Outlet, State, u64)> {
    let (letter, outlet) = field.split_at_checked(1)?;
    let state = match letter {
        "d" => State::Delayed,
        "r" => State::Ready,
        "v" => State::Reserved,
        "x" => State::Dead,
        // The number of announcements, or the fence.
        _ => return None,
    };
    Some((Outlet::parse(outlet)?, state, count))
}
