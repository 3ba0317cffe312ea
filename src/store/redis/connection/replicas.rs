//! Changes that replicas must have taken before they are acknowledged.
//!
//! A `WAIT` speaks for the writes of its own connection and holds up whatever comes after it there.
//! So such changes go down connections of their own, in groups: all that are waiting, one small
//! write, one `WAIT`. The small write makes the `WAIT` cover also what an earlier try of the same
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
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    node::Link,
    retry::{Shot, in_pipeline},
};
use crate::clock::Clock;
use crate::store::redis::Context;

/// Connections per server: while one waits for the replicas, the next group gathers at another.
const CONNECTIONS: usize = 4;
/// Most changes that share one `WAIT`.
const GROUP_LIMIT: usize = 256;

/// What became of a change: its answer, and whether enough replicas took it.
pub type Outcome = Result<(Value, bool), FredError>;

struct Pending {
    shot: Shot,
    answer: oneshot::Sender<Outcome>,
}

/// The connections to one server that wait for its replicas.
#[derive(Debug)]
pub struct Durable {
    lines: Vec<Line>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Line {
    link: Arc<Link>,
    queue: mpsc::Sender<Pending>,
}

impl Durable {
    /// Opens the connections and starts what serves them.
    pub async fn open(config: Config, context: &Context) -> Result<Self, FredError> {
        let options = &context.options;
        let answer_wait = options.command_timeout + options.wait_timeout;
        let mut lines = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let link = Arc::new(Link::open(config.clone(), context, answer_wait, None).await?);
            let (queue, pending) = mpsc::channel(GROUP_LIMIT);
            context.tasks.spawn(serve(link.clone(), pending, context.clone()));
            lines.push(Line { link, queue });
        }
        Ok(Self { lines, turn: AtomicUsize::new(0) })
    }

    /// Makes a change and waits for the replicas.
    pub async fn run(&self, shot: Shot) -> Outcome {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.lines.len();
        let (later, sooner) = self.lines.split_at(turn);
        // A connection that is away makes the others no slower.
        let open = sooner.iter().chain(later).find(|line| line.link.connection().is_ok());
        let line = open.unwrap_or(&self.lines[turn]);
        let gone = || FredError::new(ErrorKind::Canceled, "the connection is closing");
        let (answer, answered) = oneshot::channel();
        line.queue.send(Pending { shot, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// The connections.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.lines.iter().map(|line| &*line.link)
    }
}

/// Serves one connection: group after group, until the node or the engine is closed.
async fn serve(link: Arc<Link>, mut pending: mpsc::Receiver<Pending>, context: Context) {
    let mut group = Vec::new();
    loop {
        let more = tokio::select! {
            count = pending.recv_many(&mut group, GROUP_LIMIT) => count > 0,
            () = context.closing.cancelled() => false,
        };
        if !more {
            return;
        }
        let start_us = context.real.now_micros();
        let (shots, answers): (Vec<_>, Vec<_>) = group.drain(..).map(|p| (p.shot, p.answer)).unzip();
        let outcomes = run_group(&link, shots, &context).await;
        let took_us = context.real.now_micros().saturating_sub(start_us).unsigned_abs();
        context.metrics.synced(Duration::from_micros(took_us));
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // A caller that went away has its change made all the same.
            let _ = answer.send(outcome);
        }
    }
}

async fn run_group(link: &Link, shots: Vec<Shot>, context: &Context) -> Vec<Outcome> {
    let count = shots.len();
    match send_group(link, shots, context).await {
        Ok(mut results) if results.len() == count + 2 => {
            let replicas = results.pop().map(|answer| answer.map(|value| value.as_i64().unwrap_or(0)));
            results.pop();
            let durable =
                matches!(replicas, Some(Ok(got)) if got >= i64::from(context.options.wait_replicas));
            results.into_iter().map(|result| result.map(|value| (value, durable))).collect()
        }
        Ok(mut results) => {
            let lost = || FredError::new(ErrorKind::IO, "the group was cut off");
            let error = results.pop().and_then(Result::err).unwrap_or_else(lost);
            vec![Err(error); count]
        }
        Err(error) => vec![Err(error); count],
    }
}

async fn send_group(
    link: &Link,
    shots: Vec<Shot>,
    context: &Context,
) -> Result<Vec<Result<Value, FredError>>, FredError> {
    let connection = link.connection()?;
    let pipeline: Pipeline<_> = connection.client().pipeline();
    let mark = shots.last().map(|shot| shot.mark.clone());
    for shot in shots {
        let (command, args) = in_pipeline(&shot.hash, shot.text.as_ref(), shot.keys, shot.args);
        let _: Value = pipeline.custom(command, args).await?;
    }
    if let Some(mark) = mark {
        let _: Value = pipeline.set(mark, 1, None, None, false).await?;
    }
    // As a plain command: the library would take the connection for blocked and stop watching it.
    let wait = CustomCommand::new_static("WAIT", ClusterHash::Random, false);
    let timeout_ms = i64::try_from(context.options.wait_timeout.as_millis()).unwrap_or(i64::MAX);
    let _: Value = pipeline.custom(wait, vec![i64::from(context.options.wait_replicas), timeout_ms]).await?;
    connection.call(all(&pipeline)).await
}

/// The answers to all calls of a pipeline; an error where not all of them came.
async fn all(pipeline: &Pipeline<Client>) -> Result<Vec<Result<Value, FredError>>, FredError> {
    let mut results = pipeline.try_all().await;
    // The library reports the loss of the whole pipeline in place of its first answer.
    match results.pop() {
        Some(Err(error)) if results.is_empty() => Err(error),
        Some(last) => {
            results.push(last);
            Ok(results)
        }
        None => Err(FredError::new(ErrorKind::IO, "the group was cut off")),
    }
}
