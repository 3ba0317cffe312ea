//! What the ring knows of an outlet, and of the calls that share a limit.

use std::collections::VecDeque;

use super::{
    recent_calls::RecentCalls,
    rests::{RestChange, RestLog},
    suspects::Suspects,
    turn::CallTicket,
};
use crate::{
    job::{HostNumber, Origin, Outlet, Timestamp},
    push::window::{Signal, Window},
    queue::CallsOfMinute,
};

/// Endpoints that are remembered of an outlet, whose hosts have the same number.
const MAX_ENDPOINTS: usize = 8;

/// What is known of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host and port.
    pub origin: Origin,
    /// When a call failed last, in microseconds, and the first word of the reason.
    pub last_failure: Option<(i64, String)>,
    /// Whether the call that ended last failed.
    pub is_failing: bool,
    pub(super) recent_calls: RecentCalls,
}

/// An endpoint as the figures show it, with its own state if it fails, otherwise that of its outlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutletFigures {
    /// An endpoint that was called.
    pub endpoint: Endpoint,
    /// Calls in progress.
    pub in_flight: u32,
    /// Most calls in progress at the moment.
    pub window: u32,
    /// Until when it rests, in microseconds.
    pub resting_until_us: Option<i64>,
    /// The calls to this endpoint that ended in the last minute.
    pub minute: CallsOfMinute,
}

#[derive(Debug)]
pub(super) struct OutletState {
    pub window: Window,
    /// Changes with the host: calls to an earlier one neither count against the window nor change it.
    pub window_number: u32,
    pub host: HostNumber,
    /// All calls in progress.
    pub in_flight: u32,
    /// Those of them that count against the window.
    pub in_window: u32,
    /// The endpoints that were called last, the latest at the end.
    pub endpoints: Vec<Endpoint>,
    pub position: Position,
    /// Whether it may have ready jobs that its turn did not take.
    pub announced: bool,
    /// Whether what is set for its topic has changed since its turn began.
    pub reconfigured: bool,
    /// When a call ended last, in microseconds.
    pub last_call_us: i64,
    pub rests: RestLog,
    /// Whether the last call that says something was answered.
    pub is_proven: bool,
    /// The hosts that are called by themselves, if several share the outlet.
    pub suspects: Suspects,
    /// Whether jobs of its last turn were set aside.
    pub has_set_aside: bool,
    /// It has no turn before this moment, in microseconds.
    pub next_turn_us: i64,
    /// When its endpoints were last to be called although they rest.
    called_at: Option<Timestamp>,
}

impl OutletState {
    /// An outlet that nothing is known of, with a window up to `max`.
    pub fn new(host: HostNumber, max: u32) -> Self {
        Self {
            window: Window::new(max),
            window_number: 0,
            host,
            in_flight: 0,
            in_window: 0,
            endpoints: Vec::new(),
            position: Position::Idle,
            announced: false,
            reconfigured: false,
            last_call_us: i64::MIN,
            rests: RestLog::default(),
            is_proven: false,
            suspects: Suspects::default(),
            has_set_aside: false,
            next_turn_us: i64::MIN,
            called_at: None,
        }
    }

    /// Ends the rest of its endpoints, unless that was done at this moment already.
    pub fn call_now(&mut self, called_at: Option<Timestamp>) {
        if called_at.is_some() && called_at != self.called_at {
            self.called_at = called_at;
            self.window.end_rest();
            self.suspects.end_rests();
        }
    }

    /// The jobs go to another host from now on: what was learned about the old one is forgotten.
    pub fn move_to(&mut self, host: HostNumber, max: u32) {
        (self.host, self.window, self.in_window) = (host, Window::new(max), 0);
        self.window_number = self.window_number.wrapping_add(1);
        self.endpoints.clear();
        (self.rests, self.suspects) = (RestLog::default(), Suspects::default());
        (self.is_proven, self.next_turn_us) = (false, i64::MIN);
    }

    /// A call to `origin` begins.
    pub fn calling(&mut self, origin: &Origin) {
        let known = self.endpoints.iter().position(|endpoint| endpoint.origin == *origin);
        match known {
            Some(at) => self.endpoints[at..].rotate_left(1),
            None => {
                if self.endpoints.len() == MAX_ENDPOINTS {
                    self.endpoints.remove(0);
                }
                self.endpoints.push(Endpoint {
                    origin: origin.clone(),
                    last_failure: None,
                    is_failing: false,
                    recent_calls: RecentCalls::default(),
                });
            }
        }
    }

    /// What is known of an endpoint; `None` if others were called since.
    pub fn endpoint(&mut self, origin: &Origin) -> Option<&mut Endpoint> {
        self.endpoints.iter_mut().find(|endpoint| endpoint.origin == *origin)
    }

    /// A call has ended that began under the present window. Returns what is to be logged about rests.
    pub fn call_ended(&mut self, ticket: &CallTicket, signal: Signal, now_us: i64) -> Option<RestChange> {
        if !ticket.is_alone {
            match signal {
                Signal::Alive => self.is_proven = true,
                Signal::Silent | Signal::Overload { .. } => self.is_proven = false,
                Signal::None => {}
            }
        }
        let Some(origin) = &ticket.origin else {
            return self.rests.of_call(&mut self.window, ticket.number, signal, now_us);
        };
        // The window is for all hosts of the outlet; each rests by itself.
        if !ticket.is_alone {
            self.window.ended_among_others(ticket.number, signal, now_us);
        }
        let (change, is_back) = self.suspects.ended(origin, ticket.is_alone, signal, now_us);
        if is_back {
            self.is_proven = true;
            self.window.double_again();
        }
        change
    }

    /// Whether nothing was learned that is worth remembering while it has no jobs.
    pub fn is_forgettable(&self) -> bool {
        self.window.is_forgettable() && !self.suspects.has_failing()
    }

    /// Whether nothing waits and nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.position == Position::Idle
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// It is not known to have ready jobs.
    Idle,
    /// Its turn comes.
    Queued,
    /// It has its turn, up to the moment at which what was set aside is back in the store.
    Serving,
    /// It waits until one of its own calls ends.
    OwnRoom,
    /// It waits until its host may have another call.
    HostRoom,
    /// It waits until its topic may have another call.
    TopicRoom,
    /// It waits until its topic may have another call to an outlet that nothing good is known of.
    TrialRoom,
    /// It rests until this moment, or until a call that began before shows that its endpoint is back.
    Resting(i64),
    /// It waits until this moment.
    Until(i64),
}

/// Calls that share a limit, and the outlets that wait for room in it.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub in_flight: u32,
    pub waiting: VecDeque<Outlet>,
    /// Those of the calls that are trials, and the outlets that wait for one; of a topic only.
    pub trials: u32,
    pub waiting_for_trial: VecDeque<Outlet>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty() && self.waiting_for_trial.is_empty()
    }
}
