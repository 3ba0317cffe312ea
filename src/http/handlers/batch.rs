//! Operations on many jobs in one request. Each item has its own status, and an invalid item never affects the others.

use axum::{extract::State, http::StatusCode};

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated, RequestActor},
        app::App,
        edge::response_budget::{self, ResponsePermit},
        errors::{MAX_FAULTS, Problem},
        json_body::JsonBody,
        wire::{
            batches::{self, BatchItem},
            parameters::NoQuery,
            responses::{self, ItemResult, ResultNote},
            trace::RequestTrace,
        },
    },
    job::{Job, JobId},
    queue::{self, AddOutcome, Error},
};

/// Most bytes of one item's result, and of one fault in it: an id of up to 255 characters, or a field's name of up to
/// 64 bytes or a pointer of up to 256, each twice, and fixed text.
const MAX_RESULT_BYTES: usize = 1_024;

pub async fn add(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    trace: RequestTrace,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let mut items = body.parse(&app, batches::new_jobs).await?;
    for item in &mut items {
        if let Ok(job) = &item.parsed
            && let Err(problem) = access::check_topic(&caller, &job.topic)
        {
            item.parsed = Err(problem);
        }
    }
    let permit = reserve_results(&app, items.len())?;
    let (slots, jobs) = split(items);
    let jobs = jobs.into_iter().map(|job| trace.complete(job)).collect();
    let outcomes = app.queue.add_batch(&caller.topics, jobs, by.as_ref()).await?;
    let results = merge(slots, outcomes, |outcome: AddOutcome, slot| {
        slot.id = Some(outcome.id().clone());
        slot.note = ResultNote::for_add(&outcome);
        responses::status_of_add(&outcome)
    });
    Ok(permit.attach_to(responses::results(&results)))
}

pub async fn finish(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let items = body.parse(&app, batches::finish_jobs).await?;
    let permit = reserve_results(&app, items.len())?;
    let (slots, jobs) = split(items);
    let outcomes = app.queue.finish_batch(&caller.topics, jobs, by.as_ref()).await?;
    Ok(permit.attach_to(responses::results(&merge(slots, outcomes, |(), _| StatusCode::NO_CONTENT))))
}

pub async fn release(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let items = body.parse(&app, batches::release_jobs).await?;
    hold(&app, items, async |jobs| app.queue.release_batch(&caller.topics, jobs).await).await
}

pub async fn touch(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let items = body.parse(&app, batches::touch_jobs).await?;
    hold(&app, items, async |jobs| app.queue.touch_batch(&caller.topics, jobs).await).await
}

pub async fn bury(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let items = body.parse(&app, batches::bury_jobs).await?;
    hold(&app, items, async |jobs| app.queue.bury_batch(&caller.topics, jobs).await).await
}

/// What the holder of many jobs asks for.
async fn hold<T>(
    app: &App,
    items: Vec<BatchItem<T>>,
    ask: impl AsyncFnOnce(Vec<T>) -> queue::Result<Vec<queue::Result<Job>>>,
) -> HandlerResult {
    let permit = reserve_results(app, items.len())?;
    let (slots, jobs) = split(items);
    let outcomes = ask(jobs).await?;
    Ok(permit.attach_to(responses::results(&merge(slots, outcomes, |_, _| StatusCode::OK))))
}

pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let (items, rule) = body.parse(&app, batches::delete_jobs).await?;
    let permit = reserve_results(&app, items.len())?;
    let (slots, ids) = split(items);
    let outcomes = app.queue.delete_batch(&caller.topics, ids, rule, by.as_ref()).await?;
    let results = merge(slots, outcomes, |state, slot| {
        slot.note = Some(ResultNote::Deleted(state));
        StatusCode::NO_CONTENT
    });
    Ok(permit.attach_to(responses::results(&results)))
}

/// Acquires bytes for the results of a batch.
fn reserve_results(app: &App, items: usize) -> Result<ResponsePermit, Problem> {
    response_budget::reserve(&app.edge, (items + items.min(MAX_FAULTS)) * MAX_RESULT_BYTES)
}

/// The position of an item in the results. `refused` is set if the item did not reach the queue.
struct ResultSlot {
    id: Option<JobId>,
    refused: Option<Problem>,
    note: Option<ResultNote>,
}

/// Splits items into the positions of all and the values of the valid ones.
fn split<T>(items: Vec<BatchItem<T>>) -> (Vec<ResultSlot>, Vec<T>) {
    let (mut slots, mut valid) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for BatchItem { id, parsed } in items {
        let refused = match parsed {
            Ok(item) => {
                valid.push(item);
                None
            }
            Err(problem) => Some(problem),
        };
        slots.push(ResultSlot { id, refused, note: None });
    }
    (slots, valid)
}

/// Puts the queue's outcomes, which are in the order of the valid items, into their positions.
fn merge<T>(
    slots: Vec<ResultSlot>,
    outcomes: Vec<Result<T, Error>>,
    status: impl Fn(T, &mut ResultSlot) -> StatusCode,
) -> Vec<ItemResult> {
    let mut outcomes = outcomes.into_iter();
    let result = |mut slot: ResultSlot| {
        let outcome = match slot.refused.take() {
            Some(problem) => Err(problem),
            // The queue returns one outcome per item; a missing one is a bug of an engine.
            None => match outcomes.next() {
                Some(Ok(outcome)) => Ok(status(outcome, &mut slot)),
                Some(Err(error)) => Err(error.into()),
                None => Err(Problem::internal()),
            },
        };
        ItemResult { id: slot.id, outcome, note: slot.note }
    };
    slots.into_iter().map(result).collect()
}
