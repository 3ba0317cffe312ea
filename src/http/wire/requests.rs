//! The bodies of requests: from JSON objects to the queue's requests, with all faults at once.
//!
//! Knows the fields of each body; `fields` finds them and `values` parses them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    callbacks::{self, NewTopicCallback},
    expiry,
    fields::{self, Fields, ObjectError},
    trace, values,
};
use crate::{
    http::errors::{Fault, Faults, Problem},
    job::{
        Body, BodyError, Delay, Due, JobId, NewJob, PausedOperations, Reason, Receipt, RetrySchedule,
        SigningKey, TopicCallback, TopicSettings,
    },
    queue::{DeleteRule, Limits, NewPause, Patch, Pop, Release, Requeue, Touch},
};

/// The name of what spares reserved jobs in a delete.
pub const UNLESS_RESERVED: &str = "unless_reserved";

/// What a delete spares.
pub fn delete_rule(unless_reserved: Option<bool>) -> DeleteRule {
    if unless_reserved == Some(true) { DeleteRule::UnlessReserved } else { DeleteRule::AnyState }
}

/// The problem that reports the faults of a body.
type ToProblem = fn(Faults) -> Problem;

/// Highest `limit` that a bulk requeue accepts.
const MAX_REQUEUE: usize = 1_000_000;
/// Longest pointer into a job's body that a response repeats, in bytes.
const MAX_POINTER: usize = 256;

pub(super) fn open<'a>(
    parsed: Result<Fields<'a>, ObjectError>,
    to_problem: ToProblem,
) -> Result<Fields<'a>, Problem> {
    parsed.map_err(|error| match error {
        ObjectError::InvalidJson(problem) => problem,
        ObjectError::InvalidValue(faults) => to_problem(faults),
    })
}

/// The fields of a body that adds jobs. Says where a list of jobs goes.
pub(super) fn open_add(bytes: &Bytes, to_problem: ToProblem) -> Result<Fields<'_>, Problem> {
    match fields::parse_document(bytes) {
        Err(ObjectError::InvalidValue(_)) if bytes.trim_ascii_start().starts_with(b"[") => {
            let detail =
                "must be a JSON object; several jobs go to POST /batch/jobs as {\"jobs\":[...]}".to_owned();
            Err(to_problem(Fault::at_pointer(String::new(), detail).into()))
        }
        parsed => open(parsed, to_problem),
    }
}

/// Ends the reading of `fields`, whose result is `value`. `None` means that a required field has a fault.
pub(super) fn close<T>(fields: Fields<'_>, value: Option<T>, to_problem: ToProblem) -> Result<T, Problem> {
    fields.finish().map_err(to_problem)?;
    Ok(value.expect("a required field that could not be read is a fault, and there was none"))
}

/// Reads a body other than a job's definition. `read` returns `None` only after it recorded a fault.
pub(super) fn read<'a, T>(
    bytes: &'a Bytes,
    read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
) -> Result<T, Problem> {
    let mut fields = open(fields::parse_document(bytes), Problem::invalid_request)?;
    let value = read(&mut fields);
    close(fields, value, Problem::invalid_request)
}

/// The body of an add.
pub fn new_job(bytes: &Bytes, limits: &Limits) -> Result<NewJob, Problem> {
    let mut fields = open_add(bytes, Problem::invalid_job)?;
    let id = fields.optional("id", values::new_job_id);
    job_definition(fields, id, bytes, limits)
}

/// Reads a job's definition except for its id. `fields` borrows from `bytes`, the whole request.
pub(super) fn job_definition(
    mut fields: Fields<'_>,
    id: Option<JobId>,
    bytes: &Bytes,
    limits: &Limits,
) -> Result<NewJob, Problem> {
    let topic = fields.required("topic", values::topic);
    let due = due(&mut fields, limits);
    let ttr = fields.optional("ttr", values::ttr);
    let max_attempts = fields.optional("max_attempts", values::max_attempts);
    let retry = retry(&mut fields, limits);
    let (expire, on_expiry) = expiry::of_job(&mut fields);
    let revision = fields.optional("revision", values::revision);
    let replaces = replaces(&mut fields, id.as_ref());
    let callback = callbacks::of_job(&mut fields, limits);
    let trace = trace::of_definition(&mut fields);
    let body = body(&mut fields, bytes)?;
    let topic = close(fields, topic, Problem::invalid_job)?;
    Ok(NewJob {
        id,
        topic,
        due: due.unwrap_or_default(),
        ttr,
        max_attempts,
        retry,
        expire,
        on_expiry,
        revision,
        replaces,
        callback,
        trace,
        body: body.unwrap_or_default(),
    })
}

/// Whether the job replaces the one with its id, which it must have.
fn replaces(fields: &mut Fields<'_>, id: Option<&JobId>) -> bool {
    let replaces = fields.optional("if_exists", values::if_exists).unwrap_or(false);
    if replaces && id.is_none() && !fields.has("id") {
        fields.add_fault("if_exists", "needs the id of the job to replace");
    }
    replaces
}

/// `delay` or `at`, never both.
pub(super) fn due(fields: &mut Fields<'_>, limits: &Limits) -> Option<Due> {
    if fields.has("delay") && fields.has("at") {
        fields.add_fault("at", "must not be given together with delay");
    }
    let delay = delay(fields, limits).map(Due::After);
    let at = fields.optional("at", values::timestamp).map(Due::At);
    delay.or(at)
}

pub(super) fn delay(fields: &mut Fields<'_>, limits: &Limits) -> Option<Delay> {
    fields.optional("delay", |raw| values::delay(raw, limits.max_delay))
}

fn retry(fields: &mut Fields<'_>, limits: &Limits) -> Option<RetrySchedule> {
    let step = |raw| values::retry_step(raw, limits.max_delay);
    let steps = fields.optional_list("retry", RetrySchedule::MAX_STEPS, step)?;
    values::retry_schedule(steps).map_err(|detail| fields.add_fault("retry", detail)).ok()
}

/// The job's body, as a slice of the request: the exact bytes that were sent.
fn body(fields: &mut Fields<'_>, bytes: &Bytes) -> Result<Option<Body>, Problem> {
    let Some(raw) = fields.raw_or_null("body") else { return Ok(None) };
    let error = match Body::from_raw(raw, bytes) {
        Ok(body) => return Ok(Some(body)),
        Err(error) => error,
    };
    match &error {
        BodyError::NotJson(_) | BodyError::TooDeep => {
            Err(Problem::malformed(format!("{} {error}", fields.pointer_to("body"))))
        }
        BodyError::LoneSurrogate { pointer } => {
            let pointer = if pointer.len() > MAX_POINTER { "" } else { pointer };
            fields.add_fault(&format!("body{pointer}"), error.to_string());
            Ok(None)
        }
    }
}

/// The body of a patch: at least one change.
pub fn patch(bytes: &Bytes, limits: &Limits) -> Result<Patch, Problem> {
    let mut fields = open(fields::parse_document(bytes), Problem::invalid_job)?;
    fields.set_null_rule(|name| Some(how_to_clear(name)));
    if fields.is_empty() {
        fields.add_fault(
            "",
            "must change something: delay or at, ttr, max_attempts, retry, expire, clear_expire or body",
        );
    }
    fields.refuse(
        "callback",
        "cannot be changed; delete the job and add it again, or change its topic's callback",
    );
    let patch = Patch {
        due: due(&mut fields, limits),
        ttr: fields.optional("ttr", values::ttr),
        max_attempts: fields.optional("max_attempts", values::max_attempts),
        retry: retry(&mut fields, limits),
        expiry: expiry::change(&mut fields),
        body: body(&mut fields, bytes)?,
    };
    close(fields, Some(patch), Problem::invalid_job)
}

/// What a patch answers to `null`, which could mean that the value is to stay, or to go.
fn how_to_clear(name: &str) -> &'static str {
    match name {
        "delay" | "at" => "must not be null: leave it out to keep the due time, or send \"delay\": 0 for now",
        "max_attempts" => "must not be null: leave it out to keep the limit, or send 0 for no limit",
        "expire" => {
            "must not be null: leave it out to keep the expiry, or send \"clear_expire\": true for none"
        }
        "retry" => "must not be null: leave it out to keep the list, or send [] for no list",
        _ => "must not be null: leave it out to keep the value, or send another one",
    }
}

/// The receipt in the body, or else the one in the query. If both are given, they must be the same.
fn optional_receipt(fields: &mut Fields<'_>, in_query: Option<Receipt>) -> Option<Receipt> {
    let in_body = fields.optional("receipt", values::receipt);
    if in_body.as_ref().zip(in_query.as_ref()).is_some_and(|(body, query)| body != query) {
        fields.add_fault("receipt", "must be the receipt of the query; one of the two is enough");
    }
    in_body.or(in_query)
}

/// A receipt that must be given in the body or in the query.
fn required_receipt(fields: &mut Fields<'_>, in_query: Option<Receipt>) -> Option<Receipt> {
    if in_query.is_none() && !fields.has("receipt") {
        fields.add_fault("receipt", "is required, here or in the query");
    }
    optional_receipt(fields, in_query)
}

/// A client that has lost its receipt must not finish the job of another one.
pub(super) fn null_in_finish(name: &str) -> Option<&'static str> {
    (name == "receipt")
        .then_some("must not be null: leave it out to finish the job whichever client holds it")
}

/// The body of a finish: the receipt, if there is one.
pub fn finish(bytes: &Bytes, in_query: Option<Receipt>) -> Result<Option<Receipt>, Problem> {
    read(bytes, |fields| {
        fields.set_null_rule(null_in_finish);
        Some(optional_receipt(fields, in_query))
    })
}

pub fn release(
    bytes: &Bytes,
    in_query: Option<Receipt>,
    limits: &Limits,
) -> Result<(Receipt, Release), Problem> {
    by_holder(bytes, in_query, |fields| released(fields, limits))
}

/// In which attempt a job is taken back, if that matters, and how.
pub fn revoke(bytes: &Bytes, limits: &Limits) -> Result<(Option<u32>, Release), Problem> {
    read(bytes, |fields| Some((fields.optional("attempt", values::attempt), released(fields, limits))))
}

/// How a job is released.
pub fn released(fields: &mut Fields<'_>, limits: &Limits) -> Release {
    Release { due: due(fields, limits), reason: fields.optional("reason", values::reason) }
}

pub fn touch(bytes: &Bytes, in_query: Option<Receipt>) -> Result<(Receipt, Touch), Problem> {
    by_holder(bytes, in_query, touched)
}

/// How a reservation is extended. A note that is `null` could mean that the old one is to stay, or to go.
pub fn touched(fields: &mut Fields<'_>) -> Touch {
    fields.set_null_rule(|name| {
        (name == "note").then_some("must not be null: leave it out to keep the note, or send another one")
    });
    Touch { ttr: fields.optional("ttr", values::ttr), note: fields.optional("note", values::note_text) }
}

pub fn bury(bytes: &Bytes, in_query: Option<Receipt>) -> Result<(Receipt, Option<Reason>), Problem> {
    by_holder(bytes, in_query, buried)
}

/// Why a job is buried.
pub fn buried(fields: &mut Fields<'_>) -> Option<Reason> {
    fields.optional("reason", values::reason)
}

/// What the holder of a job asks for, with the receipt.
fn by_holder<T>(
    bytes: &Bytes,
    in_query: Option<Receipt>,
    parse: impl FnOnce(&mut Fields<'_>) -> T,
) -> Result<(Receipt, T), Problem> {
    read(bytes, |fields| {
        let receipt = required_receipt(fields, in_query);
        let asked = parse(fields);
        Some((receipt?, asked))
    })
}

pub fn requeue(bytes: &Bytes, limits: &Limits) -> Result<Requeue, Problem> {
    read(bytes, |fields| {
        Some(Requeue { due: due(fields, limits).unwrap_or_default(), expiry: expiry::change(fields) })
    })
}

/// The number of dead letters to requeue: all if it is left out.
pub fn requeue_dead(bytes: &Bytes) -> Result<usize, Problem> {
    let limit = |raw: &RawValue| values::whole_number(raw, 1, MAX_REQUEUE);
    read(bytes, |fields| Some(fields.optional("limit", limit).unwrap_or(usize::MAX)))
}

/// The operations to pause, and what the client says of the pause.
pub fn pause(bytes: &Bytes) -> Result<(PausedOperations, NewPause), Problem> {
    read(bytes, |fields| {
        let operations = paused_operations(fields);
        let reason = fields.optional("reason", values::reason);
        let until = fields.optional("until", values::delay_or_moment);
        Some((operations, NewPause { by: None, reason, until }))
    })
}

/// The operations to resume.
pub fn resume(bytes: &Bytes) -> Result<PausedOperations, Problem> {
    read(bytes, |fields| Some(paused_operations(fields)))
}

/// Those that are `true`, or both if none is given.
fn paused_operations(fields: &mut Fields<'_>) -> PausedOperations {
    let default = !fields.has("delivery") && !fields.has("intake");
    PausedOperations {
        delivery: fields.optional("delivery", values::flag).unwrap_or(default),
        intake: fields.optional("intake", values::flag).unwrap_or(default),
    }
}

/// Settings, and the names of those headers of their callback whose stored values stay.
pub fn settings(bytes: &Bytes, limits: &Limits) -> Result<(TopicSettings, Vec<String>), Problem> {
    read(bytes, |fields| {
        let settings = TopicSettings {
            ttr: fields.optional("ttr", values::ttr),
            max_attempts: fields.optional("max_attempts", values::max_attempts),
            retry: retry(fields, limits),
            require_receipt: fields.optional("require_receipt", values::flag).unwrap_or_default(),
            late_finish: fields.optional("late_finish", values::flag),
            expire: fields.optional("expire", |raw| values::delay(raw, Delay::LONGEST)),
            on_expiry: fields.optional("on_expiry", values::on_expiry),
            dedup: fields.optional("dedup", values::dedup),
            callback: TopicCallback::default(),
        };
        let NewTopicCallback { callback, kept_headers } =
            callbacks::of_topic(fields, limits).unwrap_or_default();
        Some((TopicSettings { callback, ..settings }, kept_headers))
    })
}

/// The key of a new secret; `None` if the server is to choose one.
pub fn new_secret(bytes: &Bytes) -> Result<Option<SigningKey>, Problem> {
    read(bytes, |fields| Some(callbacks::own_key(fields)))
}

/// A request that takes no body: it must be empty or an empty object. Anything else would be silently ignored, such as a
/// parameter that belongs in the query.
pub fn nothing(bytes: &Bytes) -> Result<(), Problem> {
    read(bytes, |_| Some(()))
}

pub fn pop(bytes: &Bytes, limits: &Limits) -> Result<Pop, Problem> {
    read(bytes, |fields| {
        if !fields.has("topics") {
            fields.add_fault("topics", "is required");
        }
        let topics = fields.optional_list("topics", Limits::MAX_POP_TOPICS, values::topic);
        if topics.as_ref().is_some_and(Vec::is_empty) {
            fields.add_fault("topics", "must name at least one topic");
        }
        let max = fields.optional("max", |raw| values::whole_number(raw, 1, limits.max_batch_pop));
        let wait = fields.optional("wait", values::duration);
        let ttr = fields.optional("ttr", values::ttr);
        let by = fields.optional("worker", values::actor);
        let (max, wait) = (max.unwrap_or(1), wait.unwrap_or_default());
        Some(Pop { topics: topics?, max, wait, ttr, by, address: None })
    })
}
