//! Who may call what: the scope that each operation needs, and the check that asks for it.
//!
//! A topic in the path is checked by `parameters::TopicPath`, one in a body by its handler, and a job's by
//! the steps of `queue` themselves. What is not listed here needs `admin`: a route that somebody forgot is closed.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, Method, header, request::Parts},
};

use super::{errors::Problem, paths};
use crate::{
    auth::{AuthError, Authenticator, Caller, Scope},
    job::Topic,
};

/// What an operation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing: orchestrators have no tokens.
    Nothing,
    /// This scope, for the topics concerned.
    Scope(Scope),
    /// This scope for all topics, because the answer shows them all.
    EveryTopic(Scope),
}

use Need::{EveryTopic, Nothing, Scope as Needs};

/// Every operation of the API.
const OPERATIONS: [(&str, &str, Need); 29] = [
    ("POST", paths::JOBS, Needs(Scope::Add)),
    ("GET", paths::JOB, Needs(Scope::Read)),
    ("PATCH", paths::JOB, Needs(Scope::Add)),
    ("DELETE", paths::JOB, Needs(Scope::Add)),
    ("POST", paths::FINISH, Needs(Scope::Work)),
    ("POST", paths::RELEASE, Needs(Scope::Work)),
    ("POST", paths::TOUCH, Needs(Scope::Work)),
    ("POST", paths::BURY, Needs(Scope::Work)),
    ("POST", paths::REQUEUE, Needs(Scope::Admin)),
    ("POST", paths::BATCH_JOBS, Needs(Scope::Add)),
    ("POST", paths::BATCH_POP, Needs(Scope::Work)),
    ("POST", paths::BATCH_FINISH, Needs(Scope::Work)),
    ("POST", paths::BATCH_DELETE, Needs(Scope::Add)),
    ("GET", paths::TOPICS, EveryTopic(Scope::Read)),
    ("GET", paths::TOPIC, Needs(Scope::Read)),
    ("PUT", paths::TOPIC, Needs(Scope::Admin)),
    ("DELETE", paths::TOPIC, Needs(Scope::Admin)),
    ("GET", paths::POP, Needs(Scope::Work)),
    ("POST", paths::POP, Needs(Scope::Work)),
    ("POST", paths::PAUSE, Needs(Scope::Admin)),
    ("POST", paths::RESUME, Needs(Scope::Admin)),
    ("GET", paths::DEAD, Needs(Scope::Read)),
    ("DELETE", paths::DEAD, Needs(Scope::Admin)),
    ("POST", paths::DEAD_REQUEUE, Needs(Scope::Admin)),
    ("GET", paths::LIVEZ, Nothing),
    ("GET", paths::READYZ, Nothing),
    ("GET", paths::VERSION, Needs(Scope::Read)),
    ("GET", paths::METRICS, EveryTopic(Scope::Read)),
    ("GET", paths::OPENAPI, Needs(Scope::Read)),
];

/// What a call of `method` on `route` needs; `HEAD` as `GET`.
fn need(method: &Method, route: &str) -> Need {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let listed = OPERATIONS.iter().find(|(of, at, _)| *of == method && *at == route);
    listed.map_or(Needs(Scope::Admin), |(_, _, need)| *need)
}

/// Refuses a call of `route` whose token does not allow it, and notes in the request who calls.
pub(super) fn check(gate: &Authenticator, route: &str, request: &mut Request) -> Result<Caller, Problem> {
    let caller = admit(gate, need(request.method(), route), request.headers())?;
    // Asked first because finding the span costs something.
    if tracing::level_filters::LevelFilter::current() >= tracing::Level::DEBUG {
        tracing::Span::current().record("caller", &*caller.name);
    }
    // Nobody behind this has any business with it.
    request.headers_mut().remove(header::AUTHORIZATION);
    request.extensions_mut().insert(caller.clone());
    Ok(caller)
}

fn admit(gate: &Authenticator, need: Need, headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut credentials = headers.get_all(header::AUTHORIZATION).iter();
    let (first, several) = (credentials.next(), credentials.next().is_some());
    // Several may contradict each other.
    let credential = first.map(|value| if several { b"" } else { value.as_bytes() });
    let admitted = gate.authenticate(credential);
    let allowed = |caller: &Caller| match need {
        Nothing => true,
        Needs(scope) => caller.has_scope(scope),
        EveryTopic(scope) => caller.has_scope(scope) && caller.topics.is_all(),
    };
    match (admitted, need) {
        (Ok(caller), _) if allowed(&caller) => Ok(caller),
        (Ok(_), EveryTopic(scope)) => Err(Problem::forbidden(&format!("{scope} for all topics"))),
        (Ok(_), Needs(scope)) => Err(Problem::forbidden(scope.as_str())),
        (Ok(caller), Nothing) => Ok(caller),
        (Err(_), Nothing) => Ok(Caller::unprivileged()),
        (Err(AuthError::Missing), _) => Err(Problem::no_token()),
        (Err(_), _) if several => Err(Problem::several_credentials()),
        (Err(AuthError::Scheme), _) => Err(Problem::wrong_scheme()),
        (Err(AuthError::Unknown), _) => Err(Problem::unknown_token()),
    }
}

/// Refuses a topic that the caller may not use.
pub(super) fn check_topic(caller: &Caller, topic: &Topic) -> Result<(), Problem> {
    if caller.topics.allows(topic) { Ok(()) } else { Err(Problem::forbidden_topic()) }
}

/// The name of who called, on an answer that the log tells of.
#[derive(Debug, Clone)]
pub(super) struct CallerName(pub Arc<str>);

/// Who calls, as the check found out.
pub(super) struct Calling(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Calling {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(calling(parts)))
    }
}

/// Who calls; somebody who may do nothing where the check is missing.
pub(super) fn calling(parts: &Parts) -> Caller {
    parts.extensions.get::<Caller>().cloned().unwrap_or_else(Caller::unprivileged)
}
