//! Operations on a topic as a whole: list, get, settings, pause, resume, purge.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    http::{
        access::{Authenticated, RequestActor},
        app::App,
        errors::Problem,
        json_body::{JsonBody, OptionalJsonBody},
        wire::{
            parameters::{self, NoQuery, Query, TopicPath},
            requests, responses, topics,
            values::{self, ParseResult},
        },
    },
    job::{self, Topic, TopicPattern},
    queue::{NewPause, TopicSort},
};

const MAX_PAGE: usize = 1_000;
const DEFAULT_PAGE: usize = 100;

pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    mut query: Query,
) -> HandlerResult {
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, MAX_PAGE));
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    let prefix = query.optional("prefix", prefix_text);
    let sort = query.optional("sort", sort_text).flatten();
    let after = query.optional("cursor", decode_cursor);
    if sort.is_some() && after.is_some() {
        query.refuse_value(
            "cursor",
            "must not be combined with a sort other than name: only that order has pages",
        );
    }
    query.finish()?;
    let scope = prefix.map_or(caller.topics.clone(), |prefix| caller.topics.within(&prefix));
    if let Some(sort) = sort {
        let topics = app.queue.sorted_topics(&scope, sort, limit).await?;
        return Ok(topics::page(&topics, None));
    }
    // One topic beyond the limit shows whether there is a next page.
    let mut topics = app.queue.topics(&scope, after.as_ref(), limit + 1).await?;
    let has_more = topics.len() > limit;
    topics.truncate(limit);
    let last = topics.last().filter(|_| has_more);
    let next_cursor = last.map(|(topic, _)| parameters::encode_cursor(topic.as_str()));
    Ok(topics::page(&topics, next_cursor.as_deref()))
}

fn prefix_text(text: &str) -> ParseResult<TopicPattern> {
    TopicPattern::parse_prefix(text).map_err(|error| error.to_string())
}

/// `None` is the order by name.
fn sort_text(text: &str) -> ParseResult<Option<TopicSort>> {
    match text {
        "name" => Ok(None),
        "ready" => Ok(Some(TopicSort::Most(job::State::Ready))),
        "delayed" => Ok(Some(TopicSort::Most(job::State::Delayed))),
        "dead" => Ok(Some(TopicSort::Most(job::State::Dead))),
        "overdue" => Ok(Some(TopicSort::Overdue)),
        _ => Err("must be \"name\", \"ready\", \"overdue\", \"delayed\" or \"dead\"".to_owned()),
    }
}

fn decode_cursor(text: &str) -> ParseResult<Topic> {
    Topic::parse(&parameters::decode_cursor(text)?).map_err(|_| parameters::invalid_cursor())
}

pub async fn get(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> HandlerResult {
    let view = app.queue.topic(&topic).await?;
    Ok(topics::response(&topic, &view))
}

/// The endpoints that this process calls for a topic.
pub async fn put(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: JsonBody,
) -> HandlerResult {
    let (settings, kept_headers) = body.parse(&app, requests::settings).await?;
    let view = app.queue.put_settings_keeping_headers(&topic, settings, kept_headers).await?;
    Ok(topics::response(&topic, &view))
}

pub async fn purge(State(app): State<App>, TopicPath(topic): TopicPath, mut query: Query) -> HandlerResult {
    let confirmed = query.optional_text("confirm");
    query.finish()?;
    if confirmed.as_deref() != Some(topic.as_str()) {
        return Err(Problem::confirmation_required());
    }
    Ok(responses::count("deleted", app.queue.purge(&topic).await?))
}

pub async fn pause(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    RequestActor(by): RequestActor,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let (operations, pause) = body.parse(&app, |body, _| requests::pause(body)).await?;
    let view = app.queue.pause(&topic, operations, NewPause { by, ..pause }).await?;
    Ok(topics::response(&topic, &view))
}

pub async fn resume(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let operations = body.parse(&app, |body, _| requests::resume(body)).await?;
    let view = app.queue.resume(&topic, operations).await?;
    Ok(topics::response(&topic, &view))
}
