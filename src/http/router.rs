//! Which handler answers which path and method, and the layers around them all.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    App,
    access::{self, CallerName},
    answers::{self, Hold},
    batch, browser, dead, jobs, observe, operations, paths, payload, pop,
    problem::Problem,
    topics,
};
use crate::auth::Caller;

/// Every route's pattern, for the figures.
pub(super) const ROUTES: [&str; 23] = [
    paths::JOBS,
    paths::JOB,
    paths::FINISH,
    paths::RELEASE,
    paths::TOUCH,
    paths::BURY,
    paths::REQUEUE,
    paths::BATCH_JOBS,
    paths::BATCH_POP,
    paths::BATCH_FINISH,
    paths::BATCH_DELETE,
    paths::TOPICS,
    paths::TOPIC,
    paths::POP,
    paths::PAUSE,
    paths::RESUME,
    paths::DEAD,
    paths::DEAD_REQUEUE,
    paths::LIVEZ,
    paths::READYZ,
    paths::VERSION,
    paths::METRICS,
    paths::OPENAPI,
];

/// The whole API.
pub(super) fn router(app: &App) -> Router {
    // One stack for them all: each layer given to a Router by itself is boxed, and copied for every request
    // together with all that are below it.
    let layers = ServiceBuilder::new()
        .layer(from_fn_with_state(app.clone(), observe::observe))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn_with_state(app.clone(), pass));
    let routes = calls().merge(pops()).merge(operations()).fallback(async || Problem::no_route());
    routes.layer(layers).with_state(app.clone())
}

fn calls() -> Router<App> {
    Router::new()
        .route(paths::JOBS, only("POST", post(jobs::add)))
        .route(
            paths::JOB,
            only("GET, HEAD, PATCH, DELETE", get(jobs::get).patch(jobs::patch).delete(jobs::delete)),
        )
        .route(paths::FINISH, only("POST", post(jobs::finish)))
        .route(paths::RELEASE, only("POST", post(jobs::release)))
        .route(paths::TOUCH, only("POST", post(jobs::touch)))
        .route(paths::BURY, only("POST", post(jobs::bury)))
        .route(paths::REQUEUE, only("POST", post(jobs::requeue)))
        .route(paths::BATCH_JOBS, only("POST", post(batch::add)))
        .route(paths::BATCH_FINISH, only("POST", post(batch::finish)))
        .route(paths::BATCH_DELETE, only("POST", post(batch::delete)))
        .route(paths::TOPICS, only("GET, HEAD", get(topics::list)))
        .route(
            paths::TOPIC,
            only("GET, HEAD, PUT, DELETE", get(topics::get).put(topics::put).delete(topics::purge)),
        )
        .route(paths::PAUSE, only("POST", post(topics::pause)))
        .route(paths::RESUME, only("POST", post(topics::resume)))
        .route(paths::DEAD, only("GET, HEAD, DELETE", get(dead::list).delete(dead::delete)))
        .route(paths::DEAD_REQUEUE, only("POST", post(dead::requeue)))
}

fn operations() -> Router<App> {
    Router::new()
        .route(paths::LIVEZ, only("GET, HEAD", get(operations::live)))
        .route(paths::READYZ, only("GET, HEAD", get(operations::ready)))
        .route(paths::VERSION, only("GET, HEAD", get(operations::version)))
        .route(paths::METRICS, only("GET, HEAD", get(operations::figures)))
        .route(paths::OPENAPI, only("GET, HEAD", get(operations::openapi)))
}

fn pops() -> Router<App> {
    Router::new()
        .route(paths::POP, only("GET, POST", get(pop::one).post(pop::one_by_post)))
        .route(paths::BATCH_POP, only("POST", post(pop::many)))
}

/// A path that answers to the methods in `allow` and refuses the others. axum answers `HEAD` by running
/// the handler of `GET`, which would pop a job for nobody: so `HEAD` works only where it is listed.
fn only(allow: &'static str, methods: MethodRouter<App>) -> MethodRouter<App> {
    let refuse = async move || Problem::method_not_allowed(allow);
    let methods = methods.fallback(refuse);
    if allow.contains("HEAD") { methods } else { methods.head(refuse) }
}

/// Layer: what every request passes on its way to its handler, and its answer on the way back.
async fn pass(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let hold = Hold::of(&request);
    let admitted = admit(&app, &mut request);
    let caller = request.extensions().get::<Caller>().map(|caller| CallerName(caller.name.clone()));
    let answer = match admitted {
        Ok(()) => handled(&app, request, next).await,
        Err(problem) => problem.into_response(),
    };
    let mut answer = answers::on_the_way(&app, hold, answer);
    if let Some(caller) = caller.filter(|_| answer.status().is_server_error()) {
        answer.extensions_mut().insert(caller);
    }
    answer
}

/// Whether whoever sent the request may, and who it is.
fn admit(app: &App, request: &mut Request) -> Result<(), Problem> {
    browser::check(request, &app.options)?;
    access::check(&app.gate, request)
}

/// What the handler answers, once it has the body, whose room is kept as long.
async fn handled(app: &App, request: Request, next: Next) -> Response {
    match payload::read(app, request).await {
        Ok((request, _room)) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_figures_know_every_path_of_the_contract() {
        let documented: BTreeSet<_> = operations::OPENAPI
            .lines()
            .filter_map(|line| line.strip_prefix("  /")?.strip_suffix(':'))
            .collect();
        let known: BTreeSet<_> = ROUTES.iter().map(|route| &route[1..]).collect();
        assert_eq!(known, documented);
        assert_eq!(known.len(), ROUTES.len(), "each once");
    }
}
