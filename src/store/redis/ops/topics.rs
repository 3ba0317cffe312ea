//! What is known of topics over all shards: their figures, and deleting all their jobs.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::try_join_all;

use crate::store::redis::{Engine, keys::Shard, reply::Reply, scripts::Op};
use crate::{
    job::{State, Timestamp, Topic},
    store::{PurgeCursor, PurgeSlice, Result, TopicStats},
};

/// How many of a shard's first entries are looked at for a topic's next due job.
const LOOK_AHEAD: i64 = 100;
/// About how many counts one run of the script reads, so that none holds Redis up for long.
pub const COUNTS_SLICE: i64 = 4_000;
/// Most jobs that one run of the purge looks at, so that none holds Redis up for long.
const PURGE_SLICE: usize = 500;

impl Engine {
    pub async fn all_topics(&self, after: Option<&Topic>, limit: usize) -> Result<Vec<(Topic, TopicStats)>> {
        let counts = try_join_all(self.keys.shards().map(|shard| self.counts(shard))).await?;
        let mut topics: BTreeMap<Topic, TopicStats> = BTreeMap::new();
        for (topic, state, count) in counts.into_iter().flatten() {
            *count_of(topics.entry(topic).or_default(), state) += count;
        }
        for topic in self.configs.named() {
            topics.entry(topic).or_default();
        }
        let behind = topics.into_iter().filter(|(topic, _)| after.is_none_or(|after| topic > after));
        Ok(behind
            .take(limit)
            .map(|(topic, stats)| {
                let config = (*self.configs.get(&topic)).clone();
                (topic, TopicStats { config, ..stats })
            })
            .collect())
    }

    /// All counts of a shard; slice by slice where there are very many.
    async fn counts(&self, shard: Shard) -> Result<Vec<(Topic, State, u64)>> {
        let keys = self.keys.shard(shard);
        // A walk over a table that grows or shrinks may show a field twice.
        let (mut fields, mut cursor) = (HashMap::new(), "0".to_owned());
        loop {
            let call =
                self.read(Op::Counts, &[shard], vec![keys.counts.clone()]).arg(cursor).arg(COUNTS_SLICE);
            let mut reply = Reply::new(self.call(call).await?)?;
            cursor = reply.text()?;
            let mut slice = reply.list()?;
            while !slice.is_empty() {
                let (field, count) = (slice.text()?, slice.value()?.as_u64());
                // What is no count, which somebody else wrote, is passed over; the sweep counts again.
                if let Some(count) = count {
                    fields.insert(field, count);
                }
            }
            if cursor == "0" {
                break;
            }
        }
        let count = |(field, count): (String, u64)| {
            let (letter, topic) = field.split_at_checked(1)?;
            let state = match letter {
                "d" => State::Delayed,
                "r" => State::Ready,
                "v" => State::Reserved,
                "x" => State::Dead,
                // The count of announcements.
                _ => return None,
            };
            Some((Topic::parse(topic).ok()?, state, count))
        };
        Ok(fields.into_iter().filter_map(count).collect())
    }

    pub async fn one_topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        let looks = self.groups().into_iter().map(|group| async move {
            let keys = group.iter().flat_map(|shard| {
                let keys = self.keys.shard(*shard);
                [keys.counts.clone(), keys.pool.clone(), keys.bucket.clone(), keys.ready(topic)]
            });
            let call = self.read(Op::Topic, &group, keys.collect()).arg(topic.as_str()).arg(LOOK_AHEAD);
            let mut reply = Reply::new(self.call(call).await?)?;
            let mut stats = TopicStats::default();
            while !reply.is_empty() {
                for state in State::ALL {
                    *count_of(&mut stats, state) += reply.count()?;
                }
                stats.next_due = sooner(stats.next_due, moment(reply.int()?));
                stats.oldest_ready = sooner(stats.oldest_ready, moment(reply.int()?));
            }
            Ok(stats)
        });
        let mut stats = TopicStats { config: (*self.configs.get(topic)).clone(), ..TopicStats::default() };
        for part in try_join_all(looks).await? {
            for state in State::ALL {
                *count_of(&mut stats, state) += part.count(state);
            }
            stats.next_due = sooner(stats.next_due, part.next_due);
            stats.oldest_ready = sooner(stats.oldest_ready, part.oldest_ready);
        }
        let jobs: u64 = State::ALL.into_iter().map(|state| stats.count(state)).sum();
        Ok((jobs > 0 || !stats.config.is_default()).then_some(stats))
    }

    /// Walks the pools one after the other; the cursor is the shard and the place in its table, and
    /// the table's own walk sees every job that is there from start to end.
    pub async fn purge_slice(
        &self,
        topic: &Topic,
        cursor: Option<PurgeCursor>,
        limit: usize,
    ) -> Result<PurgeSlice> {
        // A cursor that is not ours starts over: that deletes no less.
        let (shard, place) = cursor.as_ref().and_then(|cursor| self.read_cursor(cursor)).unwrap_or((0, "0"));
        let lane = self.lanes.take(shard);
        let call = self
            .change(Op::Purge, shard, Some(&lane), &[topic])
            .arg(topic.as_str())
            .arg(place)
            .arg(i64::try_from(limit.clamp(1, PURGE_SLICE)).expect("a slice is small"));
        let mut reply = Reply::new(self.acked(call).await?)?;
        let (place, deleted) = (reply.text()?, reply.count()?);
        let next = match place.as_str() {
            "0" => self.keys.shards().find(|other| *other > shard).map(|other| format!("{other}:0")),
            place => Some(format!("{shard}:{place}")),
        };
        Ok(PurgeSlice {
            deleted: usize::try_from(deleted).unwrap_or(usize::MAX),
            next: next.map(PurgeCursor),
        })
    }

    fn read_cursor<'a>(&self, cursor: &'a PurgeCursor) -> Option<(Shard, &'a str)> {
        let (shard, place) = cursor.0.split_once(':')?;
        let shard: Shard = shard.parse().ok()?;
        let digits = !place.is_empty() && place.bytes().all(|b| b.is_ascii_digit());
        (digits && self.keys.shards().any(|known| known == shard)).then_some((shard, place))
    }
}

fn count_of(stats: &mut TopicStats, state: State) -> &mut u64 {
    match state {
        State::Delayed => &mut stats.delayed,
        State::Ready => &mut stats.ready,
        State::Reserved => &mut stats.reserved,
        State::Dead => &mut stats.dead,
    }
}

/// A moment that a script wrote as milliseconds, -1 being none.
fn moment(ms: i64) -> Option<Timestamp> {
    (ms >= 0).then(|| Timestamp::from_millis(ms))
}

fn sooner(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
