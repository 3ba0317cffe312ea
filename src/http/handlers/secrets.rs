//! Operations on the secrets that sign the calls of a topic: add, list, delete.

use axum::extract::State;

use super::HandlerResult;
use crate::http::{
    app::App,
    json_body::OptionalJsonBody,
    wire::{
        callbacks,
        parameters::{NoQuery, SecretPath, TopicPath},
        requests, responses,
    },
};

pub async fn add(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    body: OptionalJsonBody,
) -> HandlerResult {
    let key = body.parse(&app, |body, _| requests::new_secret(body)).await?;
    Ok(callbacks::added_secret(&app.queue.add_secret(&topic, key).await?))
}

pub async fn list(State(app): State<App>, TopicPath(topic): TopicPath, _: NoQuery) -> HandlerResult {
    Ok(callbacks::secrets(&app.queue.secrets(&topic).await?))
}

pub async fn delete(
    State(app): State<App>,
    SecretPath { topic, id }: SecretPath,
    _: NoQuery,
) -> HandlerResult {
    app.queue.delete_secret(&topic, id).await?;
    Ok(responses::no_content())
}
