//! Refusals and failures as `application/problem+json` (RFC 9457), and the one place that writes them.
//!
//! A handler answers with a [`Problem`]; it travels to the outermost layer as an extension of an empty
//! response, because only there the request's id is known. Knows no routes.

mod faults;
mod queue_errors;

use std::borrow::Cow;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::json::Object;
use crate::job::{State, Timestamp};

#[cfg(test)]
pub use faults::Place;
pub use faults::{Fault, Faults, MAX_FAULTS};

/// Why a call failed. Boxed, since it is the rare side of every handler's result.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    faults: Vec<Fault>,
    member: Member,
    allow: Option<HeaderValue>,
    retry_after_s: Option<u32>,
    challenge: Option<&'static str>,
    close: bool,
    cause: Option<String>,
}

/// What some problems tell beyond the standard members.
#[derive(Debug, Clone)]
enum Member {
    None,
    Existing { state: State, due_at: Timestamp },
    State(State),
    Limit { limit: usize, got: usize },
    Checks(Vec<Check>),
}

/// One check of the readiness page.
#[derive(Debug, Clone)]
pub struct Check {
    pub name: &'static str,
    pub condition: Condition,
}

/// How a part of the server is.
#[derive(Debug, Clone)]
pub enum Condition {
    Ok,
    /// It works in part, and why; the server is ready all the same.
    Degraded(String),
    /// It does not work, and why.
    Failed(String),
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            faults: Vec::new(),
            member: Member::None,
            allow: None,
            retry_after_s: None,
            challenge: None,
            close: false,
            cause: None,
        }))
    }

    /// Not JSON, or not HTTP as it should be.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_request", detail)
    }

    /// A body in a transfer coding other than `chunked`; the connection is closed.
    pub fn transfer_coding() -> Self {
        Self::malformed("the only transfer coding is chunked, and it must be named once").closing()
    }

    /// Path or query parameters at fault.
    pub fn parameters(faults: Faults) -> Self {
        Self::of_values(StatusCode::BAD_REQUEST, "invalid_parameter", faults)
    }

    /// Values of a job's definition at fault.
    pub fn invalid_job(faults: Faults) -> Self {
        Self::of_values(StatusCode::UNPROCESSABLE_ENTITY, "invalid_job", faults)
    }

    /// Values of any other body at fault.
    pub fn invalid_request(faults: Faults) -> Self {
        Self::of_values(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", faults)
    }

    /// The detail carries the first fault, because many clients log nothing else.
    fn of_values(status: StatusCode, code: &'static str, faults: Faults) -> Self {
        let mut problem = Self::new(status, code, faults.summary());
        problem.0.faults = faults.into_listed();
        problem
    }

    /// How many faults it lists.
    pub fn listed_faults(&self) -> usize {
        self.0.faults.len()
    }

    /// A purge without the topic's name said twice.
    pub fn unconfirmed() -> Self {
        let detail = "this deletes every job of the topic; add ?confirm= with the topic's name";
        Self::new(StatusCode::BAD_REQUEST, "confirmation_required", detail)
    }

    /// A foreign web page called.
    pub fn cross_site() -> Self {
        let detail =
            "calls from another site's pages are refused; call from a server or from the same origin";
        Self::new(StatusCode::FORBIDDEN, "cross_site_refused", detail)
    }

    /// A host name that is not this server's.
    pub fn foreign_host() -> Self {
        let detail = "this host name is not known here; use localhost or an address, or add it to server.allowed_hosts";
        Self::new(StatusCode::FORBIDDEN, "host_refused", detail)
    }

    /// No credential where one is needed (RFC 6750, 3.1: then without an error code).
    pub fn no_token() -> Self {
        Self::unauthorized("this call needs a token; send it as Authorization: Bearer TOKEN", "Bearer")
    }

    /// A credential of another form than a token's.
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

    /// A token that nobody was given, or that was taken away.
    pub fn unknown_token() -> Self {
        Self::unauthorized("this token is not known here", "Bearer error=\"invalid_token\"")
    }

    fn unauthorized(detail: &'static str, challenge: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        problem.0.challenge = Some(challenge);
        problem
    }

    /// A token without the scope that the call needs.
    pub fn forbidden(needed: &str) -> Self {
        let detail = format!("this token does not allow this call; it needs the scope {needed}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// A token that is for other topics.
    pub fn forbidden_topic() -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "this token is not for this topic")
    }

    /// No such path.
    pub fn no_route(path: &str) -> Self {
        let detail = if path.contains("//") {
            "this path is not part of the API; write it with single slashes"
        } else if path.len() > 1 && path.ends_with('/') {
            "this path is not part of the API; write it without the slash at its end"
        } else {
            "this path is not part of the API; see /openapi.yaml"
        };
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// The path exists, the method does not; `allow` lists those that do.
    pub fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("this path answers to {allow}");
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        problem.0.allow = Some(HeaderValue::from_str(allow).expect("methods are plain text"));
        problem
    }

    /// A body that is not JSON, or compressed.
    pub fn media_type(detail: &'static str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    /// A body that came too slowly; the connection is closed.
    pub fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the request's body came too slowly")
            .closing()
    }

    /// A request over the limit; the connection is closed, since the rest of it is not read.
    pub fn request_too_large(limit: usize) -> Self {
        let detail = format!("the request's body is over the limit of {limit} bytes for this call");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail).closing()
    }

    /// Too many bytes of request bodies are held at once.
    pub fn overloaded() -> Self {
        let detail = "too much is being sent at once; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1).closing()
    }

    /// Other clients have yet to take too much of what they were answered.
    pub fn too_many_answers() -> Self {
        let detail = "too many large answers are on their way to slow clients; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
    }

    /// No place for another connection.
    pub fn no_place() -> Self {
        let detail = "too many connections are open; send this again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1).closing()
    }

    /// A fault of the server.
    pub fn internal() -> Self {
        let detail = "a fault of the server; its log says more under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The fault of a handler that panicked, with what it said for the log.
    pub fn panicked(message: &str) -> Self {
        let mut problem = Self::internal();
        problem.0.cause = Some(format!("a handler panicked: {message}"));
        problem
    }

    /// What a layer below answered without saying why.
    pub fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::no_route(""),
            other if other.is_client_error() => Self::malformed("the request was refused"),
            _ => Self::internal(),
        }
    }

    /// With the checks of the readiness page.
    pub fn with_checks(mut self, checks: Vec<Check>) -> Self {
        self.0.member = Member::Checks(checks);
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

    /// What the store said, for the log only.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// The answer itself, with the headers that belong to it.
    pub fn render(&self, request_id: &str) -> Response {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out, Some(request_id));
        out.push(b'\n');
        let mut response = Response::new(Body::from(out));
        *response.status_mut() = self.0.status;
        self.add_headers(response.headers_mut());
        response
    }

    fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
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

    /// Writes the problem as JSON; within a batch's results it has no request id of its own.
    pub fn write(&self, out: &mut Vec<u8>, request_id: Option<&str>) {
        let parts = &*self.0;
        let mut object = Object::new(out);
        object.text("type", "about:blank");
        object.text("title", parts.status.canonical_reason().unwrap_or("Error"));
        object.number("status", parts.status.as_u16());
        object.text("code", parts.code);
        object.text("detail", &parts.detail);
        if let Some(request_id) = request_id {
            object.text("request_id", request_id);
        }
        if !parts.faults.is_empty() {
            object.list("errors", &parts.faults, |fault, out| fault.write(out));
        }
        parts.member.write(&mut object);
        object.end();
    }
}

impl Member {
    fn write(&self, object: &mut Object<'_>) {
        match self {
            Self::None => {}
            Self::Existing { state, due_at } => {
                object.text("state", state.as_str());
                object.moment("due_at", *due_at);
            }
            Self::State(state) => object.text("state", state.as_str()),
            Self::Limit { limit, got } => {
                object.number("limit", *limit);
                object.number("got", *got);
            }
            Self::Checks(checks) => object.list("checks", checks, |check, out| check.write(out)),
        }
    }
}

impl Check {
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        object.text("name", self.name);
        let (status, detail) = match &self.condition {
            Condition::Ok => ("ok", None),
            Condition::Degraded(why) => ("degraded", Some(why)),
            Condition::Failed(why) => ("failed", Some(why)),
        };
        object.text("status", status);
        if let Some(detail) = detail {
            object.text("detail", detail);
        }
        object.end();
    }
}

impl IntoResponse for Problem {
    /// Only the promise of an answer; the outermost layer renders it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.status;
        response.extensions_mut().insert(self);
        response
    }
}
