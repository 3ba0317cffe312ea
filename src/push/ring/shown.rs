//! What the API and the metrics show of the ring.

use std::collections::HashMap;

use super::{
    Ring,
    outlet_state::{OutletFigures, OutletState, Position},
    turn::CallTicket,
};
use crate::job::{Origin, Outlet, Topic};

impl Ring {
    /// A call to `origin` begins.
    pub fn calling(&mut self, ticket: &CallTicket, origin: &Origin) {
        self.state(&ticket.outlet).calling(origin);
    }

    /// A call to `origin` has failed for a reason with this first word.
    pub fn failed(&mut self, ticket: &CallTicket, origin: &Origin, reason: &str, now_us: i64) {
        if let Some(endpoint) = self.state(&ticket.outlet).endpoint(origin) {
            endpoint.last_failure = Some((now_us, reason.to_owned()));
            endpoint.is_failing = true;
            endpoint.recent_calls.ended(false, now_us);
        }
    }

    /// A call to `origin` has succeeded.
    pub fn succeeded(&mut self, ticket: &CallTicket, origin: &Origin, now_us: i64) {
        if let Some(endpoint) = self.state(&ticket.outlet).endpoint(origin) {
            endpoint.is_failing = false;
            endpoint.recent_calls.ended(true, now_us);
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

    /// The endpoints that were called, each with the topic of its jobs. Those that share an outlet have its figures, unless they
    /// are called by themselves.
    pub fn called_endpoints(&self, now_us: i64) -> Vec<(Topic, OutletFigures)> {
        let called = self.outlets.iter().flat_map(|(outlet, state)| {
            figures_of(state, now_us).map(|figures| (outlet.topic.clone(), figures))
        });
        called.collect()
    }

    /// The outlets with endpoints that were called, each with the endpoint whose call failed last, if it fails.
    pub fn called_outlets(&self, now_us: i64) -> Vec<(Outlet, Option<OutletFigures>)> {
        let called = self.outlets.iter().filter(|(_, state)| !state.endpoints.is_empty());
        let latest = |state: &OutletState| {
            let failing = state.endpoints.iter().filter(|endpoint| endpoint.is_failing);
            let endpoint =
                failing.max_by_key(|endpoint| endpoint.last_failure.as_ref().map(|(at_us, _)| *at_us))?;
            figures_of(state, now_us).find(|figures| figures.endpoint.origin == endpoint.origin)
        };
        called.map(|(outlet, state)| (outlet.clone(), latest(state))).collect()
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
            minute: endpoint.recent_calls.minute(now_us),
        }
    })
}
