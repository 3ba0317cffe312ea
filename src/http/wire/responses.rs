//! How jobs, topics and results look on the wire (`openapi.yaml`, components Job, ReservedJob, TopicView,
//! Results). Pure: from the queue's values to bytes.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::http::{
    errors::Problem,
    json::{self, Object},
    paths,
};
use crate::{
    job::{Job, JobId, RetrySchedule, Topic, TopicSettings, format_seconds},
    queue::{AddOutcome, Reservation, TopicView},
};

/// Says that an add was a repeat.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// One job, as it stands.
pub fn job(job: &Job) -> Response {
    json::object(|object| {
        job_members(object, job);
        object.raw("body", job.body.as_bytes());
    })
}

/// The answer to an add.
pub fn added(outcome: &AddOutcome) -> Response {
    let mut response = job(&outcome.job);
    if outcome.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return response;
    }
    *response.status_mut() = StatusCode::CREATED;
    // Every character of an id may stand in a path as it is (RFC 3986, pchar).
    let location = HeaderValue::try_from(format!("{}/{}", paths::JOBS, outcome.job.id.as_str()))
        .expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// One reserved job.
pub fn reservation(reservation: &Reservation, out: &mut Vec<u8>) {
    let job = &reservation.job;
    let mut object = Object::new(out);
    job_members(&mut object, job);
    object.text("receipt", &reservation.receipt.to_string());
    object.number("attempt", job.attempts);
    object.seconds("late", reservation.late);
    object.raw("body", job.body.as_bytes());
    object.end();
}

/// Everything of a job but its body.
fn job_members(object: &mut Object<'_>, job: &Job) {
    object.text("id", job.id.as_str());
    object.text("topic", job.topic.as_str());
    object.text("state", job.state.as_str());
    object.moment("created_at", job.created_at);
    object.moment("due_at", job.due_at);
    object.seconds("ttr", job.ttr.as_duration());
    object.number("attempts", job.attempts);
    object.number("max_attempts", job.max_attempts);
    if !job.retry.is_empty() {
        retry(object, &job.retry);
    }
    if let Some(until) = job.reserved_until {
        object.moment("reserved_until", until);
    }
    if let Some(dead_at) = job.dead_at {
        object.moment("dead_at", dead_at);
    }
    if let Some(reason) = &job.reason {
        object.text("reason", reason.as_str());
    }
}

fn retry(object: &mut Object<'_>, retry: &RetrySchedule) {
    object.list("retry", retry.steps(), |step, out| out.extend_from_slice(format_seconds(*step).as_bytes()));
}

/// A page of jobs.
pub fn dead_page(jobs: &[Job], next_cursor: Option<&str>) -> Response {
    json::object(|object| {
        object.list("jobs", jobs, |job, out| {
            let mut object = Object::new(out);
            job_members(&mut object, job);
            object.raw("body", job.body.as_bytes());
            object.end();
        });
        if let Some(cursor) = next_cursor {
            object.text("next_cursor", cursor);
        }
    })
}

/// One topic.
pub fn topic(topic: &Topic, view: &TopicView) -> Response {
    json::object(|object| topic_members(object, topic, view))
}

/// A page of topics.
pub fn topic_page(topics: &[(Topic, TopicView)], next_cursor: Option<&str>) -> Response {
    json::object(|object| {
        object.list("topics", topics, |(topic, view), out| {
            let mut object = Object::new(out);
            topic_members(&mut object, topic, view);
            object.end();
        });
        if let Some(cursor) = next_cursor {
            object.text("next_cursor", cursor);
        }
    })
}

fn topic_members(object: &mut Object<'_>, topic: &Topic, view: &TopicView) {
    let stats = &view.stats;
    object.text("topic", topic.as_str());
    object.object("counts", |counts| {
        counts.number("delayed", stats.delayed);
        counts.number("ready", stats.ready);
        counts.number("reserved", stats.reserved);
        counts.number("dead", stats.dead);
    });
    object.moment_or_null("next_due_at", stats.next_due);
    object.moment_or_null("oldest_overdue_at", stats.oldest_ready);
    object.number("waiting", view.waiting);
    object.object("paused", |paused| {
        paused.flag("delivery", stats.config.pause.delivery);
        paused.flag("intake", stats.config.pause.intake);
    });
    object.object("settings", |object| settings(object, &stats.config.settings));
}

/// Settings as they were set: what comes out can be put back in.
fn settings(object: &mut Object<'_>, settings: &TopicSettings) {
    if let Some(ttr) = settings.ttr {
        object.seconds("ttr", ttr.as_duration());
    }
    if let Some(max_attempts) = settings.max_attempts {
        object.number("max_attempts", max_attempts);
    }
    if let Some(steps) = &settings.retry {
        retry(object, steps);
    }
    object.flag("require_receipt", settings.require_receipt);
}

/// A count, such as `{"deleted":3}`.
pub fn count(name: &'static str, count: u64) -> Response {
    json::object(|object| object.number(name, count))
}

/// What one item of a batch came to.
pub struct ItemResult {
    pub id: Option<JobId>,
    pub outcome: Result<StatusCode, Problem>,
}

/// The results of a batch, one per item.
pub fn results(results: &[ItemResult]) -> Response {
    json::object(|object| object.list("results", results, ItemResult::write))
}

impl ItemResult {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        let status = match &self.outcome {
            Ok(status) => *status,
            Err(problem) => problem.status(),
        };
        object.number("status", status.as_u16());
        if let Some(id) = &self.id {
            object.text("id", id.as_str());
        }
        if let Err(problem) = &self.outcome {
            object.value("problem", |out| problem.write(out, None));
        }
        object.end();
    }
}

/// Done, and nothing to say.
pub fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
