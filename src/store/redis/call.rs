//! Calling a script: its keys and arguments, and trying again with the very same ones until there is
//! an answer or no more time. Every script gives the same effect once when it is run twice.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fred::{
    bytes_utils::Str,
    error::Error as FredError,
    interfaces::{ClientLike, LuaInterface},
    types::{ClusterHash, CustomCommand, Key, Value},
};

use super::{
    Context, Engine, Options, TimeSource,
    announce::Doubt,
    error::Fault,
    keys::Shard,
    lanes::Lane,
    link::Node,
    routes::Routes,
    script::{Op, Scripts},
};
use crate::{
    clock::Clock,
    job::Topic,
    store::{Error, Result},
};

/// First and longest pause before trying again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// How long a call is tried again that must not hold up others: a slot's new holder is found by then.
const BRIEF: Duration = Duration::from_millis(100);

/// A script with all that it is given.
#[derive(Debug)]
pub(super) struct Call {
    op: Op,
    slot: u16,
    keys: Vec<Key>,
    args: Vec<Value>,
    /// Written before a `WAIT`; only changes that are acknowledged have it.
    mark: Option<Key>,
    /// How long it is tried again, if not as long as the options say.
    patience: Option<Duration>,
    /// Which argument says the latest moment at which it may still happen, as changes have it.
    latest_at: Option<usize>,
    /// The shards that it changes.
    changes: Vec<Shard>,
}

/// What it takes to make a call, also before it is known how many shards there are.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub context: &'a Context,
    pub routes: &'a Routes,
    pub scripts: &'a Scripts,
}

/// What came of a call.
pub(super) struct Answer {
    pub value: Value,
    /// Who answered.
    pub node: Arc<Node>,
    /// Whether enough replicas have taken the change.
    durable: bool,
    /// Whether it may be that of a second run.
    again: bool,
}

/// One attempt at a call.
#[derive(Debug)]
pub(super) struct Shot {
    pub hash: Str,
    /// The script's text, when the server has forgotten the script.
    pub text: Option<Str>,
    pub keys: Vec<Key>,
    pub args: Vec<Value>,
    pub mark: Key,
}

impl Call {
    /// A call with keys of one slot.
    pub fn new(op: Op, slot: u16, keys: Vec<Key>, args: Vec<Value>) -> Self {
        Self { op, slot, keys, args, mark: None, patience: None, latest_at: None, changes: Vec::new() }
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
    /// A call that changes a shard, in the form of `lua/shard.lua`. `lane` is for those scripts that
    /// remember their answer.
    pub(super) fn change(&self, op: Op, shard: Shard, lane: Option<&Lane<'_>>, topics: &[&Topic]) -> Call {
        self.change_group(op, &[shard], lane, topics)
    }

    /// A call that changes each shard of a group, at least one, with the keys of one after those of the other.
    pub(super) fn change_group(
        &self,
        op: Op,
        group: &[Shard],
        lane: Option<&Lane<'_>>,
        topics: &[&Topic],
    ) -> Call {
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
    pub(super) fn origin(&self, shard: Shard) -> Value {
        self.origins[usize::from(shard)].clone().into()
    }

    /// The time for a script: ours on a manual clock, else its server's own.
    pub(super) fn now_arg(&self) -> Value {
        match &self.time {
            TimeSource::Server => "".into(),
            TimeSource::Manual(clock) => clock.now_micros().into(),
        }
    }

    /// Calls until there is an answer. A change that is to be acknowledged waits for the replicas.
    pub(super) async fn acked(&self, call: Call) -> Result<Value> {
        match self.call_until(call).await? {
            (value, true) => Ok(value),
            (_, false) => Err(not_durable()),
        }
    }

    /// Calls until there is an answer, without waiting for replicas: for what nobody is told of.
    pub(super) async fn call(&self, call: Call) -> Result<Value> {
        Ok(self.call_until(Call { mark: None, ..call }).await?.0)
    }

    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { context: &self.context, routes: &self.routes, scripts: &self.scripts }
    }

    /// Calls until there is an answer; also tells whether enough replicas have taken the change.
    pub(super) async fn call_until(&self, call: Call) -> Result<(Value, bool)> {
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

impl Caller<'_> {
    /// Calls until there is an answer.
    pub async fn insist(self, call: Call) -> Result<Answer> {
        let real = &self.context.real;
        let patience = call.patience.unwrap_or(self.context.options.retry_for);
        let (start_us, wait) = (real.now_micros(), self.answer_wait(&call));
        let deadline_us = start_us.saturating_add(micros(patience));
        let give_up_us = start_us.saturating_add(micros(patience.max(wait)));
        let (mut pause, mut full_text, mut redirect, mut again) = (PAUSE.0, false, None, false);
        let (mut late, mut alive_until_us) = (false, start_us);
        loop {
            // One attempt is made all the same: what a close has overtaken may have to be given back.
            if again && self.context.closing.is_cancelled() {
                return Err(Error::Unavailable("the store is closed".to_owned()));
            }
            let node = match redirect.take() {
                Some(node) => Some((node, true)),
                None => self.routes.holder(call.slot).map(|node| (node, false)),
            };
            // When its answer is not waited for any more, it must not happen any more either.
            let latest_us = real.now_micros().saturating_add(micros(wait)).min(give_up_us);
            let fault = match node.clone() {
                Some((node, asking)) => match self.shoot(&node, &call, latest_us, full_text, asking).await {
                    Ok((value, durable)) => return Ok(Answer { value, node, durable, again }),
                    Err(error) => {
                        alive_until_us = latest_us;
                        Fault::sort(&error)
                    }
                },
                None => Fault::Passing("no server holds the slot".to_owned()),
            };
            again = true;
            let seen = node.as_ref().map(|(node, _)| node);
            let at_once = match &fault {
                Fault::NoScript => !std::mem::replace(&mut full_text, true),
                Fault::Late => {
                    seen.into_iter().for_each(|node| node.clock.forget());
                    !std::mem::replace(&mut late, true)
                }
                Fault::Ask(server) => {
                    redirect = self.routes.at(server).await.ok();
                    redirect.is_some()
                }
                Fault::Moved | Fault::Passing(_) => {
                    self.recover(call.slot, seen).await;
                    false
                }
                Fault::Demoted(_) => {
                    match seen {
                        Some(node) if self.routes.has_one() => node.reopen(),
                        Some(_) | None => self.recover(call.slot, seen).await,
                    }
                    false
                }
                Fault::Refused(_) | Fault::Full(_) | Fault::Damaged(_) => {
                    return Err(self.give_up(&call, fault, alive_until_us).await);
                }
            };
            if !at_once {
                if real.now_micros().saturating_add(micros(pause)) >= deadline_us {
                    return Err(self.give_up(&call, fault, alive_until_us).await);
                }
                real.sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }

    /// How long one attempt is given to be answered.
    fn answer_wait(self, call: &Call) -> Duration {
        let Options { command_timeout, wait_timeout, wait_replicas, .. } = *self.context.options;
        let waits = call.mark.is_some() && wait_replicas > 0;
        command_timeout + if waits { wait_timeout } else { Duration::ZERO }
    }

    /// The error of a call, once no attempt at it can happen any more: its caller may tell a client, and what
    /// that does next must not be undone.
    async fn give_up(self, call: &Call, fault: Fault, alive_until_us: i64) -> Error {
        let real = &self.context.real;
        if call.latest_at.is_some() && call.patience.is_none() {
            let left_us = alive_until_us.saturating_sub(real.now_micros());
            real.sleep(Duration::from_micros(u64::try_from(left_us).unwrap_or(0))).await;
        }
        fault.into_error()
    }

    /// After an attempt that got lost: the slot may have another holder.
    async fn recover(self, slot: u16, seen: Option<&Arc<Node>>) {
        if let Err(error) = self.routes.look(seen.map(|node| (slot, node))).await {
            tracing::warn!(%error, "cannot find out which server is the primary");
        }
    }

    /// One attempt, which may happen until `latest_us` by our clock.
    async fn shoot(
        self,
        node: &Node,
        call: &Call,
        latest_us: i64,
        full_text: bool,
        asking: bool,
    ) -> std::result::Result<(Value, bool), FredError> {
        let script = self.scripts.get(call.op);
        let (keys, mut args) = (call.keys.clone(), call.args.clone());
        let connection = match node.connection() {
            Ok(connection) => connection,
            Err(away) => {
                // Whoever calls again at once must let those run who open the connection.
                tokio::task::yield_now().await;
                return Err(away);
            }
        };
        if let Some(latest) = call.latest_at.and_then(|at| args.get_mut(at)) {
            let offset_us = node.clock.offset_us(&connection, &self.context.real).await?;
            *latest = latest_us.saturating_add(offset_us).into();
        }
        if let (Some(durable), Some(mark), false) = (&node.durable, &call.mark, asking) {
            let text = full_text.then(|| script.text.clone());
            return durable
                .run(Shot { hash: script.hash.clone(), text, keys, args, mark: mark.clone() })
                .await;
        }
        let client = connection.client();
        let value = if asking {
            // In one pipeline: the permission holds for the next command of the connection.
            let pipeline = client.pipeline();
            let asking = CustomCommand::new_static("ASKING", ClusterHash::Random, false);
            let _: Value = pipeline.custom(asking, Vec::<Value>::new()).await?;
            let (command, args) = in_pipeline(&script.hash, Some(&script.text), keys, args);
            let _: Value = pipeline.custom(command, args).await?;
            connection.call(pipeline.last()).await?
        } else if full_text {
            connection.call(client.eval(script.text.clone(), keys, args)).await?
        } else {
            connection.call(client.evalsha(script.hash.clone(), keys, args)).await?
        };
        // Without the option nothing is asked of replicas; a redirected change does without it, too,
        // and is then honestly not as durable as configured.
        Ok((value, node.durable.is_none() || call.mark.is_none()))
    }
}

/// A script's call as a command for a pipeline, which has no words for scripts of its own.
pub(super) fn in_pipeline(
    hash: &Str,
    text: Option<&Str>,
    keys: Vec<Key>,
    args: Vec<Value>,
) -> (CustomCommand, Vec<Value>) {
    let (name, script) = text.map_or(("EVALSHA", hash), |text| ("EVAL", text));
    let count = i64::try_from(keys.len()).expect("keys fit an i64");
    let mut all = Vec::with_capacity(2 + keys.len() + args.len());
    all.extend([script.clone().into(), count.into()]);
    all.extend(keys.into_iter().map(Value::from));
    all.extend(args);
    (CustomCommand::new_static(name, ClusterHash::Random, false), all)
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn not_durable() -> Error {
    Error::NotDurable("too few replicas took the change in time".to_owned())
}
