//! Operations on the dead letters of a topic: list, requeue, delete.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        app::App,
        middleware::request_body::OptionalJsonBody,
        wire::{
            parameters::{self, NoQuery, Query, TopicPath},
            requests, responses,
            values::{self, ParseResult},
        },
    },
    job::{Job, JobId, Timestamp},
    queue::DeadCursor,
};

/// Small, because each job carries its body.
const MAX_PAGE: usize = 100;
const DEFAULT_PAGE: usize = 20;

pub async fn list(State(app): State<App>, TopicPath(topic): TopicPath, mut query: Query) -> HandlerResult {
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, MAX_PAGE));
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    let after = query.optional("cursor", decode_cursor);
    query.finish()?;
    // One job beyond the limit shows whether there is a next page.
    let mut jobs = app.queue.dead(&topic, after.as_ref(), limit + 1).await?;
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let next_cursor = jobs.last().filter(|_| has_more).and_then(cursor_after);
    Ok(responses::dead_page(&jobs, next_cursor.as_deref()))
}

/// The cursor of the page that begins after `job`.
fn cursor_after(job: &Job) -> Option<String> {
    let dead_at = job.dead_at?;
    Some(parameters::encode_cursor(&format!("{}/{}", dead_at.as_millis(), job.id.as_str())))
}

fn decode_cursor(text: &str) -> ParseResult<DeadCursor> {
    let text = parameters::decode_cursor(text)?;
    let parsed = text.split_once('/').and_then(|(dead_at_ms, id)| {
        let dead_at_ms =
            dead_at_ms.parse().ok().filter(|ms| (0..=Timestamp::MAX.as_millis()).contains(ms))?;
        Some(DeadCursor { dead_at: Timestamp::from_millis(dead_at_ms), id: JobId::parse(id).ok()? })
    });
    parsed.ok_or_else(parameters::invalid_cursor)
}

pub async fn requeue(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let limit = body.parse(&app, |body, _| requests::requeue_dead(body)).await?;
    let requeued = app.queue.requeue_dead(&topic, limit).await?;
    Ok(responses::count("requeued", requeued as u64))
}

pub async fn delete(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> HandlerResult {
    Ok(responses::count("deleted", app.queue.delete_dead(&topic).await?))
}
