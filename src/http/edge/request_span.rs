//! The span of a request: its id, its log line, its metrics, and the final form of its response.
//!
//! Logs the route's pattern, never the target that was sent, since its query may contain a receipt, and never a body.

use std::{any::Any, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use tracing::{Instrument, Span, field::display};

use super::{context::RouteContext, dialect::Dialect, refusal_log, route::RouteSpec};
use crate::{http::errors::Problem, metrics::GaugeGuard, net::ConnectedClient};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is accepted from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// Identifies a request to the client and in the log.
#[derive(Debug, Clone)]
struct RequestId(HeaderValue);

impl RequestId {
    /// The id in the request's header if it is safe to echo and log, or else a new one.
    fn from_headers(headers: &HeaderMap) -> Self {
        let mut ids = headers.get_all(REQUEST_ID).iter();
        match (ids.next(), ids.next()) {
            (Some(id), None) if is_safe(id) => Self(id.clone()),
            _ => Self::new(),
        }
    }

    /// A UUID of version 7, so that ids sort by time.
    fn new() -> Self {
        let mut text = uuid::Uuid::encode_buffer();
        let text: &str = uuid::Uuid::now_v7().hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).expect("a UUID is plain text"))
    }

    fn as_str(&self) -> &str {
        self.0.to_str().expect("an id is plain text")
    }
}

fn is_safe(id: &HeaderValue) -> bool {
    let accepted = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(b);
    (1..=MAX_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(accepted)
}

/// The method as a metric's label. All methods that HTTP does not define share one.
fn method_label(method: &Method) -> &'static str {
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

/// How long a poll waited in the queue, for the metrics. Travels with the response.
#[derive(Debug, Clone, Copy)]
pub struct PollWait(pub Duration);

/// Marks a response that refuses nothing, although its status is an error's. In a dialect, 404 may mean that no job is ready.
#[derive(Debug, Clone, Copy)]
pub struct NotARefusal;

/// The caller's name, for the log. Travels with a response.
#[derive(Debug, Clone)]
pub struct CallerName(pub Arc<str>);

/// A request from its arrival to its response.
pub struct RequestSpan<'a> {
    context: &'a RouteContext,
    method: &'static str,
    id: RequestId,
    began_us: i64,
    /// The client's address.
    address: Option<IpAddr>,
    /// Counts the request as in flight until it is dropped.
    _in_flight: GaugeGuard,
}

impl<'a> RequestSpan<'a> {
    pub fn new(context: &'a RouteContext, request: &Request) -> Self {
        Self {
            method: method_label(request.method()),
            id: RequestId::from_headers(request.headers()),
            began_us: context.edge.clock.now_micros(),
            address: ConnectedClient::of_request(request).map(|client| client.address),
            _in_flight: context.edge.metrics.http.request(),
            context,
        }
    }

    /// Waits for `response`, renders and logs it if it is an error, and counts it.
    pub async fn run(&self, response: Pin<&mut impl Future<Output = Response>>) -> Response {
        let span = self.tracing_span();
        let finished = async { self.finish(response.await) };
        let finished = if span.is_disabled() { finished.await } else { finished.instrument(span).await };
        let (mut response, status) = finished;
        let RouteContext { edge, route, .. } = self.context;
        let took_us = edge.clock.now_micros().saturating_sub(self.began_us).unsigned_abs();
        let waited = response.extensions().get::<PollWait>().map(|wait| wait.0);
        let took = Duration::from_micros(took_us);
        edge.metrics.http.answered(route.path, self.method, status.as_u16(), took, waited);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.id.0.clone());
        add_security_headers(headers);
        response
    }

    /// The span of lines that are logged during the request. Only at the debug level: it costs more than the request's
    /// own lines, which carry the same fields.
    fn tracing_span(&self) -> Span {
        tracing::debug_span!(
            "request",
            request_id = self.id.as_str(),
            method = self.method,
            route = self.context.route.path,
            caller = tracing::field::Empty,
        )
    }

    /// Renders the response's problem. Makes one if axum refused the request with a status alone. Returns also the status that
    /// counts: in a dialect that answers failures with 200, that of the problem.
    fn finish(&self, mut response: Response) -> (Response, StatusCode) {
        let status = response.status();
        let problem = response.extensions_mut().remove::<Problem>();
        let is_answer = response.extensions().get::<NotARefusal>().is_some();
        if problem.is_none() && (is_answer || !status.is_client_error() && !status.is_server_error()) {
            tracing::debug!(status = status.as_u16(), "answered");
            return (response, status);
        }
        let problem = problem.unwrap_or_else(|| Problem::from_status(status));
        self.log(&problem, response.extensions().get::<CallerName>());
        self.context.edge.metrics.http.problem(problem.code());
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::CONTENT_TYPE);
        let (rendered, body) = self.context.dialect.render(&problem, self.id.as_str()).into_parts();
        parts.status = rendered.status;
        parts.headers.extend(rendered.headers);
        problem.add_headers(&mut parts.headers);
        let counted = if parts.status.is_success() { problem.status() } else { parts.status };
        (Response::from_parts(parts, Body::from(body)), counted)
    }

    fn log(&self, problem: &Problem, caller: Option<&CallerName>) {
        let (status, code) = (problem.status().as_u16(), problem.code());
        let (request_id, cause) = (self.id.as_str(), problem.cause());
        let RouteContext { edge, route: RouteSpec { path: route, .. }, .. } = self.context;
        let (method, address) = (self.method, self.address.map(display));
        let caller = caller.map(|caller| &*caller.0).filter(|name| !name.is_empty());
        if refusal_log::is_expected(code) {
            tracing::debug!(status, code, cause, "refused");
            if let Some(left_out) = edge.refusal_log.admit(code, edge.clock.now_micros()) {
                tracing::warn!(
                    request_id,
                    method,
                    route,
                    caller,
                    address,
                    status,
                    code,
                    cause,
                    left_out,
                    "refused; left_out counts refusals with this code since its last line"
                );
            }
        } else if problem.status().is_server_error() {
            tracing::warn!(request_id, method, route, caller, address, status, code, cause, "failed");
        } else {
            tracing::debug!(status, code, "refused");
        }
    }
}

/// Adds the headers of every response: no cache may store it, unless its handler says otherwise, since most responses show
/// jobs or receipts, and no browser may interpret it as another type.
fn add_security_headers(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The response for a connection beyond the limit, whose request is not parsed.
pub fn too_many_connections(dialect: &dyn Dialect) -> axum::http::Response<Bytes> {
    let problem = Problem::too_many_connections();
    let id = RequestId::new();
    let mut response = dialect.render(&problem, id.as_str());
    problem.add_headers(response.headers_mut());
    response.headers_mut().insert(REQUEST_ID, id.0);
    add_security_headers(response.headers_mut());
    response.map(Bytes::from)
}

/// The response to a request whose handler panicked.
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // Logged with the request's id when the response is rendered.
    Problem::panicked(message.unwrap_or("no message")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_are_echoed() {
        let safe = |id: &str| is_safe(&HeaderValue::try_from(id).expect("a header value"));
        assert!(safe("checkout-7f3a"));
        assert!(safe("Root=1-67891233-abcdef012345678912345678"));
        assert!(safe(&"x".repeat(128)));
        for unsafe_id in ["", &"x".repeat(129), "a b", "a\tb", "a\"b", "{}", "<script>"] {
            assert!(!safe(unsafe_id), "{unsafe_id:?}");
        }
        assert!(!is_safe(&HeaderValue::from_bytes(b"\xff").expect("opaque bytes")));
    }
}
