//! JSON bodies, as the handlers of our own API take them.

use axum::{
    body::Bytes,
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};

use super::{app::App, edge::request_body, errors::Problem};
use crate::queue::Limits;

/// Longest body that is parsed on the thread of its connection, in bytes. A longer one would delay every other
/// connection of that thread by milliseconds.
const MAX_INLINE_BYTES: usize = 256 * 1_024;

/// A JSON body that is required.
pub struct JsonBody(Bytes);

/// A JSON body that may be left out, which reads as `{}`. So does `null`, which generated clients send in that case.
pub struct OptionalJsonBody(Bytes);

impl JsonBody {
    /// Parses the body, on a thread for blocking work if it is large.
    pub async fn parse<T: Send + 'static>(
        self,
        app: &App,
        parse: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Self(bytes) = self;
        let (app, len) = (app.clone(), bytes.len());
        run_parser(len, move || parse(&bytes, app.queue.limits())).await
    }
}

impl OptionalJsonBody {
    /// See [`JsonBody::parse`].
    pub async fn parse<T: Send + 'static>(
        self,
        app: &App,
        parse: impl FnOnce(&Bytes, &Limits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        JsonBody(self.0).parse(app, parse).await
    }
}

/// Runs `parse` on a body of `len` bytes, on a thread for blocking work if it is large.
pub async fn run_parser<T: Send + 'static>(
    len: usize,
    parse: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if len <= MAX_INLINE_BYTES {
        return parse();
    }
    match tokio::task::spawn_blocking(parse).await {
        Ok(parsed) => parsed,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(Problem::internal()),
        },
    }
}

/// Refuses a body whose headers do not say that it is plain JSON.
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

/// Accepts `application/json` and types with the suffix `+json` (such as `application/merge-patch+json`, RFC 6839), in
/// UTF-8.
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

/// Removes the body from the request; `None` if it is missing or empty.
fn take_json(parts: &mut Parts) -> Result<Option<Bytes>, Problem> {
    let bytes = request_body::remove_body(parts);
    if bytes.is_some() {
        check_media_type(&parts.headers)?;
    }
    Ok(bytes)
}

impl<S: Send + Sync> FromRequestParts<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let bytes = take_json(parts)?;
        bytes.map(Self).ok_or_else(|| Problem::malformed("this call needs a JSON object as its body"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OptionalJsonBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let bytes = take_json(parts)?.filter(|bytes| bytes.trim_ascii() != b"null");
        Ok(Self(bytes.unwrap_or(Bytes::from_static(b"{}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_large_body_is_parsed_on_another_thread() {
        let here = std::thread::current().id();
        for (len, on_other_thread) in [(0, false), (MAX_INLINE_BYTES, false), (MAX_INLINE_BYTES + 1, true)] {
            let parsed = run_parser(len, || Ok(std::thread::current().id())).await;
            assert_eq!(parsed.expect("is parsed") != here, on_other_thread, "{len}");
        }
        let refused = run_parser::<()>(MAX_INLINE_BYTES + 1, || Err(Problem::malformed("no"))).await;
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
