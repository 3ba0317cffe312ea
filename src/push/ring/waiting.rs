//! The permits of the ring, and the outlets that wait for one: until a limit has room again, or until a moment.

use super::{
    Ring,
    outlet_state::{Group, OutletState, Position},
};
use crate::job::{HostNumber, Outlet, Topic};

impl Ring {
    /// Calls that may begin to a host: up to its limit, and to half of the permits that are free. The first call to a host
    /// needs only a free permit.
    pub(super) fn host_room(&self, host: HostNumber) -> u32 {
        let in_flight = self.hosts.get(&host).map_or(0, |group| group.in_flight);
        let free = self.max_calls - self.busy;
        // With `room` further calls, `in_flight + room <= (free - room) / 2`.
        let by_share = (free.saturating_sub(2 * in_flight)) / 3;
        let by_share = if in_flight == 0 { by_share.max(1) } else { by_share };
        self.max_calls_per_host.saturating_sub(in_flight).min(by_share).min(free)
    }

    /// Takes permits for calls of an outlet that has its turn. Returns the number of its window.
    pub(super) fn take_permits(
        &mut self,
        outlet: &Outlet,
        host: HostNumber,
        calls: u32,
        is_trial: bool,
    ) -> u32 {
        if is_trial {
            self.add_trials(&outlet.topic, calls);
        }
        self.busy += calls;
        self.hosts.entry(host).or_default().in_flight += calls;
        self.topics.entry(outlet.topic.clone()).or_default().in_flight += calls;
        let state = self.state(outlet);
        state.in_flight += calls;
        state.in_window += calls;
        (state.position, state.announced, state.reconfigured) = (Position::Serving, false, false);
        state.window_number
    }

    /// Returns the permits of calls, which may be trials, and wakes the outlets that now have room. The calls counted against
    /// the window with this number, if any.
    pub(super) fn free(
        &mut self,
        outlet: &Outlet,
        host: HostNumber,
        window_number: Option<u32>,
        (calls, are_trials): (u32, bool),
    ) {
        if calls == 0 {
            return;
        }
        if are_trials {
            self.end_trials(&outlet.topic, calls);
        }
        self.busy -= calls;
        self.hosts.entry(host).or_default().in_flight -= calls;
        self.topics.entry(outlet.topic.clone()).or_default().in_flight -= calls;
        let state = self.state(outlet);
        state.in_flight -= calls;
        if window_number == Some(state.window_number) {
            state.in_window -= calls;
        }
        let has_own_room = state.position == Position::OwnRoom;
        // Those that wait for a limit which others use, too, come before the outlet itself: it would use all that it returns.
        self.wake_hosts();
        self.wake_topic(&outlet.topic);
        self.wake_trials();
        if has_own_room {
            self.enqueue(outlet);
        }
        self.forget_empty_groups(host, &outlet.topic);
    }

    /// Wakes an outlet of each host that has room. A permit that is returned may give room to every host, because each gets
    /// a share of the free permits.
    fn wake_hosts(&mut self) {
        let waiting = self.hosts.iter().filter(|(_, group)| !group.waiting.is_empty());
        let waiting: Vec<HostNumber> = waiting.map(|(host, _)| *host).collect();
        waiting.into_iter().for_each(|host| self.wake_host(host));
    }

    /// Wakes one outlet that waits for room at `host`, if there is room.
    pub(super) fn wake_host(&mut self, host: HostNumber) {
        if self.host_room(host) == 0 {
            return;
        }
        let woken = self.hosts.get_mut(&host).and_then(|group| group.waiting.pop_front());
        if let Some(woken) = woken {
            self.forget_empty_groups(host, &woken.topic);
            self.enqueue(&woken);
        }
    }

    /// Wakes one outlet that waits for room in `topic`.
    pub(super) fn wake_topic(&mut self, topic: &Topic) {
        let woken = self.topics.get_mut(topic).and_then(|group| group.waiting.pop_front());
        if let Some(woken) = woken {
            let host = self.state(&woken).host;
            self.forget_empty_groups(host, topic);
            self.enqueue(&woken);
        }
    }

    fn forget_empty_groups(&mut self, host: HostNumber, topic: &Topic) {
        if self.hosts.get(&host).is_some_and(Group::is_empty) {
            self.hosts.remove(&host);
        }
        if self.topics.get(topic).is_some_and(Group::is_empty) {
            self.topics.remove(topic);
        }
    }

    /// Queues an outlet that waits, whatever it waits for.
    pub(super) fn end_wait(&mut self, outlet: &Outlet) {
        let state = self.state(outlet);
        let (position, host) = (state.position, state.host);
        match position {
            Position::Idle | Position::Queued | Position::Serving => return,
            Position::OwnRoom => {}
            Position::HostRoom => {
                self.hosts.entry(host).or_default().waiting.retain(|waiting| waiting != outlet);
            }
            Position::TopicRoom => {
                let group = self.topics.entry(outlet.topic.clone()).or_default();
                group.waiting.retain(|waiting| waiting != outlet);
            }
            Position::TrialRoom => self.end_trial_wait(outlet),
            Position::Resting(until_us) | Position::Until(until_us) => {
                self.timers.remove(&(until_us, outlet.clone()));
            }
        }
        self.forget_empty_groups(host, &outlet.topic);
        self.enqueue(outlet);
    }

    pub(super) fn enqueue(&mut self, outlet: &Outlet) {
        self.set_position(outlet, Position::Queued);
        self.queue.push_back(outlet.clone());
    }

    pub(super) fn wait(&mut self, outlet: &Outlet, position: Position, until_us: i64) {
        self.set_position(outlet, position);
        self.timers.insert((until_us, outlet.clone()));
    }

    /// Queues the outlets whose waiting has ended.
    pub(super) fn end_waits(&mut self, now_us: i64) {
        while let Some((until_us, _)) = self.timers.first()
            && *until_us <= now_us
            && let Some((_, outlet)) = self.timers.pop_first()
        {
            self.enqueue(&outlet);
        }
    }

    pub(super) fn set_position(&mut self, outlet: &Outlet, position: Position) {
        self.state(outlet).position = position;
    }

    pub(super) fn state(&mut self, outlet: &Outlet) -> &mut OutletState {
        self.outlets.get_mut(outlet).expect("an outlet is kept while it is queued, waits or has calls")
    }
}
