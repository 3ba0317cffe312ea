//! Calls for figures of the whole queue, or of one topic over time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::{
    client::Client,
    durations::{duration_text, seconds, some_seconds},
    error::Error,
    model::Counts,
    request::{Request, segment},
};

/// Which delayed jobs to count by due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineRequest<'a> {
    /// The topic; jobs of all topics when left out.
    pub topic: Option<&'a str>,
    /// When the span begins, rounded down to the minute; the present minute when left out.
    pub from: Option<Timestamp>,
    /// How long the span is, from a minute to 11 years.
    pub span: Duration,
    /// How long each step is, in whole minutes; the server chooses when left out.
    pub step: Option<Duration>,
}

/// Delayed jobs by due time, and the ready and reserved jobs of the same topics.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Timeline {
    /// When the jobs were counted.
    pub now: Timestamp,
    /// When the first step begins.
    pub from: Timestamp,
    /// How long each step is.
    #[serde(deserialize_with = "seconds")]
    pub step: Duration,
    /// The delayed jobs that are due in each step.
    pub counts: Vec<u64>,
    /// Delayed jobs that are due before or after the span.
    pub outside: u64,
    /// Due and not reserved.
    pub ready: u64,
    /// With a worker.
    pub reserved: u64,
}

/// What `GET /stats` answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Stats {
    /// When the jobs were counted.
    pub now: Timestamp,
    /// All jobs by state.
    pub counts: Counts,
    /// What happened in the last minute.
    pub minute: EventSummary,
    /// What happened in the last hour.
    pub hour: EventSummary,
    /// What happened in the last minute by topic, of those where something did; empty unless it was asked for.
    #[serde(default)]
    pub topics: Vec<TopicEvents>,
    /// Whether `topics` has all such topics and all their events; none unless they were asked for.
    pub topics_complete: Option<bool>,
    /// The server processes whose events these are; the first one answers.
    pub processes: Vec<Process>,
    /// What the store takes, and its last backup.
    #[serde(default)]
    pub store: StoreFigures,
}

/// What the store takes, and its last backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct StoreFigures {
    /// Bytes that it takes on disk, or that Redis has in use; none if that is not known.
    pub used_bytes: Option<u64>,
    /// Bytes that are free; none where there is no limit, or if that is not known.
    pub free_bytes: Option<u64>,
    /// When the last backup began; `Some(None)` if none is known, and none on an engine that makes no backups itself.
    #[serde(default, deserialize_with = "present")]
    pub backup_at: Option<Option<Timestamp>>,
}

/// A member that is there, although it may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Timestamp>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// What happened to the jobs of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TopicEvents {
    /// The name of the topic.
    pub topic: String,
    /// What happened in the last minute.
    pub minute: EventSummary,
}

/// How often some events happened, and how late jobs were ready and delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct EventSummary {
    /// Jobs added.
    pub added: u64,
    /// Jobs that came due, each time that they did; 0 from an older server.
    #[serde(default)]
    pub due: u64,
    /// Reservations that reached a worker.
    pub delivered: u64,
    /// Jobs finished.
    pub finished: u64,
    /// Jobs that became dead letters.
    pub died: u64,
    /// The 99th percentile of the time from due to ready, rounded up; none when no delay ended.
    #[serde(default, deserialize_with = "some_seconds")]
    pub late_p99: Option<Duration>,
    /// The 99th percentile of the time from due to delivered, rounded up; none when no job was delivered, or from an older server.
    #[serde(default, deserialize_with = "some_seconds")]
    pub delivered_late_p99: Option<Duration>,
}

/// A process of the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Process {
    /// The name of its host and its process id.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Bytes of memory that it has in use, if it says so.
    pub resident_bytes: Option<u64>,
    /// Bulk operations that it runs, if it says so.
    pub operations: Option<u64>,
    /// Topics whose last callback failed, if it says so.
    pub failing_topics: Option<u64>,
}

/// The calls as data, for callers that send them with [`Client::send`] and read the response themselves.
impl Request {
    /// Counts delayed jobs by due time.
    #[must_use]
    pub fn timeline(request: &TimelineRequest<'_>) -> Self {
        let mut path = format!("/timeline?span={}", duration_text(request.span));
        if let Some(from) = request.from {
            path.push_str(&format!("&from={}", segment(&from.to_string())));
        }
        if let Some(step) = request.step {
            path.push_str(&format!("&step={}", duration_text(step)));
        }
        if let Some(topic) = request.topic {
            path.push_str(&format!("&topic={}", segment(topic)));
        }
        Self::get("timeline", path)
    }

    /// Reads the figures of the whole queue.
    #[must_use]
    pub fn stats() -> Self {
        Self::get("stats", "/stats")
    }

    /// Reads the figures of the whole queue, and what happened in the last minute by topic.
    #[must_use]
    pub fn stats_by_topic() -> Self {
        Self::get("stats", "/stats?by=topic")
    }
}

/// Every call fails with [`Error`]; all of them are safe to repeat.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// Delayed jobs by due time. A topic that the server does not know has none.
    pub async fn timeline(&self, request: &TimelineRequest<'_>) -> Result<Timeline, Error> {
        self.send(&Request::timeline(request)).await?.read()
    }

    /// The figures of the whole queue. They need a token for all topics.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.send(&Request::stats()).await?.read()
    }

    /// The figures of the whole queue, and what happened in the last minute by topic. They need a token for all topics.
    pub async fn stats_by_topic(&self) -> Result<Stats, Error> {
        self.send(&Request::stats_by_topic()).await?.read()
    }
}
