//! Parts of the HTTP layer for the component benchmarks.

use bytes::Bytes;

use super::wire::{requests, responses};
use crate::{job::Job, queue::Limits};

/// Parses the body of an add as its handler does. Returns whether it is valid.
#[must_use]
pub fn read_new_job(body: &Bytes) -> bool {
    requests::new_job(body, &Limits::default()).is_ok()
}

/// Writes a job as a response does.
pub fn write_job(job: &Job) {
    std::hint::black_box(responses::job(job));
}
