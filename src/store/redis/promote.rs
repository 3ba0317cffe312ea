//! Moving what is due: a look at every shard, then one script for each that has something, given
//! the topics' keys that the look found to be needed.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};

use super::{
    Engine,
    held::millis,
    keys::Shard,
    reply::{Reply, unexpected},
    script::Op,
};
use crate::{
    job::Topic,
    store::{Move, MoveKind, Promoted, Result},
};

/// The engine looks no further ahead than this: another process may have added something meanwhile,
/// and a process that died has left its jobs to the others.
pub(super) const HORIZON: Duration = Duration::from_secs(1);

/// What is due on one shard. The ids are bytes: a broken entry may hold anything.
struct Due {
    shard: Shard,
    ids: Vec<Bytes>,
    topics: Vec<Topic>,
}

impl Engine {
    pub(super) async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let groups = self.groups();
        let share = limit.div_ceil(groups.len()).max(1);
        let parts = join_all(groups.into_iter().map(|group| self.promote_group(group, share))).await;
        let all = parts.len();
        let mut promoted = Promoted { next_in: Some(HORIZON), ..Promoted::default() };
        let mut failed = Vec::new();
        for part in parts {
            match part {
                Ok(part) => {
                    promoted.moves.extend(part.moves);
                    promoted.more |= part.more;
                    promoted.set_aside += part.set_aside;
                    promoted.next_in = promoted.next_in.min(part.next_in.or(promoted.next_in));
                }
                Err(error) => failed.push(error),
            }
        }
        match failed.pop() {
            Some(error) if failed.len() + 1 == all => Err(error),
            Some(error) => {
                // What is due there waits for the next look; it must not hold up what has been moved.
                let shards = failed.len() + 1;
                tracing::warn!(%error, shards, "what is due on some shards could not be moved");
                Ok(promoted)
            }
            None => Ok(promoted),
        }
    }

    /// Moves what is due on a group of shards.
    async fn promote_group(&self, group: Vec<Shard>, share: usize) -> Result<Promoted> {
        let (next_in, due) = self.look_for_due(group, share).await?;
        let mut promoted = Promoted { next_in, ..Promoted::default() };
        promoted.more = due.iter().map(|due| due.ids.len()).sum::<usize>() >= share;
        let due = due.into_iter().filter(|due| !due.ids.is_empty());
        for (moves, again, aside) in try_join_all(due.map(|due| self.promote_on(due))).await? {
            promoted.moves.extend(moves);
            promoted.more |= again;
            promoted.set_aside += aside;
        }
        Ok(promoted)
    }

    /// What is due on a group of shards, at most `share`, and how long until the next after that. The
    /// shards take turns in being looked at first, so that a full one does not hold up the others.
    async fn look_for_due(
        &self,
        mut group: Vec<Shard>,
        share: usize,
    ) -> Result<(Option<Duration>, Vec<Due>)> {
        let turn = self.turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % group.len();
        group.rotate_left(turn);
        let keys = group.iter().flat_map(|shard| {
            let keys = self.keys.shard(*shard);
            [keys.pool.clone(), keys.bucket.clone(), keys.graves.clone()]
        });
        let call = self
            .read(Op::Peek, &group, keys.collect())
            .arg(self.now_arg())
            .arg(i64::try_from(share).unwrap_or(i64::MAX))
            .maybe(self.retention());
        let mut reply = Reply::new(self.call(self.brief_in_cluster(call)).await?)?;
        let next_us = u64::try_from(reply.int()?).ok();
        let mut shards = Vec::with_capacity(group.len());
        for shard in group {
            let mut found = reply.list()?;
            let mut due = Due { shard, ids: Vec::with_capacity(found.len() / 2), topics: Vec::new() };
            while !found.is_empty() {
                due.ids.push(found.bytes()?);
                if let Some(topic) = found.name_or_none()?
                    && !due.topics.contains(&topic)
                {
                    due.topics.push(topic);
                }
            }
            shards.push(due);
        }
        Ok((next_us.map(Duration::from_micros), shards))
    }

    fn retention(&self) -> Option<fred::types::Value> {
        self.context.options.dead_retention.map(millis)
    }

    /// Moves what is due on one shard: the moves, whether to look again, and how many were set aside.
    async fn promote_on(&self, due: Due) -> Result<(Vec<Move>, bool, usize)> {
        let topics: Vec<&Topic> = due.topics.iter().collect();
        let mut call = self.change(Op::Promote, due.shard, None, &topics).maybe(self.retention());
        for id in &due.ids {
            call = call.bytes(id.clone());
        }
        let mut reply = Reply::new(self.call(self.brief_in_cluster(call)).await?)?;
        let again = reply.int()? == 1;
        let aside = reply.count()?;
        self.set_aside(due.shard, aside);
        let mut moves = Vec::with_capacity(reply.len() / 4);
        let mut ready: Vec<Topic> = Vec::new();
        while !reply.is_empty() {
            let (topic, kind): (Topic, _) = (reply.name()?, kind(reply.int()?)?);
            if reply.int()? == 1 && !ready.contains(&topic) {
                ready.push(topic.clone());
            }
            moves.push(Move { topic, kind, late: Duration::from_millis(reply.count()?) });
        }
        ready.iter().for_each(|topic| self.tell_ready(topic, due.shard));
        Ok((moves, again, usize::try_from(aside).unwrap_or(usize::MAX)))
    }
}

fn kind(code: i64) -> Result<MoveKind> {
    match code {
        1 => Ok(MoveKind::Ready),
        2 => Ok(MoveKind::Expired),
        3 => Ok(MoveKind::Died),
        4 => Ok(MoveKind::Forgotten),
        _ => Err(unexpected("a kind of move")),
    }
}
