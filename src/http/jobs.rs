//! One job at a time: add, look, change, delete, and what its holder does.

use axum::{extract::State, response::Response};

use super::{
    App,
    access::{self, Calling},
    bodies,
    params::{JobPath, NoQuery, Query},
    payload::{Json, OptionalJson},
    problem::Problem,
    render, values,
};
use crate::{job::Receipt, queue::FinishJob};

type Answer = Result<Response, Problem>;

pub(super) async fn add(State(app): State<App>, Calling(caller): Calling, _: NoQuery, body: Json) -> Answer {
    let job = body.read(&app, bodies::new_job).await?;
    access::check_topic(&caller, &job.topic)?;
    let outcome = app.queue.add(job).await?;
    Ok(render::added(&outcome))
}

pub(super) async fn get(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
) -> Answer {
    Ok(render::job(&app.queue.get(&caller.topics, &id).await?))
}

pub(super) async fn patch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    body: Json,
) -> Answer {
    let patch = body.read(&app, bodies::patch).await?;
    Ok(render::job(&app.queue.patch(&caller.topics, &id, patch).await?))
}

pub(super) async fn delete(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
) -> Answer {
    app.queue.delete(&caller.topics, &id).await?;
    Ok(render::done())
}

/// The receipt in the query, which the steps of a holder may have there or in the body.
fn receipt(mut query: Query) -> Result<Option<Receipt>, Problem> {
    let receipt = query.take("receipt", values::receipt_text);
    query.end().map(|()| receipt)
}

pub(super) async fn finish(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let receipt = body.read(&app, |body, _| bodies::finish(body, in_query)).await?;
    app.queue.finish(&caller.topics, FinishJob { id, receipt }).await?;
    Ok(render::done())
}

pub(super) async fn release(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, release) = body.read(&app, |body, limits| bodies::release(body, in_query, limits)).await?;
    Ok(render::job(&app.queue.release(&caller.topics, &id, &receipt, release).await?))
}

pub(super) async fn touch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, ttr) = body.read(&app, |body, _| bodies::touch(body, in_query)).await?;
    Ok(render::job(&app.queue.touch(&caller.topics, &id, &receipt, ttr).await?))
}

pub(super) async fn bury(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    query: Query,
    body: OptionalJson,
) -> Answer {
    let in_query = receipt(query)?;
    let (receipt, reason) = body.read(&app, |body, _| bodies::bury(body, in_query)).await?;
    Ok(render::job(&app.queue.bury(&caller.topics, &id, &receipt, reason).await?))
}

pub(super) async fn requeue(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    body: OptionalJson,
) -> Answer {
    let delay = body.read(&app, bodies::requeue).await?;
    Ok(render::job(&app.queue.requeue(&caller.topics, &id, delay).await?))
}
