//! Promoting due jobs: one script goes through every shard that it may use and moves the due jobs of
//! the outlets that were due recently; only due jobs of other outlets need a second call, with their keys.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::{promotions::Promotions, server_clocks::ServerClocks};
use crate::{
    clock::Clock,
    job::Outlet,
    store::{
        Move, MoveKind, Promoted, Result,
        redis::{
            coordination::{compaction::Compaction, notifier::Notifier, shards::Shards},
            keys::Shard,
            reply::{Reply, unexpected},
            scripts::Script,
            time::{between, micros, millis_arg},
        },
    },
};

/// The engine plans no further ahead than this: another process may have added a job meanwhile,
/// and a process that died has left its jobs to the others.
const HORIZON: Duration = Duration::from_secs(1);

/// Most jobs that one run of the script checks, so that none blocks Redis for long.
const SLICE: usize = 250;

/// How many outlets are remembered: each adds two keys for every shard to a call, whether they are needed or not.
const RECENT_OUTLETS: usize = 8;

/// About how many keys of outlets one call has at most, two for each topic and shard.
const KEYS_LIMIT: usize = 512;

/// Most outlets whose keys one call has, however few the shards.
const OUTLETS_LIMIT: usize = 64;

/// Time until a failed second call is retried.
const RETRY_IN: Duration = Duration::from_millis(100);

/// What the script says of a list with many stale entries, in place of a move.
const LIST_TO_COMPACT: i64 = 0;
/// The move that is followed by the id of the job.
const EXPIRED_AND_DELETED: i64 = 6;

/// Promotes due jobs.
pub struct Promoter {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    compaction: Arc<Compaction>,
    recent_outlets: RecentOutlets,
    promotions: Promotions,
    clocks: ServerClocks,
    /// Counts calls, so that the shards of a group take turns in being first.
    calls: AtomicUsize,
}

impl Promoter {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, compaction: Arc<Compaction>) -> Arc<Self> {
        let (recent_outlets, promotions) = (RecentOutlets::default(), Promotions::default());
        Arc::new(Self {
            shards,
            notifier,
            compaction,
            recent_outlets,
            promotions,
            clocks: ServerClocks::default(),
            calls: AtomicUsize::new(0),
        })
    }

    pub async fn promote(self: &Arc<Self>, limit: usize) -> Result<Promoted> {
        let mut groups = self.shards.groups();
        let share = limit.div_ceil(groups.len()).max(1);
        let mut promoted = Promoted { next_in: Some(HORIZON), ..Promoted::default() };
        if groups.len() == 1 {
            let group = groups.pop().unwrap_or_default();
            merge(&mut promoted, self.promote_group(group, share).await?);
            return Ok(promoted);
        }
        self.promotions.take_late().into_iter().for_each(|part| merge(&mut promoted, part));
        let (sender, results) = mpsc::unbounded_channel();
        let context = self.shards.context();
        for group in groups {
            if self.promotions.begin(group[0], context.now_us()) {
                // Do not wait for a server that did not reply to the last call.
                let sender = (!self.shards.is_unresponsive(group[0])).then(|| sender.clone());
                context.spawn(self.clone().promote_in_background(group, share, sender));
            }
        }
        drop(sender);
        let (mut failure, mut any_succeeded) = (None, false);
        for part in self.prompt_results(results).await {
            match part {
                Ok(part) => {
                    any_succeeded = true;
                    merge(&mut promoted, part);
                }
                Err(error) => failure = Some(error),
            }
        }
        // Due jobs on shards that failed wait for the next call; they must not hide the jobs that were moved.
        match failure {
            Some(error) if !any_succeeded && promoted.moves.is_empty() => Err(error),
            Some(_) | None => Ok(promoted),
        }
    }

    /// The results that arrive promptly: within `prompt_timeout`, or after at most twice the time that the last one
    /// took when all are slow.
    async fn prompt_results(
        &self,
        mut results: UnboundedReceiver<Result<Promoted>>,
    ) -> Vec<Result<Promoted>> {
        let context = self.shards.context();
        let (began_us, mut parts) = (context.now_us(), Vec::new());
        let mut end_us = began_us.saturating_add(micros(context.options.prompt_timeout));
        loop {
            let now_us = context.now_us();
            tokio::select! {
                biased;
                part = results.recv() => match part {
                    Some(part) => {
                        parts.push(part);
                        end_us = end_us.max(now_us + (now_us - began_us));
                    }
                    None => return parts,
                },
                () = context.clock.sleep(between(now_us, end_us)), if !results.is_closed() => results.close(),
            }
        }
    }

    /// Promotes on a group of shards, and sends the result to the caller, or keeps it for a later one if the caller no
    /// longer waits.
    async fn promote_in_background(
        self: Arc<Self>,
        group: Vec<Shard>,
        share: usize,
        sender: Option<UnboundedSender<Result<Promoted>>>,
    ) {
        let shard = group[0];
        let part = self.shards.observe(shard, self.promote_group(group, share)).await;
        self.promotions.end(shard, &part, self.shards.context().now_us());
        let unsent = match sender {
            Some(sender) => sender.send(part).err().map(|unsent| unsent.0),
            None => Some(part),
        };
        if let Some(Ok(part)) = unsent {
            let next_in =
                if part.moves.is_empty() && !part.more { part.next_in } else { Some(Duration::ZERO) };
            self.promotions.add_late(part);
            self.notifier.due_in(next_in.unwrap_or(HORIZON));
        }
    }

    /// Promotes about `share` jobs on a group of shards. Due jobs of outlets whose keys the first call does not have
    /// take a second call.
    async fn promote_group(&self, mut group: Vec<Shard>, share: usize) -> Result<Promoted> {
        // The shards take turns in being first, so that one with many due jobs does not delay the others. Both
        // calls begin with the same shard: the second continues where the first could not.
        let first = self.calls.fetch_add(1, Ordering::Relaxed) % group.len();
        group.rotate_left(first);
        let outlets_limit = (KEYS_LIMIT / (2 * group.len())).clamp(1, OUTLETS_LIMIT);
        let mut known = self.recent_outlets.get();
        known.truncate(outlets_limit);
        let (mut promoted, unknown) = self.call(&group, share, &known, outlets_limit).await?;
        if unknown.is_empty() {
            return Ok(promoted);
        }
        match self.call(&group, share, &unknown, outlets_limit).await {
            Ok((rest, unknown)) => {
                promoted.moves.extend(rest.moves);
                promoted.set_aside += rest.set_aside;
                promoted.next_in = rest.next_in;
                promoted.more = rest.more || !unknown.is_empty();
                Ok(promoted)
            }
            Err(error) if promoted.moves.is_empty() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "cannot promote some of the due jobs");
                Ok(Promoted { more: false, next_in: Some(RETRY_IN), ..promoted })
            }
        }
    }

    /// Runs the script once. Returns what it moved, and up to `outlets_limit` outlets of due jobs that are not among the
    /// `known` ones.
    async fn call(
        &self,
        group: &[Shard],
        share: usize,
        known: &[Outlet],
        outlets_limit: usize,
    ) -> Result<(Promoted, Vec<Outlet>)> {
        let outlets: Vec<&Outlet> = known.iter().collect();
        let context = self.shards.context();
        let retention = context.options.dead_retention;
        let mut call = self
            .shards
            .change_group(Script::Promote, group, None, &outlets)
            .arg(i64::try_from(share.min(SLICE)).expect("a slice fits an i64"))
            .arg(i64::try_from(outlets_limit).expect("a few outlets fit an i64"))
            .optional_arg(retention.map(millis_arg))
            .optional_arg(self.clocks.latest(group, context.now_us()));
        for shard in group {
            call = call.arg(self.shards.origin(*shard));
        }
        let mut reply = Reply::new(self.shards.call(self.shards.short_retry_in_cluster(call)).await?)?;
        let next_in = u64::try_from(reply.int()?).ok().map(Duration::from_micros);
        let mut promoted = Promoted { next_in, more: reply.int()? == 1, ..Promoted::default() };
        let mut unknown = reply.list()?;
        let unknown = (0..unknown.len()).map(|_| unknown.name()).collect::<Result<Vec<Outlet>>>()?;
        self.clocks.saw(group, reply.int()?, context.now_us());
        for shard in group {
            self.handle_moves(*shard, reply.list()?, &mut promoted)?;
        }
        Ok((promoted, unknown))
    }

    /// Reads the moves on one shard, and notifies the listener.
    fn handle_moves(&self, shard: Shard, mut reply: Reply, promoted: &mut Promoted) -> Result<()> {
        let set_aside = reply.count()?;
        self.shards.report_set_aside(shard, set_aside);
        promoted.set_aside += usize::try_from(set_aside).unwrap_or(usize::MAX);
        let (mut ready, mut moved) = (Vec::new(), Vec::with_capacity(reply.len() / 4));
        while !reply.is_empty() {
            let (outlet, code): (Outlet, _) = (reply.name()?, reply.int()?);
            let is_ready = reply.int()? == 1;
            if is_ready && !ready.contains(&outlet) {
                ready.push(outlet.clone());
            }
            let late = Duration::from_millis(reply.count()?);
            if code == LIST_TO_COMPACT {
                self.compaction.request(shard, &outlet);
                continue;
            }
            let deleted = if code == EXPIRED_AND_DELETED { Some(reply.name()?) } else { None };
            promoted.moves.push(Move {
                topic: outlet.topic.clone(),
                kind: decode_kind(code)?,
                late,
                is_ready,
                deleted,
            });
            moved.push(outlet);
        }
        self.recent_outlets.record(moved.iter());
        ready.iter().for_each(|outlet| self.notifier.ready_on(outlet, shard));
        Ok(())
    }
}

/// Adds the result of some shards to that of all.
fn merge(all: &mut Promoted, part: Promoted) {
    all.moves.extend(part.moves);
    all.more |= part.more;
    all.set_aside += part.set_aside;
    all.next_in = all.next_in.min(part.next_in.or(all.next_in));
}

fn decode_kind(code: i64) -> Result<MoveKind> {
    match code {
        1 => Ok(MoveKind::Ready),
        2 => Ok(MoveKind::TimedOut),
        3 => Ok(MoveKind::Died),
        4 => Ok(MoveKind::Forgotten),
        5 | EXPIRED_AND_DELETED => Ok(MoveKind::Expired),
        _ => Err(unexpected("a kind of move")),
    }
}

/// The outlets that were due last, the latest first: they are likely to be due next.
#[derive(Debug, Default)]
struct RecentOutlets(Mutex<Vec<Outlet>>);

impl RecentOutlets {
    fn get(&self) -> Vec<Outlet> {
        self.lock().clone()
    }

    fn record<'a>(&self, due: impl Iterator<Item = &'a Outlet>) {
        let mut outlets = self.lock();
        for outlet in due {
            match outlets.iter().position(|known| known == outlet) {
                Some(at) => outlets[..=at].rotate_right(1),
                None => {
                    outlets.truncate(RECENT_OUTLETS - 1);
                    outlets.insert(0, outlet.clone());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Outlet>> {
        self.0.lock().expect("no code panics while it holds the outlets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_that_were_due_last_are_remembered() {
        let outlets: Vec<Outlet> =
            (0..RECENT_OUTLETS + 2).map(|n| Outlet::parse(&n.to_string()).expect("valid")).collect();
        let recent = RecentOutlets::default();
        recent.record(outlets.iter());
        recent.record([&outlets[5], &outlets[5]].into_iter());
        let names: Vec<String> = recent.get().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["5", "9", "8", "7", "6", "4", "3", "2"]);
    }
}
