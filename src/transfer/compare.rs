//! The content of a store by digests, to find what differs in another one.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::{file::TransferError, line};
use crate::{
    job::{JobId, JobState, RememberedId, ScheduleName, State, Topic},
    store::{self, JobRecord, RecordPage, RecordReader, StoredSchedule, TopicRecord},
};

/// The first half of a SHA-256.
pub type Digest = [u8; 16];

/// What a store has: of each job, schedule, remembered id and topic 16 bytes and its name.
#[derive(Debug, Default)]
pub struct Contents {
    pub jobs: HashMap<JobId, Digest>,
    pub topics: HashMap<Topic, Digest>,
    pub schedules: HashMap<ScheduleName, Digest>,
    pub remembered: HashMap<JobId, Digest>,
}

impl Contents {
    /// Reads a whole store, which must have no broken record.
    ///
    /// # Errors
    /// What cannot be read.
    pub async fn read(mut records: Box<dyn RecordReader>) -> Result<Self, TransferError> {
        let mut contents = Self::default();
        let unread =
            |error: store::Error| TransferError::Failed(format!("the target cannot be read: {error}"));
        while let Some(page) = records.next().await.map_err(unread)? {
            if let Some(broken) = page.broken.first() {
                return Err(TransferError::Failed(format!("the target is damaged: {broken}")));
            }
            for topic in &page.topics {
                contents.topics.insert(topic.topic.clone(), topic_digest(topic));
            }
            for schedule in &page.schedules {
                let digest = schedule_digest(schedule).map_err(|why| {
                    TransferError::Failed(format!("the target is damaged: schedule {}: {why}", schedule.name))
                })?;
                contents.schedules.insert(schedule.name.clone(), digest);
            }
            for remembered in &page.remembered {
                contents.remembered.insert(remembered.id.clone(), remembered_digest(remembered));
            }
            for job in &page.jobs {
                let digest = job_digest(job).map_err(|why| {
                    TransferError::Failed(format!("the target is damaged: job {}: {why}", job.job.id))
                })?;
                contents.jobs.insert(job.job.id.clone(), digest);
            }
        }
        Ok(contents)
    }
}

/// Whether a store has a job, a schedule, a remembered id, something that is set for a topic, or a record that cannot be read.
///
/// # Errors
/// Why that is not known.
pub async fn holds_anything(mut records: Box<dyn RecordReader>) -> store::Result<bool> {
    while let Some(page) = records.next().await? {
        let RecordPage { topics, schedules, remembered, jobs, broken } = page;
        let is_empty = topics.is_empty() && schedules.is_empty() && remembered.is_empty() && jobs.is_empty();
        if !(is_empty && broken.is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The digest of everything that an export has of a job, except whether a job that waits is due already: its due time says
/// that, and two engines notice it at different moments.
///
/// # Errors
/// Why the record is broken.
pub fn job_digest(record: &JobRecord) -> Result<Digest, String> {
    if record.job.state() != State::Ready {
        return Ok(digest(&line::job(record)?));
    }
    let mut waiting = record.clone();
    waiting.job.state = JobState::Delayed;
    Ok(digest(&line::job(&waiting)?))
}

/// The digest of everything that is set for a topic.
pub fn topic_digest(record: &TopicRecord) -> Digest {
    digest(&line::topic(record))
}

/// The digest of a schedule.
///
/// # Errors
/// Why it is broken.
pub fn schedule_digest(schedule: &StoredSchedule) -> Result<Digest, String> {
    Ok(digest(&line::schedule(schedule)?))
}

/// The digest of a remembered id.
pub fn remembered_digest(remembered: &RememberedId) -> Digest {
    digest(&line::remembered(remembered))
}

fn digest(line: &[u8]) -> Digest {
    let sum = Sha256::digest(line);
    sum[..16].try_into().expect("a SHA-256 has 32 bytes")
}
