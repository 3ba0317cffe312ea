//! The wire format: parses parameters and bodies into the queue's requests, and writes its results as JSON.
//!
//! Knows no routes and makes no calls into the queue.

pub mod activity;
pub mod audit;
pub mod batches;
pub mod bulk;
pub mod callbacks;
mod expiry;
mod fields;
pub mod filters;
mod foreign_names;
mod history;
pub mod listed;
pub mod parameters;
pub mod requests;
pub mod responses;
pub mod schedules;
pub mod stats;
mod suggestions;
pub mod topics;
pub mod trace;
pub mod values;
pub mod version;
