//! What the bodies of requests mean: from JSON objects to the queue's requests, all faults at once.
//!
//! Knows the fields of each body; `fields` finds them, `values` reads them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    fields::{self, Fields, NotAnObject},
    problem::{Fault, Problem},
    values,
};
use crate::{
    job::{Body, Delay, Due, JobId, NewJob, Reason, Receipt, RetrySchedule, TopicPause, TopicSettings, Ttr},
    queue::{Error, FinishJob, Limits, Patch, Pop, Release},
};

/// How the faults of a body are reported.
type Refuse = fn(Vec<Fault>) -> Problem;

/// One item of a batch: its id as far as it could be read, and the item or why it is refused.
pub(super) struct Item<T> {
    pub id: Option<JobId>,
    pub read: Result<T, Problem>,
}

/// Highest `limit` that a bulk requeue accepts.
const MAX_REQUEUE: usize = 1_000_000;

fn opened<'a>(read: Result<Fields<'a>, NotAnObject>, refuse: Refuse) -> Result<Fields<'a>, Problem> {
    read.map_err(|error| match error {
        NotAnObject::Broken(problem) => problem,
        NotAnObject::Other(fault) => refuse(vec![fault]),
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
pub(super) fn new_job(bytes: &Bytes) -> Result<NewJob, Problem> {
    let mut fields = open(bytes, Problem::invalid_job)?;
    let id = fields.take("id", values::job_id);
    read_job(fields, id, bytes)
}

/// Reads what of a job's definition is left once its id was taken. `bytes` is the request that `fields`
/// borrows from.
fn read_job(mut fields: Fields<'_>, id: Option<JobId>, bytes: &Bytes) -> Result<NewJob, Problem> {
    let topic = fields.need("topic", values::topic);
    let due = due(&mut fields);
    let ttr = fields.take("ttr", values::ttr);
    let max_attempts = fields.take("max_attempts", values::max_attempts);
    let retry = retry(&mut fields);
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
fn due(fields: &mut Fields<'_>) -> Option<Due> {
    if fields.has("delay") && fields.has("at") {
        fields.fault("at", "must not be given together with delay");
    }
    let delay = fields.take("delay", values::delay).map(Due::After);
    let at = fields.take("at", values::moment).map(Due::At);
    delay.or(at)
}

fn retry(fields: &mut Fields<'_>) -> Option<RetrySchedule> {
    let steps = fields.take_list("retry", values::duration)?;
    values::schedule(steps).map_err(|detail| fields.fault("retry", detail)).ok()
}

/// The job's body, as a slice of the request: the very bytes that were sent.
fn body(fields: &mut Fields<'_>, bytes: &Bytes) -> Result<Option<Body>, Problem> {
    let Some(raw) = fields.raw("body") else { return Ok(None) };
    match Body::from_raw(raw, bytes) {
        Ok(body) => Ok(Some(body)),
        Err(error) => Err(Problem::malformed(format!("{} {error}", fields.pointer("body")))),
    }
}

/// The body of a patch: at least one change.
pub(super) fn patch(bytes: &Bytes) -> Result<Patch, Problem> {
    let mut fields = open(bytes, Problem::invalid_job)?;
    if fields.is_empty() {
        fields.fault("", "must change something: delay or at, ttr, max_attempts, retry or body");
    }
    let patch = Patch {
        due: due(&mut fields),
        ttr: fields.take("ttr", values::ttr),
        max_attempts: fields.take("max_attempts", values::max_attempts),
        retry: retry(&mut fields),
        body: body(&mut fields, bytes)?,
    };
    close(fields, Problem::invalid_job)?;
    Ok(patch)
}

pub(super) fn release(bytes: &Bytes) -> Result<(Receipt, Release), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = fields.need("receipt", values::receipt);
    let release =
        Release { delay: fields.take("delay", values::delay), reason: fields.take("reason", values::reason) };
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), release))
}

pub(super) fn touch(bytes: &Bytes) -> Result<(Receipt, Option<Ttr>), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = fields.need("receipt", values::receipt);
    let ttr = fields.take("ttr", values::ttr);
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), ttr))
}

pub(super) fn bury(bytes: &Bytes) -> Result<(Receipt, Option<Reason>), Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let receipt = fields.need("receipt", values::receipt);
    let reason = fields.take("reason", values::reason);
    close(fields, Problem::invalid_request)?;
    Ok((given(receipt), reason))
}

pub(super) fn requeue(bytes: &Bytes) -> Result<Delay, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let delay = fields.take("delay", values::delay);
    close(fields, Problem::invalid_request)?;
    Ok(delay.unwrap_or_default())
}

/// How many dead letters to requeue: all when it is left out.
pub(super) fn requeue_dead(bytes: &Bytes) -> Result<usize, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let limit = fields.take("limit", |raw| values::whole(raw, 1, MAX_REQUEUE));
    close(fields, Problem::invalid_request)?;
    Ok(limit.unwrap_or(usize::MAX))
}

/// What to pause or resume: what is `true`, or both when nothing is said.
pub(super) fn pause(bytes: &Bytes) -> Result<TopicPause, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let unsaid = fields.is_empty();
    let delivery = fields.take("delivery", values::flag).unwrap_or(unsaid);
    let intake = fields.take("intake", values::flag).unwrap_or(unsaid);
    close(fields, Problem::invalid_request)?;
    Ok(TopicPause { delivery, intake })
}

pub(super) fn settings(bytes: &Bytes) -> Result<TopicSettings, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let settings = TopicSettings {
        ttr: fields.take("ttr", values::ttr),
        max_attempts: fields.take("max_attempts", values::max_attempts),
        retry: retry(&mut fields),
        require_receipt: fields.take("require_receipt", values::flag).unwrap_or_default(),
    };
    close(fields, Problem::invalid_request)?;
    Ok(settings)
}

/// A call that takes no body: empty, or an empty object. Anything else would be silently ignored, such
/// as a receipt that belongs in the query.
pub(super) fn nothing(bytes: &Bytes) -> Result<(), Problem> {
    close(open(bytes, Problem::invalid_request)?, Problem::invalid_request)
}

pub(super) fn pop(bytes: &Bytes, limits: &Limits) -> Result<Pop, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    if !fields.has("topics") {
        fields.fault("topics", "is required");
    }
    let topics = fields.take_list("topics", values::topic);
    if topics.as_ref().is_some_and(|topics| topics.is_empty() || topics.len() > limits.max_pop_topics) {
        fields.fault("topics", format!("must name 1 to {} topics", limits.max_pop_topics));
    }
    let max = fields.take("max", |raw| values::whole(raw, 1, limits.max_batch_pop));
    let wait = fields.take("wait", values::duration);
    let ttr = fields.take("ttr", values::ttr);
    close(fields, Problem::invalid_request)?;
    Ok(Pop { topics: given(topics), max: max.unwrap_or(1), wait: wait.unwrap_or_default(), ttr })
}

pub(super) fn new_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<NewJob>>, Problem> {
    let jobs = batch(bytes, "jobs", limits)?;
    let item = |(i, raw): (usize, _)| {
        let mut id = None;
        let read =
            opened(Fields::read(raw, format!("/jobs/{i}")), Problem::invalid_job).and_then(|mut fields| {
                id = fields.take("id", values::job_id);
                read_job(fields, id.clone(), bytes)
            });
        Item { id, read }
    };
    Ok(jobs.into_iter().enumerate().map(item).collect())
}

pub(super) fn finish_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<FinishJob>>, Problem> {
    let jobs = batch(bytes, "jobs", limits)?;
    let item = |(i, raw): (usize, _)| {
        let mut id = None;
        let read = opened(Fields::read(raw, format!("/jobs/{i}")), Problem::invalid_request).and_then(
            |mut fields| {
                id = fields.need("id", values::job_id);
                let receipt = fields.take("receipt", values::receipt);
                close(fields, Problem::invalid_request)?;
                Ok(FinishJob { id: given(id.clone()), receipt })
            },
        );
        Item { id, read }
    };
    Ok(jobs.into_iter().enumerate().map(item).collect())
}

pub(super) fn delete_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<Item<JobId>>, Problem> {
    let ids = batch(bytes, "ids", limits)?;
    let item = |(i, raw): (usize, _)| match values::job_id(raw) {
        Ok(id) => Item { id: Some(id.clone()), read: Ok(id) },
        Err(detail) => {
            let fault = Fault::at(format!("/ids/{i}"), detail);
            Item { id: None, read: Err(Problem::invalid_request(vec![fault])) }
        }
    };
    Ok(ids.into_iter().enumerate().map(item).collect())
}

/// The raw items of a batch, counted before they are read.
fn batch<'a>(bytes: &'a Bytes, name: &str, limits: &Limits) -> Result<Vec<&'a RawValue>, Problem> {
    let mut fields = open(bytes, Problem::invalid_request)?;
    let items = fields.need(name, values::list);
    close(fields, Problem::invalid_request)?;
    let items = given(items);
    let (limit, got) = (limits.max_batch, items.len());
    if got > limit { Err(Error::BatchTooLarge { limit, got }.into()) } else { Ok(items) }
}
