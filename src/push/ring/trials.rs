//! Calls to outlets that nothing good is known of, because they are new or failed last: how many there may be. They get half
//! of all calls, and each topic a share of these, so that hosts which hang leave the other half to those that answer.

use std::ops::Bound;

use super::{Ring, outlet_state::Position};
use crate::job::{Outlet, Topic};

impl Ring {
    fn free_trials(&self) -> u32 {
        (self.max_calls / 2).max(1).saturating_sub(self.trials)
    }

    /// Trials that may begin in a topic: up to half of those that are free then. The first one needs only a free one.
    pub(super) fn trial_room(&self, topic: &Topic) -> u32 {
        let in_flight = self.topics.get(topic).map_or(0, |group| group.trials);
        let free = self.free_trials();
        // With `room` further ones, `in_flight + room <= (free - room) / 2`.
        let by_share = free.saturating_sub(2 * in_flight) / 3;
        if in_flight == 0 { by_share.max(1).min(free) } else { by_share }
    }

    pub(super) fn add_trials(&mut self, topic: &Topic, trials: u32) {
        self.trials += trials;
        self.topics.entry(topic.clone()).or_default().trials += trials;
    }

    pub(super) fn end_trials(&mut self, topic: &Topic, trials: u32) {
        self.trials -= trials;
        self.topics.entry(topic.clone()).or_default().trials -= trials;
    }

    /// The outlet waits until its topic may have another trial.
    pub(super) fn wait_for_trial(&mut self, outlet: &Outlet) {
        self.set_position(outlet, Position::TrialRoom);
        self.topics.entry(outlet.topic.clone()).or_default().waiting_for_trial.push_back(outlet.clone());
        self.trial_topics.insert(outlet.topic.clone());
    }

    /// The outlet no longer waits for a trial.
    pub(super) fn end_trial_wait(&mut self, outlet: &Outlet) {
        let group = self.topics.entry(outlet.topic.clone()).or_default();
        group.waiting_for_trial.retain(|waiting| waiting != outlet);
        if group.waiting_for_trial.is_empty() {
            self.trial_topics.remove(&outlet.topic);
        }
    }

    /// Wakes outlets that wait for a trial, topic after topic, at most one for each trial that is free: those without room
    /// are of topics with trials in progress, so that few are passed over.
    pub(super) fn wake_trials(&mut self) {
        let mut left = self.free_trials();
        for _ in 0..self.trial_topics.len() {
            if left == 0 {
                return;
            }
            let Some(topic) = self.next_trial_topic() else { return };
            self.last_trial_topic = Some(topic.clone());
            if self.trial_room(&topic) == 0 {
                continue;
            }
            let waiting = self.topics.get(&topic).and_then(|group| group.waiting_for_trial.front());
            if let Some(woken) = waiting.cloned() {
                self.end_wait(&woken);
                left -= 1;
            }
        }
    }

    fn next_trial_topic(&self) -> Option<Topic> {
        let after = self.last_trial_topic.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.trial_topics.range((after, Bound::Unbounded)).next();
        next.or_else(|| self.trial_topics.first()).cloned()
    }
}
