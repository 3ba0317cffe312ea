//! The JSON of bulk operations: their requests and their progress.

use std::{sync::Arc, time::Duration};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    fields::Fields,
    filters,
    listed::write_listed_job,
    requests,
    values::{self, ParseResult},
};
use crate::{
    http::{
        errors::Problem,
        json::{self, ObjectWriter},
    },
    job::{Delay, Due, Expire, ExpiryChange, OperationId, Reason, State},
    queue::{BulkAction, BulkRequest, JobFilter, Limits, OperationView, Progress},
};

/// Highest limit of an operation.
const MAX_LIMIT: usize = 1_000_000_000;

/// The kinds of actions, without their moments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Delete,
    Reschedule,
    Requeue,
    Revoke,
}

impl Kind {
    fn parse(raw: &RawValue) -> ParseResult<Self> {
        match &*values::text(raw)? {
            "delete" => Ok(Self::Delete),
            "reschedule" => Ok(Self::Reschedule),
            "requeue" => Ok(Self::Requeue),
            "revoke" => Ok(Self::Revoke),
            _ => Err("must be \"delete\", \"reschedule\", \"requeue\" or \"revoke\"".to_owned()),
        }
    }

    /// The state of its jobs if the filter names none.
    fn default_state(self) -> Option<State> {
        match self {
            Self::Delete => None,
            Self::Reschedule => Some(State::Delayed),
            Self::Requeue => Some(State::Dead),
            Self::Revoke => Some(State::Reserved),
        }
    }

    fn applies_to(self, state: State) -> bool {
        match self {
            Self::Delete => true,
            Self::Reschedule => matches!(state, State::Delayed | State::Ready),
            Self::Requeue => state == State::Dead,
            Self::Revoke => state == State::Reserved,
        }
    }
}

/// The body of a request, sent with the token called `by`.
pub fn request(bytes: &Bytes, limits: &Limits, by: Arc<str>) -> Result<BulkRequest, Problem> {
    requests::read(bytes, |fields| {
        let kind = fields.required("action", Kind::parse);
        let default_state = kind.map_or(Some(State::Delayed), Kind::default_state);
        if !fields.has("filter") {
            fields.add_fault("filter", "is required");
        }
        let filter = fields.optional_object("filter", |filter| filters::in_body(filter, default_state));
        if let Some((kind, filter)) = kind.zip(filter.as_ref())
            && !kind.applies_to(filter.state)
        {
            fields.add_fault(
                "filter/state",
                format!(
                    "must be \"delayed\" or \"ready\" to reschedule, \"dead\" to requeue, \"reserved\" to revoke; \
                     not \"{}\"",
                    filter.state
                ),
            );
        }
        let action = kind.and_then(|kind| action(fields, kind, limits));
        let (expiry, reason) = (expiry(fields, kind), reason(fields, kind));
        let spread = spread(fields, action, limits);
        let is_dry_run = fields.optional("dry_run", values::flag).unwrap_or(true);
        let id = fields
            .optional("id", |raw| OperationId::parse(&values::text(raw)?).map_err(|error| error.to_string()));
        if is_dry_run && fields.has("id") {
            fields.add_fault("id", "must not be given for a dry run");
        }
        if !is_dry_run && !fields.has("limit") {
            fields.add_fault("limit", "is required: the most jobs to change, such as the count of a dry run");
        }
        let limit = fields.optional("limit", |raw| values::whole_number(raw, 1, MAX_LIMIT));
        let limit = limit.filter(|_| !is_dry_run).map(|limit| limit as u64);
        let (action, filter): (BulkAction, JobFilter) = action.zip(filter)?;
        Some(BulkRequest { id, action, filter, expiry, reason, spread, limit, by })
    })
}

/// Another expiry for the jobs that are requeued.
fn expiry(fields: &mut Fields<'_>, kind: Option<Kind>) -> ExpiryChange {
    if kind.is_some_and(|kind| kind != Kind::Requeue) {
        ["expire", "on_expiry", "clear_expire"]
            .into_iter()
            .for_each(|name| fields.refuse(name, "is for the action requeue only"));
        return ExpiryChange::Keep;
    }
    super::expiry::change(fields)
}

/// Why jobs are taken back.
fn reason(fields: &mut Fields<'_>, kind: Option<Kind>) -> Option<Reason> {
    if kind.is_some_and(|kind| kind != Kind::Revoke) {
        fields.refuse("reason", "is for the action revoke only");
        return None;
    }
    fields.optional("reason", values::reason)
}

/// The action with its moment: `at`, `delay` or `shift`. `None` after a fault was recorded.
fn action(fields: &mut Fields<'_>, kind: Kind, limits: &Limits) -> Option<BulkAction> {
    if kind != Kind::Reschedule {
        fields.refuse("shift", "is for the action reschedule only");
    }
    match kind {
        Kind::Delete => {
            fields.refuse("at", "is not for the action delete");
            fields.refuse("delay", "is not for the action delete");
            Some(BulkAction::Delete)
        }
        Kind::Requeue => Some(BulkAction::Requeue(requests::due(fields, limits).unwrap_or_default())),
        Kind::Revoke => Some(BulkAction::Revoke(requests::due(fields, limits).unwrap_or_default())),
        Kind::Reschedule => {
            let (has_due, has_shift) = (fields.has("at") || fields.has("delay"), fields.has("shift"));
            let due = requests::due(fields, limits);
            let shift_ms = fields.optional("shift", signed_millis);
            match (has_due, has_shift) {
                (true, true) => fields.add_fault("shift", "must not be given together with at or delay"),
                (false, false) => fields.add_fault("", "must have one of at, delay and shift"),
                (true, false) | (false, true) => {}
            }
            due.map(BulkAction::Reschedule).or(shift_ms.map(BulkAction::Shift))
        }
    }
}

/// A duration with a sign, in milliseconds.
fn signed_millis(raw: &RawValue) -> ParseResult<i64> {
    let text = values::text(raw)?;
    let (sign, duration) = match text.strip_prefix('-') {
        Some(duration) => (-1, duration),
        None => (1, text.strip_prefix('+').unwrap_or(&text)),
    };
    let duration = Delay::new(values::duration_text(duration)?).map_err(|error| error.to_string())?;
    let ms = i64::try_from(duration.as_duration().as_millis())
        .expect("the longest delay in milliseconds fits into an i64");
    if ms == 0 { Err("must not be zero".to_owned()) } else { Ok(sign * ms) }
}

fn spread(fields: &mut Fields<'_>, action: Option<BulkAction>, limits: &Limits) -> Option<Duration> {
    let unused = match action {
        Some(BulkAction::Delete) => Some("is not for the action delete"),
        Some(BulkAction::Shift(_)) => Some("must not be given together with shift"),
        _ => None,
    };
    if let Some(detail) = unused {
        fields.refuse("spread", detail);
        return None;
    }
    let spread = fields.optional("spread", |raw| values::delay(raw, limits.max_delay))?;
    Some(spread.as_duration()).filter(|spread| !spread.is_zero())
}

/// The result of a dry run that has ended, with the first jobs.
pub fn dry_run(progress: &Progress) -> Response {
    json::object_response(|object| {
        object.flag("dry_run", true);
        object.number("matched", progress.matched);
        object.list("jobs", &*progress.examples, write_listed_job);
    })
}

/// An operation that was started, or started earlier with the same id.
pub fn accepted(started: &OperationView) -> Response {
    let mut response = operation(started);
    *response.status_mut() = StatusCode::ACCEPTED;
    // Every character of an id is allowed in a path without escapes (RFC 3986, pchar).
    let location = format!("/bulk/{}", started.id);
    let location = HeaderValue::try_from(location).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// One operation.
pub fn operation(operation: &OperationView) -> Response {
    json::object_response(|object| write_operation(object, operation))
}

/// Several operations.
pub fn operations(operations: &[OperationView]) -> Response {
    json::object_response(|object| {
        object.list("operations", operations, |operation, out| {
            let mut object = ObjectWriter::new(out);
            write_operation(&mut object, operation);
            object.end();
        });
    })
}

fn write_operation(object: &mut ObjectWriter<'_>, operation: &OperationView) {
    let OperationView { id, request, started_at, progress } = operation;
    object.text("id", id.as_str());
    object.text("action", request.action.as_str());
    match request.action {
        BulkAction::Delete => {}
        BulkAction::Reschedule(due) | BulkAction::Requeue(due) | BulkAction::Revoke(due) => match due {
            Due::At(at) => object.timestamp("at", at),
            Due::After(delay) => object.seconds("delay", delay.as_duration()),
        },
        BulkAction::Shift(shift_ms) => object.text("shift", &format!("{shift_ms}ms")),
    }
    match request.expiry {
        ExpiryChange::Keep => {}
        ExpiryChange::Clear => object.flag("clear_expire", true),
        ExpiryChange::Set(expire, on_expiry) => {
            match expire {
                Expire::After(delay) => object.seconds("expire", delay.as_duration()),
                Expire::At(moment) => object.timestamp("expire", moment),
            }
            if let Some(on_expiry) = on_expiry {
                object.text("on_expiry", on_expiry.as_str());
            }
        }
    }
    if let Some(reason) = &request.reason {
        object.text("reason", reason.as_str());
    }
    if let Some(spread) = request.spread {
        object.seconds("spread", spread);
    }
    object.object("filter", |object| write_filter(object, &request.filter));
    object.flag("dry_run", request.is_dry_run());
    if let Some(limit) = request.limit {
        object.number("limit", limit);
    }
    if !request.by.is_empty() {
        object.text("by", &request.by);
    }
    object.text("state", progress.state.as_str());
    object.timestamp("started_at", *started_at);
    if let Some(ended_at) = progress.ended_at {
        object.timestamp("ended_at", ended_at);
    }
    object.number("matched", progress.matched);
    object.number("changed", progress.changed);
    object.number("skipped", progress.skipped);
    if request.is_dry_run() {
        object.list("jobs", &*progress.examples, write_listed_job);
    }
    if let Some(error) = &progress.error {
        object.text("error", error);
    }
}

/// Writes a filter in the form in which it is sent.
fn write_filter(object: &mut ObjectWriter<'_>, filter: &JobFilter) {
    object.text("state", filter.state.as_str());
    match &filter.topic {
        Some(topic) => object.text("topic", topic.as_str()),
        None => object.flag("all_topics", true),
    }
    if let Some(from) = filter.from {
        object.timestamp("from", from);
    }
    if let Some(to) = filter.to {
        object.timestamp("to", to);
    }
    if let Some(prefix) = &filter.id_prefix {
        object.text("id_prefix", prefix);
    }
    if let Some(prefix) = &filter.reason_prefix {
        object.text("reason_prefix", prefix);
    }
    if let Some(name) = &filter.reserved_by {
        object.text("reserved_by", name.as_str());
    }
}
