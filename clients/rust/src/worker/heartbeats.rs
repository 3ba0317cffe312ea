//! The heartbeats of a worker: one task owns them, and one call carries those of many jobs.
//!
//! An attempt asks for its next heartbeat as soon as it knows when that is due, and is told what it brought. The task
//! sends a heartbeat when it is due, and with it each other one of which half the wait is over. So jobs with the same TTR
//! come to one call a beat, whenever they arrived: of two, one is always within half a beat behind the other. A job with
//! a longer TTR goes along with those of a shorter one, at most twice as often as it must.
//!
//! Each result concerns its own job, and each heartbeat has its own limit: a job with a short TTR tries again while others
//! still wait for the answer of the same call. A heartbeat is sent by a call of its own if it is the only one, if the token
//! does not allow it, since such a call reads the token again, and for a while after the server, or a proxy before
//! it, did not take a call for many.
//!
//! Reports of ends have calls of their own: a report is sent when its job ends, and would have to wait for others.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    contact::is_away,
    host::Host,
    lease::HeartbeatTime,
    moment::BootTime,
    session::is_refused,
    shared::{Shared, wait_until},
};
use crate::{
    error::Error,
    model::{BatchItem, ReservedJob},
};

/// Most jobs of one call, as servers take them by default.
const MOST: usize = 1_000;
/// How long heartbeats are sent one by one after a call for many was not taken. The server may be replaced by a newer one.
const SINGLE_FOR: Duration = Duration::from_secs(600);

/// What a heartbeat brought.
#[derive(Debug)]
pub(crate) enum Heartbeat {
    /// It was sent at this moment, and succeeded.
    Renewed(BootTime),
    /// There is no such reservation any more.
    Gone(Error),
    /// It timed out, and no worker has had the job since.
    TimedOut(Error),
    /// Nothing is known.
    Failed,
}

impl Heartbeat {
    /// The only place that reads a refusal of a touch, in an answer of its own or as an item of a batch.
    fn new(answer: Result<(), Error>, sent: BootTime) -> Self {
        match answer {
            Ok(()) => Self::Renewed(sent),
            Err(error) => match error.refusal().filter(|_| !is_away(&error)) {
                Some(refusal) if !matches!(refusal.status, 404 | 409) => Self::Failed,
                Some(refusal) if !refusal.is_retaken => Self::TimedOut(error),
                Some(_) => Self::Gone(error),
                None => Self::Failed,
            },
        }
    }
}

/// A heartbeat that an attempt waits for. It is not sent if the attempt waits no longer.
#[derive(Debug)]
pub(crate) struct Wanted {
    job: Arc<ReservedJob>,
    time: HeartbeatTime,
    /// How long its answer may take.
    limit: Duration,
    /// None once the attempt has its answer.
    answer: Option<oneshot::Sender<Heartbeat>>,
}

impl Wanted {
    pub fn new(
        job: Arc<ReservedJob>,
        time: HeartbeatTime,
        limit: Duration,
    ) -> (Self, oneshot::Receiver<Heartbeat>) {
        let (answer, answered) = oneshot::channel();
        (Self { job, time, limit, answer: Some(answer) }, answered)
    }

    fn is_awaited(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Does nothing if the attempt has its answer, or is over.
    fn answer(&mut self, heartbeat: Heartbeat) {
        self.answer.take().map(|answer| answer.send(heartbeat));
    }
}

/// Takes the heartbeats that are sent now: one that is due, and with it others, the most urgent first. None if none is due.
fn take_due(waiting: &mut Vec<Wanted>, now: BootTime) -> Option<Vec<Wanted>> {
    waiting.retain(Wanted::is_awaited);
    waiting.sort_by_key(|wanted| wanted.time.due);
    waiting.first().filter(|first| first.time.due <= now)?;
    let mut left = MOST;
    let is_taken = |wanted: &mut Wanted| {
        let is_taken = left > 0 && wanted.time.early <= now;
        left -= usize::from(is_taken);
        is_taken
    };
    Some(waiting.extract_if(.., is_taken).collect())
}

/// What a call left: heartbeats to be sent one by one.
#[derive(Debug, Default)]
struct Left {
    alone: Vec<Wanted>,
    /// Whether the call for many was not taken.
    is_refused: bool,
}

/// Sends the heartbeats that attempts ask for. The worker keeps a sender, so that there is always one.
pub(crate) async fn send_heartbeats<H: Host>(
    shared: Arc<Shared<H>>,
    mut asked: mpsc::UnboundedReceiver<Wanted>,
) -> Infallible {
    let (mut waiting, mut calls) = (Vec::new(), JoinSet::new());
    let mut single_until = BootTime::now();
    loop {
        let now = BootTime::now();
        while let Some(group) = take_due(&mut waiting, now) {
            if group.len() > 1 && now >= single_until {
                calls.spawn_local(send_together(shared.clone(), group));
            } else {
                spawn_alone(&mut calls, &shared, group);
            }
        }
        let next = waiting.iter().map(|wanted| wanted.time.due).min();
        tokio::select! {
            biased;
            // All of those that ask at this moment.
            _ = asked.recv_many(&mut waiting, MOST) => {}
            Some(left) = calls.join_next() => {
                let left = left.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                if left.is_refused {
                    single_until = BootTime::now() + SINGLE_FOR;
                }
                spawn_alone(&mut calls, &shared, left.alone);
            }
            () = wait_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

fn spawn_alone<H: Host>(calls: &mut JoinSet<Left>, shared: &Arc<Shared<H>>, group: Vec<Wanted>) {
    for wanted in group.into_iter().filter(Wanted::is_awaited) {
        calls.spawn_local(send_alone(shared.clone(), wanted));
    }
}

/// Sends a heartbeat by a call of its own.
async fn send_alone<H: Host>(shared: Arc<Shared<H>>, mut wanted: Wanted) -> Left {
    let (job, limit) = (wanted.job.clone(), wanted.limit);
    let mut sent = BootTime::now();
    let answer = shared.call("touch", async |client| {
        // Taken before each sending: the token may have been read in between.
        let now = BootTime::now();
        let answer = timeout(limit, client.touch(&job.id, &job.receipt, shared.options.ttr)).await;
        answer.unwrap_or_else(|_| Err(no_answer(limit))).map(|_| now)
    });
    let answer = answer.await.map(|now| sent = now);
    wanted.answer(Heartbeat::new(answer, sent));
    Left::default()
}

/// Sends heartbeats by one call.
async fn send_together<H: Host>(shared: Arc<Shared<H>>, mut group: Vec<Wanted>) -> Left {
    let jobs: Vec<_> = group.iter().map(|wanted| wanted.job.clone()).collect();
    let (began, mut call) = (Instant::now(), pin!(touch(&shared, &jobs)));
    let answer = loop {
        let awaited = group.iter().filter(|wanted| wanted.answer.is_some());
        let Some(limit) = awaited.map(|wanted| wanted.limit).min() else { return Left::default() };
        if let Ok(answer) = timeout_at(began + limit, &mut call).await {
            break answer;
        }
        shared.failed(&no_answer(limit));
        let late = group.iter_mut().filter(|wanted| wanted.limit <= limit);
        late.for_each(|wanted| wanted.answer(Heartbeat::Failed));
    };
    match answer {
        Ok((sent, items)) => {
            let alone = group.into_iter().zip(items).filter_map(|(wanted, item)| read(wanted, item, sent));
            Left { alone: alone.collect(), is_refused: false }
        }
        Err(error) if is_not_taken(&error) => Left { alone: group, is_refused: true },
        Err(_) => {
            group.iter_mut().for_each(|wanted| wanted.answer(Heartbeat::Failed));
            Left::default()
        }
    }
}

/// Answers an attempt by its item. Returns a heartbeat that has to be sent alone.
fn read(mut wanted: Wanted, item: BatchItem, sent: BootTime) -> Option<Wanted> {
    let answer = refusal(item).map_or(Ok(()), Err);
    if answer.as_ref().is_err_and(is_refused) {
        return Some(wanted);
    }
    wanted.answer(Heartbeat::new(answer, sent));
    None
}

/// Calls the server for these jobs. An answer without one item that the server dealt with counts as none, as that to
/// a call for one job would.
async fn touch<H: Host>(
    shared: &Shared<H>,
    jobs: &[Arc<ReservedJob>],
) -> Result<(BootTime, Vec<BatchItem>), Error> {
    let held: Vec<_> = jobs.iter().map(|job| (job.id.as_str(), job.receipt.as_str())).collect();
    let call = shared.call("touch", async |client| {
        let sent = BootTime::now();
        let items = client.touch_batch(&held, shared.options.ttr).await?;
        let mut failures: Vec<_> = items.iter().cloned().filter_map(refusal).filter(is_away).collect();
        match failures.pop() {
            Some(error) if failures.len() + 1 == items.len() => Err(error),
            Some(_) | None => Ok((sent, items)),
        }
    });
    call.await
}

fn refusal(item: BatchItem) -> Option<Error> {
    item.refusal.map(|refusal| Error::Refused { call: "touch", refusal: Box::new(refusal) })
}

/// Whether the server, or a proxy before it, does not take this call for many jobs, and so may take one for each: it is
/// older, its limits are lower, or the path is not let through.
fn is_not_taken(error: &Error) -> bool {
    error.refusal().is_some_and(|refusal| {
        let is_of_token = refusal.is_own() && is_refused(error);
        (400..500).contains(&refusal.status) && !matches!(refusal.status, 408 | 429) && !is_of_token
    })
}

fn no_answer(limit: Duration) -> Error {
    Error::TimedOut { call: "touch", limit, was_sent: true }
}

#[cfg(test)]
mod tests;
