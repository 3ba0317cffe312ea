//! Reading jobs, and what all batches share: items go to their shards and outcomes back to their places.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use fred::bytes_utils::Str;

use crate::store::redis::{
    Engine, codec::record, connection::call::Call, keys::Shard, reply::Reply, scripts::Op,
};
use crate::{
    clock::Clock,
    job::{Job, JobId, TopicFilter},
    store::{Error, Result},
};

/// What scripts answer for one job, by number as in `scripts/shard.lua` and `scripts/finish.lua`.
pub mod code {
    pub const OK: i64 = 1;
    pub const GONE: i64 = 2;
    pub const LOST: i64 = 3;
    pub const MOVED: i64 = 4;
    pub const REFUSED: i64 = 5;
    pub const NOT_RESERVED: i64 = 6;
    pub const RECEIPT_REQUIRED: i64 = 7;
}

/// When a caller limited to some topics is told that there is no such job, after the call began. To copy a record of
/// 256 KiB takes a server 0.4 ms.
const GONE_AFTER_US: i64 = 5_000;

/// How often a job may turn out to be in another topic than it was a moment ago.
pub const MOVES_LIMIT: usize = 8;

/// The error for a job that is deleted and added to other topics faster than we can follow.
pub fn keeps_moving() -> Error {
    Error::Unavailable("the job keeps changing its topic".to_owned())
}

/// Items of a batch with their places in it.
pub type Placed<T> = Vec<(usize, T)>;

impl Engine {
    /// Items by the shard of their id.
    pub fn by_shard<T>(
        &self,
        items: impl IntoIterator<Item = (usize, T)>,
        id: impl Fn(&T) -> &JobId,
    ) -> BTreeMap<Shard, Placed<T>> {
        let mut shards: BTreeMap<Shard, Placed<T>> = BTreeMap::new();
        for (at, item) in items {
            shards.entry(self.keys.shard_of(id(&item))).or_default().push((at, item));
        }
        shards
    }

    /// The earliest moment to tell a caller limited to some topics that there is no such job, asked for as the step begins.
    pub fn gone_us(&self) -> i64 {
        self.context.real.now_micros().saturating_add(GONE_AFTER_US)
    }

    /// Waits until `gone_us` before a caller limited to some topics is told that there is no such job: whether there
    /// is none or one of another topic then takes the same time, though the server copies a large record before the
    /// script sees its topic.
    pub async fn hold_back(&self, scope: &TopicFilter, gone_us: i64, is_gone: bool) {
        let real = &self.context.real;
        if is_gone && !scope.is_all() {
            let left_us = gone_us.saturating_sub(real.now_micros());
            real.sleep(Duration::from_micros(u64::try_from(left_us).unwrap_or(0))).await;
        }
    }

    pub async fn get_job(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let shard = self.keys.shard_of(id);
        let jobs = self.read_jobs(shard, scope, std::slice::from_ref(id)).await?;
        match jobs.into_iter().next().flatten() {
            None => Ok(None),
            Some(raw) => self.job(id, &raw).map(Some),
        }
    }

    /// The records of those jobs of one shard that are of a topic in `scope`.
    pub async fn read_jobs(
        &self,
        shard: Shard,
        scope: &TopicFilter,
        ids: &[JobId],
    ) -> Result<Vec<Option<Bytes>>> {
        let keys = self.keys.shard(shard);
        let args = Vec::with_capacity(1 + ids.len());
        let mut call = Call::new(Op::Read, keys.slot, vec![keys.pool.clone()], args).arg(scope_arg(scope));
        for id in ids {
            call = call.arg(id.as_str());
        }
        let mut reply = Reply::new(self.call(call).await?)?;
        ids.iter().map(|_| reply.value().map(|value| value.into_bytes())).collect()
    }

    /// The job in a record that a script has just read.
    pub fn job(&self, id: &JobId, raw: &Bytes) -> Result<Job> {
        record::read(id, raw).ok_or_else(|| Error::Damaged(format!("the record of job {id} cannot be read")))
    }
}

/// A caller's topics as scripts read them, see `scripts/scope.lua`.
pub fn scope_arg(scope: &TopicFilter) -> Str {
    match scope.patterns() {
        None => Str::new(),
        // Not '' either, which is every topic.
        Some([]) => Str::from_static(" "),
        Some(patterns) => patterns.iter().map(|pattern| format!("{pattern} ")).collect::<String>().into(),
    }
}

/// The outcomes of a batch, each in its place.
pub fn in_order<T>(count: usize, answers: Vec<Placed<T>>) -> Vec<T> {
    let mut all: Placed<T> = Vec::with_capacity(count);
    all.extend(answers.into_iter().flatten());
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Outcomes with the places of their items.
pub fn placed<T>(places: Vec<usize>, outcomes: Vec<T>) -> Placed<T> {
    places.into_iter().zip(outcomes).collect()
}
