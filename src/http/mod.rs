//! The API: the only place that knows routes and JSON. The rules are in `queue`, the connections in `net`.
//!
//! A handler extracts, makes one call into the queue and converts. The contract is `openapi.yaml`, which is written
//! by hand and enforced: the test harness validates every response of the API tests against it, and fails on an
//! operation that was never exercised.
//!
//! # A request
//!
//! `routes.rs` holds one line per operation (method, path, scope, handler) and chooses the handler. Around each
//! handler is the edge (`edge/mod.rs`), which logs and counts the request, lets it pass or refuses it, and reads its body. It
//! knows nothing of our own API: how a token is sent and what an error looks like is a dialect (`native.rs`, `access.rs`).
//! `wire/requests.rs` then reads the JSON field by field, so that one response
//! names all faults. The job's body stays the exact bytes that were sent.
//!
//! `delivery_body.rs` accepts a delivery when hyper takes the response's bytes. If unread responses already exceed
//! the budget, the response becomes a `503` and the jobs are returned.
//!
//! # Who may call
//!
//! `auth` knows tokens, scopes and topics, and no HTTP. The route table gives every operation its scope, and a
//! route without one does not compile; a test compares the table with `x-scope` in `openapi.yaml`. `access.rs`
//! checks the scope before the handler runs. A topic in the path is checked by its extractor, one in a body by the
//! handler. Steps by job id take the caller's topics (`TopicFilter`) down to the engine, which checks them inside
//! the step: there is no read before it, and no moment in between. Both engines answer as if there were no such
//! job.

mod accept;
mod access;
mod app;
mod audit;
#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod delivery_body;
mod dialect_app;
mod edge;
mod entity_tag;
mod errors;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod handlers;
mod json;
mod json_body;
pub mod lmstfy;
mod native;
pub mod ouqiang;
mod routes;
mod ui;
mod unknown_path;
mod wire;

#[cfg(any(test, fuzzing))]
pub(crate) use self::fuzzing::{fuzz_bodies, fuzz_headers, fuzz_query};
#[cfg(any(test, fuzzing))]
pub(crate) use self::handlers::operations::OPENAPI as CONTRACT;
pub use self::{
    app::App,
    edge::{Edge, HttpOptions},
    routes::{protocol, router},
    wire::schedules::read_template,
};
