//! Lists of jobs, and the reasons of dead letters.

use axum::extract::State;

use super::HandlerResult;
use crate::http::{
    access::{self, Authenticated},
    app::App,
    wire::{
        filters, listed,
        parameters::{NoQuery, Query, TopicPath},
        values,
    },
};
use crate::queue::JobPage;

const DEFAULT_PAGE: usize = 50;

pub async fn jobs(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    mut query: Query,
) -> HandlerResult {
    let filter = filters::in_query(&mut query);
    let order = filters::order_in_query(&mut query, filter.state);
    let limit = query.optional("limit", |text| values::whole_number_text(text, 1, JobPage::MAX_JOBS));
    let after = query.optional("cursor", |text| listed::decode_cursor(text, &filter, order));
    query.finish()?;
    access::check_topics(&caller, filter.topic.as_ref())?;
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    let page = app.queue.list(&filter, order, after.as_ref(), limit).await?;
    Ok(listed::job_page(&page, &filter, order))
}

pub async fn dead_reasons(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> HandlerResult {
    Ok(listed::dead_reasons(&app.queue.dead_reasons(Some(&topic)).await?))
}

/// The same of all topics.
pub async fn all_dead_reasons(State(app): State<App>, _: NoQuery) -> HandlerResult {
    Ok(listed::dead_reasons(&app.queue.dead_reasons(None).await?))
}
