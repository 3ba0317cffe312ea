//! A worker: takes jobs, runs each under a lease with heartbeats, reports how it ended, and drains. What a job's
//! run is, only its [`Host`] knows.
//!
//! The decisions are pure and get the time from outside: `lease` (when a heartbeat is due, when a reservation
//! counts as lost), `attempt` (one job, from its delivery to what is reported), `drain` (the end of the worker),
//! `contact` (a server that is away). `work` pops, `drive` sees one job to its end, and `heartbeats` is one task that sends
//! the heartbeats of all jobs, many by one call. They wait on one thread.
//!
//! A lease counts in boot time from when the last successful call was sent, so that it ends before the server's
//! reservation. Timers stop during suspend, so no wait is longer than half a second. An answer to a long poll may
//! be old when it is read, so a job whose first heartbeat is due already is started once that is answered.

mod attempt;
mod contact;
mod drain;
mod drive;
mod heartbeats;
mod host;
mod lease;
mod moment;
mod outcome;
mod report;
mod session;
mod shared;
mod work;

pub use attempt::{Limits, OnLost};
pub use drain::Cause;
pub use host::{Event, Host, Outcome, Urgency};
pub use outcome::{Ended, Report, Verdict};
pub use shared::WorkerOptions;
pub use work::{Command, work};
