//! JSON as Go's `encoding/json` of 2017 reads and writes it, where that differs from other parsers.
//!
//! Reading: bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD, each of them one. Writing: `<`, `>`, `&`,
//! U+2028 and U+2029 are escaped, so that a browser could show the text, and bytes that are not UTF-8 are `\ufffd`.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What replaces anything that is no character.
const REPLACEMENT: char = '\u{fffd}';

/// The text with each byte that is not UTF-8 replaced.
pub fn to_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
    }
    text.into()
}

/// Passes those members of the object in `text` that are among `names` to `take`, in their order. `take` gets the position of
/// the name and the value, and returns whether the value has the type of the member. `null` in place of the object has no members.
///
/// Returns false if `text` is no JSON, no object, or has a value of a wrong type.
pub fn read_object(text: &str, names: &[&str], take: impl FnMut(usize, &str) -> bool) -> bool {
    // As Go does, before anything is read: the names below are read without a check for control characters.
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return false;
    }
    if text.trim_ascii() == "null" {
        return true;
    }
    serde_json::Deserializer::from_str(text).deserialize_map(ObjectMembers { names, take }).is_ok()
}

/// The text of a string in JSON that is valid; `None` for any other value.
pub fn string(value: &str) -> Option<String> {
    let StringValue(text) = serde_json::from_str(value).ok()?;
    Some(text)
}

/// A whole number; `None` for any other value, also for `1.0` and `1e3`.
pub fn integer(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// Writes a string.
pub fn write_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            write_character(out, character);
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn write_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..'\x20' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// The text of a string in JSON, which may hold halves of surrogate pairs.
struct StringValue(String);

impl<'de> serde::Deserialize<'de> for StringValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `deserialize_str`, which refuses half of a pair.
        deserializer.deserialize_byte_buf(Characters).map(Self)
    }
}

struct Characters;

impl Visitor<'_> for Characters {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, mut bytes: &[u8]) -> Result<String, E> {
        // Half of a pair arrives as the three bytes that it would have in UTF-8, which none of its characters may have.
        let mut text = String::with_capacity(bytes.len());
        loop {
            match std::str::from_utf8(bytes) {
                Ok(rest) => {
                    text.push_str(rest);
                    return Ok(text);
                }
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    text.push(REPLACEMENT);
                    bytes = rest.get(3..).unwrap_or_default();
                }
            }
        }
    }
}

struct ObjectMembers<'a, F> {
    names: &'a [&'a str],
    take: F,
}

impl<'de, F: FnMut(usize, &str) -> bool> Visitor<'de> for ObjectMembers<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut are_valid = true;
        while let Some(StringValue(name)) = map.next_key()? {
            match self.names.iter().position(|known| known.eq_ignore_ascii_case(&name)) {
                Some(at) => {
                    let value: &RawValue = map.next_value()?;
                    // `null` leaves what an earlier member of the same name has set.
                    are_valid &= value.get() == "null" || (self.take)(at, value.get());
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if are_valid { Ok(()) } else { Err(serde::de::Error::custom("a value has another type")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_character_is_replaced_one_by_one() {
        assert_eq!(to_text(b"a\xe4\xbdb\xff"), "a\u{fffd}\u{fffd}b\u{fffd}");
        for (json, text) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\ud800\ud800a""#, "\u{fffd}\u{fffd}a"),
            (r#""\ud83d\ude00\udc00""#, "😀\u{fffd}"),
            (r#""\u00e9\/\b""#, "é/\u{8}"),
        ] {
            assert_eq!(string(json).as_deref(), Some(text), "{json}");
        }
        for no_string in ["1", "{}", "[]", "true", "\""] {
            assert_eq!(string(no_string), None, "{no_string}");
        }
    }

    #[test]
    fn strings_are_written_as_go_writes_them() {
        let mut out = Vec::new();
        write_string(&mut out, "\"\\/\n\r\t\u{8}\u{c}\0\x1f\x7f<>&\u{2028}\u{2029}é😀".as_bytes());
        let expected = r#""\"\\/\n\r\t\u0008\u000c\u0000\u001f"#.to_owned()
            + "\x7f"
            + r#"\u003c\u003e\u0026\u2028\u2029é😀""#;
        assert_eq!(String::from_utf8(out).expect("is text"), expected);
        let mut out = Vec::new();
        write_string(&mut out, b"a\xe4\xbd");
        assert_eq!(out, br#""a\ufffd\ufffd""#);
    }

    #[test]
    fn only_whole_numbers_are_integers() {
        assert_eq!(integer("-0"), Some(0));
        assert_eq!(integer("9223372036854775807"), Some(i64::MAX));
        for other in ["9223372036854775808", "1.0", "1e3", "\"1\"", "true"] {
            assert_eq!(integer(other), None, "{other}");
        }
    }
}
