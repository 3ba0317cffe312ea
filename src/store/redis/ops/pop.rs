//! A pop in progress: the jobs that are still wanted, and how long it may continue. Makes no calls.

use std::time::Duration;

use crate::{
    job::{Outlet, Ttr},
    store::{Reservation, Wait, redis::time::between},
};

/// The share of the shortest TTR that a pop with some jobs may spend on more: their reservations
/// run meanwhile.
const TTR_SHARE: f64 = 0.5;

/// A pop in progress.
pub struct PopProgress<'a> {
    pub outlet: &'a Outlet,
    /// One per wanted job: the first is for the first job granted, and so on.
    pub ttrs: &'a [Option<Ttr>],
    pub granted: Vec<Reservation>,
    pub began_us: i64,
    pub wait: Wait,
}

impl<'a> PopProgress<'a> {
    /// The TTRs of the jobs that are still wanted.
    pub fn wanted(&self) -> &'a [Option<Ttr>] {
        &self.ttrs[self.granted.len()..]
    }

    /// Whether all jobs that are still wanted have the same TTR. If not, they are reserved from one shard after the
    /// other: parallel shards cannot share different TTRs, because the n-th job is for the n-th TTR.
    pub fn wants_same_ttrs(&self) -> bool {
        self.wanted().windows(2).all(|pair| pair[0] == pair[1])
    }

    /// How long it may continue; `None` while it has no jobs.
    pub fn time_left(&self, now_us: i64) -> Option<Duration> {
        (!self.granted.is_empty()).then(|| self.time_left_with(&self.granted, self.ttrs, now_us))
    }

    /// How long it may continue with these jobs, each for the TTR at its index.
    pub fn time_left_with(&self, granted: &[Reservation], ttrs: &[Option<Ttr>], now_us: i64) -> Duration {
        let ttrs = granted.iter().zip(ttrs).map(|(grant, ttr)| ttr.unwrap_or(grant.job.ttr).as_duration());
        let spent = between(self.began_us, now_us);
        ttrs.min().unwrap_or_default().mul_f64(TTR_SHARE).saturating_sub(spent)
    }
}
