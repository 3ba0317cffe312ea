//! Pages for operators: health, version, figures, the contract.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::accept;
use crate::http::{
    App,
    errors::{Check, Condition, Problem},
    json,
    wire::parameters::Query,
};
use crate::{metrics::Metrics, queue::Error};

/// The contract, as it was when this server was built.
pub const OPENAPI: &str = include_str!("../../../openapi.yaml");

/// Whether the process can answer at all.
pub async fn live() -> Response {
    json::object(|object| object.text("status", "ok"))
}

/// Whether the server can take work: it is not shutting down, and its store takes writes as far as is known. A
/// store that is away is not asked, so that the answer comes at once.
pub async fn ready(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let verbose = query.text("verbose").is_some();
    let draining = app.queue.is_draining().then_some(Error::Draining);
    let store = app.queue.store_state().err();
    let check = |name, failure: &Option<Error>| Check {
        name,
        condition: failure.as_ref().map_or(Condition::Ok, |failure| Condition::Failed(failure.to_string())),
    };
    let mut checks = vec![check("shutdown", &draining), check("store", &store)];
    let degraded = app.queue.degraded().into_iter();
    checks
        .extend(degraded.map(|part| Check { name: part.part, condition: Condition::Degraded(part.detail) }));
    match (draining.or(store), verbose) {
        (None, false) => Ok(live().await),
        (None, true) => Ok(json::object(|object| {
            object.text("status", "ok");
            object.list("checks", &checks, Check::write);
        })),
        (Some(error), false) => Err(error.into()),
        (Some(error), true) => Err(Problem::from(error).with_checks(checks)),
    }
}

/// What runs here, and what its acknowledgements mean.
pub async fn version(State(app): State<App>) -> Response {
    let engine = app.queue.info();
    json::object(|object| {
        object.text("name", env!("CARGO_PKG_NAME"));
        object.text("version", env!("CARGO_PKG_VERSION"));
        object.text("engine", engine.engine);
        object.text("engine_version", &engine.version);
        object.text("durability", &engine.durability);
    })
}

/// The figures; those of jobs are at most a few seconds old.
pub async fn figures(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Err(error) = app.queue.refresh_metrics().await {
        // The page still shows everything else, and `linger_store_up` says that the store is away.
        tracing::debug!(%error, "the counts of jobs are missing from the figures");
    }
    let store = app.queue.info();
    app.metrics.describe_store(store.engine, &store.version, &store.durability);
    let (media_type, page) = if accept::prefers_open_metrics(&headers) {
        (Metrics::OPEN_METRICS, app.metrics.encode())
    } else {
        (Metrics::TEXT, app.metrics.encode_text())
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))], page).into_response()
}

/// The contract (media type: RFC 9512).
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"))], OPENAPI).into_response()
}
