//! Reading jobs by id.

use bytes::Bytes;

use crate::{
    job::{Job, JobId, TopicFilter},
    store::{
        Error, Result,
        redis::{
            codec::{record, scope::encode_scope},
            coordination::shards::Shards,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// The job, if it belongs to the scope.
pub async fn get(shards: &Shards, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
    let shard = shards.keys.shard_of(id);
    let call = shards.read(Script::Get, &[shard], vec![shards.keys.shard(shard).jobs.clone()]);
    let call = call.arg(encode_scope(scope)).arg(id.as_str());
    let raw = Reply::new(shards.call(call).await?)?.value()?.into_bytes();
    raw.map(|raw| decode_job(id, &raw)).transpose()
}

/// The job in a record that a script has just returned.
pub fn decode_job(id: &JobId, raw: &Bytes) -> Result<Job> {
    record::decode(id, raw).ok_or_else(|| Error::Damaged(format!("the record of job {id} cannot be read")))
}
