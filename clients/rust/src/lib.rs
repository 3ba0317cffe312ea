//! Typed calls to a Linger server over one HTTP client. Depends on nothing of the server: what it knows of the
//! API is in `openapi.yaml`.
//!
//! A [`Client`] keeps a pool of connections and repeats a failed call for a bounded time if a repeat is
//! safe ([`Repeat`]). [`Client::single_connection`] gives one that has one connection and repeats only what the
//! server has not begun, which is what a measurement needs.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use linger_client::{Client, NewJob, Options, PopRequest};
//!
//! let client = Client::new(&"http://127.0.0.1:9277".parse()?, Options::default())?;
//! client.add(&NewJob::new("mail").id("mail-1").delay(Duration::from_secs(60))).await?;
//! let request = PopRequest { wait: Duration::from_secs(20), ..PopRequest::default() };
//! if let Some(reserved) = client.pop("mail", &request).await? {
//!     client.finish(&reserved.id, Some(&reserved.receipt)).await?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batches;
mod client;
mod connection;
mod durations;
mod error;
mod jobs;
mod lists;
mod model;
mod new_job;
mod pauses;
mod pool;
mod repeat;
mod request;
mod schedules;
mod stats;
mod stream;
#[cfg(test)]
mod test_server;
mod tls;
mod topics;
mod url;
pub mod worker;

pub use client::{Client, Options, OptionsError};
pub use error::{Error, Refusal};
pub use jiff::Timestamp;
pub use lists::{JobSummary, JobsFilter, JobsPage};
pub use model::{
    Added, BatchItem, Counts, Ended, FinishedJob, HistoryEntry, Job, PopRequest, ReleaseRequest, ReservedJob,
    Topic, TopicCalls, TopicPage, TopicSettings, TouchRequest,
};
pub use new_job::{Callback, Due, Expire, IfExists, JobPatch, NewJob, OnExpiry, Requeue};
pub use pauses::{Cause, NewPause, Pause, Paused, Pauses};
pub use request::{Repeat, Request, Response};
pub use schedules::{
    ClockChange, Missed, NewSchedule, Overlap, PutSchedule, Recurrence, RunCounts, Schedule, SchedulePage,
    Waiting,
};
pub use stats::{EventSummary, Process, Stats, Timeline, TimelineRequest, TopicEvents};
pub use tls::Trust;
pub use topics::{TopicSort, TopicsRequest, Version};
pub use url::{InvalidUrl, ServerUrl};
