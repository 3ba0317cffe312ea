//! The forms of requests and responses: fields and parameters to the queue's requests, and its results to JSON.
//!
//! Knows no routes and makes no calls.

mod fields;
pub mod parameters;
pub mod requests;
pub mod responses;
mod suggestions;
pub mod values;
