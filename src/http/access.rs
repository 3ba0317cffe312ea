//! Who calls our own API: bearer tokens, and whether one allows the scope that a route requires.
//!
//! The scopes are in the route table. A topic in the path is checked by `wire::parameters::TopicPath`, one in a body by
//! its handler, and a job's topic by the steps of `queue` themselves.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};

use super::{
    edge::RequiredScope::{self, AllTopics, Any, Of, Public},
    errors::Problem,
};
use crate::{
    auth::{AuthError, Authenticator, Caller},
    job::{Actor, Topic},
    net::ConnectedClient,
};

/// The caller of a request. Refuses a token that does not allow what is `required`.
pub(super) fn authorize(
    authenticator: &Authenticator,
    required: RequiredScope,
    request: &mut Request,
) -> Result<Caller, Problem> {
    let caller = authorized_caller(authenticator, required, request.headers())?;
    // No code after this needs the token.
    request.headers_mut().remove(header::AUTHORIZATION);
    Ok(caller)
}

fn authorized_caller(
    authenticator: &Authenticator,
    required: RequiredScope,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let mut credentials = headers.get_all(header::AUTHORIZATION).iter();
    let (first, several) = (credentials.next(), credentials.next().is_some());
    // Several credentials may contradict each other, so none of them counts.
    let credential = first.map(|value| if several { b"" } else { value.as_bytes() });
    match (authenticator.authenticate(credential), required) {
        (Ok(caller), _) if required.is_met_by(&caller) => Ok(caller),
        (Ok(_), AllTopics(scope)) => Err(Problem::forbidden(&format!("{scope} for all topics"))),
        (Ok(_), Of(scope)) => Err(Problem::forbidden(scope.as_str())),
        // Every caller meets these.
        (Ok(caller), Public | Any) => Ok(caller),
        (Err(_), Public) => Ok(Caller::unprivileged()),
        (Err(AuthError::Missing), _) => Err(Problem::no_token()),
        (Err(_), _) if several => Err(Problem::several_credentials()),
        (Err(AuthError::Scheme), _) => Err(Problem::wrong_scheme()),
        (Err(AuthError::Unknown), _) => Err(Problem::unknown_token()),
    }
}

/// Refuses a topic that the caller's token does not cover.
pub(super) fn check_topic(caller: &Caller, topic: &Topic) -> Result<(), Problem> {
    if caller.topics.allows(topic) { Ok(()) } else { Err(Problem::forbidden_topic()) }
}

/// Refuses a topic that the caller's token does not cover; without a topic, all of them.
pub(super) fn check_topics(caller: &Caller, topic: Option<&Topic>) -> Result<(), Problem> {
    match topic {
        Some(topic) => check_topic(caller, topic),
        None => check_all_topics(caller),
    }
}

/// Refuses a caller whose token does not cover all topics.
pub(super) fn check_all_topics(caller: &Caller) -> Result<(), Problem> {
    if caller.topics.is_all() { Ok(()) } else { Err(Problem::topic_required()) }
}

/// The caller that [`authorize`] found.
pub(super) struct Authenticated(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(caller_of(parts)))
    }
}

/// What tells who sent a request.
pub(super) struct Sender {
    token: Option<Arc<str>>,
    /// The client's address.
    pub address: Option<IpAddr>,
}

impl Sender {
    /// Who it is, for the history of jobs: the token's name, else the client's address. Made only where a history needs it: an
    /// add that replaces nothing does without.
    pub fn actor(&self) -> Option<Actor> {
        let by_name = self.token.as_deref().and_then(Actor::abridged);
        by_name.or_else(|| Actor::abridged(&self.address?.to_canonical().to_string()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Sender {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let token = parts.extensions.get::<Caller>().map(|caller| caller.name.clone());
        Ok(Self { token, address: parts.extensions.get::<ConnectedClient>().map(|client| client.address) })
    }
}

/// Who sent a request, as [`Sender::actor`] tells it.
pub(super) struct RequestActor(pub Option<Actor>);

impl<S: Send + Sync> FromRequestParts<S> for RequestActor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(Sender::from_request_parts(parts, state).await?.actor()))
    }
}

/// The caller that [`authorize`] found. Without that check, a caller without any right.
pub(super) fn caller_of(parts: &Parts) -> Caller {
    parts.extensions.get::<Caller>().cloned().unwrap_or_else(Caller::unprivileged)
}
