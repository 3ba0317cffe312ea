//! The API: the only place that knows routes and JSON. The rules are in `queue`, the connections in `net`.
//!
//! A handler extracts, makes one call into the queue and converts. The contract is `openapi.yaml`.

mod accept;
mod access;
mod app;
#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod browser;
mod errors;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod handlers;
mod json;
mod middleware;
mod options;
mod refusal_log;
mod route;
mod routes;
mod ui;
mod unknown_path;
mod wire;

#[cfg(any(test, fuzzing))]
pub(crate) use self::fuzzing::{fuzz_bodies, fuzz_headers, fuzz_query};
#[cfg(any(test, fuzzing))]
pub(crate) use self::handlers::operations::OPENAPI as CONTRACT;
pub use self::{app::App, middleware::too_many_connections, options::HttpOptions, routes::router};
