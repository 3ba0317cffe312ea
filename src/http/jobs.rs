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
use crate::queue::FinishJob;

type Answer = Result<Response, Problem>;

pub(super) async fn add(
    State(app): State<App>,
    Calling(caller): Calling,
    _: NoQuery,
    Json(body): Json,
) -> Answer {
    let job = bodies::new_job(&body)?;
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
    Ok(render::job(&app.queue.within(&caller.topics).get(&id).await?))
}

pub(super) async fn patch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    Json(body): Json,
) -> Answer {
    let patch = bodies::patch(&body)?;
    Ok(render::job(&app.queue.within(&caller.topics).patch(&id, patch).await?))
}

pub(super) async fn delete(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
) -> Answer {
    app.queue.within(&caller.topics).delete(&id).await?;
    Ok(render::done())
}

pub(super) async fn finish(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    mut query: Query,
    OptionalJson(body): OptionalJson,
) -> Answer {
    let receipt = query.take("receipt", values::receipt_text);
    query.end()?;
    bodies::nothing(&body)?;
    app.queue.within(&caller.topics).finish(FinishJob { id, receipt }).await?;
    Ok(render::done())
}

pub(super) async fn release(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    Json(body): Json,
) -> Answer {
    let (receipt, release) = bodies::release(&body)?;
    Ok(render::job(&app.queue.within(&caller.topics).release(&id, &receipt, release).await?))
}

pub(super) async fn touch(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    Json(body): Json,
) -> Answer {
    let (receipt, ttr) = bodies::touch(&body)?;
    Ok(render::job(&app.queue.within(&caller.topics).touch(&id, &receipt, ttr).await?))
}

pub(super) async fn bury(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    Json(body): Json,
) -> Answer {
    let (receipt, reason) = bodies::bury(&body)?;
    Ok(render::job(&app.queue.within(&caller.topics).bury(&id, &receipt, reason).await?))
}

pub(super) async fn requeue(
    State(app): State<App>,
    Calling(caller): Calling,
    JobPath(id): JobPath,
    _: NoQuery,
    OptionalJson(body): OptionalJson,
) -> Answer {
    let delay = bodies::requeue(&body)?;
    Ok(render::job(&app.queue.within(&caller.topics).requeue(&id, delay).await?))
}
