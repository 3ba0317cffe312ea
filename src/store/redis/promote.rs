//! Moving what is due: one script looks at every shard that it may touch and moves at once what belongs to
//! the topics that were due before; only what is due in others takes a second call, with their keys.

use std::{
    sync::{Mutex, MutexGuard, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join_all;

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

/// Most jobs that one run of the script looks at, so that none holds Redis up for long.
const SLICE: usize = 250;

/// How many topics are remembered: each has two keys for every shard, whether it is needed or not.
const REMEMBERED: usize = 8;

/// About how many keys of topics one run is given at most, two for each topic and shard.
const MOST_KEYS: usize = 512;

/// Most topics that one run is given the keys of, however few the shards.
const MOST_TOPICS: usize = 64;

/// When what could not be moved is tried again, where other jobs were moved.
const AGAIN: Duration = Duration::from_millis(100);

/// The topics that were due last, the latest first: likely to be due next.
#[derive(Debug, Default)]
pub(super) struct DueTopics(Mutex<Vec<Topic>>);

impl DueTopics {
    fn recent(&self) -> Vec<Topic> {
        self.lock().clone()
    }

    fn note<'a>(&self, due: impl Iterator<Item = &'a Topic>) {
        let mut topics = self.lock();
        for topic in due {
            match topics.iter().position(|known| known == topic) {
                Some(at) => topics[..=at].rotate_right(1),
                None => {
                    topics.truncate(REMEMBERED - 1);
                    topics.insert(0, topic.clone());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Topic>> {
        self.0.lock().expect("no code panics while it holds the topics")
    }
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

    /// Moves what is due on a group of shards, about `share` jobs. A topic whose keys the script was not given
    /// takes a second call.
    async fn promote_group(&self, mut group: Vec<Shard>, share: usize) -> Result<Promoted> {
        // The shards take turns in being looked at first, so that a full one does not hold up the others. Both
        // calls begin with the same one: what the first could not move, the second comes to.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % group.len();
        group.rotate_left(turn);
        let most = (MOST_KEYS / (2 * group.len())).clamp(1, MOST_TOPICS);
        let mut known = self.due_topics.recent();
        known.truncate(most);
        let (mut promoted, unknown) = self.promote_step(&group, share, &known, most).await?;
        if unknown.is_empty() {
            return Ok(promoted);
        }
        match self.promote_step(&group, share, &unknown, most).await {
            Ok((rest, unknown)) => {
                promoted.moves.extend(rest.moves);
                promoted.set_aside += rest.set_aside;
                promoted.next_in = rest.next_in;
                promoted.more = rest.more || !unknown.is_empty();
                Ok(promoted)
            }
            Err(error) if promoted.moves.is_empty() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a part of what is due could not be moved");
                Ok(Promoted { more: false, next_in: Some(AGAIN), ..promoted })
            }
        }
    }

    /// One run of the script: what came of it, and up to `most` topics of what is due that were not among the
    /// `known`.
    async fn promote_step(
        &self,
        group: &[Shard],
        share: usize,
        known: &[Topic],
        most: usize,
    ) -> Result<(Promoted, Vec<Topic>)> {
        let topics: Vec<&Topic> = known.iter().collect();
        let mut call = self
            .change_group(Op::Promote, group, None, &topics)
            .arg(i64::try_from(share.min(SLICE)).expect("a slice fits an i64"))
            .arg(i64::try_from(most).expect("a few topics fit an i64"))
            .maybe(self.context.options.dead_retention.map(millis));
        for shard in group {
            call = call.arg(self.origin(*shard));
        }
        let mut reply = Reply::new(self.call(self.brief_in_cluster(call)).await?)?;
        let next_in = u64::try_from(reply.int()?).ok().map(Duration::from_micros);
        let mut promoted = Promoted { next_in, more: reply.int()? == 1, ..Promoted::default() };
        let mut unknown = reply.list()?;
        let unknown = (0..unknown.len()).map(|_| unknown.name()).collect::<Result<Vec<Topic>>>()?;
        for shard in group {
            self.take_moves(*shard, reply.list()?, &mut promoted)?;
        }
        Ok((promoted, unknown))
    }

    /// Reads what was moved on one shard, and tells who waits for it.
    fn take_moves(&self, shard: Shard, mut reply: Reply, promoted: &mut Promoted) -> Result<()> {
        let aside = reply.count()?;
        self.set_aside(shard, aside);
        promoted.set_aside += usize::try_from(aside).unwrap_or(usize::MAX);
        let (mut ready, first) = (Vec::new(), promoted.moves.len());
        while !reply.is_empty() {
            let (topic, kind): (Topic, _) = (reply.name()?, kind(reply.int()?)?);
            if reply.int()? == 1 && !ready.contains(&topic) {
                ready.push(topic.clone());
            }
            promoted.moves.push(Move { topic, kind, late: Duration::from_millis(reply.count()?) });
        }
        self.due_topics.note(promoted.moves[first..].iter().map(|moved| &moved.topic));
        ready.iter().for_each(|topic| self.tell_ready(topic, shard));
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_that_were_due_last_are_remembered() {
        let topics: Vec<Topic> =
            (0..REMEMBERED + 2).map(|n| Topic::parse(&n.to_string()).expect("valid")).collect();
        let due = DueTopics::default();
        due.note(topics.iter());
        due.note([&topics[5], &topics[5]].into_iter());
        let recent: Vec<String> = due.recent().iter().map(ToString::to_string).collect();
        assert_eq!(recent, ["5", "9", "8", "7", "6", "4", "3", "2"]);
    }
}
