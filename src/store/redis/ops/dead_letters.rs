//! Dead letters of a topic over all shards: listing them in order, requeueing and deleting the oldest.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::try_join_all;

use super::{
    change::{RequeueRequest, Requeuer},
    delete::Deleter,
    read::{JobReader, decode_job},
};
use crate::{
    job::{Delay, Job, JobId, Outlet, State, Timestamp, Topic, TopicFilter, TopicPattern},
    store::{
        DeadCursor, Deleted, Result,
        redis::{
            coordination::{notifier::Notifier, shards::Shards},
            keys::Shard,
            reply::{Reply, code, unexpected},
            scripts::Script,
        },
    },
};

/// Lists and changes dead letters.
pub struct DeadLetters {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub reader: Arc<JobReader>,
    pub requeuer: Arc<Requeuer>,
    pub deleter: Arc<Deleter>,
}

/// The moment of death and the id of a dead letter, by which they are ordered, and its shard.
type DeadEntry = (Timestamp, JobId, Shard);

impl DeadLetters {
    pub async fn list(&self, topic: &Topic, after: Option<&DeadCursor>, limit: usize) -> Result<Vec<Job>> {
        let (mut jobs, mut after) = (Vec::new(), after.cloned());
        while jobs.len() < limit {
            let entries = self.oldest(topic, after.as_ref(), limit - jobs.len()).await?;
            let Some((dead_at, id, _)) = entries.last().cloned() else { break };
            after = Some(DeadCursor { dead_at, id });
            jobs.extend(self.read(topic, entries).await?);
        }
        Ok(jobs)
    }

    /// The jobs of these entries that are still dead letters of the topic, in the same order.
    async fn read(&self, topic: &Topic, entries: Vec<DeadEntry>) -> Result<Vec<Job>> {
        let reads = ids_by_shard(entries).into_iter().map(|(shard, ids)| async move {
            let raws = self.reader.read_on(shard, &only(topic), &ids).await?;
            let jobs = ids.iter().zip(raws).filter_map(|(id, raw)| raw.map(|raw| decode_job(id, &raw)));
            jobs.collect::<Result<Vec<Job>>>()
        });
        let mut jobs: Vec<Job> = try_join_all(reads).await?.into_iter().flatten().collect();
        jobs.retain(|job| job.state == State::Dead);
        jobs.sort_by(|a, b| (a.dead_at, a.id.as_str()).cmp(&(b.dead_at, b.id.as_str())));
        Ok(jobs)
    }

    /// The first `limit` dead letters after `after`, over all shards.
    async fn oldest(
        &self,
        topic: &Topic,
        after: Option<&DeadCursor>,
        limit: usize,
    ) -> Result<Vec<DeadEntry>> {
        let lists = self.shards.groups().into_iter().map(|group| async move {
            let keys = group.iter().map(|shard| self.shards.keys.shard(*shard).dead(topic)).collect();
            let call = self
                .shards
                .read(Script::ListDead, &group, keys)
                .arg(after.map_or(0, |after| after.dead_at.as_millis()))
                .optional_arg(after.map(|after| after.id.as_str()))
                .arg(i64::try_from(limit).unwrap_or(i64::MAX));
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            let mut entries: Vec<DeadEntry> = Vec::new();
            for shard in group {
                let mut list = reply.list()?;
                while !list.is_empty() {
                    let (id, dead_at) = (list.name()?, Timestamp::from_millis(list.int()?));
                    entries.push((dead_at, id, shard));
                }
            }
            Ok(entries)
        });
        let mut entries: Vec<DeadEntry> = try_join_all(lists).await?.into_iter().flatten().collect();
        entries.sort_by(|a, b| (a.0, a.1.as_str()).cmp(&(b.0, b.1.as_str())));
        entries.truncate(limit);
        Ok(entries)
    }

    pub async fn requeue_oldest(&self, topic: &Topic, limit: usize) -> Result<usize> {
        let started_us = self.shards.context().now_us();
        let shards = ids_by_shard(self.oldest(topic, None, limit).await?);
        let requeues = shards.into_iter().map(|(shard, ids)| async move {
            let (scope, delay) = (&only(topic), Delay::default());
            let (mut outlets, mut left, mut requeued) = (vec![Outlet::plain(topic.clone())], ids, 0);
            while !left.is_empty() {
                let known: Vec<&Outlet> = outlets.iter().collect();
                let (outlets_of_call, ids) = (&known[..], &left[..]);
                let request = RequeueRequest {
                    scope,
                    outlets: outlets_of_call,
                    ids,
                    delay,
                    by: None,
                    with_records: false,
                    started_us,
                };
                let mut reply = self.requeuer.requeue_on_shard(request).await?;
                let (mut moved, mut unknown) = (Vec::new(), Vec::new());
                for id in left {
                    match reply.int()? {
                        code::OK => {
                            requeued += 1;
                            self.notifier.waiting_for(&reply.name()?, shard, delay);
                        }
                        code::MOVED => {
                            moved.push(id);
                            unknown.push(reply.name::<Outlet>()?);
                        }
                        // Another caller was faster: it is no longer a dead letter of this topic.
                        code::GONE | code::REFUSED => drop(reply.value()?),
                        _ => return Err(unexpected("the outcome of a requeue")),
                    }
                }
                outlets.extend(unknown);
                outlets.sort_unstable();
                outlets.dedup();
                left = moved;
            }
            Ok(requeued)
        });
        Ok(try_join_all(requeues).await?.into_iter().sum())
    }

    pub async fn delete_oldest(&self, topic: &Topic, limit: usize) -> Result<usize> {
        let shards = ids_by_shard(self.oldest(topic, None, limit).await?);
        let deletes = shards.into_iter().map(|(shard, ids)| async move {
            let ids = ids.into_iter().enumerate().collect();
            let deleted = self.deleter.delete_on(shard, &only(topic), Some(topic), ids).await?;
            Ok(deleted.iter().filter(|(_, deleted)| matches!(deleted, Deleted::Done { .. })).count())
        });
        Ok(try_join_all(deletes).await?.into_iter().sum())
    }
}

fn ids_by_shard(entries: Vec<DeadEntry>) -> BTreeMap<Shard, Vec<JobId>> {
    let mut shards: BTreeMap<Shard, Vec<JobId>> = BTreeMap::new();
    for (_, id, shard) in entries {
        shards.entry(shard).or_default().push(id);
    }
    shards
}

/// The scope of this topic alone: another topic may have a job with the same id by now.
fn only(topic: &Topic) -> TopicFilter {
    TopicFilter::only(vec![TopicPattern::Exact(topic.clone())])
}
