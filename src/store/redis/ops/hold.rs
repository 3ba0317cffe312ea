//! What a holder does with its reservation, and what is done to one job by its id: release, touch,
//! bury, patch, requeue.

use fred::types::Value;

use super::get::{MOVES_LIMIT, code, keeps_moving, scope_arg};
use crate::store::redis::{
    Engine,
    codec::record,
    connection::call::Call,
    keys::Shard,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{
    clock::Clock,
    job::{Delay, Due, Job, JobId, Reason, Receipt, State, Timestamp, Topic, TopicFilter, Ttr},
    store::{Held, NotHeld, Patch, Patched, Release, Requeued, Result},
};

/// What a script of `scripts/reservation.lua`'s kind answered.
enum Answer {
    Done(Job),
    Gone,
    Lost,
    Refused(State),
}

impl Engine {
    pub async fn release_job(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        let delay = release.delay.map(|delay| millis(delay.as_duration()));
        let reason = release.reason.map(|reason| format!("+{}", reason.as_str()));
        let args =
            |call: Call| call.bytes(receipt.as_bytes().to_vec()).maybe(delay.clone()).maybe(reason.clone());
        self.by_holder(Op::Release, scope, id, args).await
    }

    pub async fn touch_job(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        let ttr = ttr.map(|ttr| millis(ttr.as_duration()));
        let args = |call: Call| call.bytes(receipt.as_bytes().to_vec()).maybe(ttr.clone());
        self.by_holder(Op::Touch, scope, id, args).await
    }

    pub async fn bury_job(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        let reason = reason.as_ref().map_or(Reason::BURIED, Reason::as_str);
        let args = |call: Call| call.bytes(receipt.as_bytes().to_vec()).arg(reason);
        self.by_holder(Op::Bury, scope, id, args).await
    }

    async fn by_holder(
        &self,
        op: Op,
        scope: &TopicFilter,
        id: &JobId,
        args: impl Fn(Call) -> Call,
    ) -> Result<Held> {
        match self.on_job(op, scope, id, args).await? {
            Answer::Done(job) => Ok(Ok(job)),
            Answer::Gone => Ok(Err(NotHeld::Gone)),
            Answer::Lost => Ok(Err(NotHeld::Lost)),
            Answer::Refused(_) => Err(unexpected("an outcome for a holder")),
        }
    }

    pub async fn patch_job(&self, scope: &TopicFilter, id: &JobId, patch: Patch) -> Result<Patched> {
        let (kind, due) = match patch.due {
            None => ("", Value::from("")),
            Some(Due::After(delay)) => ("after", millis(delay.as_duration())),
            Some(Due::At(moment)) => ("at", moment.as_millis().into()),
        };
        let ttr = patch.ttr.map(|ttr| millis(ttr.as_duration()));
        let max = patch.max_attempts.map(i64::from);
        let retry = patch.retry.map(|retry| [b"+", &record::steps(&retry)[..]].concat());
        let body = patch.body.map(|body| body.as_bytes().clone());
        let args = |call: Call| {
            let retry = retry.clone().map(bytes::Bytes::from);
            call.arg(kind).arg(due.clone()).maybe(ttr.clone()).maybe(max).maybe(retry).maybe(body.clone())
        };
        match self.on_job(Op::Patch, scope, id, args).await? {
            Answer::Done(job) => Ok(Patched::Done(job)),
            Answer::Gone => Ok(Patched::Gone),
            Answer::Refused(state) => Ok(Patched::Refused(state)),
            Answer::Lost => Err(unexpected("an outcome of a patch")),
        }
    }

    /// Runs a script on one job. It is told no topic at first, which is all that most need; one that needs a
    /// topic's keys says which.
    async fn on_job(
        &self,
        op: Op,
        scope: &TopicFilter,
        id: &JobId,
        args: impl Fn(Call) -> Call,
    ) -> Result<Answer> {
        let (shard, scope) = (self.keys.shard_of(id), scope_arg(scope));
        let since_us = self.context.real.now_micros();
        let mut topic: Option<Topic> = None;
        for _ in 0..MOVES_LIMIT {
            let lane = self.lanes.take(shard);
            let known: Vec<&Topic> = topic.iter().collect();
            let call = self.change(op, shard, Some(&lane), &known).since(since_us).arg(scope.clone());
            let mut reply = Reply::new(self.acked(args(call.arg(id.as_str()))).await?)?;
            return Ok(match reply.int()? {
                code::OK => {
                    let job = self.job(id, &reply.bytes()?)?;
                    let now = Timestamp::from_millis(reply.int()?);
                    if reply.int()? == 1 {
                        self.compaction.ask(shard, &job.topic);
                    }
                    self.tell_changed(&job, now);
                    Answer::Done(job)
                }
                code::GONE => Answer::Gone,
                code::LOST => Answer::Lost,
                code::REFUSED => Answer::Refused(self.state(&mut reply)?),
                code::MOVED => {
                    topic = Some(reply.name()?);
                    continue;
                }
                _ => return Err(unexpected("a known outcome")),
            });
        }
        Err(keeps_moving())
    }

    fn state(&self, reply: &mut Reply) -> Result<State> {
        let code = u8::try_from(reply.int()?).ok();
        code.and_then(record::state).ok_or_else(|| unexpected("a state"))
    }

    /// Tells the listener what a job's new state makes possible.
    pub fn tell_changed(&self, job: &Job, now: Timestamp) {
        match job.state {
            State::Ready => self.tell_ready(&job.topic, self.keys.shard_of(&job.id)),
            State::Delayed => self.listener.due_in(job.due_at.since(now)),
            State::Reserved => {
                self.listener.due_in(job.reserved_until.map_or_else(Default::default, |t| t.since(now)))
            }
            State::Dead => {
                if let Some(retention) = self.context.options.dead_retention {
                    self.listener.due_in(retention);
                }
            }
        }
    }

    pub async fn requeue_job(&self, scope: &TopicFilter, id: &JobId, delay: Delay) -> Result<Requeued> {
        let (shard, since_us) = (self.keys.shard_of(id), self.context.real.now_micros());
        let mut topic: Option<Topic> = None;
        for _ in 0..MOVES_LIMIT {
            let ids = std::slice::from_ref(id);
            let mut reply = self.requeue_in(since_us, scope, topic.as_ref(), delay, ids, true).await?;
            return match reply.int()? {
                code::OK => {
                    // Gone already when a second run looked.
                    let Some(raw) = reply.value()?.into_bytes() else { return Ok(Requeued::Gone) };
                    let job = self.job(id, &raw)?;
                    self.tell_requeued(&job.topic, shard, delay);
                    Ok(Requeued::Done(job))
                }
                code::GONE => Ok(Requeued::Gone),
                code::REFUSED => Ok(Requeued::NotDead(self.state(&mut reply)?)),
                code::MOVED => {
                    topic = Some(reply.name()?);
                    continue;
                }
                _ => Err(unexpected("a known outcome")),
            };
        }
        Err(keeps_moving())
    }

    /// Tells the listener of jobs that wait again after `delay`.
    pub fn tell_requeued(&self, topic: &Topic, shard: Shard, delay: Delay) {
        if delay.as_duration().is_zero() {
            self.tell_ready(topic, shard);
        } else {
            self.listener.due_in(delay.as_duration());
        }
    }

    /// Requeues dead jobs of one shard, at least one, of the topic given: for each a code, and what it means. The
    /// caller has waited since `since_us`.
    pub async fn requeue_in(
        &self,
        since_us: i64,
        scope: &TopicFilter,
        topic: Option<&Topic>,
        delay: Delay,
        ids: &[JobId],
        show: bool,
    ) -> Result<Reply> {
        let shard = self.keys.shard_of(&ids[0]);
        let lane = self.lanes.take(shard);
        let known: Vec<&Topic> = topic.into_iter().collect();
        let call = self.change(Op::Requeue, shard, Some(&lane), &known).since(since_us);
        let mut call = call.arg(scope_arg(scope)).arg(millis(delay.as_duration())).maybe(show.then_some("1"));
        for id in ids {
            call = call.arg(id.as_str());
        }
        Reply::new(self.acked(call).await?)
    }
}

/// Whole milliseconds as an argument.
pub fn millis(duration: std::time::Duration) -> Value {
    i64::try_from(duration.as_millis()).expect("durations are at most ten years").into()
}
