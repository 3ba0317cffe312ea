//! The queue: what a delay queue does, above any engine and below any protocol.
//!
//! `job` validates values and `store` performs atomic steps. This layer adds the limits, the waiting polls, the
//! timer and the metrics. Knows no HTTP and no JSON of the API.
//!
//! ```text
//! jobs, topics, pop/, callbacks/, bulk/, views/   the operations: steps of jobs, settings, deliveries, calls, many jobs, figures
//! audit                                           who asked for which change
//! activity                                        who works: pollers and holders, endpoints that are called
//! receiptless                                     what protocols without receipts need
//! schedules/                                      recurring jobs: changes by clients, and the runs
//! service                                         the queue itself: its parts, background tasks and shutdown
//! timer, health, ended, spans, limits, error      what the operations share
//! ```
//!
//! # Polls
//!
//! Each poll is a waiter of its topics (`pop/waiters.rs`). One dispatch per topic reserves as many jobs as the first
//! waiters want and hands them out in order. Ten thousand parked polls cost the store nothing until a hint comes,
//! and then one call. The store is not called at all if it knows from memory that nothing is ready
//! (`Store::may_have_ready`).
//!
//! Reserved jobs travel as a `Delivery` (`pop/delivery.rs`), a guard: dropped before it is accepted, because the client
//! left while it waited or the connection never took the answer, it gives them back at once and uncounted. A
//! delivery knows how long its reservations last, counted from before the store was asked; after that it is not
//! handed out.
//!
//! # The timer
//!
//! The timer (`timer.rs`) has no fixed tick. It sleeps until the deadline that `promote` returned, or until the
//! store's hint `due_in` signals an earlier one (`TimerWaker`). It calls `promote` in bounded batches, again at
//! once while jobs are due. An engine that promotes by itself, the embedded one, reports no deadlines, so the timer
//! calls `promote` only once a minute. After a failure of such an engine the timer takes over, with its pauses and
//! log lines, until a call succeeds.
//!
//! # Health and figures
//!
//! `health.rs` asks the store once a second and remembers the answer. `/readyz` and `/metrics` are answered from
//! that and never wait for a store that is down or hangs. It also writes the log lines about that.
//!
//! Metrics that need a look at the store or at the system (`metrics/store_reading.rs`, `metrics/process.rs`, the
//! polls and resting outlets by topic) are read when they are scraped, and scrapes share a reading of the store for
//! three seconds (`views/scrape.rs`): adds and pops only add to counters. Gauges of the store are the same in all
//! processes of one Redis, so alerts and the board take their maximum, and add up counters.
//!
//! Figures of the last hour (`metrics/recent.rs`) are written by the events and read by `GET /stats` only, which
//! adds those of all processes (`views/processes.rs`). A process that serves it writes, every five seconds, the notice
//! that a viewer is there. The others find it when the sweep reads the settings (`scripts/get_settings.lua`),
//! without an additional call. While it is younger than ten seconds, each publishes its figures as a notice every
//! two seconds. Without viewers nothing is written. The last minute is also counted by topic, for the topics that
//! have a label in the metrics. A notice has room for those with most events, some 140, and says whether these are
//! all. The answer passes that on, because a sum that lacks a process is too low.
//!
//! # Lists
//!
//! A store lists the jobs of one state in the order of its moment (`store/list.rs`), in calls that examine a
//! bounded number of jobs; a position belongs to the engine. At most four callers read lists, reasons,
//! timelines or sorted topics at the same time (`views/read_permits.rs`).
//!
//! The calls on a topic's dead letters (`bulk/dead_letters.rs`) use the store's list and `change`: a page is a list, and
//! then the bodies by id; a requeue or a delete of the oldest changes what lists show, slice by slice. Their
//! cursors are older than positions, so every engine reads `ListPosition::behind_dead_letter`.
//!
//! Topics by name come from the store in pages (`Store::topics`), for the caller's topics and prefix, which are one
//! `TopicFilter`. The embedded engine has the names in order. Any other order needs all topics, so
//! `views/sorted_topics.rs` keeps a reading of them for two seconds, which callers with different tokens and timelines by
//! topic share (`views/shared_reading.rs`).
//!
//! A purge is a task of its process (`bulk/purges.rs`), because it may take longer than its caller waits; calls for the
//! same topic share one. It ends with its slice at the shutdown. It does not note the ids that it deletes: they may
//! be millions, and the store does not return them.

mod activity;
mod audit;
mod bulk;
mod callbacks;
mod ended;
mod error;
mod health;
mod holds;
mod jobs;
mod limits;
mod pop;
mod receiptless;
mod schedules;
mod service;
mod spans;
mod timer;
mod topics;
mod views;

pub use activity::{Rows, WorkerView};
pub use audit::{AuditEntry, AuditFilter, AuditPage, AuditedCall};
pub use bulk::{
    BulkAction, BulkRequest, OperationState, OperationView, Progress,
    dead_letters::{DeadCursor, DeadPage},
    oldest::ChangedOldest,
};
pub use callbacks::{
    AddedSecret,
    called_endpoint::{CalledEndpoint, CallsOfMinute},
    outlet_listener::OutletListener,
    outlets::ReservedForCalls,
};
pub use ended::{EndKind, Ended};
pub use error::{Error, HiddenHeaders, Result};
pub use jobs::AddOutcome;
pub use limits::Limits;
pub use pop::{Pop, delivery::Delivery};
pub use schedules::{
    MAX_SCHEDULES, MAX_TEMPLATE, PutEffect, ScheduleList, ScheduleView, TemplateReader, UpcomingRuns,
};
pub use service::{Queue, StoreEvents};
pub use topics::{NewPause, TopicView};
pub use views::{
    StatsView, TimelineOf, TimelineView,
    cause::{CalledTopic, Cause, FailingHost, Throughput},
    dead_reasons::{DeadReason, DeadReasons},
    process_notice::{ProcessLoad, ProcessView},
    sorted_topics::TopicSort,
};

pub use crate::store::{
    Claim, Degraded, DeleteRule, EngineInfo, FinishJob, JobFilter, JobPage, LastBackup, ListPosition,
    ListedJob, Minute, Order, Patch, Release, Requeue, Reservation, Span, Timeline, TopicConfig, TopicStats,
    Touch,
};
