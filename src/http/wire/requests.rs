//! What the bodies of requests mean: from JSON objects to the queue's requests, all faults at once.
//!
//! Knows the fields of each body; `fields` finds them, `values` reads them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    fields::{self, Fields, NotAnObject},
    values,
};
use crate::http::errors::{Fault, Faults, MAX_FAULTS, Problem};
use crate::{
    job::{
        Body, BodyError, Delay, Due, JobId, NewJob, Reason, Receipt, RetrySchedule, TopicPause,
        TopicSettings, Ttr,
    },
    queue::{Error, FinishJob, Limits, Patch, Pop, Release},
};

/// How the faults of a body are reported.
type Refuse = fn(Faults) -> Problem;

/// One item of a batch: its id as far as it could be read, and the item or why it is refused.
pub struct Item<T> {
    pub id: Option<JobId>,
    pub read: Result<T, Problem>,
}

/// Highest `limit` that a bulk requeue accepts.
const MAX_REQUEUE: usize = 1_000_000;
/// Longest pointer into a job's body that an answer repeats, in bytes.
const MAX_POINTER: usize = 256;

fn opened<'a>(read: Result<Fields<'a>, NotAnObject>, refuse: Refuse) -> Result<Fields<'a>, Problem> {
    read.map_err(|error| match error {
        NotAnObject::Broken(problem) => problem,
        NotAnObject::Refused(faults) => refuse(faults),
    })
}

fn open(bytes: &Bytes, refuse: Refuse) -> Result<Fields<'_>, Problem> {
    opened(fields::document(bytes), refuse)
}

fn close(fields: Fields<'_>, refuse: Refuse) -> Result<(), Problem> {
    let faults = fields.faults();
    if faults.is_empty() { Ok(()) } else { Err(refuse(faults)) }
}

/// A needed value after `close` found no fault.
fn given<T>(value: Option<T>) -> T {
    value.expect("a needed field that was not read is a fault, and there was none")
}

/// The body of an add.
pub fn new_job(bytes: &Bytes, limits: &Limits) -> Result<NewJob, Problem> {
    let mut fields = open(bytes, Problem::invalid_job)?;
    let id = fields.take("id", values::job_id);
    read_job(fields, id, bytes, limits)
}

/// Reads what of a job's definition is left once its id was taken. `bytes` is the request that `fields`
/// borrows from.
fn read_job(
    mut fields: Fields<'_>,
    id: Option<JobId>,
    bytes: &Bytes,
    limits: &Limits,
) -> Result<NewJob, Problem> {
    let topic = fields.need("topic", values::topic);
    let due = due(&mut fields, limits);
    let ttr = fields.take("ttr", values::ttr);
    let max_attempts = fields.take("max_attempts", values::max_attempts);
    let retry = retry(&mut fields, limits);
    let body = body(&mut fields, bytes)?;
    close(fields, Problem::invalid_job)?;
    Ok(NewJob {
        id,
        topic: given(topic),
        due: due.unwrap_or_default(),
        ttr,
        max_attempts,
        retry,
        body: body.unwrap_or_default(),
    })
}

/// `delay` or `at`, never both.
fn due(fields: &mut Fields<'_>, limits: &Limits) -> Option<Due> {
    if fields.has("delay") && fields.has("at") {
        fields.fault("at", "must not be given together with delay");
    }
    let delay = delay(fields, limits).map(Due::After);
    let at = fields.take("at", values::moment).map(Due::At);
    delay.or(at)
}

fn delay(fields: &mut Fields<'_>, limits: &Limits) -> Option<Delay> {
    fields.take("delay", |raw| values::delay(raw, limits.max_delay))
}

fn retry(fields: &mut Fields<'_>, limits: &Limits) -> Option<RetrySchedule> {
    let step = |raw| values::step(raw, limits.max_delay);
    let steps = fields.take_list("retry", RetrySchedule::MAX_STEPS, step)?;
    values::schedule(steps).map_err(|detail| fields.fault("retry", detail)).ok()
}

/// The job's body, as a slice of the request: the very bytes that were sent.
fn body(fields: &mut Fields<'_>, bytes: &Bytes) -> Result<Option<Body>, Problem> {
    let Some(raw) = fields.raw("body") else { return Ok(None) };
    let error = match Body::from_raw(raw, bytes) {
        Ok(body) => return Ok(Some(body)),
        Err(error) => error,
    };
    match &error {
        BodyError::NotJson(_) | BodyError::TooDeep => {
            Err(Problem::malformed(format!("{} {error}", fields.pointer("body"))))
        }
        BodyError::LoneSurrogate { pointer } => {
            let within = if pointer.len() > MAX_POINTER { "" } else { pointer };
            fields.fault(&format!("body{within}"), error.to_string());
            Ok(None)
        }
    }
}

/// The body of a patch: at least one change.
pub fn patch(bytes: &Bytes, limits: &Limits) -> Result<Patch, Problem> {
    let mut fields = open(bytes, Problem::invalid_job)?;
    if fields.is_empty() {
        fields.fault("", "must change something: delay or at, ttr, max_attempts, retry or body");
    }
    let patch = Patch {
        due: due(&mut fields, limits),
        ttr: fields.take("ttr", values::ttr),
        max_attempts: fields.take("max_attempts", values::max_attempts),
        retry: retry(&mut fields, limits),
        body: body(&mut fields, bytes)?,
    };
    close(fields, Problem::invalid_job)?;
    Ok(patch)
}

/// The receipt of the body, or else that of the query. Both must be the same.
fn receipt(fields: &mut Fields<'_>, in_query: Option<Receipt>) -> Option<Receipt> {
    let in_body = fields.take("receipt", values::receipt);
    if in_body.as_ref().zip(in_query.as_ref()).is_some_and(|(body, query)| body != query) {
        fields.fault("receipt", "must be the receipt of the query; one of the two is enough");
    }
    in_body.or(in_query)
}

/// A receipt that must be in one of the two places.
fn need_receipt(fields: &mut Fields<'_>, in_query: Option<Receipt>) -> Option<Receipt> {
    if in_query.is_none() && !fields.has("receipt") {
        fields.fault("receipt", "is required, here or in the query");
    }
    receipt(fields, in_query)
}

/// The body of a finish: the receipt, if there is one.
pub fn finish(bytes: &Bytes, in_query: Option<Receipt>) -> Result<Option<Receipt>, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = receipt(&mut fields, in_query);
    close(fields, Problem::invalid_request)?;
    Ok(receipt)
}

pub fn release(
    bytes: &Bytes,
    in_query: Option<Receipt>,
    limits: &Limits,
) -> Result<(Receipt, Release), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = need_receipt(&mut fields, in_query);
    let delay = delay(&mut fields, limits);
    let release = Release { delay, reason: fields.take("reason", values::reason) };
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), release))
}

pub fn touch(bytes: &Bytes, in_query: Option<Receipt>) -> Result<(Receipt, Option<Ttr>), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = need_receipt(&mut fields, in_query);
    let ttr = fields.take("ttr", values::ttr);
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), ttr))
}

pub fn bury(bytes: &Bytes, in_query: Option<Receipt>) -> Result<(Receipt, Option<Reason>), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = need_receipt(&mut fields, in_query);
    let reason = fields.take("reason", values::reason);
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), reason))
}

pub fn requeue(bytes: &Bytes, limits: &Limits) -> Result<Delay, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let delay = delay(&mut fields, limits);
    close(fields, Problem::invalid_request)?;
    Ok(delay.unwrap_or_default())
}

/// How many dead letters to requeue: all when it is left out.
pub fn requeue_dead(bytes: &Bytes) -> Result<usize, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let limit = fields.take("limit", |raw| values::whole(raw, 1, MAX_REQUEUE));
    close(fields, Problem::invalid_request)?;
    Ok(limit.unwrap_or(usize::MAX))
}

/// What to pause or resume: what is `true`, or both when nothing is said.
pub fn pause(bytes: &Bytes) -> Result<TopicPause, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let unsaid = fields.is_empty();
    let delivery = fields.take("delivery", values::flag).unwrap_or(unsaid);
    let intake = fields.take("intake", values::flag).unwrap_or(unsaid);
    close(fields, Problem::invalid_request)?;
    Ok(TopicPause { delivery, intake })
}

pub fn settings(bytes: &Bytes, limits: &Limits) -> Result<TopicSettings, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let settings = TopicSettings {
        ttr: fields.take("ttr", values::ttr),
        max_attempts: fields.take("max_attempts", values::max_attempts),
        retry: retry(&mut fields, limits),
        require_receipt: fields.take("require_receipt", values::flag).unwrap_or_default(),
    };
    close(fields, Problem::invalid_request)?;
    Ok(settings)
}

/// A call that takes no body: empty, or an empty object. Anything else would be silently ignored, such
/// as a parameter that belongs in the query.
pub fn nothing(bytes: &Bytes) -> Result<(), Problem> {
    close(open(bytes, Problem::invalid_request)?, Problem::invalid_request)
}

pub fn pop(bytes: &Bytes, limits: &Limits) -> Result<Pop, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    if !fields.has("topics") {
        fields.fault("topics", "is required");
    }
    let topics = fields.take_list("topics", limits.max_pop_topics, values::topic);
    if topics.as_ref().is_some_and(Vec::is_empty) {
        fields.fault("topics", "must name at least one topic");
    }
    let max = fields.take("max", |raw| values::whole(raw, 1, limits.max_batch_pop));
    let wait = fields.take("wait", values::duration);
    let ttr = fields.take("ttr", values::ttr);
    close(fields, Problem::invalid_request)?;
    Ok(Pop { topics: given(topics), max: max.unwrap_or(1), wait: wait.unwrap_or_default(), ttr })
}

pub fn new_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<NewJob>>, Problem> {
    let jobs = batch(bytes, "jobs", limits)?;
    Ok(read_items(jobs, "jobs", |raw, at, faults, id| {
        let mut fields = opened(Fields::read(raw, at, faults), Problem::invalid_job)?;
        *id = fields.take("id", values::job_id);
        read_job(fields, id.clone(), bytes, limits)
    }))
}

pub fn finish_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<FinishJob>>, Problem> {
    let jobs = batch(bytes, "jobs", limits)?;
    Ok(read_items(jobs, "jobs", |raw, at, faults, id| {
        let mut fields = opened(Fields::read(raw, at, faults), Problem::invalid_request)?;
        *id = fields.need("id", values::job_id);
        let receipt = fields.take("receipt", values::receipt);
        close(fields, Problem::invalid_request)?;
        Ok(FinishJob { id: given(id.clone()), receipt })
    }))
}

pub fn delete_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<JobId>>, Problem> {
    let ids = batch(bytes, "ids", limits)?;
    Ok(read_items(ids, "ids", |raw, at, faults, id| match values::job_id(raw) {
        Ok(read) => {
            *id = Some(read.clone());
            Ok(read)
        }
        Err(detail) => {
            let mut found = Faults::new(faults);
            found.push(Fault::at(at, detail));
            Err(Problem::invalid_request(found))
        }
    }))
}

/// Reads the items of a batch, each with its pointer; together they list as many faults as one answer may. The
/// others tell their first fault in `detail` alone.
fn read_items<'a, T>(
    raws: Vec<&'a RawValue>,
    name: &str,
    read: impl Fn(&'a RawValue, String, usize, &mut Option<JobId>) -> Result<T, Problem>,
) -> Vec<Item<T>> {
    let mut faults = MAX_FAULTS;
    let item = |(i, raw)| {
        let mut id = None;
        let read = read(raw, format!("/{name}/{i}"), faults, &mut id);
        if let Err(problem) = &read {
            faults = faults.saturating_sub(problem.listed_faults());
        }
        Item { id, read }
    };
    raws.into_iter().enumerate().map(item).collect()
}

/// The raw items of a batch, counted before they are read.
fn batch<'a>(bytes: &'a Bytes, name: &'static str, limits: &Limits) -> Result<Vec<&'a RawValue>, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let items = fields.need(name, |raw| values::list(raw, limits.max_batch));
    close(fields, Problem::invalid_request)?;
    let (items, limit) = (given(items), limits.max_batch);
    if items.len > limit {
        return Err(Error::BatchTooLarge { limit, got: items.len }.into());
    }
    Ok(items.items)
}
