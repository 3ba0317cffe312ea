//! Dead letters of a topic over all shards: listing them in order, requeueing and deleting the oldest.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::get::code;
use crate::store::redis::{
    Engine,
    keys::Shard,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{
    clock::Clock,
    job::{Delay, Job, JobId, State, Timestamp, Topic, TopicFilter, TopicPattern},
    store::{DeadCursor, Deleted, Result},
};

/// A dead letter's place in the order, and where it lives.
type Place = (Timestamp, JobId, Shard);

impl Engine {
    pub async fn dead_jobs(
        &self,
        topic: &Topic,
        after: Option<&DeadCursor>,
        limit: usize,
    ) -> Result<Vec<Job>> {
        let (mut jobs, mut after) = (Vec::new(), after.cloned());
        while jobs.len() < limit {
            let places = self.oldest_dead(topic, after.as_ref(), limit - jobs.len()).await?;
            let Some((dead_at, id, _)) = places.last().cloned() else { break };
            after = Some(DeadCursor { dead_at, id });
            jobs.extend(self.read_dead(topic, places).await?);
        }
        Ok(jobs)
    }

    /// The jobs at `places` that are still dead letters of the topic, in that order.
    async fn read_dead(&self, topic: &Topic, places: Vec<Place>) -> Result<Vec<Job>> {
        let mut shards: BTreeMap<Shard, Vec<JobId>> = BTreeMap::new();
        for (_, id, shard) in places {
            shards.entry(shard).or_default().push(id);
        }
        let reads = shards.into_iter().map(|(shard, ids)| async move {
            let raws = self.read_jobs(shard, &only(topic), &ids).await?;
            let jobs = ids.iter().zip(raws).filter_map(|(id, raw)| raw.map(|raw| self.job(id, &raw)));
            jobs.collect::<Result<Vec<Job>>>()
        });
        let mut jobs: Vec<Job> = try_join_all(reads).await?.into_iter().flatten().collect();
        jobs.retain(|job| job.state == State::Dead);
        jobs.sort_by(|a, b| (a.dead_at, a.id.as_str()).cmp(&(b.dead_at, b.id.as_str())));
        Ok(jobs)
    }

    /// The first `limit` dead letters behind `after`, over all shards.
    async fn oldest_dead(
        &self,
        topic: &Topic,
        after: Option<&DeadCursor>,
        limit: usize,
    ) -> Result<Vec<Place>> {
        let looks = self.groups().into_iter().map(|group| async move {
            let keys = group.iter().map(|shard| self.keys.shard(*shard).dead(topic)).collect();
            let call = self
                .read(Op::Dead, &group, keys)
                .arg(after.map_or(0, |after| after.dead_at.as_millis()))
                .maybe(after.map(|after| after.id.as_str()))
                .arg(i64::try_from(limit).unwrap_or(i64::MAX));
            let mut reply = Reply::new(self.call(call).await?)?;
            let mut places: Vec<Place> = Vec::new();
            for shard in group {
                let mut found = reply.list()?;
                while !found.is_empty() {
                    let (id, dead_at) = (found.name()?, Timestamp::from_millis(found.int()?));
                    places.push((dead_at, id, shard));
                }
            }
            Ok(places)
        });
        let mut places: Vec<Place> = try_join_all(looks).await?.into_iter().flatten().collect();
        places.sort_by(|a, b| (a.0, a.1.as_str()).cmp(&(b.0, b.1.as_str())));
        places.truncate(limit);
        Ok(places)
    }

    pub async fn requeue_dead_jobs(&self, topic: &Topic, limit: usize) -> Result<usize> {
        let since_us = self.context.real.now_micros();
        let shards = self.oldest_dead_by_shard(topic, limit).await?;
        let requeues = shards.into_iter().map(|(shard, ids)| async move {
            let delay = Delay::default();
            let mut reply = self.requeue_in(since_us, &only(topic), Some(topic), delay, &ids, false).await?;
            let mut requeued = 0;
            for _ in ids {
                match (reply.int()?, reply.value()?) {
                    (code::OK, _) => requeued += 1,
                    // Somebody else was faster; it is no dead letter of this topic any more.
                    (code::GONE | code::REFUSED, _) => {}
                    _ => return Err(unexpected("a known outcome")),
                }
            }
            if requeued > 0 {
                self.tell_requeued(topic, shard, delay);
            }
            Ok(requeued)
        });
        Ok(try_join_all(requeues).await?.into_iter().sum())
    }

    pub async fn delete_dead_jobs(&self, topic: &Topic, limit: usize) -> Result<usize> {
        let shards = self.oldest_dead_by_shard(topic, limit).await?;
        let deletes = shards.into_iter().map(|(shard, ids)| async move {
            let ids = ids.into_iter().enumerate().collect();
            let deleted = self.delete_in(shard, &only(topic), Some(topic), ids).await?;
            Ok(deleted.iter().filter(|(_, deleted)| matches!(deleted, Deleted::Done { .. })).count())
        });
        Ok(try_join_all(deletes).await?.into_iter().sum())
    }

    async fn oldest_dead_by_shard(&self, topic: &Topic, limit: usize) -> Result<BTreeMap<Shard, Vec<JobId>>> {
        let mut shards: BTreeMap<Shard, Vec<JobId>> = BTreeMap::new();
        for (_, id, shard) in self.oldest_dead(topic, None, limit).await? {
            shards.entry(shard).or_default().push(id);
        }
        Ok(shards)
    }
}

/// The scope of this topic alone: an id may have been taken by another topic's job meanwhile.
fn only(topic: &Topic) -> TopicFilter {
    TopicFilter::only(vec![TopicPattern::Exact(topic.clone())])
}
