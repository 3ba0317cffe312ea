//! Whole records: what an export reads of a store and an import writes to another one. Unlike a job that callers see, a
//! record has everything that is stored, so that nothing is lost on the way.

use async_trait::async_trait;

use super::{Result, StoredSchedule, TopicConfig, TopicValues};
use crate::job::{Attributes, Fingerprint, Job, JobSpec, Receipt, RememberedId, Tag, Topic};

/// A job with everything that a store keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// What callers see of it, with the times as they are stored: by the store's clock, but for a due time or an expiry that is a moment.
    pub job: Job,
    /// By which a repeated add is recognised.
    pub fingerprint: Fingerprint,
    /// The receipt of the present reservation; present exactly if the job is reserved.
    pub receipt: Option<Receipt>,
    /// The receipt of a reservation that timed out ([`Tag::TIMED_OUT`]) and attributes of later versions, as they are stored. Has the callback, the trace context and the note, too, if the job
    /// lacks a part of them.
    pub other: Attributes,
}

impl JobRecord {
    /// The record of a job that an engine stores with these attributes.
    #[must_use]
    pub fn new(job: Job, fingerprint: Fingerprint, receipt: Option<Receipt>, stored: &Attributes) -> Self {
        let mut other = stored.clone();
        Self::known_tags().for_each(|tag| other.set(tag, None));
        for (tag, value) in extensible(&job).iter() {
            if other.get(tag) == Some(value) {
                other.set(tag, None);
            }
        }
        Self { job, fingerprint, receipt, other }
    }

    /// The attributes that this version knows completely. They are never among [`other`](Self::other).
    pub fn known_tags() -> impl Iterator<Item = Tag> {
        let own = [Tag::LEASE, Tag::DIED_AT, Tag::REASON, Tag::HISTORY, Tag::HOST_NUMBER, Tag::EXPIRES_AT];
        JobSpec::WHOLE_TAGS.into_iter().chain(own)
    }

    /// The callback, the trace context, the note and the attributes of later versions, as both engines store them.
    #[must_use]
    pub fn other_attributes(&self) -> Attributes {
        let mut attributes = self.other.clone();
        for (tag, value) in extensible(&self.job).iter() {
            if attributes.get(tag).is_none() {
                attributes.set(tag, Some(value));
            }
        }
        attributes
    }

    /// All attributes that both engines store in the record.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let Job { spec, reason, history, .. } = &self.job;
        let mut attributes = self.other_attributes();
        spec.encode_whole(&mut attributes);
        attributes.set_reason(reason.as_ref());
        attributes.set_died_at(self.job.dead_at());
        attributes.set_expires_at(self.job.expires_at);
        attributes.set_history(history);
        attributes
    }

    /// Whether a stored job is the same one: added by the same request at the same time. It may have moved on since.
    #[must_use]
    pub fn is_of(&self, stored: &Job, fingerprint: Fingerprint) -> bool {
        self.fingerprint == fingerprint
            && (&self.job.topic, self.job.created_at) == (&stored.topic, stored.created_at)
    }
}

/// The attributes that a later version may have extended, with the parts that this version knows.
fn extensible(job: &Job) -> Attributes {
    let mut attributes = Attributes::default();
    job.spec.encode_extensible(&mut attributes);
    attributes.set_progress_note(job.note.as_ref());
    attributes
}

/// What is set for a topic, with everything that a store keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRecord {
    /// The topic.
    pub topic: Topic,
    /// Its settings, pause and secrets.
    pub config: TopicConfig,
    /// Values of later versions, as they are stored.
    pub other: Attributes,
}

impl TopicRecord {
    /// The record of a topic for which an engine stores these values; `None` when they are malformed.
    #[must_use]
    pub fn decode(topic: Topic, values: &TopicValues) -> Option<Self> {
        let (config, mut other) = (values.config()?, Attributes::decode(values.as_bytes())?);
        TopicConfig::default().encode_into(&mut other);
        Some(Self { topic, config, other })
    }

    /// The values as an engine stores them.
    #[must_use]
    pub fn values(&self) -> TopicValues {
        TopicValues::new(self.other.as_bytes().to_vec()).with(&self.config)
    }
}

/// Some records of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPage {
    /// What is set for topics. All of them are on the pages before the first job.
    pub topics: Vec<TopicRecord>,
    /// Schedules. All of them are on the pages before the first job, too.
    pub schedules: Vec<StoredSchedule>,
    /// Ids of jobs that are gone. All of them are on the pages before the first job, too.
    pub remembered: Vec<RememberedId>,
    /// Jobs.
    pub jobs: Vec<JobRecord>,
    /// The records that cannot be read, as sentences that name the job, schedule or topic.
    pub broken: Vec<String>,
}

/// Reads all records of a store, page by page; see [`super::Store::records`].
#[async_trait]
pub trait RecordReader: Send {
    /// The next page, which may be empty; `None` after the last one.
    async fn next(&mut self) -> Result<Option<RecordPage>>;
}

/// Result of [`super::Store::put`], or of another operation that stores whole records, for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Stored.
    Done,
    /// It is there already; nothing changed.
    Exists,
    /// Another one is there under its name; nothing changed.
    Differs,
}
