//! The JSON of schedules (`openapi.yaml`, components NewSchedule and Schedule).

use std::time::Duration;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    callbacks,
    fields::{self, Fields},
    requests::{self, close, job_definition, open},
    responses::write_next_cursor,
    values::{self, ParseResult},
};
use crate::{
    http::{
        errors::{Fault, MAX_FAULTS, Problem},
        json::{self, ObjectWriter},
    },
    job::{
        Expire, JobId, NewJob, ScheduleName, Timestamp,
        schedule::{Missed, Overlap, RecurrenceFields, Rule, ScheduleFields, ScheduleSpec},
    },
    queue::{Limits, MAX_TEMPLATE, PutEffect, ScheduleList, ScheduleView},
};

/// The longest id of a run that a client starts: with the longest name it makes the longest id of a job.
const MAX_RUN_ID: usize = JobId::MAX_LEN - ScheduleName::MAX_LEN - "run::".len();
/// How many of the next runs an answer shows.
const SHOWN_RUNS: usize = 3;
/// How far ahead changes of clocks are shown.
const CLOCKS_AHEAD: Duration = Duration::from_secs(366 * 86_400);

/// The body of a PUT: what is asked of the schedule, and what its jobs are.
pub fn schedule(bytes: &Bytes, limits: &Limits) -> Result<(ScheduleSpec, NewJob), Problem> {
    let mut fields = open(fields::parse_document(bytes), Problem::invalid_request)?;
    fields.refuse("topic", "belongs in job");
    fields.refuse("name", "is the last part of the path");
    let recurrence = RecurrenceFields {
        cron: fields.optional("cron", |raw| values::text(raw).map(Into::into)),
        every: fields.optional("every", values::duration),
        time_zone: fields.optional("time_zone", |raw| values::text(raw).map(Into::into)),
        start: fields.optional("start", values::timestamp),
        end: fields.optional("end", values::timestamp),
    };
    let jitter = fields.optional("jitter", values::duration);
    let overlap = fields.optional("overlap", |raw| named(raw, &Overlap::ALL, Overlap::as_str));
    let missed = fields.optional("missed", |raw| named(raw, &Missed::ALL, Missed::as_str));
    let missed_within = fields.optional("missed_within", values::duration);
    let job = fields.required("job", |raw| Ok(raw.get().to_owned()));
    let template = close(fields, job, Problem::invalid_request)?;
    let job = read_job(&template, "/job", limits)?;
    let topic = job.topic.clone();
    let fields = ScheduleFields { recurrence, jitter, overlap, missed, missed_within, topic, template };
    let spec = ScheduleSpec::new(&fields).map_err(|error| {
        Problem::invalid_request(Fault::at_pointer(format!("/{}", error.field), error.problem).into())
    })?;
    Ok((spec, job))
}

/// Reads a template: a [`TemplateReader`](crate::queue::TemplateReader).
pub fn read_template(template: &str, limits: &Limits) -> Result<NewJob, String> {
    read_job(template, "", limits).map_err(|problem| problem.detail().to_owned())
}

/// Reads the job of a schedule.
fn read_job(template: &str, pointer: &str, limits: &Limits) -> Result<NewJob, Problem> {
    let invalid =
        |detail: String| Problem::invalid_request(Fault::at_pointer(pointer.to_owned(), detail).into());
    if template.len() > MAX_TEMPLATE {
        return Err(invalid(format!("must be at most {MAX_TEMPLATE} bytes long")));
    }
    let bytes = Bytes::copy_from_slice(template.as_bytes());
    let raw: &RawValue = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut fields = open(Fields::parse(raw, pointer.to_owned(), MAX_FAULTS), Problem::invalid_request)?;
    fields.refuse("id", "is made of the schedule's name and the moment of the run; leave it out");
    for due in ["delay", "at"] {
        fields.refuse(due, "must not be given: the schedule says when its jobs are due");
    }
    for version in ["if_exists", "revision"] {
        fields.refuse(version, "must not be given: each run adds a new job");
    }
    let job = job_definition(fields, None, &bytes, limits)?;
    if matches!(job.expire, Some(Expire::At(_))) {
        let fault =
            Fault::at_pointer(format!("{pointer}/expire"), "must be a duration, which counts from each run");
        return Err(Problem::invalid_request(fault.into()));
    }
    Ok(job)
}

/// One of some named values.
fn named<T: Copy>(raw: &RawValue, all: &[T], name: fn(T) -> &'static str) -> ParseResult<T> {
    let text = values::text(raw)?;
    let names = || all.iter().map(|value| format!("\"{}\"", name(*value))).collect::<Vec<_>>().join(", ");
    all.iter()
        .copied()
        .find(|value| name(*value) == text)
        .ok_or_else(|| format!("must be one of {}", names()))
}

/// The body of a run: the last part of the id of its job.
pub fn run(bytes: &Bytes) -> Result<Option<JobId>, Problem> {
    requests::read(bytes, |fields| Some(fields.optional("id", run_id)))
}

fn run_id(raw: &RawValue) -> ParseResult<JobId> {
    let id = values::job_id(raw)?;
    if id.as_str().contains(':') {
        Err("must have no colon, behind which the id begins in that of the job".to_owned())
    } else if id.as_str().len() > MAX_RUN_ID {
        Err(format!("must be at most {MAX_RUN_ID} bytes long"))
    } else {
        Ok(id)
    }
}

/// The revision in `If-Match`, as `ETag` shows it.
pub fn expected_revision(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let revision = value.to_str().ok().and_then(|text| text.trim().trim_matches('"').parse().ok());
    let detail = "the header If-Match must be the ETag of the schedule, which is its revision in quotes";
    revision.map(Some).ok_or_else(|| Problem::malformed(detail))
}

/// One schedule.
pub fn response(view: &ScheduleView) -> Response {
    tagged(view, json::object_response(|object| write(object, view, SHOWN_RUNS)))
}

/// The schedule that a PUT would make.
pub fn preview(view: &ScheduleView, count: usize) -> Response {
    let response = json::object_response(|object| {
        write(object, view, count);
        write_clock_changes(object, view);
    });
    tagged(view, response)
}

/// Adds the revision of the schedule to an answer.
fn tagged(view: &ScheduleView, mut response: Response) -> Response {
    let tag = HeaderValue::try_from(format!("\"{}\"", view.state.revision)).expect("a number is ASCII");
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// The answer to a PUT.
pub fn put_response(view: &ScheduleView, effect: PutEffect) -> Response {
    let mut response = response(view);
    if effect == PutEffect::Created {
        *response.status_mut() = StatusCode::CREATED;
        let location = HeaderValue::try_from(format!("/schedules/{}", view.name)).expect("a name is ASCII");
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// A page of schedules.
pub fn list(list: &ScheduleList, next_cursor: Option<&str>) -> Response {
    json::object_response(|object| {
        object.list("schedules", &list.schedules, |view, out| {
            let mut object = ObjectWriter::new(out);
            write(&mut object, view, SHOWN_RUNS);
            object.end();
        });
        write_next_cursor(object, next_cursor);
    })
}

/// The next runs.
pub fn next(view: &ScheduleView, count: usize) -> Response {
    json::object_response(|object| {
        write_next(object, view, count);
        write_clock_changes(object, view);
    })
}

fn write(object: &mut ObjectWriter<'_>, view: &ScheduleView, runs: usize) {
    let ScheduleView { name, spec, state, .. } = view;
    object.text("name", name.as_str());
    match spec.recurrence.rule() {
        Rule::Cron { pattern, zone } => {
            object.text("cron", pattern.as_str());
            object.text("time_zone", zone.name());
        }
        Rule::Every(every) => object.seconds("every", *every),
    }
    if let Some(start) = spec.recurrence.start() {
        object.timestamp("start", start);
    }
    if let Some(end) = spec.recurrence.end() {
        object.timestamp("end", end);
    }
    if !spec.jitter.is_zero() {
        object.seconds("jitter", spec.jitter);
    }
    object.text("overlap", spec.overlap.as_str());
    object.text("missed", spec.missed.missed().as_str());
    if let Some(within) = spec.missed.within() {
        object.seconds("missed_within", within);
    }
    object.object("job", |job| write_template(job, &spec.template));
    object.number("revision", state.revision);
    object.text("state", state_of(view));
    write_next(object, view, runs);
    if let Some(last) = state.last {
        object.timestamp("last", last);
    }
    if let Some(job) = &state.last_job {
        object.text("last_job", job.as_str());
    }
    if let Some(waiting) = &state.waiting {
        object.object("waiting", |object| {
            object.timestamp("since", waiting.since);
            object.text("reason", waiting.reason.as_str());
        });
    }
    object.object("runs", |object| {
        object.number("fired", state.counts.fired);
        object.number("overlap", state.counts.overlapped);
        object.number("missed", state.counts.missed);
    });
}

/// Writes a template as it was given, but for the values of headers, which are credentials, and without fields that are `null`,
/// which count as left out.
fn write_template(object: &mut ObjectWriter<'_>, template: &str) {
    let Ok(raw) = serde_json::from_str::<&RawValue>(template) else { return };
    for (name, raw) in fields::accepted_entries(raw) {
        match (&*name, raw.get()) {
            ("body", body) => object.raw("body", body.as_bytes()),
            (_, "null") => {}
            ("callback", _) => object.object("callback", |object| callbacks::write_given(object, raw)),
            (name, json) => object.raw(name, json.as_bytes()),
        }
    }
}

/// What the schedule does now.
fn state_of(view: &ScheduleView) -> &'static str {
    let ScheduleView { state, now, .. } = view;
    if state.paused {
        "paused"
    } else if state.waiting.is_some() {
        "waiting"
    } else if state.is_ahead(*now) {
        "ahead"
    } else if state.next.is_none() {
        "ended"
    } else {
        "active"
    }
}

fn write_next(object: &mut ObjectWriter<'_>, view: &ScheduleView, count: usize) {
    object.list("next", &view.state.upcoming(&view.spec, count), |next: &Timestamp, out| {
        json::write_text(out, &next.to_string());
    });
}

/// The changes of clocks that meet a run of the next year.
fn write_clock_changes(object: &mut ObjectWriter<'_>, view: &ScheduleView) {
    let changes = view.spec.recurrence.clock_changes(view.now, view.now.after(CLOCKS_AHEAD));
    object.list("clock_changes", &changes, |change, out| {
        let mut object = ObjectWriter::new(out);
        object.timestamp("at", change.at);
        object.text("time", &change.time.to_string());
        object.text("effect", change.effect.as_str());
        object.end();
    });
}

/// The name in the path or in a cursor.
pub fn name_text(text: &str) -> ParseResult<ScheduleName> {
    ScheduleName::parse(text).map_err(|error| error.to_string())
}
