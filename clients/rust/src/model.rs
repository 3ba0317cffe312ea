//! What calls get: jobs, topics and their settings, as JSON carries them, and what a pop and a release ask for. Fields that a
//! later server adds are ignored.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    durations::{list_of_seconds, seconds, some_duration, some_seconds},
    error::{Error, Refusal},
    new_job::Due,
    pauses::{Cause, Paused, Pauses},
    request::Response,
};

/// What a pop asks for, beside the topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PopRequest {
    /// How long to wait for the first job; the server waits a minute at most.
    pub wait: Duration,
    /// How long the reservations last; each job's own TTR when left out.
    pub ttr: Option<Duration>,
    /// Most jobs of a batch, which gets at least one; a pop of one job ignores it.
    pub max: usize,
    /// Who reserves the jobs, shown to operators; the token's name or the client's address when left out.
    pub worker: Option<String>,
}

/// How a job is given back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReleaseRequest {
    /// When to try again; by the job's schedule when left out.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// Why, in the worker's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a reservation is extended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TouchRequest {
    /// How long it lasts from now; the job's own TTR when left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub ttr: Option<Duration>,
    /// How far the worker is, in 1 to 256 bytes: the next attempt gets it, too. When left out, the job keeps the note that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<Option<Duration>> for TouchRequest {
    fn from(ttr: Option<Duration>) -> Self {
        Self { ttr, note: None }
    }
}

/// A job as the server has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    /// The id.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// `delayed`, `ready`, `reserved` or `dead`; later servers may have more.
    pub state: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it is or was due.
    pub due_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Its producer's number of this version.
    pub revision: Option<u64>,
    /// How long a reservation lasts.
    #[serde(deserialize_with = "seconds")]
    pub ttr: Duration,
    /// Reservations so far; 0 while it is reserved by a worker that has an older version.
    pub attempts: u32,
    /// Reservations before it is a dead letter; 0 for no limit.
    pub max_attempts: u32,
    /// When it was reserved.
    pub reserved_at: Option<Timestamp>,
    /// Who has it.
    pub reserved_by: Option<String>,
    /// Until when it is reserved.
    pub reserved_until: Option<Timestamp>,
    /// When it became a dead letter.
    pub dead_at: Option<Timestamp>,
    /// Why it was given back or buried.
    pub reason: Option<String>,
    /// How far a worker was with it.
    pub note: Option<String>,
    /// When the worker said so.
    pub noted_at: Option<Timestamp>,
    /// What happened to it, the oldest first: at most ten entries.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
    /// The W3C trace context that it was added in.
    pub traceparent: Option<String>,
    /// What tracing systems added to `traceparent`.
    pub tracestate: Option<String>,
    /// The JSON value that was sent, byte for byte.
    pub body: Box<RawValue>,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HistoryEntry {
    /// `attempt`, `requeued`, `rescheduled` or `replaced`; later servers may have more.
    pub kind: String,
    /// When it happened; for an attempt, when the job was reserved.
    pub at: Timestamp,
    /// Who did it.
    pub by: Option<String>,
    /// The number of the attempt, from 1.
    pub n: Option<u32>,
    /// How long the attempt lasted.
    #[serde(default, deserialize_with = "some_seconds")]
    pub took: Option<Duration>,
    /// How the attempt ended: `released`, `timed_out`, `buried` or `revoked`; later servers may have more.
    pub ended: Option<String>,
    /// Why, in the words of the worker, or of who took the job back.
    pub reason: Option<String>,
    /// The due time before a reschedule.
    pub from: Option<Timestamp>,
    /// The due time after a reschedule.
    pub to: Option<Timestamp>,
}

/// The answer to an add.
#[derive(Debug, Clone)]
pub enum Added {
    /// The job is new.
    Created(Job),
    /// The job has replaced an older version.
    Replaced(Job),
    /// The same job, or the same revision of it, was there already, as after a repeat.
    Repeated(Job),
    /// The same job was finished before, and its topic remembers its id.
    Finished(FinishedJob),
}

/// A job that was finished before an add with its id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FinishedJob {
    /// The id.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// How it ended, and when.
    pub ended: Ended,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ended {
    /// `finished`, or how else it ended.
    pub how: String,
    /// When.
    pub at: Timestamp,
}

impl Added {
    /// The answer in a response to an add.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(response: &Response) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Probe {
            ended: Option<IgnoredAny>,
        }
        if response.read::<Probe>()?.ended.is_some() {
            return response.read().map(Self::Finished);
        }
        let job = response.read()?;
        Ok(match response.status {
            201 => Self::Created(job),
            _ if response.is_replacement() => Self::Replaced(job),
            _ => Self::Repeated(job),
        })
    }
}

/// A job that this client has reserved.
#[derive(Debug, Clone, Deserialize)]
pub struct ReservedJob {
    /// The id.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it was due.
    pub due_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The job's own TTR; the reservation is longer or shorter if the pop said so.
    #[serde(deserialize_with = "seconds")]
    pub ttr: Duration,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Reservations before it is a dead letter; 0 for no limit.
    pub max_attempts: u32,
    /// Until when it is reserved.
    pub reserved_until: Timestamp,
    /// Why it was given back before.
    pub reason: Option<String>,
    /// How far an earlier attempt was with it.
    pub note: Option<String>,
    /// When its worker said so.
    pub noted_at: Option<Timestamp>,
    /// The W3C trace context that it was added in.
    pub traceparent: Option<String>,
    /// What tracing systems added to `traceparent`.
    pub tracestate: Option<String>,
    /// The JSON value that was sent, byte for byte.
    pub body: Box<RawValue>,
    /// The proof of this reservation; a secret.
    pub receipt: String,
    /// How long after its due time it was delivered.
    #[serde(deserialize_with = "seconds")]
    pub late: Duration,
}

/// The result of one item of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchItem {
    /// The status that a call for this item alone would have had.
    pub status: u16,
    /// The job's id, where the server knows it.
    pub id: Option<String>,
    /// Whether an added job has replaced an older version.
    pub replaced: bool,
    /// How and when the job ended, if this add repeats that of a finished job.
    pub ended: Option<Ended>,
    /// Why the item failed.
    pub refusal: Option<Refusal>,
}

/// A topic as the server has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Topic {
    /// The name.
    pub topic: String,
    /// Jobs by state.
    pub counts: Counts,
    /// When the next delayed job is due.
    pub next_due_at: Option<Timestamp>,
    /// When the ready job that has waited longest was due.
    pub oldest_overdue_at: Option<Timestamp>,
    /// Polls of the answering process that wait here.
    pub waiting: usize,
    /// Polls of all processes that wait here, or that ended in the last minute; `None` if it is not known.
    pub polls: Option<u64>,
    /// What is paused.
    pub paused: Paused,
    /// What is known of its pauses.
    #[serde(default)]
    pub pauses: Pauses,
    /// Why its jobs wait; `None` if none does, and if it is not known.
    pub cause: Option<Cause>,
    /// What was set for the topic.
    pub settings: TopicSettings,
}

/// Jobs by state; each job counts in one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Not yet due.
    pub delayed: u64,
    /// Due and not reserved.
    pub ready: u64,
    /// With a worker.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
}

/// The settings of a topic; what was not set is left out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TopicSettings {
    /// The TTR of jobs that have none of their own.
    #[serde(default, deserialize_with = "some_seconds")]
    pub ttr: Option<Duration>,
    /// Reservations before a job is a dead letter; 0 for no limit.
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(default, deserialize_with = "list_of_seconds")]
    pub retry: Vec<Duration>,
    /// Whether a finish needs the receipt.
    #[serde(default)]
    pub require_receipt: bool,
    /// Whether the receipt of a reservation that timed out still finishes a job; it does unless this is false.
    pub late_finish: Option<bool>,
    /// How long after their due time jobs expire.
    #[serde(default, deserialize_with = "some_seconds")]
    pub expire: Option<Duration>,
    /// What happens to jobs that expire: `dead` or `delete`; later servers may have more.
    pub on_expiry: Option<String>,
    /// For how long the ids of finished and deleted jobs are remembered.
    #[serde(default, deserialize_with = "some_seconds")]
    pub dedup: Option<Duration>,
    /// How jobs are called. With a URL, workers cannot pop the jobs that have no callback of their own.
    pub callback: Option<TopicCalls>,
}

/// How the server calls for the jobs of a topic.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TopicCalls {
    /// The URL that is called; none if only the limits of its jobs' own callbacks are set.
    pub url: Option<String>,
    /// The HTTP method; `POST` when left out.
    pub method: Option<String>,
    /// How long a call may take.
    #[serde(default, deserialize_with = "some_seconds")]
    pub timeout: Option<Duration>,
    /// Most calls a second over all processes.
    pub rate: Option<f64>,
    /// Most calls at a time in each process.
    pub concurrency: Option<u32>,
}

/// A page of topics.
#[derive(Debug, Clone, Deserialize)]
pub struct TopicPage {
    /// The topics, in the order that was asked for.
    pub topics: Vec<Topic>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_job_is_read_with_its_body_as_it_was_sent() {
        let text = r#"{"id":"a","topic":"t","state":"reserved","created_at":"2026-11-21T05:40:00.000Z",
            "due_at":"2026-11-21T06:10:00.000Z","ttr":60,"attempts":1,"max_attempts":16,"receipt":"9f",
            "reserved_until":"2026-11-21T06:11:00.004Z","attempt":1,"late":0.004,"body":{"n":  1.0}, "new":1}"#;
        let reserved: ReservedJob = serde_json::from_str(text).expect("is readable");
        assert_eq!((reserved.body.get(), reserved.late), (r#"{"n":  1.0}"#, Duration::from_millis(4)));
    }
}
