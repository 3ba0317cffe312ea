//! Making a call until there is an answer or no more time: with the very same arguments, at the server that holds
//! the slot then. Knows nothing of what calls mean.

use std::{pin::pin, sync::Arc, time::Duration};

use fred::{
    bytes_utils::Str,
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, LuaInterface},
    types::{ClusterHash, CustomCommand, Key, Value},
};

use super::{
    call::{Call, micros},
    error::Fault,
    node::Node,
    router::Routes,
};
use crate::store::redis::{Context, Options, layout, scripts::Scripts};
use crate::{
    clock::Clock,
    store::{Error, Result},
};

/// First and longest pause before trying again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// What it takes to make a call, also before it is known how many shards there are.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    pub context: &'a Context,
    pub routes: &'a Routes,
    pub scripts: &'a Scripts,
}

/// How the next attempt is made.
#[derive(Default)]
struct Next {
    /// With the script's text, which the server has forgotten.
    full_text: bool,
    /// At a server that an `ASK` named.
    redirect: Option<Arc<Node>>,
    /// Whether one attempt came after its latest moment already.
    late: bool,
}

/// What came of a call.
pub struct Answer {
    pub value: Value,
    /// Who answered.
    pub node: Arc<Node>,
    /// Whether enough replicas have taken the change.
    pub durable: bool,
    /// Whether it may be that of a second run.
    pub again: bool,
}

/// One attempt at a call.
#[derive(Debug)]
pub struct Shot {
    pub hash: Str,
    /// The script's text, when the server has forgotten the script.
    pub text: Option<Str>,
    pub keys: Vec<Key>,
    pub args: Vec<Value>,
    pub mark: Key,
}

impl Caller<'_> {
    /// Calls until there is an answer, for as long as the call may be tried again. One attempt is given its
    /// full time even where that is longer.
    pub async fn insist(self, call: Call) -> Result<Answer> {
        if let Some(why) = layout::parted(self.context, call.op) {
            return Err(Error::Unavailable(why));
        }
        let (real, wait) = (&self.context.real, self.answer_wait(&call));
        let patience = call.patience.unwrap_or(self.context.options.retry_for);
        let start_us = call.since_us.unwrap_or_else(|| real.now_micros());
        let deadline_us = start_us.saturating_add(micros(patience));
        let give_up_us = start_us.saturating_add(micros(patience.max(wait)));
        let (mut next, mut pause, mut again) = (Next::default(), PAUSE.0, false);
        let mut alive_until_us = start_us;
        loop {
            // One attempt is made all the same: what a close has overtaken may have to be given back.
            if again && self.context.closing.is_cancelled() {
                return Err(Error::Unavailable("the store is closed".to_owned()));
            }
            let node = self.node(&call, next.redirect.take(), deadline_us).await;
            // When its answer is not waited for any more, it must not happen any more either.
            let latest_us = real.now_micros().saturating_add(micros(wait)).min(give_up_us);
            let fault = match &node {
                Ok((node, asking)) => {
                    // Pinned here: handed on by value it would be stored more than once.
                    let attempt = pin!(self.shoot(node, &call, latest_us, next.full_text, *asking));
                    match self.until(give_up_us, attempt).await {
                        Ok((value, durable)) => {
                            return Ok(Answer { value, node: node.clone(), durable, again });
                        }
                        Err(error) => {
                            let fault = Fault::sort(&error);
                            if matches!(fault, Fault::Passing(_)) {
                                alive_until_us = latest_us;
                            }
                            fault
                        }
                    }
                }
                Err(error) => Fault::sort(error),
            };
            again = true;
            if matches!(fault, Fault::Refused(_) | Fault::Full(_) | Fault::Damaged(_)) {
                return Err(self.give_up(&call, fault, alive_until_us).await);
            }
            let seen = node.as_ref().ok().map(|(node, _)| node);
            if !self.prepare(&fault, call.slot, seen, deadline_us, &mut next).await {
                if real.now_micros().saturating_add(micros(pause)) >= deadline_us {
                    return Err(self.give_up(&call, fault, alive_until_us).await);
                }
                real.sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }

    /// The server for the next attempt, and whether it has to be asked to answer for a slot that it does not
    /// hold yet.
    async fn node(
        self,
        call: &Call,
        redirect: Option<Arc<Node>>,
        end_us: i64,
    ) -> std::result::Result<(Arc<Node>, bool), FredError> {
        let asking = redirect.is_some();
        let node = match redirect {
            Some(node) => node,
            None => self.until(end_us, self.routes.holder(call.slot)).await?,
        };
        if let Err(unfit) = node.standing.check() {
            // Another one may have taken over.
            let _ = self.until(end_us, self.routes.look(Some((call.slot, &node)))).await;
            return Err(unfit);
        }
        Ok((node, asking))
    }

    /// Does what a fault asks for before the next attempt, until a moment of our clock at most; whether that can
    /// be made at once.
    async fn prepare(
        self,
        fault: &Fault,
        slot: u16,
        seen: Option<&Arc<Node>>,
        end_us: i64,
        next: &mut Next,
    ) -> bool {
        match fault {
            Fault::NoScript => !std::mem::replace(&mut next.full_text, true),
            Fault::Late => {
                seen.into_iter().for_each(|node| node.clock.forget());
                !std::mem::replace(&mut next.late, true)
            }
            Fault::Ask(server) => {
                next.redirect = self.until(end_us, self.routes.at(server)).await.ok();
                next.redirect.is_some()
            }
            Fault::Demoted(_) if self.routes.has_one() => {
                seen.into_iter().for_each(|node| node.reopen());
                false
            }
            Fault::Moved | Fault::Passing(_) | Fault::Demoted(_) => {
                self.recover(slot, seen, end_us).await;
                false
            }
            Fault::Refused(_) | Fault::Full(_) | Fault::Damaged(_) => false,
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

    /// Does `work` until this moment of our clock at most.
    async fn until<T>(
        self,
        end_us: i64,
        work: impl Future<Output = std::result::Result<T, FredError>>,
    ) -> std::result::Result<T, FredError> {
        let left_us = end_us.saturating_sub(self.context.real.now_micros());
        let left = Duration::from_micros(u64::try_from(left_us).unwrap_or(0));
        let late = |_| Err(FredError::new(ErrorKind::Timeout, "Request timed out."));
        tokio::time::timeout(left, work).await.unwrap_or_else(late)
    }

    /// After an attempt that got lost: the slot may have another holder.
    async fn recover(self, slot: u16, seen: Option<&Arc<Node>>, end_us: i64) {
        if let Err(error) = self.until(end_us, self.routes.look(seen.map(|node| (slot, node)))).await {
            tracing::debug!(%error, "cannot find out which server is the primary");
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
pub fn in_pipeline(
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
