//! The JSON of jobs, topics and results (`openapi.yaml`, components Job, ReservedJob, TopicView and Results). Pure: from
//! the queue's values to bytes.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{callbacks, history, trace};
use crate::http::{
    errors::Problem,
    json::{self, ObjectWriter},
};
use crate::{
    job::{IdEnd, Job, JobId, ProgressNote, RememberedId, RetrySchedule, State, Timestamp, format_seconds},
    queue::{AddOutcome, ChangedOldest, Reservation, Span, Timeline, TimelineView},
};

/// Marks the response to an add that repeats an earlier one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Marks the response to an add that has replaced an older version.
const REPLACED: HeaderName = HeaderName::from_static("linger-replaced");
/// The state of the job that was deleted.
const STATE: HeaderName = HeaderName::from_static("linger-state");

/// One job.
pub fn job(job: &Job) -> Response {
    json::object_response(|object| write_job(object, job))
}

/// The response to an add.
pub fn added(outcome: &AddOutcome) -> Response {
    let mut response = match outcome {
        AddOutcome::Created(added) | AddOutcome::Replaced(added) | AddOutcome::Replayed(added) => job(added),
        AddOutcome::Finished(remembered) => finished_before(remembered),
    };
    *response.status_mut() = status_of_add(outcome);
    let (name, value) = match outcome {
        // Every character of an id is allowed in a path without escapes (RFC 3986, pchar).
        AddOutcome::Created(job) => (header::LOCATION, HeaderValue::try_from(format!("/jobs/{}", job.id))),
        AddOutcome::Replaced(_) => (REPLACED, Ok(HeaderValue::from_static("true"))),
        AddOutcome::Replayed(_) | AddOutcome::Finished(_) => (REPLAYED, Ok(HeaderValue::from_static("true"))),
    };
    response.headers_mut().insert(name, value.expect("an id is printable ASCII"));
    response
}

/// What is known of a job that was finished before.
fn finished_before(remembered: &RememberedId) -> Response {
    json::object_response(|object| {
        object.text("id", remembered.id.as_str());
        object.text("topic", remembered.topic.as_str());
        object.text("state", remembered.end.as_str());
        write_ended(object, remembered.end, remembered.ended_at);
    })
}

fn write_ended(object: &mut ObjectWriter<'_>, how: IdEnd, at: Timestamp) {
    object.object("ended", |ended| {
        ended.text("how", how.as_str());
        ended.timestamp("at", at);
    });
}

/// The status of an add that was not refused.
pub fn status_of_add(outcome: &AddOutcome) -> StatusCode {
    match outcome {
        AddOutcome::Created(_) => StatusCode::CREATED,
        AddOutcome::Replaced(_) | AddOutcome::Replayed(_) | AddOutcome::Finished(_) => StatusCode::OK,
    }
}

/// Writes one reserved job.
pub fn write_reservation(reservation: &Reservation, out: &mut Vec<u8>) {
    let job = &reservation.job;
    let mut object = ObjectWriter::new(out);
    write_job_head(&mut object, job);
    object.text("receipt", &reservation.receipt.to_string());
    object.number("attempt", job.attempts);
    object.seconds("late", reservation.late);
    trace::write(&mut object, job.spec.trace.as_ref());
    object.raw("body", job.body.as_bytes());
    object.end();
}

fn write_job(object: &mut ObjectWriter<'_>, job: &Job) {
    write_job_head(object, job);
    history::write_reserved(object, job);
    history::write_history(object, job);
    trace::write(object, job.spec.trace.as_ref());
    object.raw("body", job.body.as_bytes());
}

/// Writes the members of a job that lists show, too.
pub(super) fn write_job_head(object: &mut ObjectWriter<'_>, job: &Job) {
    object.text("id", job.id.as_str());
    object.text("topic", job.topic.as_str());
    object.text("state", job.state().as_str());
    object.timestamp("created_at", job.created_at);
    object.timestamp("due_at", job.due_at);
    if let (Some(expires_at), Some(expiry)) = (job.expires_at, job.spec.expiry) {
        object.timestamp("expires_at", expires_at);
        object.text("on_expiry", expiry.on_expiry.as_str());
    }
    if let Some(revision) = job.spec.revision {
        object.number("revision", revision);
    }
    object.seconds("ttr", job.spec.ttr.as_duration());
    object.number("attempts", job.attempts);
    object.number("max_attempts", job.spec.max_attempts);
    if !job.spec.retry.is_empty() {
        write_retry(object, &job.spec.retry);
    }
    if let Some(until) = job.reserved_until() {
        object.timestamp("reserved_until", until);
    }
    if let Some(dead_at) = job.dead_at() {
        object.timestamp("dead_at", dead_at);
    }
    if let Some(reason) = &job.reason {
        object.text("reason", reason.as_str());
    }
    if let Some(note) = &job.note {
        write_note(object, note);
    }
    if let Some(callback) = &job.spec.callback {
        object.object("callback", |object| callbacks::write_callback(object, callback));
    }
}

/// Writes what a worker said of its progress, and when.
pub(super) fn write_note(object: &mut ObjectWriter<'_>, note: &ProgressNote) {
    object.text("note", note.text.as_str());
    object.timestamp("noted_at", note.at);
}

pub(super) fn write_retry(object: &mut ObjectWriter<'_>, retry: &RetrySchedule) {
    object.list("retry", retry.steps(), |step, out| out.extend_from_slice(format_seconds(*step).as_bytes()));
}

/// A page of dead letters.
pub fn dead_page(jobs: &[Job], next_cursor: Option<&str>) -> Response {
    json::object_response(|object| {
        object.list("jobs", jobs, |job, out| {
            let mut object = ObjectWriter::new(out);
            write_job(&mut object, job);
            object.end();
        });
        write_next_cursor(object, next_cursor);
    })
}

pub(super) fn write_next_cursor(object: &mut ObjectWriter<'_>, next_cursor: Option<&str>) {
    if let Some(cursor) = next_cursor {
        object.text("next_cursor", cursor);
    }
}

/// Delayed jobs by due time. Times are those of the whole span and of each step.
pub fn timeline(view: &TimelineView, span: &Span) -> Response {
    json::object_response(|object| {
        object.timestamp("now", view.now);
        object.timestamp("from", span.from().start());
        object.number("step", span.step() * 60);
        write_timeline(object, &view.timeline);
        if !view.topics.is_empty() {
            object.list("topics", &view.topics, |(topic, timeline), out| {
                let mut object = ObjectWriter::new(out);
                object.text("topic", topic.as_str());
                write_timeline(&mut object, timeline);
                object.end();
            });
        }
    })
}

fn write_timeline(object: &mut ObjectWriter<'_>, timeline: &Timeline) {
    object.list("counts", &timeline.counts, write_count);
    object.number("outside", timeline.outside());
    object.number("ready", timeline.totals.ready);
    object.number("reserved", timeline.totals.reserved);
}

/// Writes how many there are in one step of time.
pub fn write_count(count: &u64, out: &mut Vec<u8>) {
    out.extend_from_slice(count.to_string().as_bytes());
}

/// A count, such as `{"deleted":3}`.
pub fn count(name: &'static str, count: u64) -> Response {
    json::object_response(|object| object.number(name, count))
}

/// How many dead letters were requeued.
pub fn requeued(ChangedOldest { changed, skipped }: ChangedOldest) -> Response {
    json::object_response(|object| {
        object.number("requeued", changed as u64);
        object.number("skipped", skipped);
    })
}

/// What the result of one item of a batch says beside its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultNote {
    /// The add has replaced an older version.
    Replaced,
    /// The add repeats that of a job that exists.
    Replayed,
    /// The add repeats that of a job that was finished, at this time.
    Ended(IdEnd, Timestamp),
    /// The job was in this state when it was deleted.
    Deleted(State),
}

impl ResultNote {
    /// What is to be said of an add.
    pub fn for_add(outcome: &AddOutcome) -> Option<Self> {
        match outcome {
            AddOutcome::Created(_) => None,
            AddOutcome::Replaced(_) => Some(Self::Replaced),
            AddOutcome::Replayed(_) => Some(Self::Replayed),
            AddOutcome::Finished(remembered) => Some(Self::Ended(remembered.end, remembered.ended_at)),
        }
    }
}

/// The result of one item of a batch.
pub struct ItemResult {
    pub id: Option<JobId>,
    pub outcome: Result<StatusCode, Problem>,
    /// What it says beside its status.
    pub note: Option<ResultNote>,
}

/// The results of a batch, one per item.
pub fn results(results: &[ItemResult]) -> Response {
    json::object_response(|object| object.list("results", results, ItemResult::write))
}

impl ItemResult {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        let status = match &self.outcome {
            Ok(status) => *status,
            Err(problem) => problem.status(),
        };
        object.number("status", status.as_u16());
        if let Some(id) = &self.id {
            object.text("id", id.as_str());
        }
        match self.note {
            Some(ResultNote::Replaced) => object.flag("replaced", true),
            Some(ResultNote::Replayed) => object.flag("replayed", true),
            Some(ResultNote::Ended(how, at)) => {
                object.flag("replayed", true);
                write_ended(&mut object, how, at);
            }
            Some(ResultNote::Deleted(state)) => object.text("state", state.as_str()),
            None => {}
        }
        if let Err(problem) = &self.outcome {
            object.value("problem", |out| problem.write(out, None));
        }
        object.end();
    }
}

/// Success without a body.
pub fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// The response to a delete of a job that was in this state.
pub fn deleted(state: State) -> Response {
    (StatusCode::NO_CONTENT, [(STATE, state.as_str())]).into_response()
}
