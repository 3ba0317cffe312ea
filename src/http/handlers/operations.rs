//! Pages for operators: health, version, metrics, the contract.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::http::{
    accept,
    access::Authenticated,
    app::App,
    errors::{CheckStatus, Problem, ReadinessCheck},
    json,
    wire::{
        parameters::{NoQuery, Query},
        version,
    },
};
use crate::{
    metrics::Metrics,
    queue::{Degraded, Error},
};

/// The contract of this build.
pub const OPENAPI: &str = include_str!("../../../openapi.yaml");
/// The same as JSON, which `build.rs` makes of it.
const OPENAPI_JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// Whether the process answers at all.
pub async fn live() -> Response {
    json::object_response(|object| object.text("status", "ok"))
}

/// Whether the server accepts work: it is not shutting down, and the last known state of its store is good. The store is
/// not asked, so that the response is immediate even if the store is unavailable.
pub async fn ready(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let verbose = query.optional_text("verbose").is_some();
    let draining = app.queue.is_draining().then_some(Error::Draining);
    let store = app.queue.store_state().err();
    let check = |name, failure: &Option<Error>| ReadinessCheck {
        name,
        status: failure.as_ref().map_or(CheckStatus::Ok, |failure| CheckStatus::Failed(failure.to_string())),
    };
    let mut checks = vec![check("shutdown", &draining), check("store", &store)];
    let degraded = app.queue.degraded();
    let unready = degraded.iter().find(|part| part.is_unready).map(|part| part.detail.clone());
    checks.extend(degraded.into_iter().map(|Degraded { part: name, detail, is_unready }| {
        let status = if is_unready { CheckStatus::Failed(detail) } else { CheckStatus::Degraded(detail) };
        ReadinessCheck { name, status }
    }));
    let problem = draining.or(store).map(Problem::from).or_else(|| unready.map(Problem::unready));
    match (problem, verbose) {
        (None, false) => Ok(live().await),
        (None, true) => Ok(json::object_response(|object| {
            object.text("status", "ok");
            object.list("checks", &checks, ReadinessCheck::write);
        })),
        (Some(problem), false) => Err(problem),
        (Some(problem), true) => Err(problem.with_checks(checks)),
    }
}

/// The versions that run here, the durability of acknowledged changes, and the limits.
pub async fn version(State(app): State<App>) -> Response {
    version::response(&app.queue.info(), app.queue.limits(), &app.edge.options)
}

/// What the caller may do, so that a page can hide the rest.
pub async fn whoami(State(app): State<App>, Authenticated(caller): Authenticated, _: NoQuery) -> Response {
    json::object_response(|object| {
        object.text("name", &caller.name);
        object.list("scopes", caller.scopes(), |scope, out| json::write_text(out, scope.as_str()));
        if let Some(patterns) = caller.topics.patterns() {
            object.list("topics", patterns, |pattern, out| json::write_text(out, &pattern.to_string()));
        }
        object.text("title", &app.ui.title);
    })
}

/// The metrics. Counts of jobs are at most a few seconds old.
pub async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Err(error) = app.queue.refresh_metrics().await {
        // The page still shows all other metrics, and `linger_store_up` shows that the store is unavailable.
        tracing::debug!(%error, "the metrics lack the counts of jobs");
    }
    let store = app.queue.info();
    app.edge.metrics.describe_store(store.engine, &store.version, &store.durability);
    let (media_type, page) = if accept::prefers_open_metrics(&headers) {
        (Metrics::OPEN_METRICS, app.edge.metrics.encode())
    } else {
        (Metrics::TEXT, app.edge.metrics.encode_text())
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))], page).into_response()
}

/// The contract as JSON.
pub async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI_JSON).into_response()
}

/// The contract (media type: RFC 9512).
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"))], OPENAPI).into_response()
}
