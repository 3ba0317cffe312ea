//! The loop of a worker: pops for as many jobs as places are free, until it drains.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::{JoinSet, LocalSet},
};

use super::{
    contact::{is_away, pause},
    drain::{Cause, Drain, Stop},
    drive::{AttemptEnd, drive},
    heartbeats::{Wanted, send_heartbeats},
    host::{Event, Host},
    moment::BootTime,
    session::is_refused,
    shared::{Shared, WorkerOptions, some, wait_until},
};
use crate::{
    client::Client,
    error::Error,
    model::{PopRequest, ReservedJob},
};

/// What a worker is told while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End: in order the first time, faster with each repeat.
    Stop,
    /// Read the token again.
    ReadToken,
}

/// A pop on its way: when it was sent, and its answer.
type Pop = Pin<Box<dyn Future<Output = (BootTime, Result<Vec<ReservedJob>, Error>)>>>;

/// Works until there is a reason to end, and returns it. The client must send each call once
/// ([`Options::repeat_for`](crate::Options::repeat_for) zero). All of it happens on this thread.
pub async fn work<H: Host>(
    options: WorkerOptions,
    host: Arc<H>,
    client: Client,
    commands: &mut mpsc::Receiver<Command>,
) -> Cause {
    let drain = Drain::new(options.drain, options.limits.kill_after);
    let left = options.max_jobs;
    let shared = Arc::new(Shared::new(options, host, client));
    let (heartbeats, asked) = mpsc::unbounded_channel();
    let beating = send_heartbeats(shared.clone(), asked);
    let mut worker = Worker {
        not_connected: true,
        shared,
        drain,
        heartbeats,
        attempts: JoinSet::new(),
        stop: watch::Sender::new(Stop::No),
        left,
        failures: 0,
        next_pop: BootTime::now(),
        unreported: 0,
    };
    let working = async {
        tokio::select! {
            cause = worker.run(commands) => cause,
            never = beating => match never {},
        }
    };
    LocalSet::new().run_until(working).await
}

struct Worker<H> {
    shared: Arc<Shared<H>>,
    drain: Drain,
    /// Attempts ask here for their heartbeats, at most once at a time.
    heartbeats: mpsc::UnboundedSender<Wanted>,
    attempts: JoinSet<AttemptEnd>,
    stop: watch::Sender<Stop>,
    /// How many jobs it may still take, if that is limited.
    left: Option<usize>,
    /// Whether no pop was answered yet.
    not_connected: bool,
    /// Pops in a row that failed.
    failures: u32,
    next_pop: BootTime,
    unreported: usize,
}

impl<H: Host> Worker<H> {
    async fn run(&mut self, commands: &mut mpsc::Receiver<Command>) -> Cause {
        let mut not_allowed = self.shared.not_allowed();
        let shared = self.shared.clone();
        let mut reading: Option<Pin<Box<dyn Future<Output = ()> + '_>>> = None;
        let mut pop: Option<Pop> = None;
        loop {
            let now = BootTime::now();
            self.give_up_if_away(now);
            let stop = self.drain.stop(now);
            self.stop.send_if_modified(|old| std::mem::replace(old, stop) != stop);
            if let Some(cause) = self.drain.cause() {
                // The connection of a poll is closed, so that the server gives its job to another worker.
                pop = None;
                if self.attempts.is_empty() {
                    return cause.clone();
                }
            } else if pop.is_none() && now >= self.next_pop {
                pop = self.pop();
            }
            let next = self.next_moment(now, pop.is_some());
            tokio::select! {
                biased;
                (sent, answer) = some(&mut pop) => {
                    pop = None;
                    self.popped(sent, answer);
                }
                Some(ended) = self.attempts.join_next() => self.ended(ended.unwrap_or_else(resume_panic)),
                Some(command) = commands.recv() => match command {
                    Command::Stop => self.signal(),
                    Command::ReadToken => reading = Some(Box::pin(shared.session.renew(&*shared.host))),
                },
                () = some(&mut reading) => reading = None,
                Ok(()) = not_allowed.changed() => {
                    let refused = not_allowed.borrow_and_update().clone();
                    refused.into_iter().for_each(|error| self.begin_drain(Cause::NotAllowed(error)));
                }
                () = wait_until(next.unwrap_or(now)), if next.is_some() => {}
            }
        }
    }

    /// When something is to be done because of the time.
    fn next_moment(&self, now: BootTime, is_polling: bool) -> Option<BootTime> {
        let give_up = self.shared.options.give_up;
        let give_up = give_up.and_then(|limit| self.shared.contact().away_for(limit));
        let next_pop = (!is_polling && self.next_pop > now).then_some(self.next_pop);
        let moments = [give_up, next_pop, self.drain.next_step(now)];
        moments.into_iter().flatten().filter(|moment| *moment > now).min()
    }

    fn give_up_if_away(&mut self, now: BootTime) {
        let Some(limit) = self.shared.options.give_up else { return };
        let contact = self.shared.contact();
        let is_over = contact.away_for(limit).is_some_and(|over| over <= now);
        let error = contact.last_error().filter(|_| is_over).cloned();
        drop(contact);
        if self.drain.cause().is_none_or(Cause::is_orderly) {
            error.into_iter().for_each(|error| self.begin_drain(Cause::Away(error)));
        }
    }

    /// Asks for as many jobs as places are free.
    fn pop(&self) -> Option<Pop> {
        let options = &self.shared.options;
        let free = options.parallel.saturating_sub(self.attempts.len());
        let max = self.left.map_or(free, |left| free.min(left));
        // A server that was away is asked for an answer at once, which says that it is back.
        let is_away = self.shared.contact().last_error().is_some();
        let wait = if options.until_empty || is_away { Duration::ZERO } else { options.wait };
        let request = PopRequest { wait, ttr: options.ttr, max, worker: Some(options.name.clone()) };
        let shared = self.shared.clone();
        (max > 0).then(|| -> Pop {
            Box::pin(async move {
                let topics: Vec<&str> = shared.options.topics.iter().map(String::as_str).collect();
                let mut sent = BootTime::now();
                let answer = shared.call("pop", async |client| {
                    let now = BootTime::now();
                    client.pop_batch(&topics, &request).await.map(|jobs| (now, jobs))
                });
                let answer = answer.await.map(|(now, jobs)| {
                    sent = now;
                    jobs
                });
                (sent, answer)
            })
        })
    }

    fn popped(&mut self, sent: BootTime, answer: Result<Vec<ReservedJob>, Error>) {
        match answer {
            Ok(jobs) => {
                (self.failures, self.not_connected) = (0, false);
                if jobs.is_empty() && self.shared.options.until_empty {
                    self.begin_drain(Cause::Empty);
                }
                self.left = self.left.map(|left| left.saturating_sub(jobs.len()));
                for job in jobs {
                    let (heartbeats, stop) = (self.heartbeats.clone(), self.stop.subscribe());
                    let attempt = drive(self.shared.clone(), Arc::new(job), sent, heartbeats, stop);
                    self.attempts.spawn_local(attempt);
                }
                if self.left == Some(0) {
                    self.begin_drain(Cause::Enough);
                }
            }
            Err(error) if is_temporary(&error, self.not_connected) => {
                self.failures += 1;
                self.next_pop = BootTime::now() + pause(self.failures, &error, rand::random());
            }
            // The token was read again in vain, which is known already.
            Err(error) if is_refused(&error) => self.begin_drain(Cause::NotAllowed(error)),
            Err(error) => self.begin_drain(Cause::Refused(error)),
        }
    }

    fn ended(&mut self, ended: AttemptEnd) {
        match ended {
            AttemptEnd::Over => {}
            AttemptEnd::Broken(why) => self.begin_drain(Cause::Broken(why)),
            AttemptEnd::Unreported => {
                self.unreported += 1;
                self.begin_drain(Cause::Unreported(self.unreported));
            }
        }
    }

    fn signal(&mut self) {
        let now = BootTime::now();
        match self.drain.signal(now) {
            1 => self.tell_of_drain(now),
            number => self.shared.host.event(Event::Hurry(number)),
        }
    }

    fn begin_drain(&mut self, cause: Cause) {
        let now = BootTime::now();
        if self.drain.begin(cause, now) {
            self.tell_of_drain(now);
        }
    }

    fn tell_of_drain(&self, now: BootTime) {
        let limit = self.drain.next_step(now).map(|end| now.until(end));
        let cause = self.drain.cause().expect("it has begun");
        self.shared.host.event(Event::Draining { cause, running: self.attempts.len(), limit });
    }
}

/// Whether another pop may succeed where one failed. What would fail in the same way each time is only final before the
/// first answer: a certificate is mended, a proxy comes back.
fn is_temporary(error: &Error, not_connected: bool) -> bool {
    let is_permanent = match error {
        Error::WrongScheme { .. } | Error::Untrusted { .. } => true,
        Error::NotConnected { is_permanent, .. } => *is_permanent,
        Error::Refused { .. }
        | Error::Cut { .. }
        | Error::TimedOut { .. }
        | Error::Foreign { .. }
        | Error::Unreadable { .. } => false,
    };
    is_away(error) && !(is_permanent && not_connected)
}

/// A panic of an attempt is one of the worker.
fn resume_panic(error: tokio::task::JoinError) -> AttemptEnd {
    std::panic::resume_unwind(error.into_panic())
}
