//! What calls send and get: jobs, topics and their settings, as JSON carries them. Fields that a later server
//! adds are ignored.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    durations::{duration, durations, list_of_seconds, seconds, some_duration, some_seconds},
    error::Refusal,
};

/// A job to add. Times are precise to the millisecond.
#[derive(Debug, Clone, Serialize)]
pub struct NewJob {
    /// The topic.
    pub topic: String,
    /// The job's id, which makes a repeat recognisable; the server makes one when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it is due; at once when left out.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// How long a reservation lasts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub ttr: Option<Duration>,
    /// Reservations before it is a dead letter; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "durations")]
    pub retry: Vec<Duration>,
    /// Whom the server calls when it is due, in place of workers or of its topic's callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// The W3C trace context that it comes from; a malformed one is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What tracing systems add to `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Any JSON value, which the server keeps byte for byte; null when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// Whom to call for a job, and how.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Callback {
    /// The URL.
    pub url: String,
    /// `POST`, `PUT`, `PATCH`, `GET` or `DELETE`; `POST` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of the call; values are often credentials.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Until the end of the answer's head; 30 s when left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub timeout: Option<Duration>,
}

/// Leaves out the URL and the values of headers.
impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Callback").field("headers", &headers).finish_non_exhaustive()
    }
}

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// So long after the server reads the call.
    #[serde(serialize_with = "duration")]
    Delay(Duration),
    /// At this moment.
    #[serde(serialize_with = "moment")]
    At(Timestamp),
}

impl NewJob {
    /// A job that is due at once, with the defaults of its topic.
    #[must_use]
    pub fn new(topic: impl Into<String>) -> Self {
        let topic = topic.into();
        Self {
            topic,
            id: None,
            due: None,
            ttr: None,
            max_attempts: None,
            retry: Vec::new(),
            callback: None,
            traceparent: None,
            tracestate: None,
            body: None,
        }
    }

    /// The same with this id.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// The same, due after `delay`.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { due: Some(Due::Delay(delay)), ..self }
    }

    /// The same with this body.
    #[must_use]
    pub fn body(self, body: Box<RawValue>) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// Changes to a job; what is left out stays.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobPatch {
    /// When it is due now.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// How long a reservation lasts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub ttr: Option<Duration>,
    /// Reservations before it is a dead letter; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

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
    /// How long a reservation lasts.
    #[serde(deserialize_with = "seconds")]
    pub ttr: Duration,
    /// Reservations so far.
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
    /// `attempt`, `requeued` or `rescheduled`; later servers may have more.
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
    /// How the attempt ended: `released`, `timed_out` or `buried`; later servers may have more.
    pub ended: Option<String>,
    /// Why, in the worker's words.
    pub reason: Option<String>,
}

/// The answer to an add.
#[derive(Debug, Clone)]
pub struct Added {
    /// The job.
    pub job: Job,
    /// Whether the same job was there already, as after a repeat.
    pub is_repeat: bool,
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
    /// What is paused.
    pub paused: Paused,
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

/// What is paused in a topic, or is to be paused or resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Jobs are not handed out.
    pub delivery: bool,
    /// Jobs are not taken in.
    pub intake: bool,
}

/// The settings of a topic; what was not set is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
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
    /// Whether the server calls a URL for the jobs, so that workers cannot pop them.
    #[serde(default, rename = "callback", deserialize_with = "has_url")]
    pub has_callback: bool,
}

/// A page of topics.
#[derive(Debug, Clone, Deserialize)]
pub struct TopicPage {
    /// The topics, in the order that was asked for.
    pub topics: Vec<Topic>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
}

fn has_url<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct Callback {
        url: Option<IgnoredAny>,
    }
    Callback::deserialize(from).map(|callback| callback.url.is_some())
}

fn moment<S: Serializer>(moment: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{moment:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_written_with_what_was_given_and_no_more() {
        let json = |job: &NewJob| serde_json::to_string(job).expect("is JSON");
        assert_eq!(json(&NewJob::new("t")), r#"{"topic":"t"}"#);
        let body = RawValue::from_string(r#"{"n": 1e400}"#.to_owned()).expect("is JSON");
        let mut job = NewJob::new("t").id("a").delay(Duration::from_millis(1_001)).body(body);
        job.retry = vec![Duration::from_secs(15)];
        let written = r#"{"topic":"t","id":"a","delay":"1001ms","retry":["15000ms"],"body":{"n": 1e400}}"#;
        assert_eq!(json(&job), written);
        let headers = [("authorization".to_owned(), "Bearer s3cret".to_owned())].into();
        let url = "https://a/s3cret".to_owned();
        let called =
            NewJob { callback: Some(Callback { url, headers, ..Callback::default() }), ..NewJob::new("t") };
        let written = r#"{"topic":"t","callback":{"url":"https://a/s3cret","headers":{"authorization":"Bearer s3cret"}}}"#;
        assert_eq!(json(&called), written);
        assert!(!format!("{called:?}").contains("s3cret"));
        let traced = NewJob { traceparent: Some("00-1-2-01".to_owned()), ..NewJob::new("t") };
        assert_eq!(json(&traced), r#"{"topic":"t","traceparent":"00-1-2-01"}"#);
        let moment = "2026-11-21T05:40:00.1Z".parse().expect("is a moment");
        let at = NewJob { due: Some(Due::At(moment)), ..NewJob::new("t") };
        assert_eq!(json(&at), r#"{"topic":"t","at":"2026-11-21T05:40:00.100Z"}"#);
    }

    #[test]
    fn a_reserved_job_is_read_with_its_body_as_it_was_sent() {
        let text = r#"{"id":"a","topic":"t","state":"reserved","created_at":"2026-11-21T05:40:00.000Z",
            "due_at":"2026-11-21T06:10:00.000Z","ttr":60,"attempts":1,"max_attempts":16,"receipt":"9f",
            "reserved_until":"2026-11-21T06:11:00.004Z","attempt":1,"late":0.004,"body":{"n":  1.0}, "new":1}"#;
        let reserved: ReservedJob = serde_json::from_str(text).expect("is readable");
        assert_eq!((reserved.body.get(), reserved.late), (r#"{"n":  1.0}"#, Duration::from_millis(4)));
    }
}
