//! Bulk operations: start, list, watch and stop them.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    auth::Caller,
    http::{
        access::{self, Authenticated, RequestActor},
        app::App,
        errors::Problem,
        json_body::{JsonBody, OptionalJsonBody},
        wire::{
            bulk,
            parameters::{NoQuery, OperationPath},
            requests,
        },
    },
    job::{Actor, OperationId},
    queue::{Error, OperationState, OperationView},
};

pub async fn start(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let by = by.as_ref().map_or("", Actor::as_str).into();
    let request = body.parse(&app, move |body, limits| bulk::request(body, limits, by)).await?;
    access::check_topics(&caller, request.filter.topic.as_ref())?;
    let operation = app.queue.start_operation(request).await?;
    check_visible(&caller, &operation)?;
    let progress = &operation.progress;
    match progress.state {
        OperationState::Done if operation.request.is_dry_run() => Ok(bulk::dry_run(progress)),
        OperationState::Running
        | OperationState::Done
        | OperationState::Stopped
        | OperationState::Failed
        | OperationState::Abandoned => Ok(bulk::accepted(&operation)),
    }
}

pub async fn list(State(app): State<App>, Authenticated(caller): Authenticated, _: NoQuery) -> HandlerResult {
    let mut operations = app.queue.list_operations().await?;
    operations.retain(|operation| check_visible(&caller, operation).is_ok());
    Ok(bulk::operations(&operations))
}

pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    OperationPath(id): OperationPath,
    _: NoQuery,
) -> HandlerResult {
    Ok(bulk::operation(&find(&app, &caller, &id).await?))
}

pub async fn stop(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    OperationPath(id): OperationPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    body.parse(&app, |body, _| requests::nothing(body)).await?;
    find(&app, &caller, &id).await?;
    Ok(bulk::operation(&app.queue.stop_operation(&id).await?))
}

/// The operation, unless the caller may not see it.
async fn find(app: &App, caller: &Caller, id: &OperationId) -> Result<OperationView, Problem> {
    let operation = app.queue.operation(id).await?;
    check_visible(caller, &operation).map_err(|_| Error::OperationNotFound)?;
    Ok(operation)
}

/// Refuses a caller whose token does not cover all topics of the operation.
fn check_visible(caller: &Caller, operation: &OperationView) -> Result<(), Problem> {
    access::check_topics(caller, operation.request.filter.topic.as_ref())
}
