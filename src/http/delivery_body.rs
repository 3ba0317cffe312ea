//! The body of a response that delivers jobs. They count as delivered when hyper takes the response's bytes, and return to the
//! queue if the response is dropped before that.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use crate::queue::Delivery;

/// A response's bytes with the delivery of the jobs in them.
struct DeliveryBody {
    /// `None` once hyper has taken the bytes.
    pending: Option<(Bytes, Delivery)>,
}

/// A body of `bytes` that accepts `delivery` when hyper takes the bytes. After that the server cannot know whether the
/// client received them, and the TTR decides. If a reservation has ended by then, the response is cut off and nothing
/// is delivered.
pub fn delivery_body(bytes: Vec<u8>, delivery: Delivery) -> Body {
    Body::new(DeliveryBody { pending: Some((bytes.into(), delivery)) })
}

impl http_body::Body for DeliveryBody {
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
                Err(io::Error::other("a reservation ended before its response was sent"))
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
