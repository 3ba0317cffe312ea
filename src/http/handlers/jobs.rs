//! One job at a time: add, look, change, delete, and what its holder does.

use axum::{extract::State, response::Response};

use crate::http::{
    App,
    access::{self, Calling},
    errors::Problem,
    middleware::request_body::{Json, OptionalJson},
    wire::{
        parameters::{JobPath, NoQuery, Query},
        requests, responses, values,
    },
};
use crate::{job::Receipt, queue::FinishJob};

type Answer = Result<Response, Problem>;

pub async fn add(State(app): State<App>, Calling(caller): Calling, _: NoQuery, body: Json) -> Answer {
    let job = body.read(&app, requests::new_job).await?;
    access::check_topic(&caller, &job.topic)?;
    let outcome = app.queue.add(job).await?;
    Ok(responses::added(&outcome))
}

pub async fn get(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
) -> Answer {
    Ok(responses::job(&app.queue.get(&caller.topics, &id).await?))
}

pub async fn patch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    body: Json,
) -> Answer {
    let patch = body.read(&app, requests::patch).await?;
    Ok(responses::job(&app.queue.patch(&caller.topics, &id, patch).await?))
}

pub async fn delete(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
) -> Answer {
    app.queue.delete(&caller.topics, &id).await?;
    Ok(responses::done())
}

/// The receipt in the query, which the steps of a holder may have there or in the body.
fn receipt(mut query: Query) -> Result<Option<Receipt>, Problem> {
    let receipt = query.take("receipt", values::receipt_text);
    query.end().map(|()| receipt)
}

pub async fn finish(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let receipt = body.read(&app, |body, _| requests::finish(body, in_query)).await?;
    app.queue.finish(&caller.topics, FinishJob { id, receipt }).await?;
    Ok(responses::done())
}

pub async fn release(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, release) =
        body.read(&app, |body, limits| requests::release(body, in_query, limits)).await?;
    Ok(responses::job(&app.queue.release(&caller.topics, &id, &receipt, release).await?))
}

pub async fn touch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, ttr) = body.read(&app, |body, _| requests::touch(body, in_query)).await?;
    Ok(responses::job(&app.queue.touch(&caller.topics, &id, &receipt, ttr).await?))
}

pub async fn bury(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, reason) = body.read(&app, |body, _| requests::bury(body, in_query)).await?;
    Ok(responses::job(&app.queue.bury(&caller.topics, &id, &receipt, reason).await?))
}

pub async fn requeue(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    body: OptionalJson,
) -> Answer {
    let delay = body.read(&app, requests::requeue).await?;
    Ok(responses::job(&app.queue.requeue(&caller.topics, &id, delay).await?))
}
