//! The last step of a pop: jobs count as delivered when their bytes are handed to the connection, and go
//! back when the answer is dropped before that.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use crate::queue::Delivery;

/// An answer's bytes together with the jobs in them.
struct Handover {
    /// Until hyper asks for the bytes.
    pending: Option<(Bytes, Delivery)>,
}

/// A body of `bytes` that accepts `delivery` at the moment hyper takes them. After that moment nobody
/// can tell whether the client got them, and the TTR decides.
pub(super) fn body(bytes: Vec<u8>, delivery: Delivery) -> Body {
    Body::new(Handover { pending: Some((bytes.into(), delivery)) })
}

impl http_body::Body for Handover {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.pending.take().map(|(bytes, delivery)| {
            delivery.accept();
            Ok(Frame::data(bytes))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pending.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64))
    }
}
