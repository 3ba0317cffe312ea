//! One attempt of a job, from its delivery to what is reported of it: decides what happens when. Pure: the time is
//! given, and its driver sends the calls and runs the job.

use std::time::Duration;

use super::{
    drain::Stop,
    lease::{HeartbeatTime, Lease},
    moment::BootTime,
    outcome::{Ended, Report, Verdict, reason},
};

/// What the worker does with a running job whose lease is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLost {
    /// It is ended, before another worker can have the job.
    #[default]
    Kill,
    /// It runs to its end, which is then reported if the server still takes it.
    Keep,
}

/// How long a job may run, and how it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run.
    pub timeout: Duration,
    /// How long after it was asked to end it is killed.
    pub kill_after: Duration,
    /// What the worker does with it if its lease is lost.
    pub on_lost: OnLost,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start the job.
    Start,
    /// Do not start it any more.
    Skip,
    /// Have a heartbeat sent at this time instead of any other one, and tell the attempt what it brought.
    AskForHeartbeat(HeartbeatTime),
    /// Ask the job to end.
    Terminate,
    /// Kill it.
    Kill,
    /// Wait for it no longer.
    Abandon,
    /// Wait for what happens until this moment.
    Wait(BootTime),
}

/// Why a job was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Lost,
    Timeout,
    /// The worker ends.
    Drain,
}

#[derive(Debug)]
struct Ending {
    cause: Cause,
    kill_at: BootTime,
    is_terminated: bool,
    is_killed: bool,
}

/// What is known of the reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reservation {
    Good,
    /// The server says that it timed out, and that no worker has had the job since: a finish still counts.
    TimedOut,
    /// No heartbeat got through in time. The reservation may still be there.
    Late,
    /// The server says that there is none.
    Gone,
    /// The server says that a newer version of the job waits until it ends.
    Replaced,
}

/// An attempt of a job.
#[derive(Debug)]
pub(crate) struct Attempt {
    lease: Lease,
    limits: Limits,
    reservation: Reservation,
    /// When its reservation has certainly ended if no heartbeat gets through before it starts.
    stale: BootTime,
    started: Option<BootTime>,
    /// When the next heartbeat is sent; none once it is asked for.
    heartbeat: Option<HeartbeatTime>,
    /// When a heartbeat was asked for because the lease was over already: the process was stopped meanwhile.
    asked_late: Option<BootTime>,
    ending: Option<Ending>,
    is_abandoned: bool,
}

impl Attempt {
    /// A job that arrived at `now` with the answer to a call sent at `sent`.
    pub fn new(length: Duration, sent: BootTime, now: BootTime, limits: Limits) -> Self {
        let lease = Lease::new(length, sent);
        let heartbeat = Some(lease.heartbeat());
        Self {
            lease,
            limits,
            reservation: Reservation::Good,
            stale: now + length,
            started: None,
            heartbeat,
            asked_late: None,
            ending: None,
            is_abandoned: false,
        }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What to do at `now`. Each step is returned once; a wait ends with whatever happens.
    pub fn next(&mut self, now: BootTime) -> Step {
        if self.is_abandoned {
            return Step::Abandon;
        }
        match self.started {
            None => self.before_start(now),
            Some(started) => self.while_running(started, now),
        }
    }

    /// The answer to a long poll may be old when it is read, for example because this process was stopped. If a
    /// heartbeat is due already, it is sent first.
    fn before_start(&mut self, now: BootTime) -> Step {
        if now >= self.stale && self.reservation == Reservation::Good {
            self.reservation = Reservation::Late;
        }
        if self.reservation != Reservation::Good || self.ending.is_some() {
            return Step::Skip;
        }
        if now < self.lease.heartbeat().due {
            self.started = Some(now);
            return Step::Start;
        }
        self.heartbeat.take().map_or(Step::Wait(self.stale), Step::AskForHeartbeat)
    }

    fn while_running(&mut self, started: BootTime, now: BootTime) -> Step {
        let timed_out = started + self.limits.timeout;
        self.ask_if_over(now);
        if self.lost_at().is_some_and(|lost| now >= lost) {
            self.lose(Reservation::Late, now);
        }
        if now >= timed_out {
            self.end(Cause::Timeout, now + self.limits.kill_after);
        }
        if let Some(ending) = &mut self.ending {
            if !ending.is_terminated {
                ending.is_terminated = true;
                return Step::Terminate;
            }
            if !ending.is_killed && now >= ending.kill_at {
                ending.is_killed = true;
                return Step::Kill;
            }
        }
        if self.is_worth_a_heartbeat()
            && let Some(time) = self.heartbeat.take()
        {
            return Step::AskForHeartbeat(time);
        }
        let next = match &self.ending {
            None => Some(timed_out),
            Some(ending) => (!ending.is_killed).then_some(ending.kill_at),
        };
        // After all of these there is nothing left but its end.
        let forever = now + Duration::from_secs(3_600);
        Step::Wait([self.lost_at(), next].into_iter().flatten().min().unwrap_or(forever))
    }

    /// Asks the server first if the process was stopped beyond the end of the lease: it is too late to end the job in time, and the
    /// server knows whether another worker has it. A heartbeat that was asked for before may be unsent, or its answer lost.
    fn ask_if_over(&mut self, now: BootTime) {
        let is_over = self.reservation == Reservation::Good && now >= self.lease.last_moment();
        if is_over && self.asked_late.is_none() {
            self.asked_late = Some(now);
            self.heartbeat = Some(HeartbeatTime { early: now, due: now });
        }
    }

    /// When the lease counts as lost without an answer to a heartbeat.
    fn lost_at(&self) -> Option<BootTime> {
        let lost = self.asked_late.map_or(self.lease.lost(), |asked| asked + self.lease.heartbeat_limit());
        (self.reservation == Reservation::Good).then_some(lost)
    }

    /// Whether a heartbeat may still keep the job for this worker.
    pub fn is_worth_a_heartbeat(&self) -> bool {
        match self.reservation {
            Reservation::Good | Reservation::TimedOut => true,
            Reservation::Late => self.limits.on_lost == OnLost::Keep,
            Reservation::Gone | Reservation::Replaced => false,
        }
    }

    /// The heartbeat that was sent at `sent` succeeded.
    pub fn heartbeat_succeeded(&mut self, sent: BootTime) {
        self.lease.renew(sent);
        self.heartbeat = Some(self.lease.heartbeat());
        self.asked_late = None;
        if self.reservation == Reservation::Late && self.is_worth_a_heartbeat() {
            self.reservation = Reservation::Good;
        }
    }

    /// The heartbeat had no answer, or one that says nothing about the job.
    pub fn heartbeat_failed(&mut self, now: BootTime) {
        self.heartbeat = Some(self.lease.heartbeat_again(now));
    }

    /// The server says that there is no such reservation.
    pub fn lease_is_gone(&mut self, now: BootTime) {
        self.lose(Reservation::Gone, now);
    }

    /// The server says that a newer version of the job waits until the reservation ends.
    pub fn job_was_replaced(&mut self, now: BootTime) {
        self.lose(Reservation::Replaced, now);
    }

    /// The server says that the reservation timed out, and that no worker has had the job since. A job that runs goes on until
    /// another heartbeat learns that one has it; one that does not run yet is left to the next worker.
    pub fn lease_timed_out(&mut self, now: BootTime) {
        if self.started.is_none() {
            self.lose(Reservation::Gone, now);
        } else if self.is_worth_a_heartbeat() {
            self.reservation = Reservation::TimedOut;
            self.heartbeat = Some(self.lease.heartbeat_again(now));
        }
    }

    fn lose(&mut self, reservation: Reservation, now: BootTime) {
        self.reservation = reservation;
        if self.limits.on_lost == OnLost::Kill && self.started.is_some() {
            self.end(Cause::Lost, (now + self.limits.kill_after).min(self.lease.last_moment().max(now)));
        }
    }

    /// Has the job end; the first cause counts, and the earliest kill.
    fn end(&mut self, cause: Cause, kill_at: BootTime) {
        let new = Ending { cause, kill_at, is_terminated: false, is_killed: false };
        let ending = self.ending.get_or_insert(new);
        ending.kill_at = ending.kill_at.min(kill_at);
    }

    /// The worker is ending, and this far with it.
    pub fn stop(&mut self, stop: Stop, now: BootTime) {
        match stop {
            Stop::No => {}
            Stop::Terminate => self.end(Cause::Drain, now + self.limits.kill_after),
            Stop::Kill => self.end(Cause::Drain, now),
            Stop::Abandon => self.is_abandoned = true,
        }
    }

    /// Whether the lease was lost so that nothing is reported.
    pub fn is_lost(&self) -> bool {
        matches!(self.reservation, Reservation::Late | Reservation::Gone | Reservation::Replaced)
            && (self.limits.on_lost == OnLost::Kill || self.started.is_none())
    }

    /// What ends the reservation of a job that was replaced and has ended, or was never started. The server refuses it, and ends the
    /// reservation by it, so that the newer version need not wait for the TTR.
    pub fn gives_way(&self) -> Option<Report> {
        let is_replaced = self.is_lost() && self.reservation == Reservation::Replaced;
        is_replaced.then(|| Report::Release { delay: Some(Duration::ZERO), reason: reason("replaced", None) })
    }

    /// What to report of a job that has ended, or was never started; nothing once the lease is lost.
    pub fn report(&self, ended: Option<&Ended>) -> Option<Report> {
        if self.is_lost() {
            return None;
        }
        let detail = ended.and_then(|ended| ended.detail.as_deref());
        let cause = self.ending.as_ref().map(|ending| ending.cause);
        let release = |delay, what: &str| Report::Release { delay, reason: reason(what, detail) };
        Some(match (cause, ended) {
            (Some(Cause::Timeout), _) => release(None, &format!("timed out after {:?}", self.limits.timeout)),
            (Some(Cause::Drain), _) | (None, None) => {
                Report::Release { delay: Some(Duration::ZERO), reason: reason("the worker ended", detail) }
            }
            (Some(Cause::Lost), _) => return None,
            (None, Some(ended)) => match ended.verdict {
                Verdict::Done => Report::Finish,
                Verdict::Unacceptable => Report::Bury { reason: reason(&ended.what, detail) },
                Verdict::Failed | Verdict::Broken => release(None, &ended.what),
            },
        })
    }
}

#[cfg(test)]
mod tests;
