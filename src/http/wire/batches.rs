//! The bodies of batches: each item is parsed by itself, so that an invalid one never affects the others.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    fields::{self, Fields},
    requests::{self, UNLESS_RESERVED, close, delete_rule, job_definition, null_in_finish, open, open_add},
    values,
};
use crate::{
    http::errors::{Fault, Faults, MAX_FAULTS, Problem},
    job::{JobId, NewJob, Reason, Receipt},
    queue::{DeleteRule, Error, FinishJob, Limits, Release, Touch},
};

/// One item of a batch: its id if it could be read, and the item or why it is refused.
pub struct BatchItem<T> {
    pub id: Option<JobId>,
    pub parsed: Result<T, Problem>,
}

pub fn new_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<BatchItem<NewJob>>, Problem> {
    let jobs = batch(open_add(bytes, Problem::invalid_request)?, "jobs", limits)?;
    Ok(batch_items(jobs, "jobs", |raw, pointer, max_faults, id| {
        let mut fields = open(Fields::parse(raw, pointer, max_faults), Problem::invalid_job)?;
        *id = fields.optional("id", values::new_job_id);
        job_definition(fields, id.clone(), bytes, limits)
    }))
}

pub fn finish_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<BatchItem<FinishJob>>, Problem> {
    let jobs = batch(open(fields::parse_document(bytes), Problem::invalid_request)?, "jobs", limits)?;
    Ok(batch_items(jobs, "jobs", |raw, pointer, max_faults, id| {
        let mut fields = open(Fields::parse(raw, pointer, max_faults), Problem::invalid_request)?;
        fields.set_null_rule(null_in_finish);
        *id = fields.required("id", values::job_id);
        let receipt = fields.optional("receipt", values::receipt);
        let finish = id.clone().map(|id| FinishJob { id, receipt });
        close(fields, finish, Problem::invalid_request)
    }))
}

/// A job, the receipt of its reservation, and what its holder asks for.
pub type HeldItem<T> = (JobId, Receipt, T);

pub fn release_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<BatchItem<HeldItem<Release>>>, Problem> {
    held_jobs(bytes, limits, |fields| requests::released(fields, limits))
}

pub fn touch_jobs(bytes: &Bytes, limits: &Limits) -> Result<Vec<BatchItem<HeldItem<Touch>>>, Problem> {
    held_jobs(bytes, limits, requests::touched)
}

pub fn bury_jobs(
    bytes: &Bytes,
    limits: &Limits,
) -> Result<Vec<BatchItem<HeldItem<Option<Reason>>>>, Problem> {
    held_jobs(bytes, limits, requests::buried)
}

fn held_jobs<T>(
    bytes: &Bytes,
    limits: &Limits,
    parse: impl Fn(&mut Fields<'_>) -> T,
) -> Result<Vec<BatchItem<HeldItem<T>>>, Problem> {
    let jobs = batch(open(fields::parse_document(bytes), Problem::invalid_request)?, "jobs", limits)?;
    Ok(batch_items(jobs, "jobs", |raw, pointer, max_faults, id| {
        let mut fields = open(Fields::parse(raw, pointer, max_faults), Problem::invalid_request)?;
        *id = fields.required("id", values::job_id);
        let receipt = fields.required("receipt", values::receipt);
        let asked = parse(&mut fields);
        let item = id.clone().zip(receipt).map(|(id, receipt)| (id, receipt, asked));
        close(fields, item, Problem::invalid_request)
    }))
}

pub fn delete_jobs(bytes: &Bytes, limits: &Limits) -> Result<(Vec<BatchItem<JobId>>, DeleteRule), Problem> {
    let mut fields = open(fields::parse_document(bytes), Problem::invalid_request)?;
    let rule = delete_rule(fields.optional(UNLESS_RESERVED, values::flag));
    let ids = batch(fields, "ids", limits)?;
    let items = batch_items(ids, "ids", |raw, pointer, max_faults, id| match values::job_id(raw) {
        Ok(parsed) => {
            *id = Some(parsed.clone());
            Ok(parsed)
        }
        Err(detail) => {
            let mut faults = Faults::new(max_faults);
            faults.push(Fault::at_pointer(pointer, detail));
            Err(Problem::invalid_request(faults))
        }
    });
    Ok((items, rule))
}

/// Parses the items of a batch, each with its pointer. Together they list as many faults as one response may; further
/// items report only their first fault, in `detail`.
fn batch_items<'a, T>(
    raws: Vec<&'a RawValue>,
    name: &str,
    parse: impl Fn(&'a RawValue, String, usize, &mut Option<JobId>) -> Result<T, Problem>,
) -> Vec<BatchItem<T>> {
    let mut max_faults = MAX_FAULTS;
    let item = |(i, raw)| {
        let mut id = None;
        let parsed = parse(raw, format!("/{name}/{i}"), max_faults, &mut id);
        if let Err(problem) = &parsed {
            max_faults = max_faults.saturating_sub(problem.listed_faults());
        }
        BatchItem { id, parsed }
    };
    raws.into_iter().enumerate().map(item).collect()
}

/// The raw items of a batch, counted before they are parsed.
fn batch<'a>(
    mut fields: Fields<'a>,
    name: &'static str,
    limits: &Limits,
) -> Result<Vec<&'a RawValue>, Problem> {
    let limit = limits.max_batch;
    let items = fields.required(name, |raw| values::list(raw, limit));
    let items = close(fields, items, Problem::invalid_request)?;
    if items.len > limit {
        return Err(Error::BatchTooLarge { limit, got: items.len }.into());
    }
    Ok(items.items)
}
