//! The last step of a pop: jobs count as delivered when their bytes are handed to the connection, and go
//! back when the answer is dropped before that.

use std::{
    io,
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
/// can tell whether the client got them, and the TTR decides. Where a reservation has ended by then, the answer is
/// cut off and nothing is delivered.
pub fn body(bytes: Vec<u8>, delivery: Delivery) -> Body {
    Body::new(Handover { pending: Some((bytes.into(), delivery)) })
}

impl http_body::Body for Handover {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.pending.take().map(|(bytes, delivery)| {
            if delivery.accept() {
                Ok(Frame::data(bytes))
            } else {
                Err(io::Error::other("a reservation ended before its answer went out"))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pending.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64))
    }
}
