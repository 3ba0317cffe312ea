//! Answers on their way: what clients have not taken yet is bounded in all, however many read slowly.

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

use crate::{
    http::{
        App,
        errors::{MAX_FAULTS, Problem},
        paths,
    },
    net::byte_budget::{Room, Taken},
};

/// Answers up to this are not counted: a connection's own buffers hold more than that.
const SMALL_BYTES: usize = 4 * 1_024;

/// Most bytes of one item's result, and of one fault in it: an id of up to 255 characters, or a field's name of up to
/// 64 bytes or a pointer of up to 256, twice, and our own words.
const RESULT_BYTES: usize = 1_024;

/// What becomes of the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is sent whatever it is: questions about the server itself are answered however slow others are, and
    /// what answers HEAD is never sent.
    Free,
    /// It takes room if it is large. What was changed is told all the same: of one job, or, of a batch, in the
    /// room that was [reserved](reserve) before it was carried out.
    Change,
    /// It takes room if it is large, and is refused where there is none.
    Question,
    /// The same, in room of its own.
    Figures,
    /// The same, whatever the method: the jobs in it go back uncounted.
    Delivery,
}

impl Hold {
    pub fn of(route: &str, method: &Method) -> Self {
        match *method {
            _ if paths::DELIVERIES.contains(&route) => Self::Delivery,
            Method::GET if route == paths::METRICS => Self::Figures,
            _ if paths::OPERATIONS.contains(&route) => Self::Free,
            Method::HEAD => Self::Free,
            Method::GET => Self::Question,
            _ => Self::Change,
        }
    }
}

/// Room for an answer, taken before it was known. Travels with the response.
#[derive(Debug, Clone)]
struct Reserved(Arc<Taken>);

/// Room for the results of a batch of so many items.
pub struct ResultsRoom(Option<Reserved>);

/// Takes room for the results of a batch before it is carried out, because they must be sent afterwards.
///
/// # Errors
/// 503 where there is none; nothing happened then.
pub fn reserve(app: &App, items: usize) -> Result<ResultsRoom, Problem> {
    let bytes = (items + items.min(MAX_FAULTS)) * RESULT_BYTES;
    if bytes <= SMALL_BYTES {
        return Ok(ResultsRoom(None));
    }
    let taken = app.answer_room.take(bytes, app.metrics.http.answering());
    let taken = taken.ok_or_else(Problem::too_many_answers)?;
    Ok(ResultsRoom(Some(Reserved(Arc::new(taken)))))
}

impl ResultsRoom {
    /// Gives the room to the answer that it was taken for.
    pub fn hold(self, mut answer: Response) -> Response {
        if let Some(reserved) = self.0 {
            answer.extensions_mut().insert(reserved);
        }
        answer
    }
}

/// The answer as it goes out.
pub fn on_the_way(app: &App, hold: Hold, answer: Response) -> Response {
    match hold {
        Hold::Free => answer,
        Hold::Change => held(app, &app.answer_room, answer, false),
        Hold::Question | Hold::Delivery => held(app, &app.answer_room, answer, true),
        Hold::Figures => held(app, &app.figures_room, answer, true),
    }
}

fn held(app: &App, room: &Room, mut response: Response, refusable: bool) -> Response {
    let reserved = response.extensions_mut().remove::<Reserved>();
    let len = response.body().size_hint().lower();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len <= SMALL_BYTES {
        return response;
    }
    let reserved = reserved.and_then(|Reserved(taken)| Arc::into_inner(taken)).map(|mut taken| {
        taken.shrink(len);
        taken
    });
    match reserved.or_else(|| room.take(len, app.metrics.http.answering())) {
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
