//! Which outlet is served next, and with how many calls. Pure: it is given the time, and knows neither jobs nor sockets.
//!
//! Outlets that may have ready jobs take turns. An outlet gets permits for a turn before its jobs are reserved, so that no
//! reserved job waits for a permit. Its calls are limited by its own window, by its topic, by its host over all topics, and by
//! half of the permits that are free: a host that hangs leaves room for the others, however many hosts hang (dynamic
//! thresholds, Choudhury and Hahne 1998). An outlet without room waits where the next room appears and costs nothing there.

mod outlet_state;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
};

use self::outlet_state::{Group, OutletState, Position};
pub use self::{
    outlet_state::{Endpoint, OutletFigures},
    turn::{CallTicket, Destination, Turn},
};
use super::window::{Capacity, Signal, Window};
use crate::job::{HostNumber, Origin, Outlet, Topic};

/// Most calls of one turn: few enough that the next outlet's turn comes soon, enough to share one call to the store.
const MAX_TURN: u32 = 64;

/// The outlets that may have ready jobs, and the calls in progress.
#[derive(Debug)]
pub struct Ring {
    max_calls: u32,
    max_calls_per_host: u32,
    outlets: HashMap<Outlet, OutletState>,
    queue: VecDeque<Outlet>,
    timers: BTreeSet<(i64, Outlet)>,
    /// Outlets of topics whose delivery is paused.
    paused: BTreeSet<Outlet>,
    hosts: BTreeMap<HostNumber, Group>,
    topics: HashMap<Topic, Group>,
    /// Permits in use.
    busy: u32,
    /// Number of outlets at which those worth forgetting are removed.
    prune_at: usize,
}

/// Outlets kept before idle ones are removed.
const FIRST_PRUNE: usize = 1_024;

impl Ring {
    /// A ring without outlets.
    pub fn new(max_calls: u32, max_calls_per_host: u32) -> Self {
        Self {
            max_calls,
            max_calls_per_host: max_calls_per_host.min(max_calls),
            outlets: HashMap::new(),
            queue: VecDeque::new(),
            timers: BTreeSet::new(),
            paused: BTreeSet::new(),
            hosts: BTreeMap::new(),
            topics: HashMap::new(),
            busy: 0,
            prune_at: FIRST_PRUNE,
        }
    }

    /// `outlet` may have ready jobs. This also ends a pause of its topic, as far as the ring knows of it.
    pub fn announce(&mut self, outlet: &Outlet) {
        for resumed in self.paused_outlets(&outlet.topic) {
            self.paused.remove(&resumed);
            self.announce_one(&resumed);
        }
        self.announce_one(outlet);
    }

    fn announce_one(&mut self, outlet: &Outlet) {
        self.prune();
        let max = self.max_calls_per_host;
        let state = self.outlets.entry(outlet.clone()).or_insert_with(|| OutletState {
            window: Window::new(max),
            host: outlet.host.unwrap_or(HostNumber(0)),
            in_flight: 0,
            endpoint: None,
            position: Position::Idle,
            announced: false,
        });
        match state.position {
            Position::Idle => self.enqueue(outlet),
            Position::Serving => state.announced = true,
            Position::Queued
            | Position::OwnRoom
            | Position::HostRoom
            | Position::TopicRoom
            | Position::Resting(_)
            | Position::Until(_) => {}
        }
    }

    fn paused_outlets(&self, topic: &Topic) -> Vec<Outlet> {
        let from = Outlet::plain(topic.clone());
        let of_topic = self.paused.range((Bound::Included(from), Bound::Unbounded));
        of_topic.take_while(|outlet| outlet.topic == *topic).cloned().collect()
    }

    /// The next turn; `None` when no outlet with ready jobs has room.
    pub fn next(&mut self, now_us: i64, destination: impl Fn(&Outlet) -> Destination) -> Option<Turn> {
        self.end_waits(now_us);
        while self.busy < self.max_calls {
            let outlet = self.queue.pop_front()?;
            match destination(&outlet) {
                Destination::Callback { host, concurrency } => {
                    if let Some(turn) = self.take_turn(&outlet, host, concurrency, now_us) {
                        return Some(turn);
                    }
                }
                Destination::Paused => {
                    self.leave(&outlet);
                    self.paused.insert(outlet);
                }
                Destination::Workers => self.leave(&outlet),
            }
        }
        None
    }

    /// The outlet has no turn. If it was woken for room in a group, that room is for another one.
    fn leave(&mut self, outlet: &Outlet) {
        self.set_position(outlet, Position::Idle);
        let host = self.state(outlet).host;
        self.wake_host(host);
        self.wake_topic(&outlet.topic);
    }

    /// Whether it knows of outlets of paused topics.
    pub fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// The next moment at which an outlet that waits may have its turn.
    pub fn next_wake_us(&self) -> Option<i64> {
        self.timers.first().map(|(until_us, _)| *until_us)
    }

    /// `got` of `asked` jobs were reserved. Returns a ticket for each. With fewer than asked, the outlet has no more for
    /// now, unless it was announced meanwhile.
    pub fn reserved(&mut self, turn: Turn, asked: u32, got: u32) -> Vec<CallTicket> {
        let Turn { outlet, calls, host } = turn;
        debug_assert!(got <= asked && asked <= calls);
        let state = self.state(&outlet);
        let tickets = (0..got)
            .map(|_| CallTicket { outlet: outlet.clone(), host, number: state.window.begin() })
            .collect();
        let may_have_more = got == asked || state.announced;
        state.position = Position::Idle;
        if may_have_more {
            self.enqueue(&outlet);
        }
        self.free(&outlet, host, calls - got);
        tickets
    }

    /// Nothing could be reserved; the outlet's next turn is not before `until_us`.
    pub fn postpone(&mut self, turn: Turn, until_us: i64) {
        let Turn { outlet, calls, host } = turn;
        self.wait(&outlet, Position::Until(until_us), until_us);
        self.free(&outlet, host, calls);
    }

    /// A call to `origin` begins.
    pub fn calling(&mut self, ticket: &CallTicket, origin: &Origin) {
        let endpoint = &mut self.state(&ticket.outlet).endpoint;
        if endpoint.as_ref().is_none_or(|endpoint| endpoint.origin != *origin) {
            *endpoint = Some(Endpoint { origin: origin.clone(), last_failure: None });
        }
    }

    /// A call has failed for a reason with this first word.
    pub fn failed(&mut self, ticket: &CallTicket, reason: &str, now_us: i64) {
        if let Some(endpoint) = &mut self.state(&ticket.outlet).endpoint {
            endpoint.last_failure = Some((now_us, reason.to_owned()));
        }
    }

    /// A call has ended.
    pub fn ended(&mut self, ticket: CallTicket, signal: Signal, now_us: i64) {
        let CallTicket { outlet, host, number } = ticket;
        let state = self.state(&outlet);
        state.window.ended(number, signal, now_us);
        if let Position::Resting(until_us) = state.position
            && state.window.resting_until(now_us).is_none()
        {
            self.timers.remove(&(until_us, outlet.clone()));
            self.enqueue(&outlet);
        }
        self.free(&outlet, host, 1);
    }

    /// How many outlets have calls in progress or ready jobs, and how many of each topic rest.
    pub fn counts(&self, now_us: i64) -> (usize, HashMap<Topic, usize>) {
        let active =
            self.outlets.values().filter(|state| state.in_flight > 0 || state.position != Position::Idle);
        let mut resting = HashMap::new();
        for (outlet, state) in &self.outlets {
            if state.window.resting_until(now_us).is_some() {
                *resting.entry(outlet.topic.clone()).or_default() += 1;
            }
        }
        (active.count(), resting)
    }

    /// The outlets of a topic that were called, by origin.
    pub fn called_endpoints(&self, topic: &Topic, now_us: i64) -> Vec<OutletFigures> {
        let of_topic = self.outlets.iter().filter(|(outlet, _)| outlet.topic == *topic);
        let called = of_topic.filter_map(|(_, state)| {
            Some(OutletFigures {
                endpoint: state.endpoint.clone()?,
                in_flight: state.in_flight,
                window: state.window.size(),
                resting_until_us: state.window.resting_until(now_us),
            })
        });
        let mut figures: Vec<_> = called.collect();
        figures.sort_by(|one, other| one.endpoint.origin.cmp(&other.endpoint.origin));
        figures
    }

    /// Takes permits for as many calls as every limit allows, or files the outlet where it has to wait.
    fn take_turn(
        &mut self,
        outlet: &Outlet,
        host: HostNumber,
        concurrency: Option<u32>,
        now_us: i64,
    ) -> Option<Turn> {
        let max = self.max_calls_per_host;
        let state = self.state(outlet);
        if state.host != host {
            // Another host: nothing is known of it.
            (state.host, state.window) = (host, Window::new(max));
        }
        let own = match state.window.capacity(state.in_flight, now_us) {
            Capacity::Calls(room) => room,
            Capacity::Full => {
                state.position = Position::OwnRoom;
                0
            }
            Capacity::Resting(until_us) => {
                self.wait(outlet, Position::Resting(until_us), until_us);
                0
            }
        };
        if own == 0 {
            self.wake_host(host);
            self.wake_topic(&outlet.topic);
            return None;
        }
        let of_host = self.host_room(host);
        let in_topic = self.topics.get(&outlet.topic).map_or(0, |group| group.in_flight);
        let of_topic = concurrency.map_or(u32::MAX, |most| most.saturating_sub(in_topic));
        if of_host == 0 {
            self.set_position(outlet, Position::HostRoom);
            self.hosts.entry(host).or_default().waiting.push_back(outlet.clone());
            self.wake_topic(&outlet.topic);
            return None;
        }
        if of_topic == 0 {
            self.set_position(outlet, Position::TopicRoom);
            self.topics.entry(outlet.topic.clone()).or_default().waiting.push_back(outlet.clone());
            self.wake_host(host);
            return None;
        }
        let calls = own.min(of_host).min(of_topic).min(MAX_TURN).min(self.max_calls - self.busy);
        self.take_permits(outlet, host, calls);
        // The room that it leaves is for the next ones.
        self.wake_host(host);
        if of_topic > calls {
            self.wake_topic(&outlet.topic);
        }
        Some(Turn { outlet: outlet.clone(), calls, host })
    }

    /// Calls that may begin to a host: up to its limit, and to half of the permits that are free. The first call to a host
    /// needs only a free permit.
    fn host_room(&self, host: HostNumber) -> u32 {
        let in_flight = self.hosts.get(&host).map_or(0, |group| group.in_flight);
        let free = self.max_calls - self.busy;
        // With `room` further calls, `in_flight + room <= (free - room) / 2`.
        let by_share = (free.saturating_sub(2 * in_flight)) / 3;
        let by_share = if in_flight == 0 { by_share.max(1) } else { by_share };
        self.max_calls_per_host.saturating_sub(in_flight).min(by_share).min(free)
    }

    fn take_permits(&mut self, outlet: &Outlet, host: HostNumber, calls: u32) {
        self.busy += calls;
        self.hosts.entry(host).or_default().in_flight += calls;
        self.topics.entry(outlet.topic.clone()).or_default().in_flight += calls;
        let state = self.state(outlet);
        state.in_flight += calls;
        (state.position, state.announced) = (Position::Serving, false);
    }

    /// Returns permits, and wakes whoever waits for the room.
    fn free(&mut self, outlet: &Outlet, host: HostNumber, calls: u32) {
        if calls == 0 {
            return;
        }
        self.busy -= calls;
        self.hosts.entry(host).or_default().in_flight -= calls;
        self.topics.entry(outlet.topic.clone()).or_default().in_flight -= calls;
        let state = self.state(outlet);
        state.in_flight -= calls;
        if state.position == Position::OwnRoom {
            self.enqueue(outlet);
        }
        self.wake_host(host);
        self.wake_topic(&outlet.topic);
        if self.hosts.get(&host).is_some_and(Group::is_empty) {
            self.hosts.remove(&host);
        }
        if self.topics.get(&outlet.topic).is_some_and(Group::is_empty) {
            self.topics.remove(&outlet.topic);
        }
    }

    /// Wakes one outlet that waits for room at `host`, if there is room.
    fn wake_host(&mut self, host: HostNumber) {
        if self.host_room(host) == 0 {
            return;
        }
        let woken = self.hosts.get_mut(&host).and_then(|group| group.waiting.pop_front());
        if let Some(woken) = woken {
            self.enqueue(&woken);
        }
    }

    /// Wakes one outlet that waits for room in `topic`.
    fn wake_topic(&mut self, topic: &Topic) {
        let woken = self.topics.get_mut(topic).and_then(|group| group.waiting.pop_front());
        if let Some(woken) = woken {
            self.enqueue(&woken);
        }
    }

    fn enqueue(&mut self, outlet: &Outlet) {
        self.set_position(outlet, Position::Queued);
        self.queue.push_back(outlet.clone());
    }

    fn wait(&mut self, outlet: &Outlet, position: Position, until_us: i64) {
        self.set_position(outlet, position);
        self.timers.insert((until_us, outlet.clone()));
    }

    /// Queues the outlets whose waiting has ended.
    fn end_waits(&mut self, now_us: i64) {
        while let Some((until_us, _)) = self.timers.first()
            && *until_us <= now_us
            && let Some((_, outlet)) = self.timers.pop_first()
        {
            self.enqueue(&outlet);
        }
    }

    fn set_position(&mut self, outlet: &Outlet, position: Position) {
        self.state(outlet).position = position;
    }

    fn state(&mut self, outlet: &Outlet) -> &mut OutletState {
        self.outlets.get_mut(outlet).expect("an outlet is kept while it is queued, waits or has calls")
    }

    /// Removes idle outlets that nothing was learned of, once there are twice as many as after the last time.
    fn prune(&mut self) {
        if self.outlets.len() < self.prune_at {
            return;
        }
        self.outlets.retain(|_, state| {
            state.in_flight > 0 || state.position != Position::Idle || !state.window.is_forgettable()
        });
        self.prune_at = (self.outlets.len() * 2).max(FIRST_PRUNE);
    }
}

#[cfg(test)]
mod tests;
