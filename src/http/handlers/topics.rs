//! Topics as a whole: list, look, settings, pause, purge.

use axum::{extract::State, response::Response};

use crate::http::{
    App,
    errors::Problem,
    middleware::request_body::{Json, OptionalJson},
    wire::{
        parameters::{self, NoQuery, Query, TopicPath},
        requests, responses,
        values::{self, Read},
    },
};
use crate::job::Topic;

type Answer = Result<Response, Problem>;

/// Most and usual topics of one page.
const PAGE: (usize, usize) = (1_000, 100);

pub async fn list(State(app): State<App>, mut query: Query) -> Answer {
    let limit = query.take("limit", |text| values::whole_text(text, 1, PAGE.0)).unwrap_or(PAGE.1);
    let after = query.take("cursor", read_cursor);
    query.end()?;
    // One more than asked tells whether there is a next page.
    let mut topics = app.queue.topics(after.as_ref(), limit + 1).await?;
    let more = topics.len() > limit;
    topics.truncate(limit);
    let next = topics.last().filter(|_| more).map(|(topic, _)| parameters::cursor(topic.as_str()));
    Ok(responses::topic_page(&topics, next.as_deref()))
}

fn read_cursor(text: &str) -> Read<Topic> {
    Topic::parse(&parameters::read_cursor(text)?).map_err(|_| parameters::bad_cursor())
}

pub async fn get(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> Answer {
    let view = app.queue.topic(&topic).await?;
    Ok(responses::topic(&topic, &view))
}

pub async fn put(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery, body: Json) -> Answer {
    let settings = body.read(&app, requests::settings).await?;
    let view = app.queue.put_settings(&topic, settings).await?;
    Ok(responses::topic(&topic, &view))
}

pub async fn purge(State(app): State<App>, TopicPath(topic): TopicPath, mut query: Query) -> Answer {
    let confirmed = query.text("confirm");
    query.end()?;
    if confirmed.as_deref() != Some(topic.as_str()) {
        return Err(Problem::unconfirmed());
    }
    Ok(responses::count("deleted", app.queue.purge(&topic).await?))
}

pub async fn pause(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJson,
) -> Answer {
    let pause = body.read(&app, |body, _| requests::pause(body)).await?;
    let view = app.queue.pause(&topic, pause).await?;
    Ok(responses::topic(&topic, &view))
}

pub async fn resume(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJson,
) -> Answer {
    let pause = body.read(&app, |body, _| requests::pause(body)).await?;
    let view = app.queue.resume(&topic, pause).await?;
    Ok(responses::topic(&topic, &view))
}
