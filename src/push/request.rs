//! The request of a call: made of a reserved job, its callback and the secrets of its topic.

use std::fmt::Write;

use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
};
use sha2::{Digest, Sha256};

use super::{call::Request, sign};
use crate::{
    job::{Callback, JobId, SigningSecret, Timestamp},
    queue::Reservation,
};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const LINGER_TOPIC: HeaderName = HeaderName::from_static("linger-topic");
const LINGER_JOB: HeaderName = HeaderName::from_static("linger-job");
const LINGER_ATTEMPT: HeaderName = HeaderName::from_static("linger-attempt");
const LINGER_DUE: HeaderName = HeaderName::from_static("linger-due");
const LINGER_RECEIPT: HeaderName = HeaderName::from_static("linger-receipt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("Linger/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Most headers that a request has beside those of the callback.
const OWN_HEADERS: usize = 14;

/// The request that delivers `reservation` to `callback` at `now`, signed with each of `secrets`.
///
/// The headers of the callback are sent last, except for those that take the place of one of ours. A `traceparent` among
/// them takes the place of the job's whole trace context.
#[must_use]
pub fn build(
    reservation: &Reservation,
    callback: &Callback,
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Request {
    let job = &reservation.job;
    let body = if callback.method.has_body() { job.body.as_bytes().clone() } else { Bytes::new() };
    let id = webhook_id(&job.id, job.created_at);
    let timestamp = now.as_millis() / 1_000;
    let mut headers = HeaderMap::with_capacity(OWN_HEADERS + callback.headers.iter().len());
    let origin = callback.url.origin();
    headers.insert(HOST, value(&origin.authority()));
    headers.insert(USER_AGENT, PRODUCT);
    if callback.method.has_body() {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CONTENT_LENGTH, body.len().into());
    }
    headers.insert(WEBHOOK_ID, value(&id));
    headers.insert(WEBHOOK_TIMESTAMP, timestamp.into());
    if !secrets.is_empty() {
        let keys = secrets.iter().map(|secret| secret.key.as_bytes());
        headers.insert(WEBHOOK_SIGNATURE, value(&sign::signature(keys, &id, timestamp, &body)));
    }
    headers.insert(LINGER_TOPIC, value(job.topic.as_str()));
    headers.insert(LINGER_JOB, value(job.id.as_str()));
    headers.insert(LINGER_ATTEMPT, job.attempts.into());
    headers.insert(LINGER_DUE, value(&job.due_at.to_string()));
    headers.insert(LINGER_RECEIPT, secret_value(&reservation.receipt.to_string()));
    let is_traced_otherwise = callback.headers.iter().any(|(name, _)| name == "traceparent");
    if let Some(trace) = job.spec.trace.as_ref().filter(|_| !is_traced_otherwise) {
        headers.insert(TRACEPARENT, value(&trace.traceparent()));
        if let Some(state) = trace.tracestate() {
            headers.insert(TRACESTATE, value(state));
        }
    }
    for (name, text) in callback.headers.iter() {
        let name = HeaderName::try_from(name).expect("the names of a callback's headers are checked");
        headers.insert(name, secret_value(text));
    }
    Request {
        origin: origin.clone(),
        target: callback.url.target().to_owned(),
        method: callback.method,
        headers,
        body,
        timeout: callback.timeout(),
    }
}

/// The value of `webhook-id`, which is the same for every attempt of a job, and another one for a later job with the same
/// id.
#[must_use]
pub fn webhook_id(id: &JobId, created_at: Timestamp) -> String {
    // No id contains a line break.
    let digest = Sha256::digest(format!("{}\n{}", id.as_str(), created_at.as_millis()));
    let mut text = String::from("msg_");
    for byte in &digest[..16] {
        write!(text, "{byte:02x}").expect("a String takes any text");
    }
    text
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("names, times and values of headers are visible ASCII and spaces")
}

/// A value that debug output hides.
fn secret_value(text: &str) -> HeaderValue {
    let mut value = value(text);
    value.set_sensitive(true);
    value
}
