//! The statistics of topics over all shards.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::try_join_all;

use super::counts::{CountsReader, TopicCounts};
use crate::{
    job::{Outlet, State, Timestamp, Topic, TopicFilter},
    store::{
        Result, TopicStats,
        redis::{
            coordination::{
                settings_cache::SettingsCache,
                shards::{Shards, outlet_arg},
            },
            keys::Shard,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// How many of a shard's first entries are searched for the next due job of a topic.
const SEARCH_DEPTH: i64 = 100;

/// Reads the statistics of topics.
pub struct TopicReader {
    shards: Arc<Shards>,
    settings: Arc<SettingsCache>,
    counts: Arc<CountsReader>,
}

impl TopicReader {
    pub fn new(shards: Arc<Shards>, settings: Arc<SettingsCache>, counts: Arc<CountsReader>) -> Self {
        Self { shards, settings, counts }
    }

    /// The servers have no topics by name: the page is a part of all counts, which pages and callers share.
    pub async fn list(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        if scope.patterns().is_some_and(<[_]>::is_empty) {
            return Ok(Vec::new());
        }
        let is_wanted = |topic: &Topic| after.is_none_or(|after| topic > after) && scope.allows(topic);
        let counts = self.counts.read(scope.common_prefix(), after.map(Topic::as_str)).await?;
        let counted = counts.topics.iter().filter(|(topic, _)| is_wanted(topic)).take(limit);
        let mut topics: BTreeMap<Topic, TopicStats> =
            counted.map(|(topic, counts)| (topic.clone(), stats_of(counts))).collect();
        for topic in self.settings.topics().into_iter().filter(is_wanted) {
            topics.entry(topic).or_default();
        }
        let page: Vec<(Topic, TopicStats)> = topics
            .into_iter()
            .take(limit)
            .map(|(topic, stats)| {
                let config = (*self.settings.get(&topic)).clone();
                (topic, TopicStats { config, ..stats })
            })
            .collect();
        // A caller may have asked for one more than it shows.
        page.iter().rev().take(2).for_each(|(topic, _)| counts.end_page(topic.as_str()));
        Ok(page)
    }

    pub async fn get(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        let parts = self.shards.groups().into_iter().map(|group| self.get_from(group, topic));
        let mut stats = TopicStats { config: (*self.settings.get(topic)).clone(), ..TopicStats::default() };
        for part in try_join_all(parts).await? {
            for state in State::ALL {
                *count_mut(&mut stats, state) += part.count(state);
            }
            stats.next_due = earlier(stats.next_due, part.next_due);
            stats.oldest_ready = earlier(stats.oldest_ready, part.oldest_ready);
        }
        let jobs: u64 = State::ALL.into_iter().map(|state| stats.count(state)).sum();
        Ok((jobs > 0 || !stats.config.is_default()).then_some(stats))
    }

    /// The statistics of a topic on a group of shards. The keys of ready lists depend on the outlets: if the first call
    /// does not have all of them, its reply names the others.
    async fn get_from(&self, group: Vec<Shard>, topic: &Topic) -> Result<TopicStats> {
        let mut outlets = vec![Outlet::plain(topic.clone())];
        let (stats, unnamed) = self.get_with(&group, &outlets).await?;
        if unnamed.is_empty() {
            return Ok(stats);
        }
        outlets.extend(unnamed);
        Ok(self.get_with(&group, &outlets).await?.0)
    }

    /// The same with the ready lists of these outlets, the first of which is the plain one. Also returns other outlets
    /// with ready jobs.
    async fn get_with(&self, group: &[Shard], outlets: &[Outlet]) -> Result<(TopicStats, Vec<Outlet>)> {
        let keys = group.iter().flat_map(|shard| {
            let keys = self.shards.keys.shard(*shard);
            let fixed = [keys.counts.clone(), keys.jobs.clone(), keys.index(State::Delayed).clone()];
            fixed.into_iter().chain(outlets.iter().map(|outlet| keys.ready(outlet)))
        });
        let call = self.shards.read(Script::TopicStats, group, keys.collect());
        let call = call.arg(outlets[0].topic.as_str()).arg(SEARCH_DEPTH);
        let call = outlets.iter().fold(call, |call, outlet| call.arg(outlet_arg(outlet)));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let mut unnamed = reply.list()?;
        let unnamed = (0..unnamed.len()).map(|_| unnamed.name()).collect::<Result<Vec<Outlet>>>()?;
        let mut stats = TopicStats::default();
        while !reply.is_empty() {
            for state in State::ALL {
                *count_mut(&mut stats, state) += reply.count()?;
            }
            stats.next_due = earlier(stats.next_due, decode_moment(reply.int()?));
            stats.oldest_ready = earlier(stats.oldest_ready, decode_moment(reply.int()?));
        }
        Ok((stats, unnamed))
    }
}

fn stats_of(counts: &TopicCounts) -> TopicStats {
    let mut stats = TopicStats::default();
    for (state, count) in State::ALL.into_iter().zip(counts) {
        *count_mut(&mut stats, state) = *count;
    }
    stats
}

fn count_mut(stats: &mut TopicStats, state: State) -> &mut u64 {
    match state {
        State::Delayed => &mut stats.delayed,
        State::Ready => &mut stats.ready,
        State::Reserved => &mut stats.reserved,
        State::Dead => &mut stats.dead,
    }
}

/// A moment in milliseconds from a script; -1 is none.
fn decode_moment(ms: i64) -> Option<Timestamp> {
    (ms >= 0).then(|| Timestamp::from_millis(ms))
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
