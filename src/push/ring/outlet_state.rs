//! What the ring knows of an outlet, and of the calls that share a limit.

use std::collections::VecDeque;

use super::rests::{RestChange, RestLog};
use crate::{
    job::{HostNumber, Origin, Outlet},
    push::window::{Signal, Window},
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
}

/// An endpoint as the figures show it, with the state of its outlet, which other hosts may share.
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
    /// Whether jobs may have become ready since its turn began.
    pub announced: bool,
    /// Whether what is set for its topic has changed since its turn began.
    pub reconfigured: bool,
    /// When a call ended last, in microseconds.
    pub last_call_us: i64,
    pub rests: RestLog,
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
        }
    }

    /// The jobs go to another host from now on, of which nothing is known.
    pub fn move_to(&mut self, host: HostNumber, max: u32) {
        (self.host, self.window, self.in_window) = (host, Window::new(max), 0);
        self.window_number = self.window_number.wrapping_add(1);
        self.endpoints.clear();
        self.rests = RestLog::default();
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
                self.endpoints.push(Endpoint { origin: origin.clone(), last_failure: None });
            }
        }
    }

    /// A call of the window has ended. Returns what is to be logged about rests.
    pub fn call_ended(&mut self, number: u64, signal: Signal, now_us: i64) -> Option<RestChange> {
        let (was_resting, was_away) = (self.window.resting_until(now_us).is_some(), self.window.is_probing());
        self.window.ended(number, signal, now_us);
        match self.window.resting_until(now_us) {
            Some(until_us) if !was_resting => self.rests.began(now_us).then_some(RestChange::Began(until_us)),
            None if was_away && !self.window.is_probing() => self.rests.ended(now_us).map(RestChange::Ended),
            Some(_) | None => None,
        }
    }

    /// Whether nothing waits and nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.position == Position::Idle
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// It has no ready jobs, as far as is known.
    Idle,
    /// Its turn comes.
    Queued,
    /// It has its turn.
    Serving,
    /// It waits until one of its own calls ends.
    OwnRoom,
    /// It waits until its host may have another call.
    HostRoom,
    /// It waits until its topic may have another call.
    TopicRoom,
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
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }
}
