//! A pop in progress: the jobs that are still wanted, and how long it may continue. Makes no calls.

use std::{collections::VecDeque, time::Duration};

use crate::{
    job::Outlet,
    store::{Claim, Reservation, Wait, redis::time::between},
};

/// The share of the shortest TTR that a pop with some jobs may spend on more: their reservations
/// run meanwhile.
const TTR_SHARE: f64 = 0.5;

/// A pop in progress.
pub struct PopProgress<'a> {
    pub outlet: &'a Outlet,
    /// One per wanted job.
    pub claims: &'a [Claim],
    pub granted: Vec<Reservation>,
    pub began_us: i64,
    pub wait: Wait,
}

impl PopProgress<'_> {
    /// The claims that have no job yet, by their indices, in order.
    pub fn wanted(&self) -> VecDeque<usize> {
        let mut granted = vec![false; self.claims.len()];
        self.granted.iter().for_each(|grant| granted[grant.claim] = true);
        (0..self.claims.len()).filter(|index| !granted[*index]).collect()
    }

    /// Whether all claims have a job.
    pub fn is_complete(&self) -> bool {
        self.granted.len() == self.claims.len()
    }

    /// Takes jobs that were reserved for claims of [`wanted`](Self::wanted), each for the first claim that equals its own and
    /// has none. Returns those that are too many, because two shards reserved for one claim.
    pub fn accept(&mut self, mut jobs: Vec<Reservation>) -> Vec<Reservation> {
        let (mut wanted, mut surplus) = (self.wanted(), Vec::new());
        jobs.sort_by_key(|job| job.claim);
        for mut job in jobs {
            let place = wanted.iter().position(|index| self.claims[*index] == self.claims[job.claim]);
            match place.and_then(|place| wanted.remove(place)) {
                Some(index) => {
                    job.claim = index;
                    self.granted.push(job);
                }
                None => surplus.push(job),
            }
        }
        surplus
    }

    /// How long it may continue; `None` while it has no jobs.
    pub fn time_left(&self, now_us: i64) -> Option<Duration> {
        (!self.granted.is_empty()).then(|| self.time_left_with(&self.granted, now_us))
    }

    /// How long it may continue with these jobs.
    pub fn time_left_with(&self, granted: &[Reservation], now_us: i64) -> Duration {
        let ttr =
            |grant: &Reservation| self.claims[grant.claim].ttr.unwrap_or(grant.job.spec.ttr).as_duration();
        let spent = between(self.began_us, now_us);
        granted.iter().map(ttr).min().unwrap_or_default().mul_f64(TTR_SHARE).saturating_sub(spent)
    }
}
