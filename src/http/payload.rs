//! The body of a request: read whole before the handler runs, within bounds of size, pace and memory.
//!
//! Read before and not by the handler, because hyper does not notice a client that goes away while a
//! body lies unread, and because a connection stays usable after a refusal only when its body was read.

use std::pin::pin;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError};

use super::{App, pace::WINDOW_BYTES, problem::Problem, room::Taken};
use crate::metrics::Cut;

/// A JSON body that must be there.
pub(super) struct Json(pub Bytes);

/// A JSON body that may be left out, which reads as `{}`.
pub(super) struct OptionalJson(pub Bytes);

/// The bytes that [`read`] found.
#[derive(Clone)]
struct Payload(Bytes);

/// Layer: reads the body and hands it on as a whole.
pub(super) async fn read(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, Body::empty())).await;
    }
    match collect(&app, body).await {
        Ok((bytes, room)) => {
            parts.extensions.insert(Payload(bytes));
            let response = next.run(Request::from_parts(parts, Body::empty())).await;
            drop(room);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Reads `body` to its end; its bytes are counted against what all requests may hold together.
async fn collect(app: &App, body: Body) -> Result<(Bytes, Taken), Problem> {
    let mut body = pin!(body);
    let none = app.body_room.take(0, app.metrics.http.buffered());
    let (mut bytes, mut room) = (Vec::new(), none.ok_or_else(Problem::overloaded)?);
    loop {
        let window_end = bytes.len() + WINDOW_BYTES;
        let mut too_slow = pin!(app.clock.sleep(app.options.body_timeout));
        while bytes.len() < window_end {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut too_slow => {
                    app.metrics.connections.cut(Cut::Body);
                    return Err(Problem::slow());
                }
            };
            let Some(frame) = frame else { return Ok((bytes.into(), room)) };
            let frame = frame.map_err(|error| unreadable(error, app.options.max_request_bytes))?;
            // Trailers have no meaning here.
            if let Ok(data) = frame.into_data() {
                if !room.grow(&app.body_room, data.len()) {
                    return Err(Problem::overloaded());
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

/// Why a body could not be read: over the limit, or broken off or badly framed.
fn unreadable(error: axum::Error, max_request_bytes: usize) -> Problem {
    if error.into_inner().is::<LengthLimitError>() {
        Problem::request_too_large(max_request_bytes)
    } else {
        Problem::malformed("the request's body broke off or is badly framed")
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

fn payload(parts: &mut Parts) -> Result<Option<Bytes>, Problem> {
    match parts.extensions.remove::<Payload>() {
        Some(Payload(bytes)) if !bytes.is_empty() => {
            check_media_type(&parts.headers)?;
            Ok(Some(bytes))
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
        Ok(Self(payload(parts)?.unwrap_or(Bytes::from_static(b"{}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
