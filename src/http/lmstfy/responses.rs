//! The answers of the dialect: JSON with its members in the order of the alphabet, in which Go writes a map.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::queue_path::queue_of;
use crate::{
    compat::{encoding, names},
    http::edge::NotARefusal,
    job::{Job, JobId, Timestamp, Topic},
};

/// The type of every answer with a body.
pub const MEDIA_TYPE: &str = "application/json; charset=utf-8";

/// What is said of a body that broke off, or came too slowly.
pub const UNREADABLE_BODY: &str = "failed to read body";

/// A job as it is consumed or shown.
#[derive(Debug, Serialize)]
pub struct JobAnswer<'a> {
    attributes: (),
    #[serde(serialize_with = "in_base64")]
    data: Bytes,
    elapsed_ms: u64,
    job_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: &'a str,
    queue: &'a str,
    remain_tries: u64,
    ttl: u64,
}

impl<'a> JobAnswer<'a> {
    /// A job that was consumed.
    pub fn consumed(job: &'a Job, now: Timestamp) -> Self {
        Self { msg: Some("new job"), ..Self::peeked(job, now) }
    }

    /// The first job of a queue.
    pub fn peeked(job: &'a Job, now: Timestamp) -> Self {
        let (namespace, queue) = queue_of(&job.topic);
        let tries = match job.spec.max_attempts {
            0 => u64::from(u16::MAX),
            tries => u64::from(tries.saturating_sub(job.attempts)),
        };
        Self {
            attributes: (),
            data: encoding::payload_of(&job.body),
            elapsed_ms: millis(now.since(job.created_at)),
            job_id: name_of(&job.id),
            msg: None,
            namespace,
            queue,
            remain_tries: tries,
            // Redis rounds the time that a key has left in this way.
            ttl: job.expires_at.map_or(0, |at| millis(at.since(now)).saturating_add(500) / 1_000),
        }
    }

    /// A job that was asked for by its id. lmstfy does not read how many tries it has.
    pub fn found(job: &'a Job, now: Timestamp) -> Self {
        Self { remain_tries: 0, ..Self::peeked(job, now) }
    }
}

/// Without a copy: a delivery may have megabytes.
fn in_base64<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(data, &STANDARD))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name_of(id: &JobId) -> String {
    String::from_utf8_lossy(&names::name_of_id(id)).into_owned()
}

#[derive(Serialize)]
struct Published {
    job_id: String,
    msg: &'static str,
}

#[derive(Serialize)]
struct PublishedBulk {
    job_ids: Vec<String>,
    msg: &'static str,
}

#[derive(Serialize)]
struct Size<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: u64,
}

#[derive(Serialize)]
struct DeadLetters<'a> {
    deadletter_head: String,
    deadletter_size: u64,
    namespace: &'a str,
    queue: &'a str,
}

#[derive(Serialize)]
struct Respawned {
    count: usize,
    msg: &'static str,
}

#[derive(Serialize)]
struct ErrorAnswer<'a> {
    error: &'a str,
}

#[derive(Serialize)]
struct NoJob {
    msg: &'static str,
}

pub fn published(id: &JobId) -> Response {
    json(StatusCode::CREATED, &Published { job_id: name_of(id), msg: "published" })
}

pub fn published_bulk(ids: &[JobId]) -> Response {
    let job_ids = ids.iter().map(name_of).collect();
    json(StatusCode::CREATED, &PublishedBulk { job_ids, msg: "published" })
}

pub fn no_job() -> Response {
    not_found(bytes(&NoJob { msg: "no job available" }))
}

pub fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

pub fn size(topic: &Topic, size: u64) -> Response {
    let (namespace, queue) = queue_of(topic);
    json(StatusCode::OK, &Size { namespace, queue, size })
}

/// How many dead letters there are, and which is the oldest.
pub fn dead_letters(topic: &Topic, count: u64, oldest: Option<&JobId>) -> Response {
    let (namespace, queue) = queue_of(topic);
    let head = oldest.map(name_of).unwrap_or_default();
    json(StatusCode::OK, &DeadLetters { deadletter_head: head, deadletter_size: count, namespace, queue })
}

pub fn respawned(count: usize) -> Response {
    json(StatusCode::OK, &Respawned { count, msg: "respawned" })
}

/// The answer where there is no job to show, and what is said of it.
pub fn nothing(text: &str) -> Response {
    not_found(error_bytes(text))
}

/// Not a refusal: the call has done what it was asked.
fn not_found(body: Vec<u8>) -> Response {
    let mut response = respond(StatusCode::NOT_FOUND, body);
    response.extensions_mut().insert(NotARefusal);
    response
}

/// The bytes of a refusal.
pub fn error_bytes(text: &str) -> Vec<u8> {
    bytes(&ErrorAnswer { error: text })
}

pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    respond(status, bytes(value))
}

pub fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("writing into memory cannot fail")
}

/// A response with these bytes as its body.
pub fn respond(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}
