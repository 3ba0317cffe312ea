//! The calls of the dialect by path, each for every method.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    http::Response,
    routing::{MethodRouter, any_service},
};

use super::{dialect::Ouqiang, handlers};
use crate::{
    auth::Scope,
    config::OuqiangSettings,
    http::{
        dialect_app::DialectApp,
        edge::{self, AsyncHandler, Edge, Middleware, RequiredScope, RouteKind, RouteSpec},
        errors::Problem,
    },
    net::Http1,
    queue::Queue,
};

/// What is spoken on the connections of the dialect. Publishes its limit as a metric.
pub fn protocol(queue: &Arc<Queue>, edge: &Edge, settings: &OuqiangSettings) -> Http1<Router> {
    edge.metrics.queue.set_limit("ouqiang_max_wait_seconds", settings.max_wait.as_secs());
    Http1::new(router(queue, edge, settings), too_many_connections)
}

/// The calls of the dialect.
pub fn router(queue: &Arc<Queue>, edge: &Edge, settings: &OuqiangSettings) -> Router {
    let app = DialectApp::new(queue.clone(), edge.clone(), settings.max_wait);
    let dialect = Arc::new(Ouqiang::new(settings.topics.clone()));
    let middleware = |spec| Middleware::new(edge, dialect.clone(), spec);
    // The caller may use all calls, so that the scopes are for the reader.
    let call = |path, scope| RouteSpec::new(path, RequiredScope::Of(scope));
    let change = |path, scope| RouteSpec { kind: RouteKind::Change, ..call(path, scope) };
    let push = RouteSpec { large_body: true, ..change("/push", Scope::Add) };
    let pop = RouteSpec { kind: RouteKind::Delivery, ..call("/pop", Scope::Work) };
    let get = RouteSpec { kind: RouteKind::Read, ..call("/get", Scope::Read) };
    Router::new()
        .route(push.path, any(middleware(push), handlers::push, &app))
        .route(pop.path, any(middleware(pop), handlers::pop, &app))
        .route("/finish", any(middleware(change("/finish", Scope::Work)), handlers::finish, &app))
        .route("/delete", any(middleware(change("/delete", Scope::Add)), handlers::delete, &app))
        .route(get.path, any(middleware(get), handlers::get, &app))
        .fallback_service(middleware(RouteSpec::UNKNOWN).wrap(async || Problem::no_route("no such call"), ()))
}

/// The handler for every method.
fn any<T: 'static>(
    middleware: Middleware,
    handler: impl AsyncHandler<T, DialectApp>,
    app: &DialectApp,
) -> MethodRouter {
    any_service(middleware.wrap(handler, app.clone()))
}

/// The response for a connection beyond the limit, whose request is not parsed.
fn too_many_connections() -> Response<Bytes> {
    edge::too_many_connections(&Ouqiang::default())
}
