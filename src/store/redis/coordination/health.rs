//! Whether Redis takes writes. On a Cluster that may be true of some shards and not of others.

use std::sync::{Mutex, MutexGuard};

use futures_util::future::join_all;

use crate::store::redis::{Engine, scripts::Op};
use crate::{
    clock::Clock,
    failure_log::FailureLog,
    store::{Degraded, Error, Result},
};

/// What the last check found of the shards that fail while others work.
#[derive(Debug, Default)]
pub struct ShardHealth {
    known: Mutex<Known>,
    log: FailureLog,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Known {
    #[default]
    AllWorkOrNone,
    /// Some failed in one check. That alone is no outage: a connection was cut, or a shard moved.
    Suspected,
    /// Some failed in at least two checks in a row.
    SomeFail(Degraded),
}

impl ShardHealth {
    /// What fails on some of the shards.
    pub fn degraded(&self) -> Option<Degraded> {
        match &*self.lock() {
            Known::SomeFail(degraded) => Some(degraded.clone()),
            Known::AllWorkOrNone | Known::Suspected => None,
        }
    }

    /// Notes that all shards work.
    fn note_all_work(&self, now_us: i64) {
        *self.lock() = Known::AllWorkOrNone;
        if let Some(lasted) = self.log.succeeded(now_us) {
            tracing::info!(after = ?lasted, "all shards in Redis take writes again");
        }
    }

    /// Notes that none works: the store as a whole is away, and whoever asked is told so.
    fn note_none_works(&self) {
        *self.lock() = Known::AllWorkOrNone;
    }

    /// Notes that this many shards of `all` fail while others work.
    fn note_some(&self, failed: usize, all: usize, why: &Error, now_us: i64) {
        let mut known = self.lock();
        if *known == Known::AllWorkOrNone {
            *known = Known::Suspected;
            return;
        }
        // Readiness is shown to anybody: the cause, with its address, is for the log alone.
        let detail = format!("{failed} of {all} shards in Redis take no writes");
        if self.log.failed(now_us) {
            tracing::error!(cause = %why, "{detail}");
        }
        *known = Known::SomeFail(Degraded { part: "shards", detail });
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds what is known")
    }
}

impl Engine {
    /// Asks every shard once, without retries, whether it takes writes. The store works while one of them does:
    /// every process sees the same servers fail, and if all of them were taken out of service, the jobs of the
    /// other servers would be, too.
    ///
    /// # Errors
    /// Why no shard takes writes.
    pub async fn check_shards(&self) -> Result<()> {
        let asks = self.groups().into_iter().map(|group| {
            let keys = group.iter().map(|shard| self.keys.shard(*shard).counts.clone()).collect();
            let [ready, settings] = self.channels();
            self.call(self.read(Op::Check, &group, keys).arg(ready).arg(settings).once())
        });
        let answers = join_all(asks).await;
        let now_us = self.context.real.now_micros();
        let all = answers.len();
        let mut failures: Vec<Error> = answers.into_iter().filter_map(|answer| answer.err()).collect();
        let failed = failures.len();
        match failures.pop() {
            Some(why) if failed < all => {
                self.shard_health.note_some(failed, all, &why, now_us);
                Ok(())
            }
            Some(why) => {
                self.shard_health.note_none_works();
                Err(why)
            }
            None => {
                self.shard_health.note_all_work(now_us);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_fail_in_two_checks_in_a_row_are_named_until_they_work_again() {
        let health = ShardHealth::default();
        let why = Error::Unavailable("Redis at 127.0.0.1:7001: no answer".to_owned());
        health.note_some(5, 16, &why, 1);
        assert_eq!(health.degraded(), None, "one failure is no outage");
        health.note_all_work(2);
        health.note_some(5, 16, &why, 3);
        assert_eq!(health.degraded(), None, "and they worked between the two");
        health.note_some(4, 16, &why, 4);
        let degraded = health.degraded().expect("they fail");
        assert_eq!(degraded.part, "shards");
        assert_eq!(degraded.detail, "4 of 16 shards in Redis take no writes");
        health.note_all_work(5);
        assert_eq!(health.degraded(), None);
    }
}
