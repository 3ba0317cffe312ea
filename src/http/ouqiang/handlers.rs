//! The calls of the dialect.

use std::time::Duration;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};

use super::{
    requests::{self, Refusal},
    responses,
};
use crate::{
    http::{
        access::{self, Authenticated, RequestActor, Sender},
        delivery_body::delivery_body,
        dialect_app::{DialectApp, unless_gone},
        edge::{PollWait, request_body::WholeBody},
        errors::Problem,
        json_body::run_parser,
    },
    job::NewJob,
    queue::{DeleteRule, Error, Pop},
};

type HandlerResult = std::result::Result<Response, FailedCall>;

/// The answer to a call that was refused or failed.
pub struct FailedCall(Response);

impl IntoResponse for FailedCall {
    fn into_response(self) -> Response {
        self.0
    }
}

impl From<Refusal> for FailedCall {
    fn from(refusal: Refusal) -> Self {
        Self(responses::refusal(&refusal))
    }
}

impl From<Problem> for FailedCall {
    fn from(problem: Problem) -> Self {
        Self(problem.into_response())
    }
}

impl From<Error> for FailedCall {
    fn from(error: Error) -> Self {
        Problem::from(error).into()
    }
}

/// `/push`.
pub async fn push(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    WholeBody(bytes): WholeBody,
) -> HandlerResult {
    let (max_delay, now, len) = (app.queue.limits().max_delay, app.edge.clock.wall_now(), bytes.len());
    let push = run_parser(len, move || Ok(requests::push(&bytes, max_delay, now))).await??;
    access::check_topic(&caller, &push.topic)?;
    // There, a job that is never finished comes back forever.
    let max_attempts = if app.queue.limits_attempts(&push.topic) { None } else { Some(0) };
    let job = NewJob {
        id: Some(push.id),
        topic: push.topic,
        due: push.due,
        ttr: Some(push.ttr),
        max_attempts,
        retry: None,
        expire: None,
        on_expiry: None,
        revision: None,
        replaces: true,
        callback: None,
        trace: None,
        body: push.body,
    };
    app.queue.add(&caller.topics, job, by.as_ref()).await?;
    Ok(responses::success(responses::ADDED))
}

/// `/pop`.
pub async fn pop(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    sender: Sender,
    WholeBody(bytes): WholeBody,
) -> HandlerResult {
    let topics = requests::pop(&bytes)?;
    topics.iter().try_for_each(|topic| access::check_topic(&caller, topic))?;
    // A pop needs its body only until it is parsed.
    drop(bytes);
    let began_us = app.edge.clock.now_micros();
    let (by, address) = (sender.actor(), sender.address);
    let pop = Pop { topics, max: 1, wait: app.max_wait, ttr: None, by, address };
    let delivery = app.queue.pop_unshortened(pop).await?;
    let waited_us = app.edge.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    let mut response = match delivery.jobs().first() {
        Some(reservation) => {
            let bytes = responses::popped(&reservation.job);
            responses::respond(delivery_body(bytes, delivery))
        }
        None => responses::done(),
    };
    response.extensions_mut().insert(PollWait(Duration::from_micros(waited_us)));
    Ok(response)
}

/// `/finish`.
pub async fn finish(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    WholeBody(bytes): WholeBody,
) -> HandlerResult {
    let Some(id) = requests::id(&bytes)? else { return Ok(responses::done()) };
    unless_gone(app.queue.finish_or_delete(&caller.topics, &id, by.as_ref()).await)?;
    Ok(responses::done())
}

/// `/delete`.
pub async fn delete(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    WholeBody(bytes): WholeBody,
) -> HandlerResult {
    let Some(id) = requests::id(&bytes)? else { return Ok(responses::done()) };
    unless_gone(app.queue.delete(&caller.topics, &id, DeleteRule::AnyState, by.as_ref()).await)?;
    Ok(responses::done())
}

/// `/get`.
pub async fn get(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    WholeBody(bytes): WholeBody,
) -> HandlerResult {
    let Some(id) = requests::id(&bytes)? else { return Ok(responses::done()) };
    let found = unless_gone(app.queue.get(&caller.topics, &id).await)?;
    Ok(found.map_or_else(responses::done, |job| responses::job(&job)))
}
