//! Guards for what the ring hands out: it is returned also if a task panics.

use std::sync::Arc;

use super::{
    callbacks::{CallbackState, STORE_PAUSE_US},
    ring::{Admission, CallTicket, ReservedJob, RestChange, Turn},
    window::Signal,
};
use crate::job::{Now, Origin, Outlet};

impl CallbackState {
    /// Takes charge of a turn.
    pub(super) fn guard(self: &Arc<Self>, turn: Turn) -> TurnGuard {
        TurnGuard { shared: self.clone(), turn: Some(turn), setting_aside: None }
    }
}

/// A turn, which returns its permits and ends also if its task panics.
pub(super) struct TurnGuard {
    shared: Arc<CallbackState>,
    turn: Option<Turn>,
    /// The outlet, once its permits are used or returned, if jobs are being set aside: its turn ends with this guard.
    setting_aside: Option<Outlet>,
}

impl TurnGuard {
    pub fn turn(&self) -> &Turn {
        self.turn.as_ref().expect("a turn is in its guard until its jobs are reserved")
    }

    /// These of `asked` jobs were reserved. Returns what is to be done with each.
    pub fn start_calls(&mut self, asked: u32, jobs: &[ReservedJob]) -> Vec<Admission<CallPermit>> {
        let turn = self.turn.take().expect("a turn has its jobs once");
        let outlet = turn.outlet.clone();
        let admissions = self.shared.ring().reserved(turn, asked, jobs, self.shared.clock.now_micros());
        self.shared.changed.notify_one();
        let sets_aside = admissions.iter().any(|admission| matches!(admission, Admission::After(_)));
        self.setting_aside = sets_aside.then_some(outlet);
        let permits = admissions.into_iter().map(|admission| match admission {
            Admission::Call(ticket) => {
                Admission::Call(CallPermit { shared: self.shared.clone(), ticket: Some(ticket) })
            }
            Admission::Later => Admission::Later,
            Admission::After(wait) => Admission::After(wait),
        });
        permits.collect()
    }

    pub fn postpone(&mut self, until_us: i64) {
        if let Some(turn) = self.turn.take() {
            self.shared.ring().postpone(turn, until_us);
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        if let Some(outlet) = self.setting_aside.take() {
            self.shared.ring().end_turn(&outlet);
            self.shared.changed.notify_one();
        }
        self.postpone(self.shared.clock.now_micros() + STORE_PAUSE_US);
    }
}

/// A place among the calls in progress, which is returned also if the call's task panics.
pub(super) struct CallPermit {
    shared: Arc<CallbackState>,
    ticket: Option<CallTicket>,
}

impl CallPermit {
    /// The outlet of the job.
    pub fn outlet(&self) -> &Outlet {
        self.ticket().outlet()
    }

    /// The call to `origin` begins.
    pub fn calling(&self, origin: &Origin) {
        self.shared.ring().calling(self.ticket(), origin);
    }

    /// The call to `origin` has failed for a reason with this first word.
    pub fn failed(&self, origin: &Origin, reason: &str) {
        self.shared.ring().failed(self.ticket(), origin, reason, self.shared.clock.now_micros());
    }

    /// The call to `origin` has succeeded.
    pub fn succeeded(&self, origin: &Origin) {
        self.shared.ring().succeeded(self.ticket(), origin, self.shared.clock.now_micros());
    }

    /// The job is given back so that others of its outlet come first.
    pub fn set_aside(&self) {
        self.shared.ring().set_aside(self.outlet(), 1, 0, self.shared.clock.now_micros());
    }

    /// The call to `origin` has ended.
    pub fn end(mut self, origin: &Origin, signal: Signal) {
        let topic = self.outlet().topic.clone();
        match self.release(signal) {
            Some(RestChange::Began(until_us)) => {
                let until = Now::from_micros(until_us).rounded_up;
                tracing::warn!(%topic, %origin, %until, "an endpoint rests: it does not answer or is overloaded");
            }
            Some(RestChange::Ended(after)) => {
                let after_s = after.as_secs();
                tracing::info!(%topic, %origin, after_s, "an endpoint has answered again; its rest is over");
            }
            None => {}
        }
    }

    fn ticket(&self) -> &CallTicket {
        self.ticket.as_ref().expect("a permit has its ticket until the call ends")
    }

    fn release(&mut self, signal: Signal) -> Option<RestChange> {
        let ticket = self.ticket.take()?;
        let change = self.shared.ring().ended(ticket, signal, self.shared.clock.now_micros());
        self.shared.changed.notify_one();
        change
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        // A call without a result changes nothing about rests.
        let _ = self.release(Signal::None);
    }
}
