//! A job's body: any JSON value, kept byte for byte as it was sent.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::surrogates;

/// Deepest accepted nesting of arrays and objects. A body that workers cannot parse would be a poison job. The strictest
/// of the common JSON parsers stops at 64 levels (.NET; Ruby at 100, serde at 128), of which the response to a batch pop
/// takes three.
pub const MAX_DEPTH: usize = 60;

/// The raw bytes of one JSON value. It is never parsed again, so large numbers, key order and escapes are preserved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Body(Bytes);

/// Why bytes were refused as a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not exactly one JSON value in UTF-8.
    #[error("must be one JSON value in UTF-8: {0}")]
    NotJson(String),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("must not nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Half of a surrogate pair in a string or a name. Many parsers refuse it, and with it every other job of the same
    /// response.
    #[error("must not hold half of a surrogate pair, which is no Unicode character")]
    LoneSurrogate {
        /// JSON Pointer, within the body, of the string or of the object with the name.
        pointer: String,
    },
}

impl Body {
    /// The most bytes that a server may be set to take.
    pub const LARGEST_LIMIT: u64 = 256 << 20;

    /// Accepts exactly one JSON value (RFC 8259) of whole Unicode characters, nested at most [`MAX_DEPTH`] deep.
    /// White space around it is removed. Numbers may be of any size.
    ///
    /// # Errors
    /// [`BodyError`] when the bytes are something else.
    pub fn parse(bytes: Bytes) -> Result<Self, BodyError> {
        let raw = serde_json::from_slice(&bytes).map_err(|error| BodyError::NotJson(error.to_string()))?;
        Self::from_raw(raw, &bytes)
    }

    /// Accepts a value that has been parsed already. It must be a slice of `text`.
    ///
    /// # Errors
    /// [`BodyError::TooDeep`], [`BodyError::LoneSurrogate`].
    ///
    /// # Panics
    /// If `raw` is not a slice of `text`.
    pub fn from_raw(raw: &RawValue, text: &Bytes) -> Result<Self, BodyError> {
        let json = raw.get().as_bytes();
        if is_too_deep(json) {
            return Err(BodyError::TooDeep);
        }
        match surrogates::find_lone(json) {
            Some(pointer) => Err(BodyError::LoneSurrogate { pointer }),
            None => Ok(Self(text.slice_ref(json))),
        }
    }

    /// A body that an engine has stored. It was valid when it was added.
    #[must_use]
    pub fn from_stored(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The raw JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl Default for Body {
    /// `null`, the body of a job that was added without one.
    fn default() -> Self {
        Self(Bytes::from_static(b"null"))
    }
}

fn is_too_deep(json: &[u8]) -> bool {
    // With so few brackets, the usual case, it cannot be too deep. Counting them is fast, many bytes at a time.
    let opening = json.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    opening > MAX_DEPTH && depth(json) > MAX_DEPTH
}

/// Deepest nesting of brackets outside of strings, in valid JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Body, BodyError> {
        Body::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn keeps_the_bytes_as_they_came() {
        for text in [
            "{\"b\":1.50, \"a\":12345678901234567890123, \"a\":\"\\u00e9\\/\"}",
            "null",
            "\"]]\\\"[\"",
            "1e999",
        ] {
            assert_eq!(parse(text).expect("valid").as_bytes(), text.as_bytes());
        }
        assert_eq!(parse(" [1] \n").expect("valid").as_bytes(), "[1]");
    }

    #[test]
    fn refuses_what_is_not_one_json_value() {
        for text in ["", "{", "{}{}", "nul", "'a'", "[1,]", "NaN", "\u{feff}1"] {
            assert!(matches!(parse(text), Err(BodyError::NotJson(_))), "{text}");
        }
        assert!(Body::parse(Bytes::from_static(b"\"\xff\"")).is_err(), "invalid UTF-8");
    }

    #[test]
    fn refuses_half_of_a_surrogate_pair() {
        let refused = Err(BodyError::LoneSurrogate { pointer: "/a/0".to_owned() });
        assert_eq!(parse(r#"{"a":["\ud800"]}"#), refused);
        assert!(parse(r#"{"a":["\ud83d\ude00"]}"#).is_ok());
    }

    #[test]
    fn bounds_the_nesting() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&nested(MAX_DEPTH + 1)), Err(BodyError::TooDeep));
        assert_eq!(parse(&nested(1_000_000)), Err(BodyError::TooDeep));
        assert!(parse(&format!("\"{}\"", "[".repeat(1_000))).is_ok(), "brackets in a string do not nest");
    }
}
