//! What is paused in a topic, and why its jobs wait.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::durations::some_seconds;

/// Why the jobs of a topic wait, or why it accepts none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// No job is delivered.
    DeliveryPaused(Pause),
    /// The last call of the topic's callback failed.
    CallbackFails {
        /// Scheme, name or address, and port.
        host: String,
        /// How it failed, such as `http_503`.
        answer: String,
        /// When the call ended.
        at: Timestamp,
        /// When the next call begins.
        resting_until: Option<Timestamp>,
    },
    /// No job is accepted.
    IntakePaused(Pause),
    /// No process was polled in the last minute, and no worker has a job.
    NoWorker,
    /// No process was polled in the last minute: the workers have this number of jobs, and go on with them.
    WorkersBusy {
        /// Jobs that workers have.
        reserved: u64,
        /// When they last took one or said something of one, if that is known.
        #[serde(default)]
        since: Option<Timestamp>,
    },
    /// As [`Self::WorkersBusy`], but the workers have said nothing of a job for the topic's TTR.
    WorkersSilent {
        /// Jobs that workers have.
        reserved: u64,
        /// When they last did, if that was within a day.
        since: Option<Timestamp>,
    },
    /// There are only more jobs than are done.
    Backlog {
        /// Jobs that were added in the last minute, if that is known of all processes.
        added: Option<u64>,
        /// Jobs that were finished in it, if that is known.
        finished: Option<u64>,
        /// When no job is ready any more, if it goes on so.
        #[serde(default, deserialize_with = "some_seconds")]
        empty_in: Option<Duration>,
    },
    /// One that a later server knows.
    #[serde(other)]
    Other,
}

/// What is known of the pauses of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Pauses {
    /// Of the delivery of jobs, if it is paused.
    pub delivery: Option<Pause>,
    /// Of the intake of jobs, if it is paused.
    pub intake: Option<Pause>,
}

/// A pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Pause {
    /// Since when; a pause of an earlier version does not say.
    pub since: Option<Timestamp>,
    /// Who paused last.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

/// What is to be paused, and what to say of the pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NewPause {
    /// What is to be paused.
    #[serde(flatten)]
    pub paused: Paused,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it is to end by itself: an RFC 3339 time in the future, or a duration from now, such as `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What is paused in a topic, or is to be paused or resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Jobs are not handed out.
    pub delivery: bool,
    /// Jobs are not taken in.
    pub intake: bool,
}
