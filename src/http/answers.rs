//! Answers on their way: what clients have not taken yet is bounded in all, however many read slowly.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use http_body::{Body as _, Frame, SizeHint};

use super::{App, problem::Problem, room::Taken};

/// Answers up to this are not counted: a connection's own buffers hold more than that.
const SMALL_BYTES: usize = 4 * 1_024;

/// Layer: an answer goes out when there is room for it. Dropped for want of room, the jobs in it go back
/// uncounted; a change that it told of has happened, and may be sent again.
pub(super) async fn hold(State(app): State<App>, response: Response) -> Response {
    let len = response.body().size_hint().lower();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len <= SMALL_BYTES {
        return response;
    }
    match app.answer_room.take(len, app.metrics.http.answering()) {
        Some(room) => response.map(|body| Body::new(Held { body, room: Some(room) })),
        None => Problem::too_many_answers().into_response(),
    }
}

/// An answer with its room, which goes on to the bytes: hyper asks for them at once, but keeps them until
/// the client has taken them.
struct Held {
    body: Body,
    room: Option<Taken>,
}

struct Counted {
    bytes: Bytes,
    _room: Taken,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // All our answers are of one piece.
        let room = self.room.take();
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match room {
                Some(room) => frame.map_data(|bytes| Bytes::from_owner(Counted { bytes, _room: room })),
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
