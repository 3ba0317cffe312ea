//! What the API and the metrics show of the ring.

use std::collections::HashMap;

use super::{
    Ring,
    outlet_state::{OutletFigures, OutletState, Position},
    turn::CallTicket,
};
use crate::job::{Origin, Topic};

impl Ring {
    /// A call to `origin` begins.
    pub fn calling(&mut self, ticket: &CallTicket, origin: &Origin) {
        self.state(&ticket.outlet).calling(origin);
    }

    /// A call to `origin` has failed for a reason with this first word.
    pub fn failed(&mut self, ticket: &CallTicket, origin: &Origin, reason: &str, now_us: i64) {
        let endpoints = &mut self.state(&ticket.outlet).endpoints;
        if let Some(endpoint) = endpoints.iter_mut().find(|endpoint| endpoint.origin == *origin) {
            endpoint.last_failure = Some((now_us, reason.to_owned()));
        }
    }

    /// How many outlets have calls in progress or ready jobs, and how many endpoints of each topic rest.
    pub fn counts(&self, now_us: i64) -> (usize, HashMap<Topic, usize>) {
        let active =
            self.outlets.values().filter(|state| state.in_flight > 0 || state.position != Position::Idle);
        let mut resting = HashMap::new();
        for (outlet, state) in &self.outlets {
            let of_outlet = usize::from(state.window.resting_until(now_us).is_some());
            let count = of_outlet + state.suspects.resting(now_us);
            if count > 0 {
                *resting.entry(outlet.topic.clone()).or_default() += count;
            }
        }
        (active.count(), resting)
    }

    /// The endpoints of a topic that were called, by origin. Those that share an outlet have its figures, unless they are
    /// called by themselves.
    pub fn called_endpoints(&self, topic: &Topic, now_us: i64) -> Vec<OutletFigures> {
        let of_topic = self.outlets.iter().filter(|(outlet, _)| outlet.topic == *topic);
        let mut figures: Vec<_> = of_topic.flat_map(|(_, state)| figures_of(state, now_us)).collect();
        figures.sort_by(|one, other| one.endpoint.origin.cmp(&other.endpoint.origin));
        figures
    }

    /// The topics with endpoints that were called, each with the one whose call failed last, if its host fails.
    pub fn called_topics(&self, now_us: i64) -> HashMap<Topic, Option<OutletFigures>> {
        let failed_at =
            |figures: &OutletFigures| figures.endpoint.last_failure.as_ref().map(|(at_us, _)| *at_us);
        let mut called = HashMap::<Topic, Option<OutletFigures>>::new();
        for (outlet, state) in self.outlets.iter().filter(|(_, state)| !state.endpoints.is_empty()) {
            let latest = called.entry(outlet.topic.clone()).or_default();
            for figures in figures_of(state, now_us).filter(|figures| figures.is_failing) {
                if failed_at(&figures) > latest.as_ref().and_then(failed_at) {
                    *latest = Some(figures);
                }
            }
        }
        called
    }
}

/// The endpoints of an outlet that were called.
fn figures_of(state: &OutletState, now_us: i64) -> impl Iterator<Item = OutletFigures> {
    state.endpoints.iter().map(move |endpoint| {
        let suspect = state.suspects.get(&endpoint.origin).filter(|one| one.is_failing());
        let window = suspect.map_or(&state.window, |suspect| &suspect.window);
        OutletFigures {
            endpoint: endpoint.clone(),
            in_flight: suspect.map_or(state.in_flight, |suspect| suspect.in_flight),
            window: window.size(),
            resting_until_us: window.resting_until(now_us),
            is_failing: suspect.is_some() || window.overloads_in_row() > 0,
        }
    })
}
