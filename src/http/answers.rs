//! Answers on their way: what clients have not taken yet is bounded in all, however many read slowly.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body::{Body as _, Frame, SizeHint};

use super::{App, problem::Problem, room::Taken};

/// Answers up to this are not counted: a connection's own buffers hold more than that.
const SMALL_BYTES: usize = 4 * 1_024;

/// Layer: a large answer takes room until its client has it. Where there is none a question is refused;
/// what was changed is told all the same.
pub(super) async fn hold(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    // What answers HEAD is never sent.
    if method == Method::HEAD { response } else { held(&app, response, method == Method::GET) }
}

/// The same around pops, of any method: dropped for want of room, the jobs in an answer go back uncounted.
pub(super) async fn hold_delivery(State(app): State<App>, response: Response) -> Response {
    held(&app, response, true)
}

fn held(app: &App, response: Response, refusable: bool) -> Response {
    let len = response.body().size_hint().lower();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len <= SMALL_BYTES {
        return response;
    }
    match app.answer_room.take(len, app.metrics.http.answering()) {
        Some(room) => response.map(|body| Body::new(Held { body, room: Some(room) })),
        None if refusable => {
            let mut refusal = Problem::too_many_answers().into_response();
            // The figures know from these how long the request waited for a job.
            refusal.extensions_mut().extend(response.into_parts().0.extensions);
            refusal
        }
        None => response,
    }
}

/// An answer with its room, which goes on to the bytes: hyper takes these when it begins to write them, and
/// keeps them until the client has taken them.
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
