//! The budget for responses: bounds the memory of large responses that clients have not read yet, however many clients
//! read slowly.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    http::Method,
    response::{IntoResponse, Response},
};
use http_body::{Body as _, Frame, SizeHint};

use super::{
    route::{RouteKind, RouteSpec},
    state::Edge,
};
use crate::{
    http::errors::Problem,
    net::byte_budget::{ByteBudget, BytePermit},
};

/// Responses up to this size are not counted: a connection's own buffers are larger.
const SMALL_BYTES: usize = 4 * 1_024;

/// How a response is charged to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseClass {
    /// Not counted, always sent: pages about the server answer however slowly other clients read, and the response to
    /// `HEAD` has no body.
    Uncounted,
    /// Counted if large, and sent even beyond the budget, because it reports a change. For a batch, the budget was
    /// [charged beforehand](reserve).
    Change,
    /// Counted if large, and refused beyond the budget.
    Read,
    /// As `Read`, from a budget of its own.
    Metrics,
    /// As `Read`, for every method. If it is refused, its jobs are returned without counting an attempt.
    Delivery,
}

impl ResponseClass {
    pub fn of_request(route: &RouteSpec, method: &Method) -> Self {
        match (route.kind, method) {
            (RouteKind::Delivery, _) => Self::Delivery,
            (RouteKind::Change, _) => Self::Change,
            (RouteKind::Metrics, &Method::GET) => Self::Metrics,
            (RouteKind::Metrics | RouteKind::Page | RouteKind::Probe, _) => Self::Uncounted,
            (RouteKind::Call | RouteKind::Read | RouteKind::Unknown, &Method::HEAD) => Self::Uncounted,
            (RouteKind::Read, _) | (RouteKind::Call | RouteKind::Unknown, &Method::GET) => Self::Read,
            (RouteKind::Call | RouteKind::Unknown, _) => Self::Change,
        }
    }
}

/// Bytes that were acquired before the response was known. Travels with the response.
#[derive(Debug, Clone)]
struct ReservedBytes(Arc<BytePermit>);

/// Bytes for a response that must be sent; none if it is small.
pub struct ResponsePermit(Option<ReservedBytes>);

/// Acquires bytes for a response before the call is carried out, because the response reports what was done.
///
/// # Errors
/// 503 if too few bytes are available.
pub fn reserve(edge: &Edge, bytes: usize) -> Result<ResponsePermit, Problem> {
    if bytes <= SMALL_BYTES {
        return Ok(ResponsePermit(None));
    }
    let permit = edge.response_budget.try_acquire(bytes, edge.metrics.http.answering());
    let permit = permit.ok_or_else(Problem::too_many_unread_responses)?;
    Ok(ResponsePermit(Some(ReservedBytes(Arc::new(permit)))))
}

impl ResponsePermit {
    /// Passes the bytes to the response for which they were acquired.
    pub fn attach_to(self, mut response: Response) -> Response {
        if let Some(reserved) = self.0 {
            response.extensions_mut().insert(reserved);
        }
        response
    }
}

/// Charges a response to the budget of its class. Returns the response to send, which is a 503 if this one is refused.
pub fn charge(edge: &Edge, class: ResponseClass, response: Response) -> Response {
    match class {
        ResponseClass::Uncounted => response,
        ResponseClass::Change => charge_to(edge, &edge.response_budget, response, false),
        ResponseClass::Read | ResponseClass::Delivery => {
            charge_to(edge, &edge.response_budget, response, true)
        }
        ResponseClass::Metrics => charge_to(edge, &edge.metrics_budget, response, true),
    }
}

fn charge_to(edge: &Edge, budget: &ByteBudget, mut response: Response, refusable: bool) -> Response {
    let reserved = response.extensions_mut().remove::<ReservedBytes>();
    let len = response.body().size_hint().lower();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len <= SMALL_BYTES {
        return response;
    }
    let reserved = reserved.and_then(|ReservedBytes(permit)| Arc::into_inner(permit)).map(|mut permit| {
        permit.shrink_to(len);
        permit
    });
    match reserved.or_else(|| budget.try_acquire(len, edge.metrics.http.answering())) {
        Some(permit) => response.map(|body| Body::new(ChargedBody { body, permit: Some(permit) })),
        None if refusable => {
            let mut refusal = Problem::too_many_unread_responses().into_response();
            // The metrics read from these how long the request waited for a job.
            refusal.extensions_mut().extend(response.into_parts().0.extensions);
            refusal
        }
        None => response,
    }
}

/// A response body with its permit, which moves on to the bytes: hyper takes these when it begins to write them, and
/// drops them when the client has read them.
struct ChargedBody {
    body: Body,
    permit: Option<BytePermit>,
}

struct ChargedBytes {
    bytes: Bytes,
    _permit: BytePermit,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for ChargedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // Every response of this server is a single frame.
        let permit = self.permit.take();
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match permit {
                Some(permit) => {
                    frame.map_data(|bytes| Bytes::from_owner(ChargedBytes { bytes, _permit: permit }))
                }
                None => frame,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
