//! Popping, from one topic and from several: the long polls.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::delivery;
use crate::http::{
    App,
    access::{self, Calling},
    errors::Problem,
    json::Object,
    middleware::{
        request_body::{Json, OptionalJson},
        request_span::Waited,
    },
    wire::{
        parameters::{NoQuery, Query, TopicPath},
        requests, responses, values,
    },
};
use crate::queue::{Delivery, Pop};

/// `GET /topics/{topic}/pop`.
pub async fn one(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    mut query: Query,
) -> Result<Response, Problem> {
    let wait = query.take("wait", values::duration_text).unwrap_or_default();
    let ttr = query.take("ttr", values::ttr_text);
    for several in ["count", "limit", "max"] {
        query.refuse(several, "to reserve several jobs at once, use POST /batch/pop");
    }
    query.end()?;
    pop(&app, Pop { topics: vec![topic], max: 1, wait, ttr }, one_job).await
}

/// `POST /topics/{topic}/pop`.
pub async fn one_by_post(
    state: State<App>,
    topic: TopicPath,
    query: Query,
    body: OptionalJson,
) -> Result<Response, Problem> {
    body.read(&state, |body, _| requests::nothing(body)).await?;
    one(state, topic, query).await
}

/// `POST /batch/pop`.
pub async fn many(
    State(app): State<App>,
    Calling(caller): Calling,
    _: NoQuery,
    body: Json,
) -> Result<Response, Problem> {
    let pop_jobs = body.read(&app, requests::pop).await?;
    pop_jobs.topics.iter().try_for_each(|topic| access::check_topic(&caller, topic))?;
    pop(&app, pop_jobs, many_jobs).await
}

async fn pop(app: &App, pop: Pop, answer: fn(Delivery) -> Response) -> Result<Response, Problem> {
    let began_us = app.clock.now_micros();
    let delivery = app.queue.pop(pop).await?;
    let waited_us = app.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    let mut response = answer(delivery);
    response.extensions_mut().insert(Waited(Duration::from_micros(waited_us)));
    Ok(response)
}

fn one_job(delivery: Delivery) -> Response {
    let Some(reservation) = delivery.jobs().first() else { return responses::done() };
    let mut out = Vec::with_capacity(512 + reservation.job.body.as_bytes().len());
    responses::reservation(reservation, &mut out);
    out.push(b'\n');
    handed_over(out, delivery)
}

fn many_jobs(delivery: Delivery) -> Response {
    // Once and for all: growing would leave up to twice as much, uncounted.
    let bytes = delivery.jobs().iter().map(|reservation| 1_024 + reservation.job.body.as_bytes().len());
    let mut out = Vec::with_capacity(1_024 + bytes.sum::<usize>());
    let mut object = Object::new(&mut out);
    object.list("jobs", delivery.jobs(), responses::reservation);
    object.end();
    out.push(b'\n');
    handed_over(out, delivery)
}

fn handed_over(json: Vec<u8>, delivery: Delivery) -> Response {
    let body = delivery::body(json, delivery);
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
