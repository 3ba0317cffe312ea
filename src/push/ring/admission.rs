//! Which of the jobs that were reserved in a turn are called. Those of a host that fails make room for the others of their
//! outlet.

use std::time::Duration;

use super::{
    MAX_TURN, Ring,
    suspects::{HostAccess, MAX_SET_ASIDE_US},
    turn::{CallTicket, Turn},
};
use crate::job::{Origin, Outlet};

/// How long outlets pause, all together, for each job that was set aside, and for each MiB of their bodies, in microseconds:
/// the store moves these jobs, and must have time for other work.
const PAUSE_PER_JOB_US: u64 = 2_000;
const PAUSE_PER_MIB_US: u64 = 100_000;

/// A reserved job, as the ring knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservedJob {
    /// Its host, if other jobs of the outlet may have another one.
    pub host: Option<Origin>,
    /// The length of its body.
    pub bytes: u64,
}

/// What is to be done with a reserved job.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission<T = CallTicket> {
    /// Call for it.
    Call(T),
    /// Give it back: its turn comes again.
    Later,
    /// Give it back, and others come first for this long.
    After(Duration),
}

impl Ring {
    /// How many jobs to reserve for a turn of `calls` calls: more if some of the turn before were of hosts that are not called
    /// now.
    pub(super) fn jobs_of_turn(&mut self, outlet: &Outlet, calls: u32) -> u32 {
        if self.state(outlet).has_set_aside { MAX_TURN } else { calls }
    }

    /// Decides about a job that was reserved in `turn`, and takes one of its calls.
    pub(super) fn admit(&mut self, turn: &mut Turn, job: &ReservedJob, now_us: i64) -> Admission {
        let host = job.host.as_ref();
        let access = host
            .map_or(HostAccess::WithOthers, |host| self.state(&turn.outlet).suspects.access(host, now_us));
        let is_alone = match access {
            HostAccess::WithOthers => false,
            HostAccess::Alone => true,
            HostAccess::After(until_us) => {
                let wait_us = until_us.saturating_sub(now_us);
                return Admission::After(Duration::from_micros(wait_us.unsigned_abs()));
            }
        };
        if turn.calls == 0 {
            return Admission::Later;
        }
        let becomes_trial = is_alone && !turn.is_trial;
        if becomes_trial && self.trial_room(&turn.outlet.topic) == 0 {
            return Admission::After(Duration::from_micros(MAX_SET_ASIDE_US.unsigned_abs()));
        }
        turn.calls -= 1;
        if becomes_trial {
            self.add_trials(&turn.outlet.topic, 1);
        }
        let state = self.state(&turn.outlet);
        let is_current = state.window_number == turn.window_number;
        let number = match host {
            Some(host) if is_alone => {
                state.suspects.begin_alone(host);
                state.in_window -= u32::from(is_current);
                0
            }
            Some(_) | None if is_current => state.window.begin(),
            Some(_) | None => 0,
        };
        Admission::Call(CallTicket {
            outlet: turn.outlet.clone(),
            host: turn.host,
            window_number: turn.window_number,
            number,
            origin: job.host.clone(),
            is_alone,
            is_trial: turn.is_trial || is_alone,
        })
    }

    /// Jobs of an outlet were set aside, with bodies of this length in all: its next turn has to wait a little.
    pub fn set_aside(&mut self, outlet: &Outlet, jobs: u64, bytes: u64, now_us: i64) {
        let pause_us = jobs * PAUSE_PER_JOB_US + bytes.saturating_mul(PAUSE_PER_MIB_US) / (1 << 20);
        let from_us = self.next_set_aside_us.max(now_us);
        self.next_set_aside_us = from_us.saturating_add(i64::try_from(pause_us).unwrap_or(i64::MAX));
        self.state(outlet).next_turn_us = self.next_set_aside_us;
    }
}
