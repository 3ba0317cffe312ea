//! Dead letters of a topic: list, requeue, delete.

use axum::{extract::State, response::Response};

use crate::http::{
    App,
    errors::Problem,
    middleware::request_body::OptionalJson,
    wire::{
        parameters::{self, NoQuery, Query, TopicPath},
        requests, responses,
        values::{self, Read},
    },
};
use crate::{
    job::{Job, JobId, Timestamp},
    queue::DeadCursor,
};

type Answer = Result<Response, Problem>;

/// Most and usual jobs of one page. Each carries its body, so a page is kept short.
const PAGE: (usize, usize) = (100, 20);

pub async fn list(State(app): State<App>, TopicPath(topic): TopicPath, mut query: Query) -> Answer {
    let limit = query.take("limit", |text| values::whole_text(text, 1, PAGE.0)).unwrap_or(PAGE.1);
    let after = query.take("cursor", read_cursor);
    query.end()?;
    let mut jobs = app.queue.dead(&topic, after.as_ref(), limit + 1).await?;
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let next = jobs.last().filter(|_| more).and_then(cursor);
    Ok(responses::dead_page(&jobs, next.as_deref()))
}

/// Where a walk stands behind `job`.
fn cursor(job: &Job) -> Option<String> {
    job.dead_at.map(|dead_at| parameters::cursor(&format!("{}/{}", dead_at.as_millis(), job.id.as_str())))
}

fn read_cursor(text: &str) -> Read<DeadCursor> {
    let text = parameters::read_cursor(text)?;
    let parsed = text.split_once('/').and_then(|(dead_at_ms, id)| {
        let dead_at_ms =
            dead_at_ms.parse().ok().filter(|ms| (0..=Timestamp::MAX.as_millis()).contains(ms))?;
        Some(DeadCursor { dead_at: Timestamp::from_millis(dead_at_ms), id: JobId::parse(id).ok()? })
    });
    parsed.ok_or_else(parameters::bad_cursor)
}

pub async fn requeue(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJson,
) -> Answer {
    let limit = body.read(&app, |body, _| requests::requeue_dead(body)).await?;
    let requeued = app.queue.requeue_dead(&topic, limit).await?;
    Ok(responses::count("requeued", requeued as u64))
}

pub async fn delete(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> Answer {
    Ok(responses::count("deleted", app.queue.delete_dead(&topic).await?))
}
