//! The calls of the dialect.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    bulk,
    queue_path::QueuePath,
    requests::{self, Parameters, Publish},
    responses::{self, JobAnswer},
};
use crate::{
    auth::Scope,
    http::{
        access::{Authenticated, RequestActor, Sender},
        delivery_body::delivery_body,
        dialect_app::{DialectApp, unless_gone},
        edge::{PollWait, request_body::WholeBody},
        errors::Problem,
        json_body::run_parser,
    },
    job::{self, NewJob, Topic, TopicFilter, TopicPattern},
    queue::{Error, Pop, Result},
};

type HandlerResult = std::result::Result<Response, Problem>;

/// `PUT /api/{namespace}/{queue}`, and `PUT /api/{namespace}/{queue}/job/{job}`, which deletes that job once the new one is added.
pub async fn publish(
    State(app): State<DialectApp>,
    RequestActor(by): RequestActor,
    path: QueuePath,
    query: Parameters,
    headers: HeaderMap,
    WholeBody(payload): WholeBody,
) -> HandlerResult {
    let now = app.edge.clock.wall_now();
    let publish = Publish::parse(&query, &headers, app.queue.limits().max_delay, now)?;
    requests::check_size(&payload, app.queue.limits().max_body)?;
    requests::refuse_attributes(&headers)?;
    let (topic, len) = (path.topic()?, payload.len());
    let (scope, old) = (only(&topic), path.job());
    // Before the new job is added: a client that is refused tries again.
    if let Some(old) = &old
        && unless_gone(app.queue.get(&scope, old).await)?.is_some_and(|old| old.spec.require_receipt)
    {
        return Err(Error::ReceiptRequired.into());
    }
    let job = run_parser(len, move || Ok(publish.job(&topic, &payload, now))).await?;
    let added = app.queue.add(&scope, job, by.as_ref()).await?;
    if let Some(old) = old {
        unless_gone(app.queue.finish_or_delete(&scope, &old, by.as_ref()).await)?;
    }
    Ok(responses::published(added.id()))
}

/// `PUT /api/{namespace}/{queue}/bulk`.
pub async fn publish_bulk(
    State(app): State<DialectApp>,
    RequestActor(by): RequestActor,
    path: QueuePath,
    query: Parameters,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> HandlerResult {
    let (now, limits) = (app.edge.clock.wall_now(), app.queue.limits());
    let publish = Publish::parse(&query, &headers, limits.max_delay, now)?;
    let (topic, len, max_body) = (path.topic()?, body.len(), limits.max_body);
    let scope = only(&topic);
    let parse = move || {
        let payloads = bulk::payloads(&body, max_body)?;
        let jobs: Vec<NewJob> = payloads.iter().map(|payload| publish.job(&topic, payload, now)).collect();
        // As it is stored, which may be longer. Either all jobs are published or none is.
        match jobs.iter().any(|job| job.body.as_bytes().len() > max_body) {
            true => Err(requests::too_large(bulk::JOB_TOO_LARGE)),
            false => Ok(jobs),
        }
    };
    let jobs = run_parser(len, parse).await?;
    requests::refuse_attributes(&headers)?;
    let added = app.queue.add_batch(&scope, jobs, by.as_ref()).await?;
    let ids = added.into_iter().map(|added| Ok(added?.id().clone())).collect::<Result<Vec<_>>>()?;
    Ok(responses::published_bulk(&ids))
}

/// `GET /api/{namespace}/{queue}`, which takes several queues with commas between them.
pub async fn consume(
    State(app): State<DialectApp>,
    sender: Sender,
    path: QueuePath,
    query: Parameters,
) -> HandlerResult {
    let consume = requests::consume(&query)?;
    let topics = path.topics()?;
    if topics.is_empty() {
        return Err(requests::no_queue());
    }
    let began_us = app.edge.clock.now_micros();
    let wait = consume.wait.min(app.max_wait);
    let (by, address) = (sender.actor(), sender.address);
    let pop = Pop { topics, max: consume.count, wait, ttr: Some(consume.ttr), by, address };
    let delivery = app.queue.pop_unshortened(pop).await?;
    let waited_us = app.edge.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    let now = app.edge.clock.wall_now();
    let answers: Vec<_> =
        delivery.jobs().iter().map(|reservation| JobAnswer::consumed(&reservation.job, now)).collect();
    let mut response = match answers.first() {
        None => responses::no_job(),
        Some(first) => {
            let bytes = if consume.count > 1 { responses::bytes(&answers) } else { responses::bytes(first) };
            drop(answers);
            responses::respond(StatusCode::OK, delivery_body(bytes, delivery))
        }
    };
    response.extensions_mut().insert(PollWait(Duration::from_micros(waited_us)));
    Ok(response)
}

/// `DELETE /api/{namespace}/{queue}/job/{job}`: a worker has done it, or a producer cancels it.
pub async fn delete(
    State(app): State<DialectApp>,
    Authenticated(caller): Authenticated,
    RequestActor(by): RequestActor,
    path: QueuePath,
) -> HandlerResult {
    if ![Scope::Work, Scope::Add].iter().any(|scope| caller.has_scope(*scope)) {
        return Err(Problem::forbidden("add or work"));
    }
    if let Some(id) = path.job() {
        unless_gone(app.queue.finish_or_delete(&only(&path.topic()?), &id, by.as_ref()).await)?;
    }
    Ok(responses::done())
}

/// `GET /api/{namespace}/{queue}/job/{job}`.
pub async fn job(State(app): State<DialectApp>, path: QueuePath) -> HandlerResult {
    let scope = only(&path.topic()?);
    let found = match path.job() {
        Some(id) => unless_gone(app.queue.get(&scope, &id).await)?,
        None => None,
    };
    Ok(match found {
        Some(job) => responses::json(StatusCode::OK, &JobAnswer::found(&job, app.edge.clock.wall_now())),
        None => responses::nothing("job not found"),
    })
}

/// `GET /api/{namespace}/{queue}/peek`.
pub async fn peek(State(app): State<DialectApp>, path: QueuePath) -> HandlerResult {
    Ok(match app.queue.first(&path.topic()?, job::State::Ready).await? {
        Some(job) => responses::json(StatusCode::OK, &JobAnswer::peeked(&job, app.edge.clock.wall_now())),
        None => responses::nothing("the queue is empty"),
    })
}

/// `GET /api/{namespace}/{queue}/size`: of its ready jobs.
pub async fn size(State(app): State<DialectApp>, path: QueuePath) -> HandlerResult {
    let topic = path.topic()?;
    Ok(responses::size(&topic, app.queue.count(&topic, job::State::Ready).await?))
}

/// `DELETE /api/{namespace}/{queue}`: deletes its ready jobs.
pub async fn destroy(
    State(app): State<DialectApp>,
    RequestActor(by): RequestActor,
    path: QueuePath,
) -> HandlerResult {
    app.queue.delete_ready(&path.topic()?, by.as_ref()).await?;
    Ok(responses::done())
}

/// `GET /api/{namespace}/{queue}/deadletter/size`.
pub async fn dead_size(State(app): State<DialectApp>, path: QueuePath) -> HandlerResult {
    let topic = path.topic()?;
    Ok(responses::size(&topic, app.queue.count(&topic, job::State::Dead).await?))
}

/// `GET /api/{namespace}/{queue}/deadletter`.
pub async fn peek_dead(State(app): State<DialectApp>, path: QueuePath) -> HandlerResult {
    let topic = path.topic()?;
    let (count, oldest) =
        (app.queue.count(&topic, job::State::Dead).await?, app.queue.first(&topic, job::State::Dead).await?);
    Ok(responses::dead_letters(&topic, count, oldest.as_ref().map(|job| &job.id)))
}

/// `PUT /api/{namespace}/{queue}/deadletter`.
pub async fn respawn(
    State(app): State<DialectApp>,
    RequestActor(by): RequestActor,
    path: QueuePath,
    query: Parameters,
) -> HandlerResult {
    let (limit, requeue) = requests::respawn(&query, app.edge.clock.wall_now())?;
    let changed = app.queue.requeue_dead(&path.topic()?, requeue, limit, by.as_ref()).await?;
    Ok(responses::respawned(changed.changed))
}

/// `DELETE /api/{namespace}/{queue}/deadletter`.
pub async fn delete_dead(
    State(app): State<DialectApp>,
    RequestActor(by): RequestActor,
    path: QueuePath,
    query: Parameters,
) -> HandlerResult {
    app.queue.delete_dead(&path.topic()?, requests::limit(&query)?, by.as_ref()).await?;
    Ok(responses::done())
}

/// The jobs of one topic: lmstfy finds a job only in its queue.
fn only(topic: &Topic) -> TopicFilter {
    TopicFilter::only(vec![TopicPattern::Exact(topic.clone())])
}
