//! Fuzz target of records in Redis.

use bytes::Bytes;

use super::codec::record;
use crate::{
    job::{Due, Fingerprint, JobId},
    store::{AddJob, IfExists},
};

/// Any bytes are a job or none; a job that is encoded again decodes to the same.
pub fn fuzz_record(data: &[u8]) {
    let (id, raw) = (JobId::parse("a").expect("is an id"), Bytes::copy_from_slice(data));
    let Some(job) = record::decode(&id, &raw) else { return };
    assert!(!format!("{job:?} {} {}", job.due_at, job.created_at).is_empty());
    let host = record::outlet_of(&job, &raw).host;
    let added = AddJob {
        id: job.id.clone(),
        topic: job.topic.clone(),
        due: Due::At(job.due_at),
        spec: job.spec.clone(),
        fingerprint: Fingerprint([7; 16]),
        is_paused: false,
        if_exists: IfExists::Keep,
        body: job.body.clone(),
    };
    let decoded =
        record::decode(&id, &record::encode_new(&added, host, 1)).expect("an encoded record can be decoded");
    assert_eq!((&decoded.topic, &decoded.body, &decoded.spec), (&job.topic, &job.body, &job.spec));
    assert_eq!(decoded.due_at, job.due_at);
}
