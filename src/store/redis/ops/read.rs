//! Reading jobs by id.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    job::{Job, JobId, TopicFilter},
    store::{
        Error, Result,
        redis::{
            codec::{record, scope::encode_scope},
            coordination::shards::Shards,
            keys::Shard,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Reads jobs.
pub struct JobReader {
    shards: Arc<Shards>,
}

impl JobReader {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }

    pub async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let shard = self.shards.keys.shard_of(id);
        let jobs = self.read_on(shard, scope, std::slice::from_ref(id)).await?;
        jobs.into_iter().next().flatten().map(|raw| decode_job(id, &raw)).transpose()
    }

    /// The records of those jobs of one shard whose topic is in `scope`.
    pub async fn read_on(
        &self,
        shard: Shard,
        scope: &TopicFilter,
        ids: &[JobId],
    ) -> Result<Vec<Option<Bytes>>> {
        let call = self.shards.read(Script::Get, &[shard], vec![self.shards.keys.shard(shard).jobs.clone()]);
        let call = ids.iter().fold(call.arg(encode_scope(scope)), |call, id| call.arg(id.as_str()));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        ids.iter().map(|_| reply.value().map(|value| value.into_bytes())).collect()
    }
}

/// The job in a record that a script has just returned.
pub fn decode_job(id: &JobId, raw: &Bytes) -> Result<Job> {
    record::decode(id, raw).ok_or_else(|| Error::Damaged(format!("the record of job {id} cannot be read")))
}
