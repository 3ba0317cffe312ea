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

use super::{
    dialect::Dialect,
    options::{MAX_SMALL_REQUEST_BYTES, MIN_BODY_RATE},
    route::{RouteKind, RouteSpec},
    state::Edge,
};
use crate::{
    http::errors::Problem,
    metrics::CloseReason,
    net::{
        WINDOW_BYTES,
        byte_budget::{ByteBudget, BytePermit, CallerKey, CallerPermit},
    },
};

/// Longest body that is read and discarded where a request must not have one.
const MAX_DISCARDED_BYTES: usize = 4 * 1_024;

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

/// Reads the body of `request`, which `caller` sent to `route`, and leaves it with the request for the handler to use as a
/// whole. Also returns the bytes: they count against the budgets until they are dropped.
pub async fn read(
    edge: &Edge,
    (dialect, route): (&dyn Dialect, &RouteSpec),
    caller: CallerKey,
    request: &mut Request,
) -> Result<Bytes, Problem> {
    let mut bytes = Bytes::new();
    let body = std::mem::take(request.body_mut());
    if !body.is_end_stream() {
        // Boxed to keep the future of a long poll small, which has no body.
        if route.kind != RouteKind::Unknown && dialect.accepts_body(request.method()) {
            bytes = Box::pin(collect(edge, caller, max_len(edge, route), body)).await?;
            request.extensions_mut().insert(RequestBytes(bytes.clone()));
        } else {
            // Not counted against the budgets, so that `/livez` answers even if clients without a token send bodies.
            let mut unexpected = Vec::new();
            let keep = |part: &[u8]| {
                unexpected.extend_from_slice(part);
                Ok(())
            };
            Box::pin(for_each_part(edge, MAX_DISCARDED_BYTES, body, keep)).await?;
            if !says_nothing(&unexpected) && route.refuses_bodies() {
                return Err(Problem::unexpected_body());
            }
        }
    }
    Ok(bytes)
}

/// Whether a body carries nothing that could be ignored. Some clients send an empty object or `null` with every call.
fn says_nothing(body: &[u8]) -> bool {
    matches!(body.trim_ascii(), b"" | b"null" | b"{}")
}

/// Largest body of a request to `route`.
fn max_len(edge: &Edge, route: &RouteSpec) -> usize {
    let large = edge.options.max_request_bytes;
    if route.large_body { large } else { MAX_SMALL_REQUEST_BYTES.min(large) }
}

/// Reads `body` to its end. Its bytes count against the budgets of `caller` and of all requests.
async fn collect(edge: &Edge, caller: CallerKey, limit: usize, body: Body) -> Result<Bytes, Problem> {
    let all =
        edge.body_budget.try_acquire(0, edge.metrics.http.buffered()).ok_or_else(Problem::overloaded)?;
    let mut permits = BodyPermits { all, caller: edge.caller_budgets.empty_permit(caller) };
    let mut bytes = Vec::new();
    for_each_part(edge, limit, body, |part| {
        if !permits.try_grow(&edge.body_budget, part.len()) {
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
    edge: &Edge,
    limit: usize,
    body: Body,
    mut consume: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // Refused by Content-Length before a byte is read, so that a client that sends Expect: 100-continue never sends the
    // body.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|announced| announced > limit) {
        return Err(Problem::request_too_large(limit));
    }
    let (mut body, began_us, mut len) = (pin!(body), edge.clock.now_micros(), 0);
    loop {
        let window_end = len + WINDOW_BYTES;
        let mut timeout = pin!(edge.clock.sleep(time_left(edge, began_us, len)));
        while len < window_end {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut timeout => {
                    edge.metrics.connections.closed(CloseReason::Body);
                    return Err(Problem::slow());
                }
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|_| Problem::broken_body())?;
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
fn time_left(edge: &Edge, began_us: i64, len: usize) -> Duration {
    let earned = Duration::from_secs_f64(len as f64 / MIN_BODY_RATE as f64);
    let elapsed_us = edge.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    (edge.options.body_timeout + earned).saturating_sub(Duration::from_micros(elapsed_us))
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

/// The whole body, whatever its type is said to be.
pub struct WholeBody(pub Bytes);

impl<S: Send + Sync> FromRequestParts<S> for WholeBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(remove_body(parts).unwrap_or_default()))
    }
}

/// Removes the body from the request; `None` if it is missing or empty.
pub fn remove_body(parts: &mut Parts) -> Option<Bytes> {
    parts
        .extensions
        .remove::<RequestBytes>()
        .map(|RequestBytes(bytes)| bytes)
        .filter(|bytes| !bytes.is_empty())
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
}
