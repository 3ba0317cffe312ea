//! One function per operation: it extracts, makes one call into the queue and converts the result.
//!
//! Knows neither the routes nor the scopes of its operations.

pub mod activity;
pub mod audit;
pub mod batch;
pub mod bulk;
pub mod dead;
pub mod jobs;
pub mod lists;
pub mod operations;
pub mod pop;
pub mod schedules;
pub mod secrets;
pub mod timeline;
pub mod topics;

use axum::response::Response;

use super::errors::Problem;

type HandlerResult = Result<Response, Problem>;
