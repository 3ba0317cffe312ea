//! Entity tags: a client that says which content it has is not sent that content again (RFC 9110, 13.1.2).

use axum::{
    body::{self, Body},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use sha2::{Digest, Sha256};

/// The tag of a body. Different bodies have different tags. It is a weak one, because a body may be sent compressed or as it is.
pub fn tag_of(content: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(content);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("W/\"{digits}\"")).expect("digits are ASCII")
}

/// What a request says in `If-None-Match`: the contents that its client has.
pub struct KnownTags(Vec<HeaderValue>);

impl KnownTags {
    pub fn sent_in(headers: &HeaderMap) -> Self {
        Self(headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect())
    }

    /// Whether the client has the content with this tag. The comparison is weak, as the RFC wants it.
    pub fn contains(&self, tag: &HeaderValue) -> bool {
        let tag = without_weakness(tag.to_str().expect("is ASCII"));
        let texts = self.0.iter().filter_map(|value| value.to_str().ok());
        let mut known = texts.flat_map(|text| text.split(',')).map(str::trim);
        known.any(|known| known == "*" || without_weakness(known) == tag)
    }
}

fn without_weakness(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Adds its tag to an answer with a body in memory. If the client has that body, the answer becomes a 304 without it.
pub async fn tag(known: &KnownTags, response: Response) -> Response {
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let content = body::to_bytes(body, usize::MAX).await.expect("a body in memory");
    let tag = tag_of(&content);
    let body = if known.contains(&tag) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        Body::empty()
    } else {
        Body::from(content)
    };
    parts.headers.insert(header::ETAG, tag);
    Response::from_parts(parts, body)
}
