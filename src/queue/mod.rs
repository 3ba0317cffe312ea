//! The queue: what a delay queue does, above any engine and below any protocol.
//!
//! `job` validates values and `store` performs atomic steps. This layer adds the limits, the waiting polls, the timer
//! and the metrics. Knows no HTTP and no JSON of the API.

mod bulk;
mod callbacks;
mod dead_letters;
mod delivery;
mod ended;
mod error;
mod health;
mod jobs;
mod limits;
mod lists;
mod oldest_ready;
mod outlet_listener;
mod outlets;
mod pop;
mod processes;
mod purges;
mod read_permits;
mod scrape;
mod service;
mod shared_reading;
mod sorted_topics;
mod spans;
mod timer;
mod topics;
mod views;
mod waiters;

pub use bulk::{BulkAction, BulkRequest, OperationState, OperationView, Progress};
pub use callbacks::AddedSecret;
pub use dead_letters::{DeadCursor, DeadPage};
pub use delivery::Delivery;
pub use ended::{EndKind, Ended};
pub use error::{Error, HiddenHeaders, Result};
pub use jobs::AddOutcome;
pub use limits::Limits;
pub use lists::{DeadReason, DeadReasons};
pub use outlet_listener::OutletListener;
pub use outlets::ReservedForCalls;
pub use pop::Pop;
pub use processes::ProcessView;
pub use service::{Queue, StoreEvents};
pub use sorted_topics::TopicSort;
pub use topics::TopicView;
pub use views::{StatsView, TimelineOf, TimelineView};

pub use crate::store::{
    Claim, Degraded, EngineInfo, FinishJob, JobFilter, JobPage, ListPosition, ListedJob, Minute, Order,
    Patch, Release, Reservation, Span, Timeline, TopicConfig, TopicStats,
};
