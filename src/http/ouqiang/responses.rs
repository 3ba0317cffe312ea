//! The answers of the dialect, byte for byte as Go's `encoding/json` writes them.

use std::io::Write;

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::go_json;
use crate::{
    compat::{encoding, names},
    job::Job,
};

/// The type of every answer: Go finds plain text, and the old server does not correct it.
pub const MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// The message of a push.
pub const ADDED: &str = "添加成功";
/// The message of all other calls that succeed.
const DONE: &str = "操作成功";

/// The answer to a call that succeeded and has no data.
pub fn success(message: &str) -> Response {
    respond(body(0, message, |out| out.extend_from_slice(b"null")))
}

/// As [`success`], with the usual message.
pub fn done() -> Response {
    success(DONE)
}

/// The answer to a call that was refused or failed.
pub fn refusal(message: &str) -> Response {
    respond(failure(message))
}

/// The bytes of [`refusal`].
pub fn failure(message: &str) -> Vec<u8> {
    body(1, message, |out| out.extend_from_slice(b"null"))
}

/// The bytes of the answer to a pop that reserved this job.
pub fn popped(job: &Job) -> Vec<u8> {
    body(0, DONE, |out| {
        out.push(b'{');
        write_member(out, "id", &names::name_of_id(&job.id));
        out.push(b',');
        write_member(out, "body", &encoding::payload_of(&job.body));
        out.push(b'}');
    })
}

/// The answer to a get that found this job.
pub fn job(job: &Job) -> Response {
    // The old server adds the delay to a clock of whole seconds.
    let (due, ttr) = (job.due_at.as_millis().div_euclid(1_000), job.spec.ttr.as_duration().as_secs());
    respond(body(0, DONE, |out| {
        out.push(b'{');
        write_member(out, "topic", &names::name_of_topic(&job.topic));
        out.push(b',');
        write_member(out, "id", &names::name_of_id(&job.id));
        write!(out, ",\"delay\":{due},\"ttr\":{ttr},").expect("writing into memory cannot fail");
        write_member(out, "body", &encoding::payload_of(&job.body));
        out.push(b'}');
    }))
}

/// A response with these bytes as its body.
pub fn respond(body: impl Into<axum::body::Body>) -> Response {
    let mut response = body.into().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

fn body(code: u8, message: &str, write_data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write!(out, "{{\"code\":{code},").expect("writing into memory cannot fail");
    write_member(&mut out, "message", message.as_bytes());
    out.extend_from_slice(b",\"data\":");
    write_data(&mut out);
    out.push(b'}');
    out
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    write!(out, "\"{name}\":").expect("writing into memory cannot fail");
    go_json::write_string(out, value);
}
