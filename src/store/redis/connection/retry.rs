//! Calls a script until there is a reply or no more time: with the very same arguments, at the server that holds
//! the slot then. Must not know what a script does.

use std::{pin::pin, sync::Arc, time::Duration};

use fred::{
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, LuaInterface},
    types::{ClusterHash, CustomCommand, Value},
};
use futures_util::future::BoxFuture;

use super::{
    call::ScriptCall, client::ServerConnection, error::CallFault, eval_command::EvalCommand,
    node::ServerNode, replicas::ReplicatedChange, router::Router,
};
use crate::{
    clock::Clock,
    store::{
        Error, Result,
        redis::{
            context::EngineContext,
            options::Options,
            scripts::Scripts,
            time::{between, micros},
        },
    },
};

type FredResult<T> = std::result::Result<T, FredError>;

/// First and longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// Calls scripts.
#[derive(Debug)]
pub struct ScriptClient {
    pub context: EngineContext,
    pub router: Router,
    scripts: Scripts,
}

/// How the next attempt is made.
#[derive(Default)]
struct NextAttempt {
    /// Sends the script's text, because the server does not know its hash.
    with_text: bool,
    /// The server that an `ASK` named.
    redirect: Option<Arc<ServerNode>>,
    /// Whether an attempt arrived after its deadline before.
    was_late: bool,
}

/// The reply to a call.
pub struct ScriptReply {
    pub value: Value,
    /// The server that replied.
    pub node: Arc<ServerNode>,
    /// Whether enough replicas have received the change.
    pub durable: bool,
    /// Whether an earlier attempt may have run, too.
    pub retried: bool,
}

impl ScriptClient {
    /// Loads the scripts at one of the servers.
    pub async fn load(context: EngineContext, router: Router) -> FredResult<Self> {
        let none = || FredError::new(ErrorKind::Cluster, "no server holds a slot");
        let node = router.open_nodes().into_iter().next().ok_or_else(none)?;
        let scripts = Scripts::load(node.connection()?.client()).await?;
        Ok(Self { context, router, scripts })
    }

    /// Calls until there is a reply, for as long as the call may be retried. One attempt gets its
    /// full time even if that is longer. Boxed for the reason of [`ServerConnection::call`].
    ///
    /// [`ServerConnection::call`]: super::client::ServerConnection::call
    pub fn call_with_retry(&self, call: ScriptCall) -> BoxFuture<'_, Result<ScriptReply>> {
        Box::pin(self.retry(call))
    }

    async fn retry(&self, call: ScriptCall) -> Result<ScriptReply> {
        self.check_layout(&call)?;
        let (clock, timeout) = (&self.context.clock, self.reply_timeout(&call));
        let retry_for = call.retry_for.unwrap_or(self.context.options.retry_for);
        let started_us = call.started_us.unwrap_or_else(|| clock.now_micros());
        let retry_until_us = started_us.saturating_add(micros(retry_for));
        let give_up_us = started_us.saturating_add(micros(retry_for.max(timeout)));
        let (mut next, mut pause, mut retried) = (NextAttempt::default(), PAUSE.0, false);
        let (mut effective_until_us, mut last_refusal) = (None, None);
        loop {
            // The first attempt is made even while closing: it may return jobs that were reserved meanwhile.
            if retried && self.context.closing.is_cancelled() {
                return Err(Error::Unavailable("the store is closed".to_owned()));
            }
            let node = self.choose_node(&call, next.redirect.take(), retry_until_us).await;
            // The attempt must not have an effect once this call no longer waits for its reply.
            let deadline_us = clock.now_micros().saturating_add(micros(timeout)).min(give_up_us);
            let fault = match &node {
                Ok((node, asking)) => {
                    // Pinned here: passed by value it would be stored more than once.
                    let attempt = pin!(self.send_once(node, &call, deadline_us, next.with_text, *asking));
                    match self.until(give_up_us, attempt).await {
                        Ok((value, durable)) => {
                            return Ok(ScriptReply { value, node: node.clone(), durable, retried });
                        }
                        Err(fault) => {
                            if matches!(fault, CallFault::Transient(_)) {
                                effective_until_us = Some(deadline_us);
                            }
                            fault
                        }
                    }
                }
                Err(error) => CallFault::classify(error),
            };
            retried = true;
            let cut_off = clock.now_micros() >= give_up_us;
            if matches!(
                fault,
                CallFault::Refused(_)
                    | CallFault::OutOfMemory(_)
                    | CallFault::Emptied
                    | CallFault::OtherStore(_)
                    | CallFault::Damaged(_)
            ) {
                return Err(self.give_up(&call, fault, effective_until_us).await);
            }
            let node = node.as_ref().ok().map(|(node, _)| node);
            if !Box::pin(self.prepare_retry(&fault, call.slot, node, retry_until_us, &mut next)).await {
                if clock.now_micros().saturating_add(micros(pause)) >= retry_until_us {
                    // An attempt that was cut off does not say why the server refused the one before it.
                    let why = last_refusal.filter(|_| cut_off).unwrap_or(fault);
                    return Err(self.give_up(&call, why, effective_until_us).await);
                }
                last_refusal = fault.is_refusal().then_some(fault);
                clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }

    /// Refuses calls to keys of another store, and all calls while another layout is stored, except those that find out.
    fn check_layout(&self, call: &ScriptCall) -> Result<()> {
        let layout = &self.context.layout;
        if call.script.examines_store() {
            return Ok(());
        }
        // One server is emptied or replaced as a whole.
        if layout.any_lost() && (self.router.has_single_primary() || layout.is_lost(call.slot)) {
            return Err(Error::Replaced);
        }
        layout.mismatch().map_or(Ok(()), |why| Err(Error::refused(why)))
    }

    /// The server for the next attempt, and whether to send `ASKING`, because it does not hold the slot yet.
    async fn choose_node(
        &self,
        call: &ScriptCall,
        redirect: Option<Arc<ServerNode>>,
        until_us: i64,
    ) -> FredResult<(Arc<ServerNode>, bool)> {
        let asking = redirect.is_some();
        let node = match redirect {
            Some(node) => node,
            None => self.until(until_us, self.router.node_for_slot(call.slot)).await?,
        };
        if let Err(unfit) = node.fitness.check() {
            // Another server may have become the primary.
            let _ = self.until(until_us, Box::pin(self.router.refresh(Some((call.slot, &node))))).await;
            return Err(unfit);
        }
        Ok((node, asking))
    }

    /// Does what a fault requires before the next attempt, until a moment of our clock at most. Returns whether the
    /// next attempt can be made at once.
    async fn prepare_retry(
        &self,
        fault: &CallFault,
        slot: u16,
        node: Option<&Arc<ServerNode>>,
        until_us: i64,
        next: &mut NextAttempt,
    ) -> bool {
        match fault {
            CallFault::UnknownScript => !std::mem::replace(&mut next.with_text, true),
            CallFault::Late => {
                node.into_iter().for_each(|node| node.clock.reset());
                !std::mem::replace(&mut next.was_late, true)
            }
            CallFault::Ask(server) => {
                next.redirect = self.until(until_us, self.router.node_at(server)).await.ok();
                next.redirect.is_some()
            }
            CallFault::Demoted(_) if self.router.is_standalone() => {
                node.into_iter().for_each(|node| node.reopen());
                false
            }
            CallFault::Moved | CallFault::Transient(_) | CallFault::Demoted(_) => {
                let holder = node.map(|node| (slot, node));
                if let Err(error) = self.until(until_us, self.router.refresh(holder)).await {
                    tracing::debug!(%error, "cannot find the primary");
                }
                false
            }
            CallFault::Refused(_)
            | CallFault::OutOfMemory(_)
            | CallFault::Emptied
            | CallFault::OtherStore(_)
            | CallFault::Damaged(_) => false,
        }
    }

    /// How long to wait for the reply to one attempt.
    fn reply_timeout(&self, call: &ScriptCall) -> Duration {
        let Options { command_timeout, wait_timeout, wait_replicas, .. } = *self.context.options;
        let waits = call.mark.is_some() && wait_replicas > 0;
        command_timeout + if waits { wait_timeout } else { Duration::ZERO }
    }

    /// Returns the error of a call once no attempt at it can have an effect any more: the caller may report it to a
    /// client, and what the client does next must not be undone. An attempt before may have had one if `effective_until_us` says
    /// until when.
    async fn give_up(&self, call: &ScriptCall, fault: CallFault, effective_until_us: Option<i64>) -> Error {
        let Some(effective_until_us) = effective_until_us else { return fault.into_error() };
        if call.deadline_arg.is_some() && call.retry_for.is_none() {
            let clock = &self.context.clock;
            clock.sleep(between(clock.now_micros(), effective_until_us)).await;
        }
        fault.into_error().of_unknown_effect()
    }

    /// Awaits `work` until this moment of our clock at most.
    async fn until<T, E: From<FredError>>(
        &self,
        end_us: i64,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        let left = between(self.context.now_us(), end_us);
        let timed_out = |_| Err(FredError::new(ErrorKind::Timeout, "Request timed out.").into());
        tokio::time::timeout(left, work).await.unwrap_or_else(timed_out)
    }

    /// Makes one attempt, which may have an effect until `deadline_us` of our clock. Returns the reply, and whether
    /// the change is as durable as configured.
    async fn send_once(
        &self,
        node: &ServerNode,
        call: &ScriptCall,
        deadline_us: i64,
        with_text: bool,
        asking: bool,
    ) -> std::result::Result<(Value, bool), CallFault> {
        let script = self.scripts.get(call.script);
        let (keys, mut args) = (call.keys.clone(), call.args.clone());
        let connection = match node.connection() {
            Ok(connection) => connection,
            Err(lost) => {
                // A caller that retries at once must let the tasks run that reopen the connection.
                tokio::task::yield_now().await;
                return Err(lost.into());
            }
        };
        // The connection may have come back to another store since the call began.
        self.check_layout(call).map_err(CallFault::OtherStore)?;
        if let Some(deadline) = call.deadline_arg.and_then(|at| args.get_mut(at)) {
            let offset_us = node.clock.offset_us(&connection, &self.context.clock).await?;
            *deadline = deadline_us.saturating_add(offset_us).into();
        }
        let text = (with_text || asking).then(|| script.text.clone());
        let command = EvalCommand { hash: script.hash.clone(), text, keys, args };
        if let (Some(replicated), Some(mark), false) = (&node.replicated, &call.mark, asking) {
            return Ok(replicated.write(ReplicatedChange { command, mark: mark.clone() }).await?);
        }
        let value = if asking {
            // Boxed, because it is rare and large.
            Box::pin(send_asking(&connection, command)).await?
        } else {
            let client = connection.client();
            let EvalCommand { hash, text, keys, args } = command;
            match text {
                Some(text) => connection.call(client.eval(text, keys, args)).await?,
                None => connection.call(client.evalsha(hash, keys, args)).await?,
            }
        };
        // Without the option no replicas are waited for. A redirected change does not wait either,
        // and is then reported as less durable than configured.
        Ok((value, node.replicated.is_none() || call.mark.is_none()))
    }
}

/// Makes one attempt at a server that does not hold the slot yet.
async fn send_asking(connection: &ServerConnection, command: EvalCommand) -> FredResult<Value> {
    // In one pipeline: `ASKING` applies to the next command of the connection.
    let pipeline = connection.client().pipeline();
    let asking = CustomCommand::new_static("ASKING", ClusterHash::Random, false);
    let _: Value = pipeline.custom(asking, Vec::<Value>::new()).await?;
    let (command, args) = command.into_custom();
    let _: Value = pipeline.custom(command, args).await?;
    connection.call(pipeline.last()).await
}
