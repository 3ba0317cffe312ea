//! Changes that replicas must have received before they are acknowledged.
//!
//! A `WAIT` covers the writes of its own connection and blocks whatever comes after it there. So such
//! changes go through connections of their own, in groups: all pending changes, one small
//! write, one `WAIT`. The small write makes the `WAIT` also cover what an earlier attempt at the same
//! change wrote through another connection. A group is one pipeline, and a pipeline never spans two
//! connections, so the change and its `WAIT` reach the same server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::{Client, Pipeline},
    error::{Error as FredError, ErrorKind},
    interfaces::{ClientLike, KeysInterface},
    types::{ClusterHash, CustomCommand, Key, Value, config::Config},
};
use tokio::sync::{mpsc, oneshot};

use super::{eval_command::EvalCommand, reconnecting::ReconnectingConnection};
use crate::store::redis::context::EngineContext;

/// Connections per server: while one waits for the replicas, the next group collects at another.
const CONNECTIONS: usize = 4;
/// Most changes that share one `WAIT`.
const GROUP_LIMIT: usize = 256;

/// The reply to a change, and whether enough replicas received it.
pub type ReplicatedResult = Result<(Value, bool), FredError>;

/// A change to make.
pub struct ReplicatedChange {
    pub command: EvalCommand,
    /// The key of the small write before the `WAIT`.
    pub mark: Key,
}

struct PendingWrite {
    change: ReplicatedChange,
    reply: oneshot::Sender<ReplicatedResult>,
}

/// The connections to one server that wait for its replicas.
#[derive(Debug)]
pub struct ReplicatedWriter {
    lanes: Vec<WriteLane>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct WriteLane {
    connection: Arc<ReconnectingConnection>,
    queue: mpsc::Sender<PendingWrite>,
}

impl ReplicatedWriter {
    /// Opens the connections and starts their tasks.
    pub async fn open(config: Config, context: &EngineContext) -> Result<Self, FredError> {
        let options = &context.options;
        let reply_timeout = options.command_timeout + options.wait_timeout;
        let mut lanes = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let connection =
                Arc::new(ReconnectingConnection::open(config.clone(), context, reply_timeout, None).await?);
            let (queue, pending) = mpsc::channel(GROUP_LIMIT);
            context.spawn(write_groups(connection.clone(), pending, context.clone()));
            lanes.push(WriteLane { connection, queue });
        }
        Ok(Self { lanes, next: AtomicUsize::new(0) })
    }

    /// Makes a change and waits for the replicas.
    pub async fn write(&self, change: ReplicatedChange) -> ReplicatedResult {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        let (before, from_next) = self.lanes.split_at(next);
        // A lost connection must not slow down the others.
        let open = from_next.iter().chain(before).find(|lane| lane.connection.connection().is_ok());
        let lane = open.unwrap_or(&self.lanes[next]);
        let closing = || FredError::new(ErrorKind::Canceled, "the connection is closing");
        let (reply, replied) = oneshot::channel();
        lane.queue.send(PendingWrite { change, reply }).await.map_err(|_| closing())?;
        replied.await.map_err(|_| closing())?
    }

    pub fn connections(&self) -> impl Iterator<Item = &ReconnectingConnection> {
        self.lanes.iter().map(|lane| &*lane.connection)
    }
}

/// Writes group after group on one connection, until the node or the engine is closed.
async fn write_groups(
    connection: Arc<ReconnectingConnection>,
    mut pending: mpsc::Receiver<PendingWrite>,
    context: EngineContext,
) {
    let mut group = Vec::new();
    loop {
        let more = tokio::select! {
            count = pending.recv_many(&mut group, GROUP_LIMIT) => count > 0,
            () = context.closing.cancelled() => false,
        };
        if !more {
            return;
        }
        let started_us = context.now_us();
        let (changes, replies): (Vec<_>, Vec<_>) = group.drain(..).map(|w| (w.change, w.reply)).unzip();
        let results = write_group(&connection, changes, &context).await;
        if results.iter().any(Result::is_ok) {
            let took_us = context.now_us().saturating_sub(started_us).unsigned_abs();
            context.metrics.synced(Duration::from_micros(took_us));
        }
        for (reply, result) in replies.into_iter().zip(results) {
            // The change was made even if its caller is gone.
            let _ = reply.send(result);
        }
    }
}

async fn write_group(
    connection: &ReconnectingConnection,
    changes: Vec<ReplicatedChange>,
    context: &EngineContext,
) -> Vec<ReplicatedResult> {
    let count = changes.len();
    match send_group(connection, changes, context).await {
        Ok(mut replies) if replies.len() == count + 2 => {
            let replicas = replies.pop().map(|reply| reply.map(|value| value.as_i64().unwrap_or(0)));
            replies.pop();
            let durable =
                matches!(replicas, Some(Ok(count)) if count >= i64::from(context.options.wait_replicas));
            replies.into_iter().map(|reply| reply.map(|value| (value, durable))).collect()
        }
        Ok(mut replies) => {
            let error = replies.pop().and_then(Result::err).unwrap_or_else(cut_off);
            vec![Err(error); count]
        }
        Err(error) => vec![Err(error); count],
    }
}

async fn send_group(
    connection: &ReconnectingConnection,
    changes: Vec<ReplicatedChange>,
    context: &EngineContext,
) -> Result<Vec<Result<Value, FredError>>, FredError> {
    let connection = connection.connection()?;
    let pipeline: Pipeline<_> = connection.client().pipeline();
    let mark = changes.last().map(|change| change.mark.clone());
    for change in changes {
        let (command, args) = change.command.into_custom();
        let _: Value = pipeline.custom(command, args).await?;
    }
    if let Some(mark) = mark {
        let _: Value = pipeline.set(mark, 1, None, None, false).await?;
    }
    // As a plain command: the library would take the connection for blocked and stop watching it.
    let wait = CustomCommand::new_static("WAIT", ClusterHash::Random, false);
    let timeout_ms = i64::try_from(context.options.wait_timeout.as_millis()).unwrap_or(i64::MAX);
    let _: Value = pipeline.custom(wait, vec![i64::from(context.options.wait_replicas), timeout_ms]).await?;
    connection.call(all_replies(&pipeline)).await
}

/// The replies to all calls of a pipeline; an error if some are missing.
async fn all_replies(pipeline: &Pipeline<Client>) -> Result<Vec<Result<Value, FredError>>, FredError> {
    let mut replies = pipeline.try_all().await;
    // The library reports the loss of the whole pipeline in place of its first reply.
    match replies.pop() {
        Some(Err(error)) if replies.is_empty() => Err(error),
        Some(last) => {
            replies.push(last);
            Ok(replies)
        }
        None => Err(cut_off()),
    }
}

fn cut_off() -> FredError {
    FredError::new(ErrorKind::IO, "the group was cut off")
}
