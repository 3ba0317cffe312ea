//! The body of a request: read whole before the handler runs, within bounds of size, pace and memory.
//!
//! Read before and not by the handler, because hyper does not notice a client that goes away while a
//! body lies unread, and because a connection stays usable after a refusal only when its body was read.

use std::{pin::pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, Request},
    http::{HeaderMap, Method, header, request::Parts},
};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::{
    http::{App, errors::Problem, pace::WINDOW_BYTES, paths},
    net::byte_budget::{Holder, Share, Taken},
};
use crate::{metrics::Cut, queue::Limits};

/// Longest body that is parsed where it arrived, in bytes. A longer one would hold up every other connection of
/// that thread for milliseconds.
const INLINE_BYTES: usize = 256 * 1_024;

/// Longest body that is read, and forgotten, where none belongs.
const UNASKED_BYTES: usize = 4 * 1_024;

/// A JSON body that must be there.
pub struct Json(Payload);

/// A JSON body that may be left out, which reads as `{}`; so does `null`, which generated clients send for it.
pub struct OptionalJson(Payload);

impl Json {
    /// Reads the body by `read`, on a thread for blocking work where it is large.
    pub async fn read<T: Send + 'static>(
        self,
        app: &App,
        read: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Self(payload) = self;
        let (app, len) = (app.clone(), payload.bytes.len());
        parse(len, move || read(&payload.bytes, app.queue.limits())).await
    }
}

/// Runs `parsing` of a body of `len` bytes, on a thread for blocking work where it is large.
async fn parse<T: Send + 'static>(
    len: usize,
    parsing: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if len <= INLINE_BYTES {
        return parsing();
    }
    match tokio::task::spawn_blocking(parsing).await {
        Ok(read) => read,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(Problem::internal()),
        },
    }
}

impl OptionalJson {
    /// The same as [`Json::read`].
    pub async fn read<T: Send + 'static>(
        self,
        app: &App,
        read: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        Json(self.0).read(app, read).await
    }
}

/// The bytes that [`read`] found.
#[derive(Clone)]
struct Payload {
    bytes: Bytes,
}

/// What a body takes of the memory for all bodies and of its caller's share; given back when dropped.
struct Held {
    room: Taken,
    share: Share,
}

/// The bytes of a body with what they take. Jobs that are parsed from a body are slices of it, so that it is counted
/// until the store has dropped the last of them, also when the client has left meanwhile.
struct Counted {
    bytes: Vec<u8>,
    _held: Held,
}

impl Held {
    /// `bytes`, which keep this until the last part of them is dropped.
    fn with(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Counted { bytes, _held: self })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the body of `request`, which `holder` sent to `route`, for the handler to have as a whole. Returns the bytes,
/// too: whoever keeps them keeps them counted.
pub async fn read(
    app: &App,
    route: &str,
    holder: Holder,
    request: Request,
) -> Result<(Request, Bytes), Problem> {
    let (mut parts, body) = request.into_parts();
    let mut bytes = Bytes::new();
    if !body.is_end_stream() {
        // On the heap while it lasts, so that a long poll, which has no body, has no room for one either.
        if takes_body(route, &parts.method) {
            bytes = Box::pin(collect(app, holder, limit_of(app, route), body)).await?;
            parts.extensions.insert(Payload { bytes: bytes.clone() });
        } else {
            Box::pin(each_part(app, UNASKED_BYTES, body, |_| Ok(()))).await?;
        }
    }
    Ok((Request::from_parts(parts, Body::empty()), bytes))
}

/// Whether a request with `method` to `route` may have a body. That of any other takes nothing from the
/// memory for all bodies: `/livez` answers also those who have no token.
fn takes_body(route: &str, method: &Method) -> bool {
    route != paths::NO_ROUTE && matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// Largest body of a request to `route`: what carries no jobs has no need of many bytes.
fn limit_of(app: &App, route: &str) -> usize {
    let (all, small) = (app.options.max_request_bytes, app.options.max_small_request_bytes);
    if paths::LARGE_BODIES.contains(&route) { all } else { small.min(all) }
}

/// Reads `body` to its end; its bytes are counted against what `holder` and all requests may hold.
async fn collect(app: &App, holder: Holder, limit: usize, body: Body) -> Result<Bytes, Problem> {
    let none = app.body_room.take(0, app.metrics.http.buffered());
    let room = none.ok_or_else(Problem::overloaded)?;
    let (mut bytes, mut held) = (Vec::new(), Held { room, share: app.body_shares.of(holder) });
    each_part(app, limit, body, |part| {
        if !held.share.grow(part.len()) || !held.room.grow(&app.body_room, part.len()) {
            return Err(Problem::overloaded());
        }
        bytes.extend_from_slice(part);
        Ok(())
    })
    .await?;
    Ok(held.with(bytes))
}

/// Hands every part of `body` to `take`, up to `limit` bytes and no slower than the options allow.
async fn each_part(
    app: &App,
    limit: usize,
    body: Body,
    mut take: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // Not a byte of it is read where its length says so much; so the client is not asked to send it either.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|announced| announced > limit) {
        return Err(Problem::request_too_large(limit));
    }
    let (mut body, began_us, mut len) = (pin!(body), app.clock.now_micros(), 0);
    loop {
        let window_end = len + WINDOW_BYTES;
        let mut too_slow = pin!(app.clock.sleep(time_left(app, began_us, len)));
        while len < window_end {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut too_slow => {
                    app.metrics.connections.cut(Cut::Body);
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
                take(&part)?;
            }
        }
    }
}

/// How long the next part of a body may take of which `len` bytes have come since `began_us`.
fn time_left(app: &App, began_us: i64, len: usize) -> Duration {
    let earned = Duration::from_secs_f64(len as f64 / app.options.min_body_rate.max(1) as f64);
    let elapsed_us = app.clock.now_micros().saturating_sub(began_us).unsigned_abs();
    (app.options.body_timeout + earned).saturating_sub(Duration::from_micros(elapsed_us))
}

/// Refuses a body in any transfer coding but `chunked`: a proxy in front may understand it otherwise.
pub fn check_framing(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err(Problem::transfer_coding()),
    }
}

/// Refuses bodies that are not plain JSON by their headers.
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

/// `application/json` and its kin (`application/merge-patch+json`, RFC 6839), in UTF-8.
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

fn payload(parts: &mut Parts) -> Result<Option<Payload>, Problem> {
    match parts.extensions.remove::<Payload>() {
        Some(payload) if !payload.bytes.is_empty() => {
            check_media_type(&parts.headers)?;
            Ok(Some(payload))
        }
        _ => Ok(None),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Json {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        payload(parts)?
            .map(Self)
            .ok_or_else(|| Problem::malformed("this call needs a JSON object as its body"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OptionalJson {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let given = payload(parts)?.filter(|payload| payload.bytes.trim_ascii() != b"null");
        Ok(Self(given.unwrap_or(Payload { bytes: Bytes::from_static(b"{}") })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::{
        job,
        metrics::Metrics,
        net::byte_budget::{Room, Shares},
    };

    #[test]
    fn a_body_is_counted_until_the_last_slice_of_it_is_dropped() {
        let (room, shares) = (Room::new(10), Shares::new(10));
        let mut held = Held {
            room: room.take(0, Metrics::new().http.buffered()).expect("there is room"),
            share: shares.of(Holder::Address([127, 0, 0, 1].into())),
        };
        assert!(held.share.grow(10) && held.room.grow(&room, 10));
        let text = held.with(br#"["abcdef"]"#.to_vec());
        let [raw]: [&RawValue; 1] = serde_json::from_slice(&text).expect("is JSON");
        let body = job::Body::from_raw(raw, &text).expect("is a body");
        drop(text);
        let mut other = shares.of(Holder::Address([127, 0, 0, 1].into()));
        assert!(room.take(1, Metrics::new().http.buffered()).is_none() && !other.grow(1), "{body:?}");
        drop(body);
        assert!(room.take(10, Metrics::new().http.buffered()).is_some() && other.grow(10));
    }

    #[tokio::test]
    async fn only_a_large_body_is_parsed_on_another_thread() {
        let here = std::thread::current().id();
        for (len, apart) in [(0, false), (INLINE_BYTES, false), (INLINE_BYTES + 1, true)] {
            let parsed = parse(len, || Ok(std::thread::current().id())).await;
            assert_eq!(parsed.expect("is read") != here, apart, "{len}");
        }
        let refused = parse::<()>(INLINE_BYTES + 1, || Err(Problem::malformed("no"))).await;
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
