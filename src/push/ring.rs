//! Which outlet is served next, and with how many calls. Pure: it is given the time, and knows neither jobs nor sockets.
//!
//! Outlets that may have ready jobs take turns. An outlet gets permits for a turn before its jobs are reserved, so that no
//! reserved job waits for a permit. Its calls are limited by its own window, by its topic, by its host over all topics, and by
//! half of the permits that are free: a host that hangs leaves room for the others, however many hosts hang (dynamic
//! thresholds, Choudhury and Hahne 1998). `trials` limits calls to outlets that are new or failed last, and to hosts that
//! fail. An outlet that may make no call now waits for the limit that stops it, and costs nothing until that limit has
//! room again.

mod admission;
mod outlet_state;
mod recent_calls;
mod rests;
mod shown;
mod suspects;
mod trials;
mod turn;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
};

use self::outlet_state::{Group, OutletState, Position};
pub use self::{
    admission::{Admission, ReservedJob},
    outlet_state::OutletFigures,
    rests::RestChange,
    turn::{CallTicket, Destination, Turn},
};
use super::window::{Capacity, Signal};
use crate::job::{HostNumber, Outlet, Topic};

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
    /// Those of them that are for trials.
    trials: u32,
    /// Topics with outlets that wait for a trial, and the one that was woken last.
    trial_topics: BTreeSet<Topic>,
    last_trial_topic: Option<Topic>,
    /// When the pauses end of all outlets whose jobs were set aside, in microseconds.
    next_set_aside_us: i64,
    /// Number of outlets at which those worth forgetting are removed.
    prune_at: usize,
    /// When idle outlets are removed next, however few outlets there are, in microseconds.
    next_prune_us: i64,
}

/// Outlets kept before idle ones are removed.
const FIRST_PRUNE: usize = 1_024;
/// How long an idle outlet is remembered after its last call, in microseconds.
const REMEMBERED_US: i64 = 600_000_000;

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
            trials: 0,
            trial_topics: BTreeSet::new(),
            last_trial_topic: None,
            next_set_aside_us: i64::MIN,
            prune_at: FIRST_PRUNE,
            next_prune_us: i64::MIN,
        }
    }

    /// `outlet` may have ready jobs. The outlets of its topic that the ring keeps as paused take turns again, too.
    pub fn announce(&mut self, outlet: &Outlet) {
        for resumed in self.paused_outlets(&outlet.topic) {
            self.paused.remove(&resumed);
            self.announce_one(&resumed);
        }
        self.announce_one(outlet);
    }

    fn announce_one(&mut self, outlet: &Outlet) {
        let max = self.max_calls_per_host;
        let state = self.outlets.entry(outlet.clone());
        let state = state.or_insert_with(|| OutletState::new(outlet.host.unwrap_or(HostNumber(0)), max));
        match state.position {
            Position::Idle => self.enqueue(outlet),
            Position::Serving => state.announced = true,
            Position::Queued
            | Position::OwnRoom
            | Position::HostRoom
            | Position::TopicRoom
            | Position::TrialRoom
            | Position::Resting(_)
            | Position::Until(_) => {}
        }
    }

    /// What is set for `topic` has changed: its outlets take their turns by that, whatever they wait for.
    pub fn topic_changed(&mut self, topic: &Topic) {
        let hosts = (0..=u8::MAX).map(|number| Some(HostNumber(number)));
        for host in std::iter::once(None).chain(hosts) {
            let outlet = Outlet { topic: topic.clone(), host };
            if let Some(state) = self.outlets.get_mut(&outlet) {
                state.reconfigured = true;
                self.end_wait(&outlet);
            }
        }
    }

    fn paused_outlets(&self, topic: &Topic) -> Vec<Outlet> {
        let from = Outlet::plain(topic.clone());
        let of_topic = self.paused.range((Bound::Included(from), Bound::Unbounded));
        of_topic.take_while(|outlet| outlet.topic == *topic).cloned().collect()
    }

    /// The next turn; `None` when no outlet with ready jobs has room.
    pub fn next(&mut self, now_us: i64, destination: impl Fn(&Outlet) -> Destination) -> Option<Turn> {
        self.prune(now_us);
        self.end_waits(now_us);
        while self.busy < self.max_calls {
            let outlet = self.queue.pop_front()?;
            match destination(&outlet) {
                Destination::Callback { host, concurrency, called_at } => {
                    self.state(&outlet).call_now(called_at);
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
        self.pass_on(outlet, host);
    }

    /// The outlet does not use the room that it was woken for.
    fn pass_on(&mut self, outlet: &Outlet, host: HostNumber) {
        self.wake_host(host);
        self.wake_topic(&outlet.topic);
        self.wake_trials();
    }

    /// Whether it knows of outlets of paused topics.
    pub fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// The next moment at which an outlet that waits may have its turn.
    pub fn next_wake_us(&self) -> Option<i64> {
        self.timers.first().map(|(until_us, _)| *until_us)
    }

    /// These of `asked` jobs were reserved. Decides about each. With fewer than asked, the outlet has no more for now, unless
    /// it was announced meanwhile. Its turn is over unless some are set aside; then it lasts until
    /// [`end_turn`](Self::end_turn).
    pub fn reserved(
        &mut self,
        mut turn: Turn,
        asked: u32,
        jobs: &[ReservedJob],
        now_us: i64,
    ) -> Vec<Admission> {
        debug_assert!(jobs.len() <= asked as usize && asked <= turn.jobs);
        let admissions: Vec<_> = jobs.iter().map(|job| self.admit(&mut turn, job, now_us)).collect();
        let both = jobs.iter().zip(&admissions);
        let set_aside = both.filter(|(_, admission)| matches!(admission, Admission::After(_)));
        let (count, bytes) =
            set_aside.fold((0, 0), |(count, bytes), (job, _)| (count + 1, bytes + job.bytes));
        if count > 0 {
            self.set_aside(&turn.outlet, count, bytes, now_us);
        }
        let state = self.state(&turn.outlet);
        state.has_set_aside = count > 0;
        state.announced |= jobs.len() == asked as usize;
        if count == 0 {
            self.end_turn(&turn.outlet);
        }
        self.free_turn(turn);
        admissions
    }

    /// What was set aside in a turn of `outlet` is back in the store. Another turn comes if there may be more jobs.
    pub fn end_turn(&mut self, outlet: &Outlet) {
        let state = self.state(outlet);
        let may_have_more = state.announced || state.reconfigured;
        state.position = Position::Idle;
        if may_have_more {
            self.enqueue(outlet);
        }
    }

    /// Nothing could be reserved; the outlet's next turn is not before `until_us`, unless what is set for its topic has
    /// changed since this one began.
    pub fn postpone(&mut self, turn: Turn, until_us: i64) {
        if self.state(&turn.outlet).reconfigured {
            self.enqueue(&turn.outlet);
        } else {
            self.wait(&turn.outlet, Position::Until(until_us), until_us);
        }
        self.free_turn(turn);
    }

    /// Returns the permits that a turn did not use.
    fn free_turn(&mut self, turn: Turn) {
        let Turn { outlet, calls, host, window_number, is_trial, jobs: _ } = turn;
        self.free(&outlet, host, Some(window_number), (calls, is_trial));
    }

    /// A call has ended. Returns what is to be logged about the rests of its outlet.
    pub fn ended(&mut self, ticket: CallTicket, signal: Signal, now_us: i64) -> Option<RestChange> {
        let outlet = &ticket.outlet;
        let state = self.state(outlet);
        state.last_call_us = now_us;
        let is_current = state.window_number == ticket.window_number;
        let change = if is_current { state.call_ended(&ticket, signal, now_us) } else { None };
        if let Position::Resting(_) = state.position
            && state.window.resting_until(now_us).is_none()
        {
            self.end_wait(outlet);
        }
        let window_number = Some(ticket.window_number).filter(|_| !ticket.is_alone);
        self.free(outlet, ticket.host, window_number, (1, ticket.is_trial));
        change
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
            state.move_to(host, max);
        }
        if now_us < state.next_turn_us {
            let next_us = state.next_turn_us;
            self.wait(outlet, Position::Until(next_us), next_us);
            self.pass_on(outlet, host);
            return None;
        }
        let is_trial = !state.is_proven;
        let own = match state.window.capacity(state.in_window, now_us) {
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
            self.pass_on(outlet, host);
            return None;
        }
        let of_limits = self.room_or_wait(outlet, host, concurrency, is_trial)?;
        let calls = own.min(of_limits).min(MAX_TURN).min(self.max_calls - self.busy);
        let window_number = self.take_permits(outlet, host, calls, is_trial);
        // Others may use the room that it leaves.
        self.wake_host(host);
        if self.topic_room(&outlet.topic, concurrency) > 0 {
            self.wake_topic(&outlet.topic);
        }
        self.wake_trials();
        let jobs = self.jobs_of_turn(outlet, calls);
        Some(Turn { outlet: outlet.clone(), jobs, calls, host, window_number, is_trial })
    }

    /// How many calls its host, its topic and the limit of trials allow an outlet that has its turn. Without room it waits
    /// for the limit that stops it.
    fn room_or_wait(
        &mut self,
        outlet: &Outlet,
        host: HostNumber,
        concurrency: Option<u32>,
        is_trial: bool,
    ) -> Option<u32> {
        let of_host = self.host_room(host);
        if of_host == 0 {
            self.set_position(outlet, Position::HostRoom);
            self.hosts.entry(host).or_default().waiting.push_back(outlet.clone());
            self.wake_topic(&outlet.topic);
            self.wake_trials();
            return None;
        }
        let of_topic = self.topic_room(&outlet.topic, concurrency);
        if of_topic == 0 {
            self.set_position(outlet, Position::TopicRoom);
            self.topics.entry(outlet.topic.clone()).or_default().waiting.push_back(outlet.clone());
            self.wake_host(host);
            self.wake_trials();
            return None;
        }
        let of_trials = if is_trial { self.trial_room(&outlet.topic) } else { u32::MAX };
        if of_trials == 0 {
            self.wait_for_trial(outlet);
            self.wake_host(host);
            self.wake_topic(&outlet.topic);
            return None;
        }
        Some(of_host.min(of_topic).min(of_trials))
    }

    fn topic_room(&self, topic: &Topic, concurrency: Option<u32>) -> u32 {
        let in_topic = self.topics.get(topic).map_or(0, |group| group.in_flight);
        concurrency.map_or(u32::MAX, |most| most.saturating_sub(in_topic))
    }

    /// Removes outlets that have been idle for a while; idle ones that nothing was learned of also earlier, once there are
    /// twice as many outlets as after the last time.
    fn prune(&mut self, now_us: i64) {
        let is_crowded = self.outlets.len() >= self.prune_at;
        if !is_crowded && now_us < self.next_prune_us {
            return;
        }
        self.outlets.retain(|_, state| {
            let is_remembered = state.last_call_us > now_us.saturating_sub(REMEMBERED_US);
            !state.is_idle() || is_remembered && !(is_crowded && state.is_forgettable())
        });
        self.prune_at = (self.outlets.len() * 2).max(FIRST_PRUNE);
        self.next_prune_us = now_us.saturating_add(REMEMBERED_US);
    }
}

#[cfg(test)]
mod tests;
