//! Operations on schedules.

use axum::{extract::State, http::HeaderMap};

use super::HandlerResult;
use crate::{
    http::{
        access::{self, Authenticated},
        app::App,
        json_body::{JsonBody, OptionalJsonBody},
        wire::{
            parameters::{self, NoQuery, Query, SchedulePath},
            responses, schedules,
            values::{self, ParseResult},
        },
    },
    job::{JobId, ScheduleName},
};

const MAX_PAGE: usize = 100;
const MAX_RUNS: usize = 1_000;
const DEFAULT_RUNS: usize = 10;

pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    mut query: Query,
) -> HandlerResult {
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, MAX_PAGE));
    let after = query.optional("cursor", decode_cursor);
    query.finish()?;
    let list = app.queue.schedules(&caller.topics, after.as_ref(), limit.unwrap_or(MAX_PAGE)).await?;
    let next_cursor = list.next.as_ref().map(|name| parameters::encode_cursor(name.as_str()));
    Ok(schedules::list(&list, next_cursor.as_deref()))
}

fn decode_cursor(text: &str) -> ParseResult<ScheduleName> {
    schedules::name_text(&parameters::decode_cursor(text)?).map_err(|_| parameters::invalid_cursor())
}

pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> HandlerResult {
    Ok(schedules::response(&app.queue.schedule(&caller.topics, &name).await?))
}

pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    mut query: Query,
    headers: HeaderMap,
    body: JsonBody,
) -> HandlerResult {
    let is_dry_run = query.optional("dry_run", values::flag_text).unwrap_or(false);
    let count = query.optional("count", |text| values::whole_number_text(text, 1, MAX_RUNS));
    if count.is_some() && !is_dry_run {
        query.refuse_value("count", "is only for a dry run, with dry_run=true");
    }
    query.finish()?;
    let (spec, job) = body.parse(&app, schedules::schedule).await?;
    access::check_topic(&caller, &job.topic)?;
    let expected = schedules::expected_revision(&headers)?;
    if is_dry_run {
        let view = app.queue.preview_schedule(&caller.topics, &name, &spec, job, expected).await?;
        return Ok(schedules::preview(&view, count.unwrap_or(DEFAULT_RUNS)));
    }
    let (view, effect) = app.queue.put_schedule(&caller.topics, &name, &spec, job, expected).await?;
    Ok(schedules::put_response(&view, effect))
}

pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> HandlerResult {
    app.queue.delete_schedule(&caller.topics, &name).await?;
    Ok(responses::no_content())
}

pub async fn next(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    mut query: Query,
) -> HandlerResult {
    let count = query.optional("count", |text| values::whole_number_text(text, 1, MAX_RUNS));
    query.finish()?;
    let view = app.queue.schedule(&caller.topics, &name).await?;
    Ok(schedules::next(&view, count.unwrap_or(DEFAULT_RUNS)))
}

pub async fn pause(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> HandlerResult {
    Ok(schedules::response(&app.queue.pause_schedule(&caller.topics, &name).await?))
}

pub async fn resume(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> HandlerResult {
    Ok(schedules::response(&app.queue.resume_schedule(&caller.topics, &name).await?))
}

/// Adds a job of the schedule now.
pub async fn run(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let id = body.parse(&app, |body, _| schedules::run(body)).await?.unwrap_or_else(JobId::generate);
    let outcome = app.queue.run_schedule(&caller.topics, &name, &id, schedules::read_template).await?;
    Ok(responses::added(&outcome))
}
