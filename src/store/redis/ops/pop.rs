//! A pop in progress: the jobs that are still wanted, and how long it may continue. Makes no calls.

use std::time::Duration;

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
    /// One per wanted job: the first is for the first job granted, and so on.
    pub claims: &'a [Claim],
    pub granted: Vec<Reservation>,
    pub began_us: i64,
    pub wait: Wait,
}

impl<'a> PopProgress<'a> {
    /// The claims of the jobs that are still wanted.
    pub fn wanted(&self) -> &'a [Claim] {
        &self.claims[self.granted.len()..]
    }

    /// Whether all jobs that are still wanted have equal claims. If not, they are reserved from one shard after the
    /// other: parallel shards cannot share different claims, because the n-th job is for the n-th claim.
    pub fn has_equal_claims(&self) -> bool {
        self.wanted().windows(2).all(|pair| pair[0] == pair[1])
    }

    /// How long it may continue; `None` while it has no jobs.
    pub fn time_left(&self, now_us: i64) -> Option<Duration> {
        (!self.granted.is_empty()).then(|| self.time_left_with(&self.granted, self.claims, now_us))
    }

    /// How long it may continue with these jobs, each for the claim at its index.
    pub fn time_left_with(&self, granted: &[Reservation], claims: &[Claim], now_us: i64) -> Duration {
        let ttr = |(grant, claim): (&Reservation, &Claim)| claim.ttr.unwrap_or(grant.job.ttr).as_duration();
        let ttrs = granted.iter().zip(claims).map(ttr);
        let spent = between(self.began_us, now_us);
        ttrs.min().unwrap_or_default().mul_f64(TTR_SHARE).saturating_sub(spent)
    }
}
