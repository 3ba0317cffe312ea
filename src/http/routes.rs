//! Which handler answers which path and method, and the layers around them all.

use axum::{
    Router,
    handler::Handler,
    http::{HeaderValue, Uri, header},
    response::Response,
    routing::{MethodFilter, MethodRouter},
};
use tower::util::MapResponseLayer;

use super::{
    App,
    errors::Problem,
    handlers::{batch, dead, jobs, operations, pop, topics},
    middleware::Layers,
    paths,
};

/// The whole API.
pub(super) fn router(app: &App) -> Router {
    let no_route = Handler::<_, App>::layer(
        async |uri: Uri| Problem::no_route(uri.path()),
        Layers::new(app, paths::NO_ROUTE),
    );
    let paths = calls(app).into_iter().chain(pops(app)).chain(operations(app));
    paths.fold(Router::new(), Path::add_to).fallback(no_route).with_state(app.clone())
}

fn calls(app: &App) -> [Path; 16] {
    let at = |path| Path::new(app, path);
    [
        at(paths::JOBS).post(jobs::add),
        at(paths::JOB).get_and_head(jobs::get).patch(jobs::patch).delete(jobs::delete),
        at(paths::FINISH).post(jobs::finish),
        at(paths::RELEASE).post(jobs::release),
        at(paths::TOUCH).post(jobs::touch),
        at(paths::BURY).post(jobs::bury),
        at(paths::REQUEUE).post(jobs::requeue),
        at(paths::BATCH_JOBS).post(batch::add),
        at(paths::BATCH_FINISH).post(batch::finish),
        at(paths::BATCH_DELETE).post(batch::delete),
        at(paths::TOPICS).get_and_head(topics::list),
        at(paths::TOPIC).get_and_head(topics::get).put(topics::put).delete(topics::purge),
        at(paths::PAUSE).post(topics::pause),
        at(paths::RESUME).post(topics::resume),
        at(paths::DEAD).get_and_head(dead::list).delete(dead::delete),
        at(paths::DEAD_REQUEUE).post(dead::requeue),
    ]
}

/// axum answers `HEAD` by running the handler of `GET`, which would pop a job for nobody: so `HEAD` works only
/// where it is listed.
fn pops(app: &App) -> [Path; 2] {
    let at = |path| Path::new(app, path);
    [at(paths::POP).get(pop::one).post(pop::one_by_post), at(paths::BATCH_POP).post(pop::many)]
}

fn operations(app: &App) -> [Path; 5] {
    let at = |path| Path::new(app, path);
    [
        at(paths::LIVEZ).get_and_head(operations::live),
        at(paths::READYZ).get_and_head(operations::ready),
        at(paths::VERSION).get_and_head(operations::version),
        at(paths::METRICS).get_and_head(operations::figures),
        at(paths::OPENAPI).get_and_head(operations::openapi),
    ]
}

/// A path with the methods that it answers to, each handler within the layers; the others are refused.
struct Path {
    layers: Layers,
    pattern: &'static str,
    allow: Vec<&'static str>,
    methods: MethodRouter<App>,
}

/// Defines the methods of [`Path`] that take a handler.
macro_rules! answers_to {
    ($($name:ident $filter:ident [$($allow:literal),*],)*) => {
        $(fn $name<T: 'static>(self, handler: impl Handler<T, App>) -> Self {
            self.on(MethodFilter::$filter, &[$($allow),*], handler)
        })*
    };
}

impl Path {
    fn new(app: &App, pattern: &'static str) -> Self {
        let layers = Layers::new(app, pattern);
        Self { layers, pattern, allow: Vec::new(), methods: MethodRouter::new() }
    }

    answers_to! {
        get GET ["GET"],
        get_and_head GET ["GET", "HEAD"],
        post POST ["POST"],
        put PUT ["PUT"],
        patch PATCH ["PATCH"],
        delete DELETE ["DELETE"],
    }

    fn on<T: 'static>(
        mut self,
        filter: MethodFilter,
        allow: &[&'static str],
        handler: impl Handler<T, App>,
    ) -> Self {
        self.allow.extend_from_slice(allow);
        Self { methods: self.methods.on(filter, handler.layer(self.layers.clone())), ..self }
    }

    fn add_to(router: Router<App>, path: Self) -> Router<App> {
        let Self { layers, pattern, allow, methods } = path;
        let heads = allow.contains(&"HEAD");
        let allow = allow.join(", ");
        let header = HeaderValue::from_str(&allow).expect("methods are plain text");
        let refuse = move || {
            let problem = Problem::method_not_allowed(&allow);
            async move { problem }
        };
        // Whatever refuses such a call: axum would add the methods of its own table, which has a `HEAD` for each
        // path.
        let name_methods = MapResponseLayer::new(move |mut response: Response| {
            response.headers_mut().insert(header::ALLOW, header.clone());
            response
        });
        let refuse = Handler::<((),), App>::layer(refuse, layers);
        let refuse = Handler::<_, App>::layer(refuse, name_methods);
        let methods = methods.fallback(refuse.clone());
        router.route(pattern, if heads { methods } else { methods.on(MethodFilter::HEAD, refuse) })
    }
}
