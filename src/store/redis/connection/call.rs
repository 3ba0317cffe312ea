//! What a script is called with: its keys and arguments. Every script gives the same effect once when it is run
//! twice, so that `retry.rs` may.

use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use super::retry::{Answer, Caller};
use crate::store::redis::{
    Engine, TimeSource,
    coordination::{announcements::Doubt, replay_slots::Lane},
    keys::Shard,
    scripts::Op,
};
use crate::{
    job::Topic,
    store::{Error, Result},
};

/// How long a call is tried again that must not hold up others: a slot's new holder is found by then.
const BRIEF: Duration = Duration::from_millis(100);

/// A script with all that it is given.
#[derive(Debug)]
pub struct Call {
    pub op: Op,
    pub slot: u16,
    pub keys: Vec<Key>,
    pub args: Vec<Value>,
    /// Written before a `WAIT`; only changes that are acknowledged have it.
    pub mark: Option<Key>,
    /// How long it is tried again, if not as long as the options say.
    pub patience: Option<Duration>,
    /// Which argument says the latest moment at which it may still happen, as changes have it.
    pub latest_at: Option<usize>,
    /// Since when its caller has been waiting, by our clock, if not since the call is made.
    pub since_us: Option<i64>,
    /// The shards that it changes.
    changes: Vec<Shard>,
}

impl Call {
    /// A call with keys of one slot.
    pub fn new(op: Op, slot: u16, keys: Vec<Key>, args: Vec<Value>) -> Self {
        Self {
            op,
            slot,
            keys,
            args,
            mark: None,
            patience: None,
            latest_at: None,
            since_us: None,
            changes: Vec::new(),
        }
    }

    /// Makes it a change that waits for replicas, covered by writing `mark`.
    #[must_use]
    pub fn marked(self, mark: Key) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// Makes it fail at the first fault.
    #[must_use]
    pub fn once(self) -> Self {
        Self { patience: Some(Duration::ZERO), ..self }
    }

    /// Makes it fail soon, for callers that have other shards to turn to.
    #[must_use]
    pub fn brief(self) -> Self {
        Self { patience: Some(BRIEF), ..self }
    }

    /// One more argument, for the latest moment at which it may still happen.
    #[must_use]
    pub fn dated(self) -> Self {
        Self { latest_at: Some(self.args.len()), ..self }.arg("")
    }

    /// Counts the time that its caller has waited already.
    #[must_use]
    pub fn since(self, since_us: i64) -> Self {
        Self { since_us: Some(since_us), ..self }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<Value>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// An argument that may be left out; scripts read `''` for that.
    #[must_use]
    pub fn maybe(self, arg: Option<impl Into<Value>>) -> Self {
        match arg {
            Some(arg) => self.arg(arg),
            None => self.arg(""),
        }
    }

    /// One more argument of bytes.
    #[must_use]
    pub fn bytes(self, arg: impl Into<Bytes>) -> Self {
        let arg: Bytes = arg.into();
        self.arg(arg)
    }
}

impl Engine {
    /// A call that changes a shard, in the form of `scripts/shard.lua`. `lane` is for those scripts that
    /// remember their answer.
    pub fn change(&self, op: Op, shard: Shard, lane: Option<&Lane<'_>>, topics: &[&Topic]) -> Call {
        self.change_group(op, &[shard], lane, topics)
    }

    /// A call that changes each shard of a group, at least one, with the keys of one after those of the other.
    pub fn change_group(&self, op: Op, group: &[Shard], lane: Option<&Lane<'_>>, topics: &[&Topic]) -> Call {
        let mut all = Vec::with_capacity(group.len() * (6 + 2 * topics.len()));
        for shard in group {
            let keys = self.keys.shard(*shard);
            let own = [&keys.pool, &keys.bucket, &keys.counts, &keys.lanes, &keys.graves, &keys.broken];
            all.extend(own.map(Key::clone));
            all.extend(topics.iter().flat_map(|topic| [keys.ready(topic), keys.dead(topic)]));
        }
        let mut args: Vec<Value> = Vec::with_capacity(12 + topics.len());
        args.push(self.now_arg());
        let latest_at = Some(args.len());
        args.push("".into());
        args.push(self.keys.ready_channel.clone().into());
        args.push(self.origin(group[0]));
        match lane {
            Some(lane) => args.extend([lane.field().into(), lane.sequence().into()]),
            None => args.extend(["".into(), 0.into()]),
        }
        args.push(i64::try_from(topics.len()).expect("topics fit an i64").into());
        args.extend(topics.iter().map(|topic| Value::from(topic.as_str())));
        let first = self.keys.shard(group[0]);
        let changes = group.to_vec();
        Call { mark: Some(first.mark.clone()), latest_at, changes, ..Call::new(op, first.slot, all, args) }
    }

    /// How this process signs what it announces of a shard.
    pub fn origin(&self, shard: Shard) -> Value {
        self.origins[usize::from(shard)].clone().into()
    }

    /// The time for a script: ours on a manual clock, else its server's own.
    pub fn now_arg(&self) -> Value {
        match &self.time {
            TimeSource::Server => "".into(),
            TimeSource::Manual(clock) => clock.now_micros().into(),
        }
    }

    /// Calls until there is an answer. A change that is to be acknowledged waits for the replicas.
    pub async fn acked(&self, call: Call) -> Result<Value> {
        match self.call_until(call).await? {
            (value, true) => Ok(value),
            (_, false) => Err(not_durable()),
        }
    }

    /// Calls until there is an answer, without waiting for replicas: for what nobody is told of.
    pub async fn call(&self, call: Call) -> Result<Value> {
        Ok(self.call_until(Call { mark: None, ..call }).await?.0)
    }

    pub fn caller(&self) -> Caller<'_> {
        Caller { context: &self.context, routes: &self.routes, scripts: &self.scripts }
    }

    /// Calls until there is an answer; also tells whether enough replicas have taken the change.
    pub async fn call_until(&self, call: Call) -> Result<(Value, bool)> {
        let doubts: Vec<Doubt<'_>> =
            call.changes.iter().map(|shard| self.announcements.begin(*shard)).collect();
        let Answer { value, durable, again, .. } = self.caller().insist(call).await?;
        // The answer of a second run need not tell all that the first one did, and one that is not
        // durable never reaches those who would tell.
        if !again && durable {
            doubts.into_iter().for_each(Doubt::settle);
        }
        Ok((value, durable))
    }
}

pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub fn not_durable() -> Error {
    Error::NotDurable("too few replicas took the change in time".to_owned())
}
