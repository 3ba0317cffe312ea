//! Workers, and the endpoints of callbacks.

use axum::extract::State;

use super::HandlerResult;
use crate::{
    auth::Scope,
    http::{
        access::{self, Authenticated},
        app::App,
        errors::Problem,
        json_body::OptionalJsonBody,
        wire::{
            activity,
            parameters::{NoQuery, Query, TopicPath},
            requests, responses, values,
        },
    },
    job::Topic,
};

/// `GET /workers`.
pub async fn workers(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: Query,
) -> HandlerResult {
    let topic = topic_in_query(query)?;
    access::check_topics(&caller, topic.as_ref())?;
    let workers = app.queue.workers(topic.as_ref()).await?;
    Ok(activity::workers(&workers, caller.has_scope(Scope::Admin)))
}

/// `GET /callbacks`.
pub async fn callbacks(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    query: Query,
) -> HandlerResult {
    let topic = topic_in_query(query)?;
    access::check_topics(&caller, topic.as_ref())?;
    Ok(activity::endpoints(&app.queue.endpoints(topic.as_ref()).await?))
}

/// `GET /topics/{topic}/callbacks`.
pub async fn callbacks_of_topic(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
) -> HandlerResult {
    app.queue.topic(&topic).await?;
    Ok(activity::endpoints(&app.queue.endpoints(Some(&topic)).await?))
}

/// `POST /topics/{topic}/callbacks/call`.
pub async fn call_now(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    body.parse(&app, |body, _| requests::nothing(body)).await?;
    app.queue.call_now(&topic).await?;
    Ok(responses::no_content())
}

fn topic_in_query(mut query: Query) -> Result<Option<Topic>, Problem> {
    let topic = query.optional("topic", values::topic_text);
    query.finish()?;
    Ok(topic)
}
