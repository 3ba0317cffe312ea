//! The hosts of an outlet whose last calls failed. Each is called by itself and rests by itself, so that it holds up no other
//! host of its outlet.

use super::rests::{RestChange, RestLog};
use crate::{
    job::Origin,
    push::window::{Capacity, Signal, Window},
};

/// Most hosts of an outlet that are remembered.
const MAX_SUSPECTS: usize = 64;
/// How long the jobs of a host are set aside while its one call goes on, in microseconds: this after the first failure, and
/// twice as long after each further one. The longest is about as long as a connection may take to fail.
const SET_ASIDE_US: i64 = 200_000;
pub(super) const MAX_SET_ASIDE_US: i64 = 5_000_000;

/// A host whose last call failed, or one of the calls before.
#[derive(Debug)]
pub(super) struct Suspect {
    pub origin: Origin,
    /// One call at a time, and rests.
    pub window: Window,
    /// Calls in progress that count against this window.
    pub in_flight: u32,
    /// Whether its last call got no answer. One that hangs takes a call away from others for long, so the first one counts.
    is_silent: bool,
    rests: RestLog,
}

impl Suspect {
    /// Whether it is called by itself.
    pub fn is_failing(&self) -> bool {
        self.is_silent || self.window.is_failing()
    }
}

/// The hosts of an outlet that failed, the latest failure at the end.
#[derive(Debug, Default)]
pub(super) struct Suspects(Vec<Suspect>);

/// Whether a host may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostAccess {
    /// As all others of its outlet.
    WithOthers,
    /// By itself: this call shows whether it is back.
    Alone,
    /// Not before this moment, in microseconds.
    After(i64),
}

impl Suspects {
    /// Whether `origin` may be called now.
    pub fn access(&self, origin: &Origin, now_us: i64) -> HostAccess {
        let Some(suspect) = self.get(origin).filter(|suspect| suspect.is_failing()) else {
            return HostAccess::WithOthers;
        };
        match suspect.window.capacity(suspect.in_flight, now_us) {
            Capacity::Calls(_) => HostAccess::Alone,
            Capacity::Full => {
                let doublings = suspect.window.overloads_in_row().saturating_sub(1).min(5);
                HostAccess::After(now_us.saturating_add((SET_ASIDE_US << doublings).min(MAX_SET_ASIDE_US)))
            }
            Capacity::Resting(until_us) => HostAccess::After(until_us),
        }
    }

    /// Ends the rests of all hosts.
    pub fn end_rests(&mut self) {
        self.0.iter_mut().for_each(|suspect| suspect.window.end_rest());
    }

    /// Whether there is a host that is called by itself.
    pub fn has_failing(&self) -> bool {
        self.0.iter().any(Suspect::is_failing)
    }

    pub fn get(&self, origin: &Origin) -> Option<&Suspect> {
        self.0.iter().find(|suspect| suspect.origin == *origin)
    }

    /// How many hosts rest.
    pub fn resting(&self, now_us: i64) -> usize {
        self.0.iter().filter(|suspect| suspect.window.resting_until(now_us).is_some()).count()
    }

    /// A call to `origin` by itself begins.
    pub fn begin_alone(&mut self, origin: &Origin) {
        if let Some(suspect) = self.0.iter_mut().find(|suspect| suspect.origin == *origin) {
            suspect.in_flight += 1;
        }
    }

    /// A call to `origin` has ended, which was made by itself or with others. Returns what is to be logged about its rests,
    /// and whether it has come back.
    pub fn ended(
        &mut self,
        origin: &Origin,
        was_alone: bool,
        signal: Signal,
        now_us: i64,
    ) -> (Option<RestChange>, bool) {
        let known = self.0.iter().position(|suspect| suspect.origin == *origin);
        let index = match (known, signal) {
            (Some(index), _) => index,
            (None, Signal::Silent | Signal::Overload { .. }) => self.add(origin.clone()),
            (None, Signal::Alive | Signal::None) => return (None, false),
        };
        let suspect = &mut self.0[index];
        suspect.in_flight -= u32::from(was_alone);
        let was_failing = suspect.is_failing();
        let change = suspect.rests.of_call(&mut suspect.window, 0, signal, now_us);
        match signal {
            Signal::Silent => suspect.is_silent = true,
            Signal::Overload { .. } | Signal::Alive => suspect.is_silent = false,
            Signal::None => {}
        }
        let is_back = was_failing && signal == Signal::Alive && !suspect.is_failing();
        if let Signal::Silent | Signal::Overload { .. } = signal {
            self.0[index..].rotate_left(1);
        }
        (change, is_back)
    }

    fn add(&mut self, origin: Origin) -> usize {
        if self.0.len() >= MAX_SUSPECTS {
            let is_idle = |suspect: &Suspect| suspect.in_flight == 0;
            let healthy = self.0.iter().position(|suspect| is_idle(suspect) && !suspect.is_failing());
            // All may be called at this moment: then there is one more for a while.
            if let Some(index) = healthy.or_else(|| self.0.iter().position(is_idle)) {
                self.0.remove(index);
            }
        }
        let (window, rests) = (Window::new(1), RestLog::default());
        self.0.push(Suspect { origin, window, in_flight: 0, is_silent: false, rests });
        self.0.len() - 1
    }
}
