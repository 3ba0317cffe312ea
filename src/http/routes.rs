//! The route table: each operation's method, path, scope and handler in one line, and the router made from it.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderValue, Method, Uri, header},
    response::Response,
    routing::{MethodFilter, MethodRouter},
};
use tower::{Layer, util::MapResponseLayer};
use tower_http::{
    CompressionLevel,
    compression::{CompressionLayer, predicate::SizeAbove},
};

use super::{
    app::App,
    edge::{
        AsyncHandler, Middleware,
        RequiredScope::{self, AllTopics, Any, Of, Public},
        RouteKind, RouteSpec,
    },
    errors::Problem,
    handlers::{
        activity, audit, batch, bulk, dead, jobs, lists, operations, pop, schedules, secrets, timeline,
        topics,
    },
    native::{Native, too_many_connections},
    ui, unknown_path,
};
use crate::{
    auth::Scope::{Add, Admin, Read, Work},
    net::Http1,
};

/// Every operation of the API. `openapi.yaml` documents the scopes as `x-scope` and `x-topics`; a test compares them.
fn table() -> [Route; 60] {
    [
        post("/jobs", Of(Add), jobs::add).with_large_body(),
        get("/jobs", Of(Read), lists::jobs).compressed().tagged(),
        get("/jobs/{id}", Of(Read), jobs::get).tagged(),
        patch("/jobs/{id}", Of(Add), jobs::patch).with_large_body(),
        delete("/jobs/{id}", Of(Add), jobs::delete),
        post("/jobs/{id}/finish", Of(Work), jobs::finish),
        post("/jobs/{id}/release", Of(Work), jobs::release),
        post("/jobs/{id}/touch", Of(Work), jobs::touch),
        post("/jobs/{id}/bury", Of(Work), jobs::bury),
        post("/jobs/{id}/revoke", Of(Admin), jobs::revoke),
        post("/jobs/{id}/requeue", Of(Admin), jobs::requeue),
        post("/batch/jobs", Of(Add), batch::add).with_large_body(),
        post("/batch/pop", Of(Work), pop::many).of_kind(RouteKind::Delivery),
        post("/batch/finish", Of(Work), batch::finish).with_large_body(),
        post("/batch/release", Of(Work), batch::release).with_large_body(),
        post("/batch/touch", Of(Work), batch::touch).with_large_body(),
        post("/batch/bury", Of(Work), batch::bury).with_large_body(),
        post("/batch/delete", Of(Add), batch::delete).with_large_body(),
        post("/bulk", Of(Admin), bulk::start),
        get("/bulk", Of(Read), bulk::list).compressed().tagged(),
        get("/bulk/{id}", Of(Read), bulk::get).tagged(),
        post("/bulk/{id}/stop", Of(Admin), bulk::stop),
        get("/schedules", Of(Read), schedules::list).compressed().tagged(),
        get("/schedules/{name}", Of(Read), schedules::get),
        put("/schedules/{name}", Of(Admin), schedules::put).with_large_body(),
        delete("/schedules/{name}", Of(Admin), schedules::delete),
        get("/schedules/{name}/next", Of(Read), schedules::next),
        post("/schedules/{name}/pause", Of(Admin), schedules::pause),
        post("/schedules/{name}/resume", Of(Admin), schedules::resume),
        post("/schedules/{name}/run", Of(Admin), schedules::run),
        get("/timeline", Of(Read), timeline::get).compressed(),
        get("/stats", AllTopics(Read), timeline::stats).compressed(),
        get("/topics", Of(Read), topics::list).compressed().tagged(),
        get("/topics/{topic}", Of(Read), topics::get).compressed().tagged(),
        put("/topics/{topic}", Of(Admin), topics::put),
        delete("/topics/{topic}", Of(Admin), topics::purge),
        get("/topics/{topic}/callbacks", Of(Read), activity::callbacks_of_topic).tagged(),
        post("/topics/{topic}/callbacks/call", Of(Admin), activity::call_now),
        get("/topics/{topic}/pop", Of(Work), pop::single).of_kind(RouteKind::Delivery),
        post("/topics/{topic}/pop", Of(Work), pop::single_by_post).of_kind(RouteKind::Delivery),
        post("/topics/{topic}/pause", Of(Admin), topics::pause),
        post("/topics/{topic}/resume", Of(Admin), topics::resume),
        post("/topics/{topic}/secrets", Of(Admin), secrets::add),
        get("/topics/{topic}/secrets", Of(Admin), secrets::list),
        delete("/topics/{topic}/secrets/{id}", Of(Admin), secrets::delete),
        get("/topics/{topic}/dead", Of(Read), dead::list).compressed().tagged(),
        delete("/topics/{topic}/dead", Of(Admin), dead::delete),
        get("/topics/{topic}/dead/reasons", Of(Read), lists::dead_reasons).compressed().tagged(),
        post("/topics/{topic}/dead/requeue", Of(Admin), dead::requeue),
        get("/dead/reasons", AllTopics(Read), lists::all_dead_reasons).compressed().tagged(),
        get("/workers", Of(Read), activity::workers).compressed().tagged(),
        get("/callbacks", Of(Read), activity::callbacks).compressed().tagged(),
        get("/audit", Of(Admin), audit::list).compressed().tagged(),
        get("/whoami", Any, operations::whoami).of_kind(RouteKind::Page),
        get("/livez", Public, operations::live).of_kind(RouteKind::Probe),
        get("/readyz", Public, operations::ready).of_kind(RouteKind::Probe),
        get("/version", Of(Read), operations::version).of_kind(RouteKind::Page),
        get("/metrics", AllTopics(Read), operations::metrics).of_kind(RouteKind::Metrics).compressed(),
        get("/openapi.yaml", Of(Read), operations::openapi).of_kind(RouteKind::Page).compressed(),
        get("/openapi.json", Of(Read), operations::openapi_json).of_kind(RouteKind::Page).compressed(),
    ]
}

/// The dashboard. It is not part of the API, and `openapi.yaml` does not describe it.
fn dashboard() -> [Route; 4] {
    [
        get("/", Public, ui::root).of_kind(RouteKind::Page),
        get("/ui", Public, ui::redirect).of_kind(RouteKind::Page),
        get("/ui/", Public, ui::index).of_kind(RouteKind::Page).compressed(),
        get("/ui/{*file}", Public, ui::file).of_kind(RouteKind::Page).compressed(),
    ]
}

/// What is spoken on the connections of our own API.
pub fn protocol(app: &App) -> Http1<Router> {
    Http1::new(router(app), too_many_connections)
}

/// The whole API, and the dashboard.
pub fn router(app: &App) -> Router {
    let mut paths: Vec<PathRoutes> = Vec::new();
    for route in table().into_iter().chain(dashboard()) {
        match paths.iter_mut().find(|path| path.spec.path == route.spec.path) {
            Some(path) => path.add(route),
            None => paths.push(PathRoutes::new(app, route)),
        }
    }
    let has_dashboard = app.ui.enabled;
    let refuse = async move |uri: Uri| Problem::no_route(unknown_path::detail(uri.path(), has_dashboard));
    let no_route = middleware(app, RouteSpec::UNKNOWN).wrap(refuse, app.clone());
    let router = paths.into_iter().fold(Router::new(), |router, path| path.add_to(router));
    router.fallback_service(no_route)
}

fn middleware(app: &App, route: RouteSpec) -> Middleware {
    Middleware::new(&app.edge, Arc::new(Native), route).audited_by(app.auditor.clone())
}

/// One line of the table.
struct Route {
    method: Method,
    spec: RouteSpec,
    is_compressed: bool,
    /// Adds the handler, inside the middleware, to the methods of a path. Last, whether its answers are compressed.
    add_handler: Box<dyn FnOnce(MethodRouter, Middleware, App, bool) -> MethodRouter>,
}

/// Compresses answers of over 1 KiB for clients that accept it. Fast: a viewer reads the lists every two seconds. None of these
/// answers has a receipt, a token or a signing secret, which could be guessed from its length beside text that others choose.
fn compression() -> CompressionLayer<SizeAbove> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(1_024))
}

/// Says that the form of an answer depends on what the client accepts: also of a short one, and of a 304, which must have the same
/// header as the whole answer (RFC 9110, 15.4.5).
fn varying<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(header::VARY, HeaderValue::from_name(header::ACCEPT_ENCODING));
    response
}

/// Defines one function per method, each of which makes a [`Route`] from a path, a scope and a handler.
macro_rules! methods {
    ($($name:ident $method:ident,)*) => {
        $(fn $name<T: 'static>(
            path: &'static str,
            required: RequiredScope,
            handler: impl AsyncHandler<T, App>,
        ) -> Route {
            Route {
                method: Method::$method,
                spec: RouteSpec::new(path, required),
                is_compressed: false,
                add_handler: Box::new(|methods, middleware, app, is_compressed| {
                    let service = middleware.wrap(handler, app);
                    match is_compressed {
                        true => {
                            let service = MapResponseLayer::new(varying).layer(compression().layer(service));
                            methods.on_service(MethodFilter::$method, service)
                        }
                        false => methods.on_service(MethodFilter::$method, service),
                    }
                }),
            }
        })*
    };
}

methods! {
    get GET,
    post POST,
    put PUT,
    patch PATCH,
    delete DELETE,
}

impl Route {
    fn of_kind(mut self, kind: RouteKind) -> Self {
        self.spec.kind = kind;
        self
    }

    /// Long answers are compressed for clients that accept it.
    fn compressed(mut self) -> Self {
        self.is_compressed = true;
        self
    }

    /// A client that has the answer already is not sent it again.
    fn tagged(mut self) -> Self {
        self.spec.is_tagged = true;
        self
    }

    fn with_large_body(mut self) -> Self {
        self.spec.large_body = true;
        self
    }

    /// The methods that this route answers. axum routes `HEAD` to the handler of `GET`; for a pop that would reserve a
    /// job and discard it.
    fn allowed_methods(&self) -> &'static [&'static str] {
        match self.method.as_str() {
            "GET" if self.spec.kind != RouteKind::Delivery => &["GET", "HEAD"],
            "GET" => &["GET"],
            "POST" => &["POST"],
            "PUT" => &["PUT"],
            "PATCH" => &["PATCH"],
            _ => &["DELETE"],
        }
    }
}

/// The routes of one path. Other methods are refused.
struct PathRoutes {
    app: App,
    /// For requests with other methods.
    spec: RouteSpec,
    allowed: Vec<&'static str>,
    methods: MethodRouter,
}

impl PathRoutes {
    fn new(app: &App, first: Route) -> Self {
        let spec = first.spec.without_method();
        let mut path = Self { app: app.clone(), spec, allowed: Vec::new(), methods: MethodRouter::new() };
        path.add(first);
        path
    }

    fn add(&mut self, route: Route) {
        self.allowed.extend_from_slice(route.allowed_methods());
        self.spec.large_body |= route.spec.large_body;
        let methods = std::mem::take(&mut self.methods);
        let middleware = middleware(&self.app, route.spec);
        self.methods = (route.add_handler)(methods, middleware, self.app.clone(), route.is_compressed);
    }

    fn add_to(self, router: Router) -> Router {
        let allows_head = self.allowed.contains(&"HEAD");
        let allowed = self.allowed.join(", ");
        let header = HeaderValue::from_str(&allowed).expect("method names are plain text");
        let hint = unknown_path::method_hint(self.spec.path);
        let refuse = move || {
            let problem = Problem::method_not_allowed(&allowed, hint);
            async move { problem }
        };
        // Set here for every refusal: axum would add the methods of its own table, which has `HEAD` for each path.
        let set_allow = MapResponseLayer::new(move |mut response: Response| {
            response.headers_mut().insert(header::ALLOW, header.clone());
            response
        });
        let refuse = set_allow.layer(middleware(&self.app, self.spec).wrap(refuse, self.app.clone()));
        let methods = self.methods.fallback_service(refuse.clone());
        let methods = if allows_head { methods } else { methods.on_service(MethodFilter::HEAD, refuse) };
        router.route(self.spec.path, methods)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::http::handlers::operations::OPENAPI;

    /// Method, path, `x-scope` and whether `x-topics` is `all`.
    type RouteFacts = (String, String, Option<String>, bool);

    fn facts(route: &Route) -> RouteFacts {
        let (scope, all_topics) = match route.spec.required {
            Public => (None, false),
            Any => (Some("any"), false),
            Of(scope) => (Some(scope.as_str()), false),
            AllTopics(scope) => (Some(scope.as_str()), true),
        };
        let scope = scope.map(str::to_owned);
        (route.method.to_string(), route.spec.path.to_owned(), scope, all_topics)
    }

    fn documented() -> BTreeSet<RouteFacts> {
        let contract: Value = serde_saphyr::from_str(OPENAPI).expect("openapi.yaml is YAML");
        let mut lines = BTreeSet::new();
        for (path, item) in contract["paths"].as_object().expect("has paths") {
            for (method, operation) in item.as_object().expect("a path item") {
                if operation["operationId"].is_string() {
                    let scope = operation["x-scope"].as_str().map(str::to_owned);
                    let all_topics = operation["x-topics"] == "all";
                    lines.insert((method.to_uppercase(), path.clone(), scope, all_topics));
                }
            }
        }
        lines
    }

    /// Of each group of wrong paths, with what the error must say.
    #[test]
    fn the_error_for_an_unknown_path_names_routes_that_exist() {
        for (path, expected) in [
            ("/", "the dashboard is at /ui/, the contract at /openapi.yaml"),
            ("/dashboard", "/ui/"),
            ("/healthz", "/livez and /readyz"),
            ("/ready", "/readyz"),
            ("/docs", "/openapi.json"),
            ("/info", "/version"),
            ("/api/v1/jobs", "/jobs and /topics"),
            ("/enqueue", "POST /jobs"),
            ("/pop", "POST /batch/pop"),
            ("/dlq", "/topics/{topic}/dead"),
            ("/batch/ack", "/batch/finish"),
            ("/queues/mail", "/topics/{topic}"),
            ("/job/a", "/jobs/{id}"),
            ("/JOBS", "lower case"),
            ("/topics/x/jobs", "GET /jobs?topic="),
            ("/topics/x/publish", "POST /jobs"),
            ("/topics/x/next", "POST /topics/{topic}/pop"),
            ("/topics/x/stats", "GET /topics/{topic}"),
            ("/topics/x/settings", "PUT /topics/{topic}"),
            ("/topics/x/purge", "DELETE /topics/{topic}?confirm="),
            ("/topics/x/stop", "POST /topics/{topic}/pause"),
            ("/topics/x/start", "POST /topics/{topic}/resume"),
            ("/topics/x/failed", "/topics/{topic}/dead"),
            ("/jobs/a/ack", "POST /jobs/{id}/finish"),
            ("/jobs/a/nack", "POST /jobs/{id}/release"),
            ("/jobs/a/heartbeat", "POST /jobs/{id}/touch"),
            ("/jobs/a/kill", "POST /jobs/{id}/bury"),
            ("/jobs/a/kick", "POST /jobs/{id}/requeue"),
            ("/jobs/a/cancel", "DELETE /jobs/{id}"),
            ("/jobs/a/snooze", "PATCH /jobs/{id}"),
            ("/jobs/a/history", "GET /jobs/{id}"),
            ("/schedule", "/schedules/{name}"),
            ("/crons/a", "/schedules/{name}"),
            ("/schedules/a/trigger", "POST /schedules/{name}/run"),
            ("/nowhere", "see /openapi.yaml"),
            ("/jobs/", "without the slash at its end"),
            ("/jobs//finish", "single slashes"),
        ] {
            let detail = unknown_path::detail(path, true);
            assert!(detail.contains(expected), "{path}: {detail}");
            assert_names_routes(&detail);
            let hint_of_dashboard = unknown_path::detail(path, false).contains("/ui/");
            assert!(!hint_of_dashboard, "{path} names a dashboard that is off");
        }
        assert_names_routes(unknown_path::method_hint("/topics"));
        assert_names_routes(unknown_path::method_hint("/schedules"));
        assert_eq!(unknown_path::method_hint("/jobs"), "");
    }

    /// Asserts that each path in a text is one of a route, which answers the method before it.
    fn assert_names_routes(text: &str) {
        let routes: Vec<Route> = table().into_iter().chain(dashboard()).collect();
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        for (at, path) in words.iter().enumerate().filter(|(_, word)| word.starts_with('/')) {
            let path = path.split('?').next().expect("has a first part");
            let method = words[at.saturating_sub(1)];
            let is_method = method.bytes().all(|letter| letter.is_ascii_uppercase());
            let found = routes
                .iter()
                .any(|route| route.spec.path == path && (!is_method || route.method.as_str() == method));
            assert!(found, "{method} {path} in: {text}");
        }
    }

    #[test]
    fn the_contract_documents_every_route_with_its_scope() {
        assert_eq!(table().iter().map(facts).collect::<BTreeSet<_>>(), documented());
    }
}
