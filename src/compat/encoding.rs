//! Payloads of any bytes as bodies, which are JSON, and back. A payload comes back byte for byte.
//!
//! A payload that is a body already stays as it is, so that native workers get the JSON that an old client sent. Any other
//! text becomes `{"linger:text":"..."}`, and bytes that are not UTF-8 become `{"linger:base64":"..."}`. A payload that looks
//! like one of these wrappers is wrapped itself.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::job::Body;

/// A body that stands for a payload. JSON objects with exactly one of these members, and nothing else, are wrappers.
#[derive(Serialize, Deserialize)]
enum Wrapper<'a> {
    #[serde(rename = "linger:text")]
    Text(Cow<'a, str>),
    #[serde(rename = "linger:base64")]
    Base64(Cow<'a, str>),
}

/// The body that stands for `payload`.
#[must_use]
pub fn body_of(payload: &Bytes) -> Body {
    match Body::parse(payload.clone()) {
        // White space around the value would be lost.
        Ok(body) if body.as_bytes() == payload && unwrapped(payload).is_none() => body,
        Ok(_) | Err(_) => wrapped(payload),
    }
}

/// The payload that `body` stands for. A body that is no wrapper is its own payload.
#[must_use]
pub fn payload_of(body: &Body) -> Bytes {
    unwrapped(body.as_bytes()).unwrap_or_else(|| body.as_bytes().clone())
}

fn wrapped(payload: &[u8]) -> Body {
    let wrapper = match std::str::from_utf8(payload) {
        Ok(text) => Wrapper::Text(text.into()),
        Err(_) => Wrapper::Base64(STANDARD.encode(payload).into()),
    };
    let json = serde_json::to_vec(&wrapper).expect("writing text into memory cannot fail");
    Body::parse(json.into()).expect("a wrapper is a flat object of whole characters")
}

/// The payload in a wrapper; `None` for any other JSON. A wrapper may come from a native client, in any notation.
fn unwrapped(json: &[u8]) -> Option<Bytes> {
    if json.first() != Some(&b'{') {
        return None;
    }
    match serde_json::from_slice(json).ok()? {
        Wrapper::Text(text) => Some(text.into_owned().into()),
        Wrapper::Base64(text) => STANDARD.decode(&*text).ok().map(Bytes::from),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::MAX_DEPTH;

    fn body(payload: impl AsRef<[u8]>) -> String {
        let body = body_of(&Bytes::copy_from_slice(payload.as_ref()));
        assert_eq!(payload_of(&body), payload.as_ref(), "{body:?}");
        String::from_utf8(body.as_bytes().to_vec()).expect("JSON is UTF-8")
    }

    #[test]
    fn json_stays_as_it_is() {
        for json in
            [r#"{"b":1.50, "a":"\u00e9"}"#, "1e999", "null", r#""text""#, "[ ]", r#"{"linger:text":1}"#]
        {
            assert_eq!(body(json), json);
        }
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(body(nested(MAX_DEPTH)), nested(MAX_DEPTH));
        assert_eq!(body(nested(MAX_DEPTH + 1)), format!(r#"{{"linger:text":"{}"}}"#, nested(MAX_DEPTH + 1)));
        for no_wrapper in [
            r#"{"linger:text":"a","b":1}"#,
            r#"{"linger:base64":"?"}"#,
            r#"{"linger:text":"a","linger:text":"b"}"#,
        ] {
            assert_eq!(body(no_wrapper), no_wrapper);
        }
    }

    #[test]
    fn anything_else_is_wrapped() {
        assert_eq!(body(""), r#"{"linger:text":""}"#);
        assert_eq!(body("hello"), r#"{"linger:text":"hello"}"#);
        assert_eq!(body(" 1"), r#"{"linger:text":" 1"}"#);
        assert_eq!(body("1\n"), r#"{"linger:text":"1\n"}"#);
        assert_eq!(body(r#""\ud800""#), r#"{"linger:text":"\"\\ud800\""}"#, "half of a pair is no body");
        assert_eq!(body(b"\xff\x00"), r#"{"linger:base64":"/wA="}"#);
        assert_eq!(body(r#"{"linger:text":"a"}"#), r#"{"linger:text":"{\"linger:text\":\"a\"}"}"#);
        assert_eq!(body(r#"{ "linger:base64" : "" }"#), r#"{"linger:text":"{ \"linger:base64\" : \"\" }"}"#);
    }

    #[test]
    fn a_native_client_may_write_a_wrapper_in_any_notation() {
        let body =
            Body::parse(Bytes::from_static(br#"{ "linger:te\u0078t": "\u00e9" }"#)).expect("is a body");
        assert_eq!(payload_of(&body), "é");
    }

    proptest! {
        #[test]
        fn bytes_come_back(payload in any::<Vec<u8>>()) {
            body(payload);
        }

        #[test]
        fn text_that_is_almost_json_comes_back(
            payload in r#"[ \n]?\{? ?("linger:(text|base64)")? ?:?("[a-zA-Z0-9=\\"]{0,5}"|[0-9e.]{0,4}|null)?\}?[ \n]?"#,
        ) {
            body(payload);
        }

        #[test]
        fn a_wrapper_of_a_wrapper_comes_back(payload in any::<Vec<u8>>(), times in 1..4) {
            let mut inner = payload;
            for _ in 0..times {
                inner = body(inner).into_bytes();
            }
            body(inner);
        }
    }
}
