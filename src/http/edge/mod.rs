//! The edge: what every request passes, whatever its dialect. Knows no handler, does not call the queue, and parses no body.
//!
//! Around each handler is the [`Middleware`]. The request span (`request_span.rs`) gives the request its id, log line and
//! metrics, and has the [`Dialect`] render problems. The guard (`middleware.rs`) checks the web page (`browser.rs`), has the
//! dialect say who calls, and reads the body within limits of size, time and memory (`request_body.rs`). Responses that clients
//! have not read are charged to a budget (`response_budget.rs`), and those that a client has already are not sent
//! again (`http/entity_tag.rs`). Calls that people may ask about later go through an [`Auditor`] (`audit.rs`). Refusals that any client can cause are logged at most once a
//! second for each code (`refusal_log.rs`).
//!
//! All dialects of a server share one [`Edge`], so that its limits and budgets hold for all of them together.

mod audit;
mod browser;
mod context;
mod dialect;
mod middleware;
mod options;
mod refusal_log;
pub mod request_body;
mod request_span;
pub mod response_budget;
mod route;
mod state;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub use self::browser::check as check_browser;
pub use self::{
    audit::{AuditedRequest, Auditor},
    dialect::Dialect,
    middleware::{AsyncHandler, Middleware},
    options::{HttpOptions, MAX_SMALL_REQUEST_BYTES, MIN_BODY_RATE},
    request_span::{NotARefusal, PollWait, too_many_connections},
    route::{RequiredScope, RouteKind, RouteSpec},
    state::Edge,
};
