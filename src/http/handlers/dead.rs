//! Operations on the dead letters of a topic: list, requeue, delete.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        access::RequestActor,
        app::App,
        json_body::OptionalJsonBody,
        wire::{
            parameters::{self, NoQuery, Query, TopicPath},
            requests, responses,
            values::{self, ParseResult},
        },
    },
    job::{JobId, Timestamp},
    queue::{DeadCursor, Requeue},
};

/// Small, because each job carries its body.
const MAX_PAGE: usize = 100;
const DEFAULT_PAGE: usize = 20;

pub async fn list(State(app): State<App>, TopicPath(topic): TopicPath, mut query: Query) -> HandlerResult {
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, MAX_PAGE));
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    let after = query.optional("cursor", decode_cursor);
    query.finish()?;
    let page = app.queue.dead(&topic, after.as_ref(), limit).await?;
    Ok(responses::dead_page(&page.jobs, page.next.as_ref().map(encode_cursor).as_deref()))
}

fn encode_cursor(cursor: &DeadCursor) -> String {
    parameters::encode_cursor(&format!("{}/{}", cursor.dead_at.as_millis(), cursor.id))
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
    RequestActor(by): RequestActor,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let limit = body.parse(&app, |body, _| requests::requeue_dead(body)).await?;
    Ok(responses::requeued(app.queue.requeue_dead(&topic, Requeue::default(), limit, by.as_ref()).await?))
}

pub async fn delete(
    State(app): State<App>,
    RequestActor(by): RequestActor,
    TopicPath(topic): TopicPath,
    _: NoQuery,
) -> HandlerResult {
    let deleted = app.queue.delete_dead(&topic, usize::MAX, by.as_ref()).await?;
    Ok(responses::count("deleted", deleted as u64))
}
