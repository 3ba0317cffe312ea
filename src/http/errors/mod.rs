//! Errors, and their form in our own API: `application/problem+json` (RFC 9457).
//!
//! A handler returns a [`Problem`]. It travels to the outermost middleware as an extension of an empty response, because
//! only there the request's id is known. Knows no routes.

mod faults;
mod queue_errors;
mod readiness;

use std::borrow::Cow;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::json::ObjectWriter;
use crate::{
    job::{State, Timestamp},
    queue::Ended,
};

#[cfg(test)]
pub use faults::FaultLocation;
pub use faults::{Fault, Faults, MAX_FAULTS};
pub use readiness::{CheckStatus, ReadinessCheck};

/// Why a request failed. Boxed, because errors are the rare side of every handler's result.
#[derive(Debug, Clone)]
pub struct Problem(Box<ProblemFields>);

#[derive(Debug, Clone)]
struct ProblemFields {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    faults: Vec<Fault>,
    extension: ExtensionMember,
    allow: Option<HeaderValue>,
    retry_after_s: Option<u32>,
    challenge: Option<&'static str>,
    close: bool,
    cause: Option<String>,
}

/// The members that some problems have beyond the standard ones.
#[derive(Debug, Clone)]
enum ExtensionMember {
    None,
    Existing { state: State, due_at: Timestamp },
    State(State),
    Retaken(bool),
    Revision(u64),
    Ended(Ended),
    Limit { limit: usize, got: usize },
    Checks(Vec<ReadinessCheck>),
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ProblemFields {
            status,
            code,
            detail: detail.into(),
            faults: Vec::new(),
            extension: ExtensionMember::None,
            allow: None,
            retry_after_s: None,
            challenge: None,
            close: false,
            cause: None,
        }))
    }

    /// The detail of [`broken_body`](Self::broken_body).
    pub const BROKEN_BODY: &str = "the request's body broke off or is badly framed";

    /// A body that was not received whole.
    pub fn broken_body() -> Self {
        Self::malformed(Self::BROKEN_BODY)
    }

    /// Invalid JSON or invalid HTTP.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_request", detail)
    }

    /// A body in a transfer coding other than `chunked`. Closes the connection.
    pub fn transfer_coding() -> Self {
        Self::malformed("the only transfer coding is chunked, and it must be named once").closing()
    }

    /// A body of a call that takes none. Ignoring it would ignore a condition that its sender relies on, such as a receipt.
    pub fn unexpected_body() -> Self {
        Self::malformed("this call takes no body; what it takes belongs in its path and query")
    }

    /// Invalid path or query parameters.
    pub fn invalid_parameters(faults: Faults) -> Self {
        Self::with_faults(StatusCode::BAD_REQUEST, "invalid_parameter", faults)
    }

    /// Invalid values in a job's definition.
    pub fn invalid_job(faults: Faults) -> Self {
        Self::with_faults(StatusCode::UNPROCESSABLE_ENTITY, "invalid_job", faults)
    }

    /// Invalid values in any other body.
    pub fn invalid_request(faults: Faults) -> Self {
        Self::with_faults(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", faults)
    }

    /// The detail carries the first fault, because many clients log nothing else.
    fn with_faults(status: StatusCode, code: &'static str, faults: Faults) -> Self {
        let mut problem = Self::new(status, code, faults.summary());
        problem.0.faults = faults.into_listed();
        problem
    }

    /// The number of faults that the problem lists.
    pub fn listed_faults(&self) -> usize {
        self.0.faults.len()
    }

    /// A purge that does not repeat the topic's name.
    pub fn confirmation_required() -> Self {
        let detail = "this deletes every job of the topic; add ?confirm= with the topic's name";
        Self::new(StatusCode::BAD_REQUEST, "confirmation_required", detail)
    }

    /// A request of a foreign web page.
    pub fn cross_site() -> Self {
        let detail =
            "calls from another site's pages are refused; call from a server or from the same origin";
        Self::new(StatusCode::FORBIDDEN, "cross_site_refused", detail)
    }

    /// A host name that is not this server's own.
    pub fn foreign_host() -> Self {
        let detail = "this host name is not known here; use localhost or an address, or add it to server.allowed_hosts";
        Self::new(StatusCode::FORBIDDEN, "host_refused", detail)
    }

    /// A refusal in the words of another server, for its dialect. Ours are for our own API.
    pub fn in_dialect(status: StatusCode, code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(status, code, text)
    }

    /// A missing credential. The challenge then has no error code (RFC 6750, 3.1).
    pub fn no_token() -> Self {
        Self::unauthorized("this call needs a token; send it as Authorization: Bearer TOKEN", "Bearer")
    }

    /// A credential that is not a bearer token.
    pub fn wrong_scheme() -> Self {
        let detail =
            "the Authorization header has no Bearer scheme; send the token as Authorization: Bearer TOKEN";
        Self::unauthorized(detail, "Bearer")
    }

    /// Several credentials, which may contradict each other.
    pub fn several_credentials() -> Self {
        let detail = "the Authorization header must be given once, with the scheme Bearer";
        Self::unauthorized(detail, "Bearer")
    }

    /// A token that was never issued, or was revoked.
    pub fn unknown_token() -> Self {
        Self::unauthorized("this token is not known here", "Bearer error=\"invalid_token\"")
    }

    fn unauthorized(detail: &'static str, challenge: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        problem.0.challenge = Some(challenge);
        problem
    }

    /// A token without the scope that the request requires.
    pub fn forbidden(required: &str) -> Self {
        let detail = format!("this token does not allow this call; it needs the scope {required}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// A token for other topics.
    pub fn forbidden_topic() -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "this token is not for this topic")
    }

    /// The token is for some topics, and the call looks at all of them.
    pub fn topic_required() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "this token is for some topics only; name one of them in the parameter topic",
        )
    }

    /// An unknown path.
    pub fn no_route(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// A method that the path does not answer. `allowed` lists those that it does; `hint` ends the sentence.
    pub fn method_not_allowed(allowed: &str, hint: &str) -> Self {
        let detail = format!("this path answers to {allowed}{hint}");
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        problem.0.allow = Some(HeaderValue::from_str(allowed).expect("method names are plain text"));
        problem
    }

    /// A body that is not JSON or is compressed.
    pub fn media_type(detail: &'static str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    /// A body that arrived too slowly. Closes the connection.
    pub fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the request's body came too slowly")
            .closing()
    }

    /// A body over the limit. Closes the connection, because the rest of the body is not read.
    pub fn request_too_large(limit: usize) -> Self {
        let detail = format!("the request's body is over the limit of {limit} bytes for this call");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail).closing()
    }

    /// The bodies of all requests, or of this caller's, use too much memory.
    pub fn overloaded() -> Self {
        let detail = "too much is being sent at once; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1).closing()
    }

    /// Clients have not read too many bytes of earlier responses.
    pub fn too_many_unread_responses() -> Self {
        let detail = "too many large answers are on their way to slow clients; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
    }

    /// A connection beyond the limit.
    pub fn too_many_connections() -> Self {
        let detail = "too many connections are open; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1).closing()
    }

    /// A request whose client may have given up.
    pub fn not_begun(detail: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_begun", detail).retry_after(1).closing()
    }

    /// A part of the store does not work, so that the server is not ready.
    pub fn unready(detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unready", detail)
    }

    /// An error inside the server.
    pub fn internal() -> Self {
        let detail = "a fault of the server; its log says more under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// A handler that panicked; its message is for the log only.
    pub fn panicked(message: &str) -> Self {
        let mut problem = Self::internal();
        problem.0.cause = Some(format!("a handler panicked: {message}"));
        problem
    }

    /// The problem for a refusal that has only a status.
    pub fn from_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::no_route("there is nothing at this path"),
            other if other.is_client_error() => Self::malformed("the request was refused"),
            _ => Self::internal(),
        }
    }

    /// Adds the checks of the readiness page.
    pub fn with_checks(mut self, checks: Vec<ReadinessCheck>) -> Self {
        self.0.extension = ExtensionMember::Checks(checks);
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    fn closing(mut self) -> Self {
        self.0.close = true;
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// What is wrong and how to fix it.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The underlying error, for the log only.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// The response in the form of our own API.
    pub fn render(&self, request_id: &str) -> axum::http::Response<Vec<u8>> {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out, Some(request_id));
        out.push(b'\n');
        let mut response = axum::http::Response::new(out);
        *response.status_mut() = self.0.status;
        let media_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }

    /// Adds the headers that belong to the problem in whatever form.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        if let Some(allow) = &self.0.allow {
            headers.insert(header::ALLOW, allow.clone());
        }
        if let Some(seconds) = self.0.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.0.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if self.0.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Writes the problem as JSON. In a batch's results it has no request id of its own.
    pub fn write(&self, out: &mut Vec<u8>, request_id: Option<&str>) {
        let fields = &*self.0;
        let mut object = ObjectWriter::new(out);
        object.text("type", "about:blank");
        object.text("title", fields.status.canonical_reason().unwrap_or("Error"));
        object.number("status", fields.status.as_u16());
        object.text("code", fields.code);
        object.text("detail", &fields.detail);
        if let Some(request_id) = request_id {
            object.text("request_id", request_id);
        }
        if !fields.faults.is_empty() {
            object.list("errors", &fields.faults, |fault, out| fault.write(out));
        }
        fields.extension.write(&mut object);
        object.end();
    }
}

impl ExtensionMember {
    fn write(&self, object: &mut ObjectWriter<'_>) {
        match self {
            Self::None => {}
            Self::Existing { state, due_at } => {
                object.text("state", state.as_str());
                object.timestamp("due_at", *due_at);
            }
            Self::State(state) => object.text("state", state.as_str()),
            Self::Retaken(retaken) => object.flag("retaken", *retaken),
            Self::Revision(revision) => object.number("revision", *revision),
            Self::Ended(ended) => object.object("ended", |object| {
                object.text("how", ended.how.as_str());
                object.timestamp("at", ended.at);
                if let Some(by) = &ended.by {
                    object.text("by", by.as_str());
                }
            }),
            Self::Limit { limit, got } => {
                object.number("limit", *limit);
                object.number("got", *got);
            }
            Self::Checks(checks) => object.list("checks", checks, |check, out| check.write(out)),
        }
    }
}

impl IntoResponse for Problem {
    /// A placeholder; the outermost middleware renders it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.status;
        response.extensions_mut().insert(self);
        response
    }
}
