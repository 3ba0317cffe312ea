//! One round of a pop: reserves from several shards at the same time. If their servers do not answer
//! promptly, adds other shards, so that one server that hangs does not delay the jobs of the others.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, error::SendError};

use super::{
    pop::PopProgress,
    shard_reserve::{SLICE, ShardReserver},
};
use crate::{
    clock::Clock,
    store::{
        Claim, Error, Reservation, Result,
        redis::{
            context::EngineContext,
            coordination::probe::ReadyProbe,
            keys::Shard,
            time::{between, micros},
        },
    },
};

type ShardResult = Result<Vec<Reservation>>;

/// A shard that was asked for jobs, and the claims that they are for.
struct Share {
    shard: Shard,
    claims: Vec<usize>,
}

/// The shards of one round and what they returned.
pub struct ReserveRound<'a> {
    reserver: &'a Arc<ShardReserver>,
    probe: &'a ReadyProbe,
    pop: &'a PopProgress<'a>,
    /// The claims of the jobs that are wanted, by their indices.
    wanted: VecDeque<usize>,
    sender: UnboundedSender<(usize, ShardResult)>,
    results: UnboundedReceiver<(usize, ShardResult)>,
    asked: Vec<Share>,
    granted: Vec<Reservation>,
    answered: usize,
    failure: Option<Error>,
    began_us: i64,
    /// When the round ends even if results are missing.
    end_us: i64,
}

impl<'a> ReserveRound<'a> {
    pub fn new(reserver: &'a Arc<ShardReserver>, probe: &'a ReadyProbe, pop: &'a PopProgress<'a>) -> Self {
        let (sender, results) = mpsc::unbounded_channel();
        let began_us = reserver.shards.context().now_us();
        let end_us = pop.time_left(began_us).map_or(i64::MAX, |left| began_us.saturating_add(micros(left)));
        Self {
            reserver,
            probe,
            pop,
            wanted: pop.wanted(),
            sender,
            results,
            asked: Vec::new(),
            granted: Vec::new(),
            answered: 0,
            failure: None,
            began_us,
            end_us,
        }
    }

    /// Reserves from these shards, from each its share, and from others if they do not answer promptly. Returns the
    /// jobs, sometimes several for one claim, and why there may be more. Reservations that come too late are cancelled:
    /// no client has seen them.
    pub async fn run(mut self, first: &[Shard]) -> (Vec<Reservation>, Result<()>) {
        if self.end_us <= self.began_us {
            return (Vec::new(), Err(took_too_long()));
        }
        self.request_jobs(first);
        let (clock, prompt) = (&self.context().clock.clone(), self.context().options.prompt_timeout);
        let single_primary = self.reserver.shards.router().has_single_primary();
        let mut prompt_us =
            if single_primary { i64::MAX } else { self.began_us.saturating_add(micros(prompt)) };
        let mut probed = false;
        let ready_shards = &self.reserver.notifier.ready_shards;
        let mut recoveries = self.reserver.shards.recoveries();
        while self.answered < self.asked.len() {
            let mut changed = std::pin::pin!(ready_shards.changed());
            changed.as_mut().enable();
            let now_us = clock.now_micros();
            let late = now_us >= prompt_us;
            if late {
                if !self.pop.granted.is_empty() {
                    break;
                }
                let others = self.select_others();
                if !others.is_empty() {
                    self.request_jobs(&others);
                    prompt_us = now_us.saturating_add(micros(prompt));
                } else if !std::mem::replace(&mut probed, true) {
                    self.probe.request(self.pop.outlet);
                }
            }
            tokio::select! {
                biased;
                Some((at, jobs)) = self.results.recv() => {
                    if self.record(at, jobs) {
                        // From now on wait only for shards that are as fast.
                        prompt_us = i64::MAX;
                    }
                }
                () = clock.sleep(between(now_us, self.end_us)), if self.end_us < i64::MAX => break,
                () = clock.sleep(between(now_us, prompt_us)), if !late && prompt_us < i64::MAX => {}
                () = changed, if late => {}
                // A probe that left its server out found none of its jobs.
                Ok(()) = recoveries.changed(), if late => probed = false,
            }
        }
        self.finish()
    }

    fn context(&self) -> &'a EngineContext {
        self.reserver.shards.context()
    }

    /// Shards that may have jobs and have not been asked.
    fn select_others(&self) -> Vec<Shard> {
        let shards = &self.reserver.shards;
        let is_asked = |shard| self.asked.iter().any(|share| share.shard == shard);
        let eligible = |shard: Shard| !is_asked(shard) && !shards.is_unresponsive(shard);
        self.reserver.notifier.ready_shards.select(self.pop.outlet, self.wanted.len(), SLICE, eligible)
    }

    /// Reserves from each shard its share, in a task of its own, which cancels its reservations if the round has ended
    /// meanwhile.
    fn request_jobs(&mut self, shards: &[Shard]) {
        let mut wanted = self.wanted.clone();
        for (at, shard) in shards.iter().copied().enumerate() {
            let share = wanted.len().div_ceil(shards.len() - at).min(SLICE);
            let indices: Vec<usize> = wanted.drain(..share).collect();
            let claims: Vec<Claim> = indices.iter().map(|index| self.pop.claims[*index].clone()).collect();
            let (reserver, outlet) = (self.reserver.clone(), self.pop.outlet.clone());
            let (sender, number) = (self.sender.clone(), self.asked.len());
            self.context().spawn(async move {
                let reserve = reserver.reserve(shard, &outlet, &claims);
                let jobs = reserver.shards.observe(shard, reserve).await;
                if let Err(SendError((_, Ok(unseen)))) = sender.send((number, jobs)) {
                    reserver.canceller.cancel_unseen(&outlet, &unseen).await;
                }
            });
            self.asked.push(Share { shard, claims: indices });
        }
    }

    /// Records the result of one shard; returns whether it has jobs.
    fn record(&mut self, at: usize, result: ShardResult) -> bool {
        self.answered += 1;
        let mut jobs = match result {
            Ok(jobs) => jobs,
            Err(error) => {
                self.failure = self.failure.take().or(Some(error));
                return false;
            }
        };
        if jobs.is_empty() {
            return false;
        }
        jobs.iter_mut().for_each(|job| job.claim = self.asked[at].claims[job.claim]);
        let now_us = self.context().now_us();
        let left = self.pop.time_left_with(&jobs, now_us);
        self.granted.append(&mut jobs);
        // Wait for the others `prompt_timeout`, or as long again as this one took when all are slow.
        let left = left.min(self.context().options.prompt_timeout.max(between(self.began_us, now_us)));
        self.end_us = self.end_us.min(now_us.saturating_add(micros(left)));
        true
    }

    fn finish(mut self) -> (Vec<Reservation>, Result<()>) {
        // From now on tasks keep their results; those that were sent before are still in the channel.
        self.results.close();
        while let Ok((at, jobs)) = self.results.try_recv() {
            self.record(at, jobs);
        }
        let complete = self.answered == self.asked.len();
        let outcome = match self.failure {
            Some(error) => Err(error),
            None if !complete => Err(took_too_long()),
            None => Ok(()),
        };
        (self.granted, outcome)
    }
}

/// The error when a shard takes longer than the TTRs allow.
pub fn took_too_long() -> Error {
    Error::Unavailable("a shard took too long".to_owned())
}
