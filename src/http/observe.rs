//! Around every request: its id, its line in the log, its figures, and the final form of its answer.
//!
//! Logs the route's pattern, never the address that was sent (its query may hold a receipt), and never a
//! body.

use std::{any::Any, time::Duration};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tower_http::request_id::{MakeRequestId, RequestId};
use tracing::Span;

use super::{App, pop::Waited, problem::Problem};

pub(super) const REQUEST_ID: &str = "x-request-id";
/// Longest request id taken from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;
/// The route of a request that none matches.
const NO_ROUTE: &str = "none";

/// Makes ids for requests that came without one: UUID version 7, ordered by time.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRequestId;

impl NewRequestId {
    /// An id as text.
    pub fn text() -> String {
        uuid::Uuid::now_v7().hyphenated().to_string()
    }
}

impl MakeRequestId for NewRequestId {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        HeaderValue::try_from(Self::text()).ok().map(RequestId::new)
    }
}

/// Layer: forgets a request id that is not fit to be echoed and logged, so that one is made.
pub(super) async fn check_request_id(mut request: Request) -> Request {
    let mut ids = request.headers().get_all(REQUEST_ID).iter();
    let fit = match (ids.next(), ids.next()) {
        (Some(id), None) => is_fit(id),
        (None, _) => true,
        (Some(_), Some(_)) => false,
    };
    if !fit {
        request.headers_mut().remove(REQUEST_ID);
    }
    request
}

fn is_fit(id: &HeaderValue) -> bool {
    let accepted = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(b);
    (1..=MAX_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(accepted)
}

/// The span that every line about a request carries.
pub(super) fn span(request: &Request) -> Span {
    tracing::info_span!(
        "request",
        request_id = request_id(request),
        method = method_of(request.method()),
        route = route_of(request),
        caller = tracing::field::Empty,
    )
}

fn request_id<B>(request: &axum::http::Request<B>) -> &str {
    let id = request.extensions().get::<RequestId>();
    id.and_then(|id| id.header_value().to_str().ok()).unwrap_or_default()
}

fn route_of(request: &Request) -> &str {
    request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str)
}

/// A label for the method; what is not of HTTP shares one.
fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Layer: counts the request and gives its answer the final form.
pub(super) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let _present = app.metrics.http.request();
    let began_us = app.clock.now_micros();
    let method = method_of(request.method());
    let route = super::router::ROUTES.iter().find(|route| **route == route_of(&request)).unwrap_or(&NO_ROUTE);
    let request_id = request_id(&request).to_owned();
    let response = finished(next.run(request).await, &request_id, &app);
    let took_us = app.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    let waited = response.extensions().get::<Waited>().map(|waited| waited.0);
    app.metrics.http.answered(
        route,
        method,
        response.status().as_u16(),
        Duration::from_micros(took_us),
        waited,
    );
    response
}

/// Renders a problem where there is one, and makes one where a layer refused without saying why.
fn finished(mut response: Response, request_id: &str, app: &App) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Problem>();
    if problem.is_none() && !status.is_client_error() && !status.is_server_error() {
        tracing::debug!(status = status.as_u16(), "answered");
        return response;
    }
    let problem = problem.unwrap_or_else(|| Problem::of_status(status, app.options.max_request_bytes));
    log(&problem);
    app.metrics.http.problem(problem.code());
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let (rendered, body) = problem.render(request_id).into_parts();
    parts.status = rendered.status;
    parts.headers.extend(rendered.headers);
    Response::from_parts(parts, body)
}

fn log(problem: &Problem) {
    let (status, code) = (problem.status().as_u16(), problem.code());
    if problem.status().is_server_error() {
        tracing::warn!(status, code, cause = problem.cause().unwrap_or_default(), "failed");
    } else {
        tracing::debug!(status, code, "refused");
    }
}

/// The answer to a request whose handler panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> axum::http::Response<Body> {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(message = message.unwrap_or("no message"), "a handler panicked");
    Problem::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_are_echoed() {
        let fit = |id: &str| is_fit(&HeaderValue::try_from(id).expect("a header value"));
        assert!(fit("checkout-7f3a"));
        assert!(fit("Root=1-67891233-abcdef012345678912345678"));
        assert!(fit(&"x".repeat(128)));
        for unfit in ["", &"x".repeat(129), "a b", "a\tb", "a\"b", "{}", "<script>"] {
            assert!(!fit(unfit), "{unfit:?}");
        }
        assert!(!is_fit(&HeaderValue::from_bytes(b"\xff").expect("opaque bytes")));
    }
}
