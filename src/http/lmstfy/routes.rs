//! The calls of the dialect by path and method.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    http::Response,
    routing::{MethodFilter, MethodRouter},
};

use super::{dialect::Lmstfy, handlers, queue_path::QueuePath};
use crate::{
    auth::Scope,
    config::LmstfySettings,
    http::{
        audit::QueueAuditor,
        dialect_app::DialectApp,
        edge::{self, AsyncHandler, Edge, Middleware, RequiredScope, RouteKind, RouteSpec},
        errors::Problem,
    },
    net::Http1,
    queue::Queue,
};

/// What is spoken on the connections of the dialect. Publishes its limit as a metric.
pub fn protocol(queue: &Arc<Queue>, edge: &Edge, settings: &LmstfySettings) -> Http1<Router> {
    edge.metrics.queue.set_limit("lmstfy_max_wait_seconds", settings.max_wait.as_secs());
    Http1::new(router(queue, edge, settings), too_many_connections)
}

/// The calls of the dialect.
pub fn router(queue: &Arc<Queue>, edge: &Edge, settings: &LmstfySettings) -> Router {
    let auditor = QueueAuditor::of_dialect(queue.clone(), |uri| QueuePath::parse(uri).topic().ok());
    let calls = Calls {
        app: DialectApp::new(queue.clone(), edge.clone(), settings.max_wait),
        dialect: Arc::new(Lmstfy),
        auditor: Arc::new(auditor),
    };
    let call = |path, scope| RouteSpec::new(path, RequiredScope::Of(scope));
    let large = |path| RouteSpec { large_body: true, ..call(path, Scope::Add) };
    let read = |path, scope| RouteSpec { kind: RouteKind::Read, ..call(path, scope) };
    let (get, put, delete) = (MethodFilter::GET, MethodFilter::PUT, MethodFilter::DELETE);

    let path = "/api/{namespace}/{queue}";
    let consume = RouteSpec { kind: RouteKind::Delivery, ..call(path, Scope::Work) };
    let queue = calls.path(path);
    let queue = calls.add(queue, put, large(path), handlers::publish);
    let queue = calls.add(queue, get, consume, handlers::consume);
    let queue = calls.add(queue, delete, call(path, Scope::Admin), handlers::destroy);
    let router = Router::new().route(path, queue);

    let path = "/api/{namespace}/{queue}/bulk";
    let router = router.route(path, calls.add(calls.path(path), put, large(path), handlers::publish_bulk));

    let path = "/api/{namespace}/{queue}/job/{job}";
    let job = calls.add(calls.path(path), put, large(path), handlers::publish);
    let job = calls.add(job, get, read(path, Scope::Work), handlers::job);
    // A worker acknowledges with it, and a producer cancels with it.
    let acknowledge = RouteSpec::new(path, RequiredScope::Any);
    let router = router.route(path, calls.add(job, delete, acknowledge, handlers::delete));

    let path = "/api/{namespace}/{queue}/peek";
    let router =
        router.route(path, calls.add(calls.path(path), get, read(path, Scope::Work), handlers::peek));
    let path = "/api/{namespace}/{queue}/size";
    let router =
        router.route(path, calls.add(calls.path(path), get, call(path, Scope::Work), handlers::size));

    let path = "/api/{namespace}/{queue}/deadletter";
    let dead = calls.add(calls.path(path), get, call(path, Scope::Admin), handlers::peek_dead);
    let dead = calls.add(dead, put, call(path, Scope::Admin), handlers::respawn);
    let router = router.route(path, calls.add(dead, delete, call(path, Scope::Admin), handlers::delete_dead));
    let path = "/api/{namespace}/{queue}/deadletter/size";
    let router =
        router.route(path, calls.add(calls.path(path), get, call(path, Scope::Work), handlers::dead_size));

    router.fallback_service(calls.unknown(RouteSpec::UNKNOWN))
}

/// Makes the services of the calls.
struct Calls {
    app: DialectApp,
    dialect: Arc<Lmstfy>,
    auditor: Arc<QueueAuditor>,
}

impl Calls {
    fn middleware(&self, spec: RouteSpec) -> Middleware {
        Middleware::new(&self.app.edge, self.dialect.clone(), spec).audited_by(self.auditor.clone())
    }

    /// A path that answers no method yet. `HEAD` is not answered where `GET` is.
    fn path(&self, path: &'static str) -> MethodRouter {
        let spec = RouteSpec::new(path, RequiredScope::Public);
        let unknown = || self.unknown(RouteSpec { kind: RouteKind::Unknown, has_handler: false, ..spec });
        MethodRouter::new().on_service(MethodFilter::HEAD, unknown()).fallback_service(unknown())
    }

    fn add<T: 'static>(
        &self,
        to: MethodRouter,
        method: MethodFilter,
        spec: RouteSpec,
        handler: impl AsyncHandler<T, DialectApp>,
    ) -> MethodRouter {
        to.on_service(method, self.middleware(spec).wrap(handler, self.app.clone()))
    }

    /// The answer to a path or a method that is not known. No token is asked for.
    fn unknown(
        &self,
        spec: RouteSpec,
    ) -> impl tower::Service<
        axum::extract::Request,
        Response = axum::response::Response,
        Error = std::convert::Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static {
        let spec = RouteSpec { required: RequiredScope::Public, ..spec };
        self.middleware(spec).wrap(async || Problem::no_route("api not found"), ())
    }
}

/// The response for a connection beyond the limit, whose request is not parsed.
fn too_many_connections() -> Response<Bytes> {
    edge::too_many_connections(&Lmstfy)
}
