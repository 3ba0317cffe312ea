//! Operations on one job: add, get, patch, delete, requeue, revoke, and the steps of its holder.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated, RequestActor, Sender},
        app::App,
        errors::Problem,
        json_body::{JsonBody, OptionalJsonBody},
        wire::{
            parameters::{JobPath, NoQuery, Query},
            requests, responses,
            trace::RequestTrace,
            values,
        },
    },
    job::Receipt,
    queue::FinishJob,
};

pub async fn add(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    sender: Sender,
    trace: RequestTrace,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let job = body.parse(&app, requests::new_job).await?;
    access::check_topic(&caller, &job.topic)?;
    let by = if job.replaces { sender.actor() } else { None };
    // Boxed: with it, the future of the handler would be beyond a kilobyte, up to which the allocator is quick.
    let added = Box::pin(app.queue.add(&caller.topics, trace.complete(job), by.as_ref()));
    let outcome = added.await?;
    Ok(responses::added(&outcome))
}

pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    JobPath(id): JobPath,
    _: NoQuery,
) -> HandlerResult {
    Ok(responses::job(&app.queue.get(&caller.topics, &id).await?))
}

pub async fn patch(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    JobPath(id): JobPath,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let patch = body.parse(&app, requests::patch).await?;
    Ok(responses::job(&app.queue.patch(&caller.topics, &id, patch, by.as_ref()).await?))
}

pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    JobPath(id): JobPath,
    mut query: Query,
) -> HandlerResult {
    let rule = requests::delete_rule(query.optional(requests::UNLESS_RESERVED, values::flag_text));
    query.finish()?;
    Ok(responses::deleted(app.queue.delete(&caller.topics, &id, rule, by.as_ref()).await?))
}

/// The receipt in the query. The steps of a holder accept it there or in the body.
fn receipt_in_query(mut query: Query) -> Result<Option<Receipt>, Problem> {
    let receipt = query.optional("receipt", values::receipt_text);
    query.finish().map(|()| receipt)
}

pub async fn finish(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJsonBody,
) -> HandlerResult {
    let in_query = receipt_in_query(query)?;
    let receipt = body.parse(&app, |body, _| requests::finish(body, in_query)).await?;
    app.queue.finish(&caller.topics, FinishJob { id, receipt }, by.as_ref()).await?;
    Ok(responses::no_content())
}

pub async fn release(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJsonBody,
) -> HandlerResult {
    let in_query = receipt_in_query(query)?;
    let (receipt, release) =
        body.parse(&app, |body, limits| requests::release(body, in_query, limits)).await?;
    Ok(responses::job(&app.queue.release(&caller.topics, &id, &receipt, release).await?))
}

pub async fn revoke(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    JobPath(id): JobPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let asked = body.parse(&app, requests::revoke).await?;
    Ok(responses::job(&app.queue.revoke(&caller.topics, &id, asked, by.as_ref()).await?))
}

pub async fn touch(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJsonBody,
) -> HandlerResult {
    let in_query = receipt_in_query(query)?;
    let (receipt, touch) = body.parse(&app, |body, _| requests::touch(body, in_query)).await?;
    Ok(responses::job(&app.queue.touch(&caller.topics, &id, &receipt, touch).await?))
}

pub async fn bury(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJsonBody,
) -> HandlerResult {
    let in_query = receipt_in_query(query)?;
    let (receipt, reason) = body.parse(&app, |body, _| requests::bury(body, in_query)).await?;
    Ok(responses::job(&app.queue.bury(&caller.topics, &id, &receipt, reason).await?))
}

pub async fn requeue(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    JobPath(id): JobPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let due = body.parse(&app, requests::requeue).await?;
    Ok(responses::job(&app.queue.requeue(&caller.topics, &id, due, by.as_ref()).await?))
}
