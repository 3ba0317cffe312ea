//! Moving what is due: one script looks at every shard that it may touch and moves at once what belongs to
//! the topics that were due before; only what is due in others takes a second call, with their keys.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, atomic::Ordering},
    time::Duration,
};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::{hold::millis, reserve::between};
use crate::store::redis::{
    Engine,
    connection::call::micros,
    keys::Shard,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{
    clock::Clock,
    failure_log::FailureLog,
    job::Topic,
    store::{Error, Move, MoveKind, Promoted, Result},
};

/// The engine looks no further ahead than this: another process may have added something meanwhile,
/// and a process that died has left its jobs to the others.
pub const HORIZON: Duration = Duration::from_secs(1);

/// Most jobs that one run of the script looks at, so that none holds Redis up for long.
const SLICE: usize = 250;

/// How many topics are remembered: each has two keys for every shard, whether it is needed or not.
const REMEMBERED: usize = 8;

/// About how many keys of topics one run is given at most, two for each topic and shard.
const MOST_KEYS: usize = 512;

/// Most topics that one run is given the keys of, however few the shards.
const MOST_TOPICS: usize = 64;

/// When a promotion that failed is tried again.
const REST: Duration = Duration::from_secs(1);

/// When what could not be moved is tried again, where other jobs were moved.
const AGAIN: Duration = Duration::from_millis(100);

/// The topics that were due last, the latest first: likely to be due next.
#[derive(Debug, Default)]
pub struct DueTopics(Mutex<Vec<Topic>>);

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

/// The promotions of a Cluster's shards: each goes at its own pace, so that a server that does not answer
/// holds up what is due on its own shards only.
#[derive(Debug, Default)]
pub struct Promotions {
    state: Mutex<State>,
    log: FailureLog,
}

#[derive(Debug, Default)]
struct State {
    busy: HashSet<Shard>,
    /// When a shard whose promotion failed is tried again, by our clock.
    rest_until_us: HashMap<Shard, i64>,
    /// What came of those that took longer than their callers waited.
    late: Vec<Promoted>,
}

impl Promotions {
    /// Whether a shard's promotion can begin now.
    fn begin(&self, shard: Shard, now_us: i64) -> bool {
        let mut state = self.lock();
        state.rest_until_us.get(&shard).is_none_or(|until_us| now_us >= *until_us) && state.busy.insert(shard)
    }

    fn end(&self, shard: Shard, result: &Result<Promoted>, now_us: i64) {
        let mut state = self.lock();
        state.busy.remove(&shard);
        match result {
            Ok(_) => state.rest_until_us.remove(&shard),
            Err(_) => state.rest_until_us.insert(shard, now_us + micros(REST)),
        };
        drop(state);
        match result {
            Ok(_) => {}
            // A server that is away is told of by those who watch the store.
            Err(error @ Error::Unavailable(_)) => {
                tracing::debug!(%error, shard, "what is due on a shard could not be moved");
            }
            Err(error) => {
                if self.log.failed(now_us) {
                    tracing::warn!(%error, shard, "what is due on a shard could not be moved");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the promotions")
    }
}

impl Engine {
    pub async fn promote_due(self: &Arc<Self>, limit: usize) -> Result<Promoted> {
        let mut groups = self.groups();
        let share = limit.div_ceil(groups.len()).max(1);
        let mut promoted = Promoted { next_in: Some(HORIZON), ..Promoted::default() };
        if groups.len() == 1 {
            let group = groups.pop().unwrap_or_default();
            include(&mut promoted, self.promote_group(group, share).await?);
            return Ok(promoted);
        }
        let late = std::mem::take(&mut self.promotions.lock().late);
        late.into_iter().for_each(|part| include(&mut promoted, part));
        let (answer, answers) = mpsc::unbounded_channel();
        for group in groups {
            if self.promotions.begin(group[0], self.context.real.now_micros()) {
                // Nobody waits for a server that did not answer the last time.
                let answer = (!self.is_unresponsive(group[0])).then(|| answer.clone());
                let promotion = self.clone().promote_aside(group, share, answer);
                self.context.tasks.spawn_on(promotion, &self.context.runtime);
            }
        }
        drop(answer);
        let (mut failed, mut any) = (None, false);
        for part in self.prompt(answers).await {
            match part {
                Ok(part) => {
                    any = true;
                    include(&mut promoted, part);
                }
                Err(error) => failed = Some(error),
            }
        }
        // What is due where it failed waits for the next time; it must not hold up what has been moved.
        match failed {
            Some(error) if !any && promoted.moves.is_empty() => Err(error),
            Some(_) | None => Ok(promoted),
        }
    }

    /// The answers that come promptly, or as soon again as the others did when all are slow.
    async fn prompt(&self, mut answers: UnboundedReceiver<Result<Promoted>>) -> Vec<Result<Promoted>> {
        let real = &self.context.real;
        let (began_us, mut parts) = (real.now_micros(), Vec::new());
        let mut end_us = began_us.saturating_add(micros(self.context.options.prompt_timeout));
        loop {
            let now_us = real.now_micros();
            tokio::select! {
                biased;
                part = answers.recv() => match part {
                    Some(part) => {
                        parts.push(part);
                        end_us = end_us.max(now_us + (now_us - began_us));
                    }
                    None => return parts,
                },
                () = real.sleep(between(now_us, end_us)), if !answers.is_closed() => answers.close(),
            }
        }
    }

    /// Moves what is due on a shard, and answers the caller; when that one has gone on, a later one.
    async fn promote_aside(
        self: Arc<Self>,
        group: Vec<Shard>,
        share: usize,
        answer: Option<UnboundedSender<Result<Promoted>>>,
    ) {
        let shard = group[0];
        let part = self.observed(shard, self.promote_group(group, share)).await;
        self.promotions.end(shard, &part, self.context.real.now_micros());
        let unheard = match answer {
            Some(answer) => answer.send(part).err().map(|unheard| unheard.0),
            None => Some(part),
        };
        if let Some(Ok(part)) = unheard {
            let again = if part.moves.is_empty() && !part.more { part.next_in } else { Some(Duration::ZERO) };
            self.promotions.lock().late.push(part);
            self.listener.due_in(again.unwrap_or(HORIZON));
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

/// Adds what came of a part.
fn include(all: &mut Promoted, part: Promoted) {
    all.moves.extend(part.moves);
    all.more |= part.more;
    all.set_aside += part.set_aside;
    all.next_in = all.next_in.min(part.next_in.or(all.next_in));
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
