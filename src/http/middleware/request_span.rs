//! Around every request: its id, its line in the log, its figures, and the final form of its answer.
//!
//! Logs the route's pattern, never the address that was sent (its query may hold a receipt), and never a
//! body.

use std::{any::Any, net::IpAddr, time::Duration};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    response::{IntoResponse, Response},
};
use tracing::{Instrument, Span, field::display};

use super::refusal_log;
use crate::http::{App, access::CallerName, client::Client, errors::Problem};
use crate::metrics::Present;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id taken from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// Names a request to the client and in the log.
#[derive(Debug, Clone)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id that came with the request, if it is fit to be echoed and logged, or else a new one.
    fn of(headers: &HeaderMap) -> Self {
        let mut ids = headers.get_all(REQUEST_ID).iter();
        match (ids.next(), ids.next()) {
            (Some(id), None) if is_fit(id) => Self(id.clone()),
            _ => Self::new(),
        }
    }

    /// A UUID of version 7, so that ids are in the order of time.
    pub fn new() -> Self {
        let mut text = uuid::Uuid::encode_buffer();
        let text: &str = uuid::Uuid::now_v7().hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).expect("a UUID is plain text"))
    }

    pub fn as_str(&self) -> &str {
        self.0.to_str().expect("an id is plain text")
    }
}

fn is_fit(id: &HeaderValue) -> bool {
    let accepted = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(b);
    (1..=MAX_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(accepted)
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

/// How long a poll waited in the queue, for the figures; travels with the response.
#[derive(Debug, Clone, Copy)]
pub struct Waited(pub Duration);

/// A request that is being answered.
#[derive(Debug)]
pub struct Call {
    app: App,
    route: &'static str,
    method: &'static str,
    id: RequestId,
    began_us: i64,
    /// Where it came from.
    address: Option<IpAddr>,
    /// Counted from the moment the request came until this is dropped.
    _present: Present,
}

impl Call {
    /// The request that has just come for `route`.
    pub fn new(app: App, route: &'static str, request: &Request) -> Self {
        Self {
            route,
            method: method_of(request.method()),
            id: RequestId::of(request.headers()),
            began_us: app.clock.now_micros(),
            address: Client::of(request).map(|client| client.address),
            _present: app.metrics.http.request(),
            app,
        }
    }

    /// Counts `answering`, logs what comes of it and gives it the final form.
    pub async fn observe(self, answering: impl Future<Output = Response>) -> Response {
        let span = self.span();
        let finished = async { self.finished(answering.await) };
        let mut response = if span.is_disabled() { finished.await } else { finished.instrument(span).await };
        let Self { app, route, method, id, began_us, .. } = self;
        let took_us = app.clock.now_micros().saturating_sub(began_us).unsigned_abs();
        let waited = response.extensions().get::<Waited>().map(|waited| waited.0);
        let (status, took) = (response.status().as_u16(), Duration::from_micros(took_us));
        app.metrics.http.answered(route, method, status, took, waited);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id.0);
        protect(headers);
        response
    }

    /// The span of what is logged while the request is at work. For debugging: it costs more than the
    /// request's own lines, which carry the same.
    fn span(&self) -> Span {
        tracing::debug_span!(
            "request",
            request_id = self.id.as_str(),
            method = self.method,
            route = self.route,
            caller = tracing::field::Empty,
        )
    }

    /// Renders a problem where there is one, and makes one where a layer refused without saying why.
    fn finished(&self, mut response: Response) -> Response {
        let status = response.status();
        let problem = response.extensions_mut().remove::<Problem>();
        if problem.is_none() && !status.is_client_error() && !status.is_server_error() {
            tracing::debug!(status = status.as_u16(), "answered");
            return response;
        }
        let problem = problem.unwrap_or_else(|| Problem::of_status(status));
        self.log(&problem, response.extensions().get::<CallerName>());
        self.app.metrics.http.problem(problem.code());
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        let (rendered, body) = problem.render(self.id.as_str()).into_parts();
        parts.status = rendered.status;
        parts.headers.extend(rendered.headers);
        Response::from_parts(parts, body)
    }

    fn log(&self, problem: &Problem, caller: Option<&CallerName>) {
        let (status, code) = (problem.status().as_u16(), problem.code());
        let (request_id, cause) = (self.id.as_str(), problem.cause());
        let (method, route, address) = (self.method, self.route, self.address.map(display));
        let caller = caller.map(|caller| &*caller.0).filter(|name| !name.is_empty());
        if refusal_log::is_expected(code) {
            tracing::debug!(status, code, cause, "refused");
            if let Some(left_out) = self.app.refusal_log.admit(code, self.app.clock.now_micros()) {
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
                    "refused; left_out counts those since the last line with this code"
                );
            }
        } else if problem.status().is_server_error() {
            tracing::warn!(request_id, method, route, caller, address, status, code, cause, "failed");
        } else {
            tracing::debug!(status, code, "refused");
        }
    }
}

/// Headers of every answer: no cache may keep it, since most of them show jobs or receipts, and no browser may take
/// it for another type.
pub fn protect(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The answer to a request whose handler panicked.
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // Logged with the request's id once the answer gets its form.
    Problem::panicked(message.unwrap_or("no message")).into_response()
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
