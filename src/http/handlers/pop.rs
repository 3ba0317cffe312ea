//! Pops of one job and of several: the long polls.

use std::time::Duration;

use axum::{extract::State, response::Response};

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated, Sender},
        app::App,
        delivery_body::delivery_body,
        edge::PollWait,
        json::{self, ObjectWriter},
        json_body::{JsonBody, OptionalJsonBody},
        wire::{
            parameters::{NoQuery, Query, TopicPath},
            requests, responses, values,
        },
    },
    queue::{Delivery, Pop},
};

/// `GET /topics/{topic}/pop`.
pub async fn single(
    State(app): State<App>,
    sender: Sender,
    TopicPath(topic): TopicPath,
    mut query: Query,
) -> HandlerResult {
    let wait = query.optional("wait", values::duration_text).unwrap_or_default();
    let ttr = query.optional("ttr", values::ttr_text);
    let worker = query.optional("worker", values::actor_text);
    for several in ["count", "limit", "max"] {
        query.refuse(several, "to reserve several jobs at once, use POST /batch/pop");
    }
    query.finish()?;
    let by = worker.or_else(|| sender.actor());
    let request = Pop { topics: vec![topic], max: 1, wait, ttr, by, address: sender.address };
    pop(&app, request, single_response).await
}

/// `POST /topics/{topic}/pop`.
pub async fn single_by_post(
    state: State<App>,
    sender: Sender,
    topic: TopicPath,
    query: Query,
    body: OptionalJsonBody,
) -> HandlerResult {
    body.parse(&state, |body, _| requests::nothing(body)).await?;
    single(state, sender, topic, query).await
}

/// `POST /batch/pop`.
pub async fn many(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    sender: Sender,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let mut request = body.parse(&app, requests::pop).await?;
    request.topics.iter().try_for_each(|topic| access::check_topic(&caller, topic))?;
    request.by = request.by.or_else(|| sender.actor());
    request.address = sender.address;
    pop(&app, request, many_response).await
}

async fn pop(app: &App, request: Pop, to_response: fn(Delivery) -> Response) -> HandlerResult {
    let began_us = app.edge.clock.now_micros();
    // Boxed: with it, the future of the handler would be beyond a kilobyte, up to which the allocator is quick.
    let delivery = Box::pin(app.queue.pop(request)).await?;
    let waited_us = app.edge.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    let mut response = to_response(delivery);
    response.extensions_mut().insert(PollWait(Duration::from_micros(waited_us)));
    Ok(response)
}

fn single_response(delivery: Delivery) -> Response {
    let Some(reservation) = delivery.jobs().first() else { return responses::no_content() };
    let mut out = Vec::with_capacity(512 + reservation.job.body.as_bytes().len());
    responses::write_reservation(reservation, &mut out);
    json::response_with(out, |json| delivery_body(json, delivery))
}

fn many_response(delivery: Delivery) -> Response {
    // Allocated at full size: growing would use up to twice as much memory, which no budget counts.
    let sizes = delivery.jobs().iter().map(|reservation| 1_024 + reservation.job.body.as_bytes().len());
    let mut out = Vec::with_capacity(1_024 + sizes.sum::<usize>());
    let mut object = ObjectWriter::new(&mut out);
    object.list("jobs", delivery.jobs(), responses::write_reservation);
    object.end();
    json::response_with(out, |json| delivery_body(json, delivery))
}
