//! The body of a request: read whole before the handler runs, within limits of size, time and memory.
//!
//! Read before the handler and not by it, because hyper does not notice that a client leaves while a body is unread, and
//! because a connection stays usable after a refusal only if its body was read.

use std::{pin::pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::{
    http::{
        app::App,
        errors::Problem,
        options::{MAX_SMALL_REQUEST_BYTES, MIN_BODY_RATE},
        route::RouteSpec,
    },
    metrics::CloseReason,
    net::{
        WINDOW_BYTES,
        byte_budget::{ByteBudget, BytePermit, CallerKey, CallerPermit},
    },
    queue::Limits,
};

/// Longest body that is parsed on the thread of its connection, in bytes. A longer one would delay every other
/// connection of that thread by milliseconds.
const MAX_INLINE_BYTES: usize = 256 * 1_024;

/// Longest body that is read and discarded where a request must not have one.
const MAX_DISCARDED_BYTES: usize = 4 * 1_024;

/// A JSON body that is required.
pub struct JsonBody(Bytes);

/// A JSON body that may be left out, which reads as `{}`. So does `null`, which generated clients send in that case.
pub struct OptionalJsonBody(Bytes);

impl JsonBody {
    /// Parses the body, on a thread for blocking work if it is large.
    pub async fn parse<T: Send + 'static>(
        self,
        app: &App,
        parse: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Self(bytes) = self;
        let (app, len) = (app.clone(), bytes.len());
        run_parser(len, move || parse(&bytes, app.queue.limits())).await
    }
}

impl OptionalJsonBody {
    /// See [`JsonBody::parse`].
    pub async fn parse<T: Send + 'static>(
        self,
        app: &App,
        parse: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        JsonBody(self.0).parse(app, parse).await
    }
}

/// Runs `parse` on a body of `len` bytes, on a thread for blocking work if it is large.
async fn run_parser<T: Send + 'static>(
    len: usize,
    parse: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if len <= MAX_INLINE_BYTES {
        return parse();
    }
    match tokio::task::spawn_blocking(parse).await {
        Ok(parsed) => parsed,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(Problem::internal()),
        },
    }
}

/// The bytes that [`read`] found. Travels with the request.
#[derive(Clone)]
struct RequestBytes(Bytes);

/// The memory that a body uses, of the budget for all bodies and of its caller's.
struct BodyPermits {
    all: BytePermit,
    caller: CallerPermit,
}

/// The bytes of a body with their permits. Jobs that are parsed from a body are slices of it, so it counts until the
/// store has dropped the last of them, even if the client has left meanwhile.
struct PermittedBody {
    bytes: Vec<u8>,
    _permits: BodyPermits,
}

impl BodyPermits {
    /// Acquires `len` more bytes of both budgets. Returns whether they were available.
    fn try_grow(&mut self, budget: &ByteBudget, len: usize) -> bool {
        self.caller.try_grow(len) && self.all.try_grow(budget, len)
    }

    /// Keeps the permits until the last slice of `bytes` is dropped.
    fn attach_to(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(PermittedBody { bytes, _permits: self })
    }
}

impl AsRef<[u8]> for PermittedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the body of `request`, which `caller` sent to `route`, for the handler to use as a whole. Also returns the
/// bytes: they count against the budgets until they are dropped.
pub async fn read(
    app: &App,
    route: &RouteSpec,
    caller: CallerKey,
    request: Request,
) -> Result<(Request, Bytes), Problem> {
    let (mut parts, body) = request.into_parts();
    let mut bytes = Bytes::new();
    if !body.is_end_stream() {
        // Boxed to keep the future of a long poll small, which has no body.
        if route.accepts_body(&parts.method) {
            bytes = Box::pin(collect(app, caller, max_len(app, route), body)).await?;
            parts.extensions.insert(RequestBytes(bytes.clone()));
        } else {
            // Not counted against the budgets, so that `/livez` answers even if clients without a token send bodies.
            let mut unexpected = Vec::new();
            let keep = |part: &[u8]| {
                unexpected.extend_from_slice(part);
                Ok(())
            };
            Box::pin(for_each_part(app, MAX_DISCARDED_BYTES, body, keep)).await?;
            if !says_nothing(&unexpected) && route.refuses_bodies() {
                return Err(Problem::unexpected_body());
            }
        }
    }
    Ok((Request::from_parts(parts, Body::empty()), bytes))
}

/// Whether a body carries nothing that could be ignored. Some clients send an empty object or `null` with every call.
fn says_nothing(body: &[u8]) -> bool {
    matches!(body.trim_ascii(), b"" | b"null" | b"{}")
}

/// Largest body of a request to `route`.
fn max_len(app: &App, route: &RouteSpec) -> usize {
    let large = app.options.max_request_bytes;
    if route.large_body { large } else { MAX_SMALL_REQUEST_BYTES.min(large) }
}

/// Reads `body` to its end. Its bytes count against the budgets of `caller` and of all requests.
async fn collect(app: &App, caller: CallerKey, limit: usize, body: Body) -> Result<Bytes, Problem> {
    let all = app.body_budget.try_acquire(0, app.metrics.http.buffered()).ok_or_else(Problem::overloaded)?;
    let mut permits = BodyPermits { all, caller: app.caller_budgets.empty_permit(caller) };
    let mut bytes = Vec::new();
    for_each_part(app, limit, body, |part| {
        if !permits.try_grow(&app.body_budget, part.len()) {
            return Err(Problem::overloaded());
        }
        bytes.extend_from_slice(part);
        Ok(())
    })
    .await?;
    Ok(permits.attach_to(bytes))
}

/// Passes every part of `body` to `consume`, up to `limit` bytes and no slower than the options allow.
async fn for_each_part(
    app: &App,
    limit: usize,
    body: Body,
    mut consume: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // Refused by Content-Length before a byte is read, so that a client that sends Expect: 100-continue never sends the
    // body.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|announced| announced > limit) {
        return Err(Problem::request_too_large(limit));
    }
    let (mut body, began_us, mut len) = (pin!(body), app.clock.now_micros(), 0);
    loop {
        let window_end = len + WINDOW_BYTES;
        let mut timeout = pin!(app.clock.sleep(time_left(app, began_us, len)));
        while len < window_end {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut timeout => {
                    app.metrics.connections.closed(CloseReason::Body);
                    return Err(Problem::slow());
                }
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame =
                frame.map_err(|_| Problem::malformed("the request's body broke off or is badly framed"))?;
            // Trailers have no meaning here.
            if let Ok(part) = frame.into_data() {
                if part.len() > limit - len {
                    return Err(Problem::request_too_large(limit));
                }
                len += part.len();
                consume(&part)?;
            }
        }
    }
}

/// How long the next part of a body may take, if `len` bytes have arrived since `began_us`.
fn time_left(app: &App, began_us: i64, len: usize) -> Duration {
    let earned = Duration::from_secs_f64(len as f64 / MIN_BODY_RATE as f64);
    let elapsed_us = app.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    (app.options.body_timeout + earned).saturating_sub(Duration::from_micros(elapsed_us))
}

/// Refuses a body in any transfer coding but `chunked`, which a proxy in front might understand differently.
pub fn check_framing(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err(Problem::transfer_coding()),
    }
}

/// Refuses a body whose headers do not say that it is plain JSON.
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Problem::media_type("the body must not be compressed"));
    }
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if media_type.is_some_and(is_json) {
        return Ok(());
    }
    Err(Problem::media_type("send the body as Content-Type: application/json, in UTF-8"))
}

/// Accepts `application/json` and types with the suffix `+json` (such as `application/merge-patch+json`, RFC 6839), in
/// UTF-8.
fn is_json(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let json =
        essence.strip_prefix("application/").is_some_and(|sub| sub == "json" || sub.ends_with("+json"));
    json && parts.all(|part| match part.strip_prefix("charset=") {
        Some(charset) => matches!(charset.trim_matches('"'), "utf-8" | "utf8"),
        None => true,
    })
}

/// Removes the body from the request; `None` if it is missing or empty.
fn extract_body(parts: &mut Parts) -> Result<Option<Bytes>, Problem> {
    match parts.extensions.remove::<RequestBytes>() {
        Some(RequestBytes(bytes)) if !bytes.is_empty() => {
            check_media_type(&parts.headers)?;
            Ok(Some(bytes))
        }
        _ => Ok(None),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let bytes = extract_body(parts)?;
        bytes.map(Self).ok_or_else(|| Problem::malformed("this call needs a JSON object as its body"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OptionalJsonBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let bytes = extract_body(parts)?.filter(|bytes| bytes.trim_ascii() != b"null");
        Ok(Self(bytes.unwrap_or(Bytes::from_static(b"{}"))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::{job, metrics::Metrics, net::byte_budget::CallerBudgets};

    #[test]
    fn a_body_is_counted_until_the_last_slice_of_it_is_dropped() {
        let (budget, budgets) = (ByteBudget::new(10), CallerBudgets::new(10));
        let mut permits = BodyPermits {
            all: budget.try_acquire(0, Metrics::new().http.buffered()).expect("available"),
            caller: budgets.empty_permit(CallerKey::Address([127, 0, 0, 1].into())),
        };
        assert!(permits.try_grow(&budget, 10));
        let text = permits.attach_to(br#"["abcdef"]"#.to_vec());
        let [raw]: [&RawValue; 1] = serde_json::from_slice(&text).expect("is JSON");
        let body = job::Body::from_raw(raw, &text).expect("is a body");
        drop(text);
        let mut other = budgets.empty_permit(CallerKey::Address([127, 0, 0, 1].into()));
        let acquire = |len| budget.try_acquire(len, Metrics::new().http.buffered());
        assert!(acquire(1).is_none() && !other.try_grow(1), "{body:?}");
        drop(body);
        assert!(acquire(10).is_some() && other.try_grow(10));
    }

    #[tokio::test]
    async fn only_a_large_body_is_parsed_on_another_thread() {
        let here = std::thread::current().id();
        for (len, on_other_thread) in [(0, false), (MAX_INLINE_BYTES, false), (MAX_INLINE_BYTES + 1, true)] {
            let parsed = run_parser(len, || Ok(std::thread::current().id())).await;
            assert_eq!(parsed.expect("is parsed") != here, on_other_thread, "{len}");
        }
        let refused = run_parser::<()>(MAX_INLINE_BYTES + 1, || Err(Problem::malformed("no"))).await;
        assert_eq!(refused.expect_err("is refused").code(), "malformed_request");
    }

    #[test]
    fn json_is_recognised_by_its_media_type() {
        for json in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
            "application/merge-patch+json",
            "application/json; profile=x",
        ] {
            assert!(is_json(json), "{json}");
        }
        for other in [
            "",
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/jsonp",
            "multipart/form-data",
        ] {
            assert!(!is_json(other), "{other}");
        }
    }
}
