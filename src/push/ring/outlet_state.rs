//! What the ring knows of an outlet, and of the calls that share a limit.

use std::collections::VecDeque;

use crate::{
    job::{HostNumber, Origin, Outlet},
    push::window::Window,
};

/// What is known of the endpoint behind an outlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The one that was called last; several hosts may share an outlet.
    pub origin: Origin,
    /// When a call failed last, in microseconds, and the first word of the reason.
    pub last_failure: Option<(i64, String)>,
}

/// An outlet as the figures show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutletFigures {
    /// The endpoint, once one was called.
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
    pub host: HostNumber,
    pub in_flight: u32,
    pub endpoint: Option<Endpoint>,
    pub position: Position,
    /// Whether jobs may have become ready since its turn began.
    pub announced: bool,
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
    /// It waits for a call to its host to end.
    HostRoom,
    /// It waits for a call of its topic to end.
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
