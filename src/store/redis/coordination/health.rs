//! Whether Redis accepts writes. In a Cluster some shards may and others not.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::join_all;

use super::shards::Shards;
use crate::{
    messages::failure_log::FailureLog,
    store::{
        Degraded, EngineInfo, Error, Result, StoreSpace,
        redis::{reply::Reply, scripts::Script},
    },
};

/// Checks the shards.
pub struct HealthCheck {
    shards: Arc<Shards>,
    results: ShardHealth,
    memory: PartHealth,
    replaced: PartHealth,
}

impl HealthCheck {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self {
            shards,
            results: ShardHealth::default(),
            memory: PartHealth::new("memory", "Redis has memory for adds again"),
            replaced: PartHealth::new("replaced", "no part of Redis is missing any more"),
        }
    }

    /// Asks every shard once, without retries, whether it accepts writes. The store works while one of them does:
    /// every process sees the same servers fail, and if all processes were taken out of service, the jobs of the
    /// other servers would be, too. A full memory is no failure: jobs are delivered and finished, which frees it.
    ///
    /// # Errors
    /// Why no shard accepts writes.
    pub async fn run(&self) -> Result<()> {
        let checks = self.shards.groups().into_iter().map(|group| {
            let keys = &self.shards.keys;
            let counts = group.iter().map(|shard| keys.shard(*shard).counts.clone()).collect();
            let call = self.shards.read(Script::CheckWrites, &group, counts);
            let call = call.arg(keys.ready_channel.clone()).arg(keys.settings_channel.clone());
            async { Reply::new(self.shards.call(call.without_retry()).await?)?.int() }
        });
        let context = self.shards.context();
        let layout_was_lost = context.layout.is_lost(self.shards.keys.slot);
        let results = join_all(checks).await;
        let (now_us, all) = (context.now_us(), results.len());
        let full = results.iter().filter(|result| matches!(result, Ok(1))).count();
        // A server that did not answer may be full as before.
        if full > 0 || results.iter().all(Result::is_ok) {
            self.memory.record(full_memory(full, all), now_us);
        }
        let replaced = results.iter().filter(|result| matches!(result, Err(Error::Replaced))).count();
        // One that was lost meanwhile says nothing about shards that were asked before: they may be lost, too.
        let layout = layout_was_lost && context.layout.is_lost(self.shards.keys.slot);
        context.metrics.set_replaced(replaced > 0 || layout);
        let mut failures: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
        if failures.len() == all {
            self.results.record_all_failed();
            return Err(failures.pop().expect("there is at least one group of shards"));
        }
        self.replaced.record(lost_parts(replaced, layout, all), now_us);
        failures.retain(|error| !matches!(error, Error::Replaced));
        match failures.last() {
            Some(why) => self.results.record_some_failed(failures.len(), all, why, now_us),
            None => self.results.record_all_work(now_us),
        }
        Ok(())
    }

    /// The outage or loss of some of the shards, and that the memory is full, if it is so.
    pub fn degraded(&self) -> Vec<Degraded> {
        [self.results.degraded(), self.replaced.degraded(), self.memory.degraded()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The versions of all servers and what they promise, as of the last inspection of each.
    pub fn info(&self) -> EngineInfo {
        let nodes = self.shards.router().open_nodes().into_iter();
        let reports = nodes.filter_map(|node| node.fitness.report());
        let (versions, promises) = reports.map(|report| (report.version, report.durability)).unzip();
        let join = |mut texts: Vec<String>| {
            texts.sort_unstable();
            texts.dedup();
            texts.join(" / ")
        };
        EngineInfo { engine: "redis", durability: join(promises), version: join(versions), is_shared: true }
    }

    /// The memory of all servers together, and what the fullest of them has left, as of the last inspection of each.
    pub fn space(&self) -> StoreSpace {
        let nodes = self.shards.router().open_nodes().into_iter();
        let memory: Vec<_> = nodes.filter_map(|node| Some(node.fitness.report()?.memory)).collect();
        StoreSpace {
            used_bytes: memory.iter().map(|memory| memory.used_bytes).sum(),
            free_bytes: memory.iter().filter_map(|memory| memory.free_bytes()).min(),
        }
    }
}

/// What the memory refuses, if it is full on this many of `all` groups of shards.
fn full_memory(full: usize, all: usize) -> Option<String> {
    match full {
        0 => None,
        _ if full == all => {
            Some("Redis has reached its maxmemory: adds, patches and settings are refused".to_owned())
        }
        _ => Some(format!(
            "the servers of {full} of {all} shards in Redis have reached their maxmemory: adds and patches there are \
             refused"
        )),
    }
}

/// What was emptied or replaced, if this many of `all` shards were, and perhaps the layout with the settings.
fn lost_parts(shards: usize, layout: bool, all: usize) -> Option<String> {
    let what = match (shards, layout) {
        (0, false) => return None,
        (0, true) => "the settings of topics".to_owned(),
        (_, false) if shards == all => "the jobs".to_owned(),
        (_, true) if shards == all => "the jobs and the settings of topics".to_owned(),
        (_, false) => format!("{shards} of {all} shards"),
        (_, true) => format!("{shards} of {all} shards and the settings of topics"),
    };
    Some(format!(
        "{what} in Redis were emptied or replaced; bring their data back, or confirm the loss with `linger store accept`"
    ))
}

/// What is wrong with a part of the store while the rest works, as of the last check.
#[derive(Debug)]
struct PartHealth {
    part: &'static str,
    /// What is logged once the part works again.
    works_again: &'static str,
    fault: Mutex<Option<Degraded>>,
    log: FailureLog,
}

impl PartHealth {
    fn new(part: &'static str, works_again: &'static str) -> Self {
        Self { part, works_again, fault: Mutex::default(), log: FailureLog::default() }
    }

    fn degraded(&self) -> Option<Degraded> {
        self.lock().clone()
    }

    fn record(&self, fault: Option<String>, now_us: i64) {
        if let Some(detail) = &fault {
            if self.log.failed(now_us) {
                tracing::error!("{detail}");
            }
        } else if let Some(lasted) = self.log.succeeded(now_us) {
            tracing::info!(after = ?lasted, "{}", self.works_again);
        }
        *self.lock() = fault.map(|detail| Degraded { part: self.part, detail, is_unready: false });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Degraded>> {
        self.fault.lock().expect("no code panics while it holds the result")
    }
}

/// The result of the last check.
#[derive(Debug, Default)]
struct ShardHealth {
    last: Mutex<LastCheck>,
    log: FailureLog,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum LastCheck {
    #[default]
    AllOrNoneWork,
    /// Some failed in one check. That alone is no outage: a connection was cut, or a shard moved.
    Suspected,
    /// Some failed in at least two checks in a row.
    SomeFailed(Degraded),
}

impl ShardHealth {
    fn degraded(&self) -> Option<Degraded> {
        match &*self.lock() {
            LastCheck::SomeFailed(degraded) => Some(degraded.clone()),
            LastCheck::AllOrNoneWork | LastCheck::Suspected => None,
        }
    }

    fn record_all_work(&self, now_us: i64) {
        *self.lock() = LastCheck::AllOrNoneWork;
        if let Some(lasted) = self.log.succeeded(now_us) {
            tracing::info!(after = ?lasted, "all shards in Redis accept writes again");
        }
    }

    /// The caller of the check gets the error, so there is nothing to remember.
    fn record_all_failed(&self) {
        *self.lock() = LastCheck::AllOrNoneWork;
    }

    /// This many shards of `all` fail while others work.
    fn record_some_failed(&self, failed: usize, all: usize, why: &Error, now_us: i64) {
        let mut last = self.lock();
        if *last == LastCheck::AllOrNoneWork {
            *last = LastCheck::Suspected;
            return;
        }
        // `/readyz` needs no token: the cause, which names an address, is only logged.
        let detail = format!("{failed} of {all} shards in Redis take no writes");
        if self.log.failed(now_us) {
            tracing::error!(cause = %why, "{detail}");
        }
        *last = LastCheck::SomeFailed(Degraded { part: "shards", detail, is_unready: false });
    }

    fn lock(&self) -> MutexGuard<'_, LastCheck> {
        self.last.lock().expect("no code panics while it holds the result")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_reported_until_it_works_again() {
        let memory = PartHealth::new("memory", "there is room again");
        memory.record(full_memory(5, 16), 1);
        let degraded = memory.degraded().expect("some are full");
        assert_eq!((degraded.part, degraded.is_unready), ("memory", false));
        assert!(degraded.detail.contains("5 of 16 shards"), "{}", degraded.detail);
        memory.record(full_memory(0, 16), 2);
        assert_eq!(memory.degraded(), None);
    }

    #[test]
    fn what_is_full_or_lost_is_named() {
        assert_eq!(full_memory(0, 1), None);
        assert!(full_memory(1, 1).expect("is full").starts_with("Redis has reached its maxmemory"));
        assert_eq!(lost_parts(0, false, 16), None);
        for (shards, layout, what) in [
            (0, true, "the settings of topics in Redis"),
            (5, false, "5 of 16 shards in Redis"),
            (5, true, "5 of 16 shards and the settings of topics in Redis"),
            (16, false, "the jobs in Redis"),
            (16, true, "the jobs and the settings of topics in Redis"),
        ] {
            let detail = lost_parts(shards, layout, 16).expect("is lost");
            assert!(detail.starts_with(what), "{detail}");
        }
    }

    #[test]
    fn shards_that_fail_two_checks_in_a_row_are_reported_until_they_work_again() {
        let health = ShardHealth::default();
        let why = Error::Unavailable("Redis at 127.0.0.1:7001: no answer".to_owned());
        health.record_some_failed(5, 16, &why, 1);
        assert_eq!(health.degraded(), None, "one failure is no outage");
        health.record_all_work(2);
        health.record_some_failed(5, 16, &why, 3);
        assert_eq!(health.degraded(), None, "they worked between the two failures");
        health.record_some_failed(4, 16, &why, 4);
        let degraded = health.degraded().expect("they fail");
        assert_eq!(degraded.part, "shards");
        assert_eq!(degraded.detail, "4 of 16 shards in Redis take no writes");
        health.record_all_work(5);
        assert_eq!(health.degraded(), None);
    }
}
