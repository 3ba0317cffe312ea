//! The topics that come first by their jobs. Every such list needs all topics, so viewers share one reading of them.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    job::{State, Timestamp, Topic, TopicFilter},
    queue::{
        error::Result, views::oldest_ready::oldest_ready, views::read_permits::ReadPermits,
        views::shared_reading::SharedReading,
    },
    store::{Store, TopicStats},
};

/// How long a reading is kept.
const KEEP: Duration = Duration::from_secs(2);
/// Topics whose oldest ready job is read, where the store leaves it out of the list.
const MAX_READ: usize = 100;

/// Which topics come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicSort {
    /// Those with most jobs in this state.
    Most(State),
    /// Those whose oldest ready job was due first. Then come those whose oldest ready job is unknown, most ready jobs first,
    /// then those without ready jobs.
    Overdue,
}

/// All topics as they were at one moment.
#[derive(Debug)]
struct AllTopics {
    now: Timestamp,
    topics: Vec<(Topic, TopicStats)>,
}

impl AllTopics {
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.now <= now && now.since(self.now) < KEEP
    }
}

/// The latest readings.
#[derive(Debug)]
pub(in crate::queue) struct SortedTopics {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    read_permits: Arc<ReadPermits>,
    counted: SharedReading<AllTopics>,
    /// The same with the oldest ready jobs.
    overdue: SharedReading<AllTopics>,
}

impl SortedTopics {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, read_permits: Arc<ReadPermits>) -> Self {
        let (counted, overdue) = Default::default();
        Self { store, clock, read_permits, counted, overdue }
    }

    /// The first `limit` topics of `scope`. Equal ones are ordered by name.
    pub async fn first(
        &self,
        scope: &TopicFilter,
        sort: TopicSort,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        let all = match sort {
            TopicSort::Most(_) => self.counted.get(|all| self.is_fresh(all), self.read(false)).await?,
            TopicSort::Overdue => self.overdue.get(|all| self.is_fresh(all), self.read(true)).await?,
        };
        let mut found: Vec<_> = all.topics.iter().filter(|(topic, _)| scope.allows(topic)).collect();
        let order = |one: &&(Topic, TopicStats), other: &&(Topic, TopicStats)| {
            place_of(sort, &one.1).cmp(&place_of(sort, &other.1)).then_with(|| one.0.cmp(&other.0))
        };
        // There may be many more topics than are asked for.
        if limit < found.len() {
            found.select_nth_unstable_by(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by(order);
        Ok(found.into_iter().cloned().collect())
    }

    fn is_fresh(&self, all: &AllTopics) -> bool {
        all.is_fresh(self.clock.now())
    }

    async fn read(&self, with_oldest: bool) -> Result<AllTopics> {
        let _permit = self.read_permits.acquire().await?;
        let now = self.clock.now();
        let mut topics = self.store.topics(&TopicFilter::ALL, None, usize::MAX).await?;
        if with_oldest {
            let mut unknown: Vec<_> = topics
                .iter_mut()
                .filter(|(_, stats)| stats.ready > 0 && stats.oldest_ready.is_none())
                .collect();
            unknown.sort_by_key(|(_, stats)| Reverse(stats.ready));
            unknown.truncate(MAX_READ);
            let names: Vec<&Topic> = unknown.iter().map(|(topic, _)| topic).collect();
            let oldest = oldest_ready(&*self.store, &names).await?;
            unknown.into_iter().zip(oldest).for_each(|((_, stats), oldest)| stats.oldest_ready = oldest);
        }
        Ok(AllTopics { now, topics })
    }
}

/// By what a topic is ordered; the first comes first.
fn place_of(sort: TopicSort, stats: &TopicStats) -> (u8, Reverse<u64>, Option<Timestamp>) {
    match sort {
        TopicSort::Most(state) => (0, Reverse(stats.count(state)), None),
        TopicSort::Overdue => match stats.oldest_ready {
            Some(oldest) => (0, Reverse(0), Some(oldest)),
            None if stats.ready > 0 => (1, Reverse(stats.ready), None),
            None => (2, Reverse(0), None),
        },
    }
}
