//! Many jobs in one call: each item has its own status, and a bad one never harms the others.

use axum::{extract::State, http::StatusCode, response::Response};

use crate::http::{
    App,
    access::{self, Calling},
    errors::Problem,
    middleware::{request_body::Json, response_budget},
    wire::{
        parameters::NoQuery,
        requests::{self, Item},
        responses::{self, ItemResult},
    },
};
use crate::{
    job::JobId,
    queue::{AddOutcome, Error},
};

type Answer = Result<Response, Problem>;

pub async fn add(State(app): State<App>, Calling(caller): Calling, _: NoQuery, body: Json) -> Answer {
    let mut items = body.read(&app, requests::new_jobs).await?;
    for item in &mut items {
        if let Ok(job) = &item.read
            && let Err(problem) = access::check_topic(&caller, &job.topic)
        {
            item.read = Err(problem);
        }
    }
    let room = response_budget::reserve(&app, items.len())?;
    let (slots, jobs) = split(items);
    let outcomes = app.queue.add_batch(jobs).await?;
    let results = merge(slots, outcomes, |outcome: AddOutcome, slot| {
        slot.id = Some(outcome.job.id);
        if outcome.replayed { StatusCode::OK } else { StatusCode::CREATED }
    });
    Ok(room.hold(responses::results(&results)))
}

pub async fn finish(State(app): State<App>, Calling(caller): Calling, _: NoQuery, body: Json) -> Answer {
    let items = body.read(&app, requests::finish_jobs).await?;
    let room = response_budget::reserve(&app, items.len())?;
    let (slots, jobs) = split(items);
    let outcomes = app.queue.finish_batch(&caller.topics, jobs).await?;
    Ok(room.hold(responses::results(&merge(slots, outcomes, |(), _| StatusCode::NO_CONTENT))))
}

pub async fn delete(State(app): State<App>, Calling(caller): Calling, _: NoQuery, body: Json) -> Answer {
    let items = body.read(&app, requests::delete_jobs).await?;
    let room = response_budget::reserve(&app, items.len())?;
    let (slots, ids) = split(items);
    let outcomes = app.queue.delete_batch(&caller.topics, ids).await?;
    Ok(room.hold(responses::results(&merge(slots, outcomes, |(), _| StatusCode::NO_CONTENT))))
}

/// An item's place in the results; `refused` when it never reached the queue.
struct Slot {
    id: Option<JobId>,
    refused: Option<Problem>,
}

/// Parts the items that can be read from the places of all.
fn split<T>(items: Vec<Item<T>>) -> (Vec<Slot>, Vec<T>) {
    let (mut slots, mut good) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for Item { id, read } in items {
        let refused = match read {
            Ok(item) => {
                good.push(item);
                None
            }
            Err(problem) => Some(problem),
        };
        slots.push(Slot { id, refused });
    }
    (slots, good)
}

/// Puts the queue's outcomes, which are in the order of the good items, back in place.
fn merge<T>(
    slots: Vec<Slot>,
    outcomes: Vec<Result<T, Error>>,
    status: impl Fn(T, &mut Slot) -> StatusCode,
) -> Vec<ItemResult> {
    let mut outcomes = outcomes.into_iter();
    let result = |mut slot: Slot| {
        let outcome = match slot.refused.take() {
            Some(problem) => Err(problem),
            // The queue answers every item; an engine that did not is a fault of ours.
            None => match outcomes.next() {
                Some(Ok(outcome)) => Ok(status(outcome, &mut slot)),
                Some(Err(error)) => Err(error.into()),
                None => Err(Problem::internal()),
            },
        };
        ItemResult { id: slot.id, outcome }
    };
    slots.into_iter().map(result).collect()
}
