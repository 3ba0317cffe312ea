//! A worker: takes jobs, runs each under a lease with heartbeats, reports how it ended, and drains. What a job's run
//! is, only its [`Host`] knows.
//!
//! The decisions are pure and get the time from outside: `lease`, `attempt` (one job), `drain` (the end of the worker),
//! `contact` (a server that is away). `work` and `drive` send the calls and wait.

mod attempt;
mod contact;
mod drain;
mod drive;
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
