//! Writes JSON by hand, so that a job's body is returned as the exact bytes that were sent.
//!
//! Knows the forms of the API's values (seconds, timestamps), not what they belong to.

use std::{fmt::Display, io::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::job::{Timestamp, format_seconds};

/// Writes one object. Call [`end`](Self::end) after the last member.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> ObjectWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    fn name(&mut self, name: &str) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        // Names are plain words, or names of headers, which need no escapes.
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_text(self.out, text);
    }

    pub fn number(&mut self, name: &'static str, number: impl Display) {
        self.name(name);
        write!(self.out, "{number}").expect("writing into memory cannot fail");
    }

    pub fn number_or_null(&mut self, name: &'static str, number: Option<impl Display>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.raw(name, b"null"),
        }
    }

    pub fn flag(&mut self, name: &'static str, flag: bool) {
        self.number(name, flag);
    }

    /// A duration, as seconds.
    pub fn seconds(&mut self, name: &'static str, duration: Duration) {
        self.number(name, format_seconds(duration));
    }

    /// A timestamp, as RFC 3339 in UTC, which needs no escapes.
    pub fn timestamp(&mut self, name: &'static str, timestamp: Timestamp) {
        self.name(name);
        write!(self.out, "\"{timestamp}\"").expect("writing into memory cannot fail");
    }

    pub fn timestamp_or_null(&mut self, name: &'static str, timestamp: Option<Timestamp>) {
        match timestamp {
            Some(timestamp) => self.timestamp(name, timestamp),
            None => self.raw(name, b"null"),
        }
    }

    /// Bytes that already are JSON.
    pub fn raw(&mut self, name: &str, json: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(json);
    }

    /// A nested object.
    pub fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        let mut inner = ObjectWriter::new(self.out);
        fill(&mut inner);
        inner.end();
    }

    /// A value that `write` writes.
    pub fn value(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        write(self.out);
    }

    /// A list with one element per item, which `write` writes.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>),
    ) {
        self.name(name);
        self.out.push(b'[');
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write(item, self.out);
        }
        self.out.push(b']');
    }

    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a string.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("text into memory cannot fail");
}

/// A response of one JSON object.
pub(super) fn object_response(fill: impl FnOnce(&mut ObjectWriter<'_>)) -> Response {
    let mut out = Vec::with_capacity(512);
    let mut object = ObjectWriter::new(&mut out);
    fill(&mut object);
    object.end();
    response(out)
}

/// A response of bytes that already are JSON. Ends it with a line feed, for people who read it on a terminal.
pub(super) fn response(json: Vec<u8>) -> Response {
    response_with(json, Body::from)
}

/// The same, with a body that `to_body` makes from the bytes.
pub(super) fn response_with(mut json: Vec<u8>, to_body: impl FnOnce(Vec<u8>) -> Body) -> Response {
    json.push(b'\n');
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], to_body(json)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_objects_are_valid_json() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::new(&mut out);
        object.text("text", "a\"\\\n\u{1f}é");
        object.number("number", 7);
        object.flag("flag", true);
        object.seconds("seconds", Duration::from_millis(1_500));
        object.timestamp("timestamp", Timestamp::from_millis(0));
        object.timestamp_or_null("never", None);
        object.raw("raw", b"{\"a\": 1.50}");
        object.object("inner", |inner| inner.number("n", 1));
        object.object("nothing", |_| {});
        object.list("list", [1, 2], |n, out| write!(out, "{n}").expect("memory"));
        object.end();
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let expected = serde_json::json!({
            "text": "a\"\\\n\u{1f}é", "number": 7, "flag": true, "seconds": 1.5,
            "timestamp": "1970-01-01T00:00:00.000Z", "never": null, "raw": {"a": 1.5},
            "inner": {"n": 1}, "nothing": {}, "list": [1, 2],
        });
        assert_eq!(read, expected);
        assert!(out.windows(11).any(|w| w == b"{\"a\": 1.50}"), "raw bytes stay as they are");
    }
}
