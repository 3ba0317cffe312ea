//! The headers that a client has sent with the calls of a callback: which names and values are accepted.
//!
//! Values are often credentials, so nothing here shows one. Knows no HTTP library.

use std::{fmt, sync::Arc};

/// Why a header was refused; the message says what is valid, and never repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A name without characters.
    #[error("must have a name")]
    EmptyName,
    /// A name of more than [`CallHeaders::MAX_NAME`] bytes.
    #[error("must have a name of at most {} characters, got {got}", CallHeaders::MAX_NAME)]
    NameTooLong {
        /// Length in bytes.
        got: usize,
    },
    /// A character that the name of a header cannot have.
    #[error(
        "may only have A-Z a-z 0-9 and ! # $ % & ' * + - . ^ _ ` | ~ in its name, not the one at position {position}"
    )]
    BadNameCharacter {
        /// Its offset in bytes, from 0.
        position: usize,
    },
    /// A header that frames the message.
    #[error("is set by the server: it says where the body ends")]
    Framing,
    /// A header that belongs to one connection.
    #[error("belongs to one connection, not to a message")]
    OneHop,
    /// `host`.
    #[error("is made from the URL")]
    Host,
    /// `expect`.
    #[error("would make the server wait for an answer before it sends the body")]
    Expect,
    /// `webhook-*` or `linger-*`.
    #[error("is reserved: the server itself sends headers that begin with webhook- and linger-")]
    Reserved,
    /// A name given twice; capitals do not make another name.
    #[error("must be given once")]
    Repeated,
    /// A value of more than [`CallHeaders::MAX_VALUE`] bytes.
    #[error("must be at most {} characters long, got {got}", CallHeaders::MAX_VALUE)]
    ValueTooLong {
        /// Length in bytes.
        got: usize,
    },
    /// A control character or a character outside of ASCII in a value.
    #[error("may only hold visible ASCII characters and spaces, not the one at position {position}")]
    BadValueCharacter {
        /// Its offset in bytes, from 0.
        position: usize,
    },
    /// A value that begins or ends with a space, which a receiver removes.
    #[error("must not begin or end with a space")]
    OuterSpace,
    /// More than [`CallHeaders::MAX_COUNT`] headers.
    #[error("must be at most {} headers, got {got}", CallHeaders::MAX_COUNT)]
    TooMany {
        /// Headers given.
        got: usize,
    },
    /// Names and values of more than [`CallHeaders::MAX_BYTES`] together.
    #[error("must be at most {} bytes in all, names and values, got {got}", CallHeaders::MAX_BYTES)]
    TooLarge {
        /// Bytes given.
        got: usize,
    },
}

/// Checked headers, ordered by name. Names are in lower case and differ from each other. `content-type` replaces the
/// one that the server would send.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CallHeaders(Arc<[(Box<str>, Box<str>)]>);

impl CallHeaders {
    /// Most headers.
    pub const MAX_COUNT: usize = 16;
    /// Longest name, in bytes.
    pub const MAX_NAME: usize = 64;
    /// Longest value, in bytes.
    pub const MAX_VALUE: usize = 1_024;
    /// Most bytes of all names and values together.
    pub const MAX_BYTES: usize = 4_096;

    /// Accepts pairs of name and value, in any order.
    ///
    /// # Errors
    /// The first fault.
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, HeaderError> {
        if pairs.len() > Self::MAX_COUNT {
            return Err(HeaderError::TooMany { got: pairs.len() });
        }
        let mut headers = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            check_name(&name)?;
            check_value(&value)?;
            headers.push((name.to_ascii_lowercase().into_boxed_str(), value.into_boxed_str()));
        }
        headers.sort();
        if headers.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(HeaderError::Repeated);
        }
        let got = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if got > Self::MAX_BYTES {
            return Err(HeaderError::TooLarge { got });
        }
        Ok(Self(headers.into()))
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of a header, whose name is given in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers as they are stored, one after the other: the length of the name (1 byte), the name, the length of the
    /// value (2 bytes, big-endian), the value.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in self.iter() {
            bytes.push(u8::try_from(name.len()).expect("a name has at most 64 bytes"));
            bytes.extend(name.bytes());
            bytes.extend(u16::try_from(value.len()).expect("a value has at most 1,024 bytes").to_be_bytes());
            bytes.extend(value.bytes());
        }
        bytes
    }

    /// Reads stored headers; `None` when they are malformed.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut pairs = Vec::new();
        while let Some((len, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(*len))?;
            let (len, rest) = rest.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
            pairs.push((text(name)?, text(value)?));
            bytes = rest;
        }
        Self::new(pairs).ok()
    }
}

/// Shows the names only.
impl fmt::Debug for CallHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// Checks the name of a header by itself.
///
/// # Errors
/// Why no call may have such a header.
pub fn check_name(name: &str) -> Result<(), HeaderError> {
    if name.is_empty() {
        return Err(HeaderError::EmptyName);
    }
    if name.len() > CallHeaders::MAX_NAME {
        return Err(HeaderError::NameTooLong { got: name.len() });
    }
    if let Some(position) = name.bytes().position(|byte| !is_token(byte)) {
        return Err(HeaderError::BadNameCharacter { position });
    }
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "content-length" | "transfer-encoding" => Err(HeaderError::Framing),
        "connection" | "keep-alive" | "te" | "trailer" | "upgrade" => Err(HeaderError::OneHop),
        "host" => Err(HeaderError::Host),
        "expect" => Err(HeaderError::Expect),
        name if name.starts_with("proxy-") => Err(HeaderError::OneHop),
        name if name.starts_with("webhook-") || name.starts_with("linger-") => Err(HeaderError::Reserved),
        _ => Ok(()),
    }
}

/// Checks the value of a header by itself. It may be empty.
///
/// # Errors
/// Why no call may have such a value.
pub fn check_value(value: &str) -> Result<(), HeaderError> {
    if value.len() > CallHeaders::MAX_VALUE {
        return Err(HeaderError::ValueTooLong { got: value.len() });
    }
    if let Some(position) = value.bytes().position(|byte| !matches!(byte, b' '..=b'~')) {
        return Err(HeaderError::BadValueCharacter { position });
    }
    if value.starts_with(' ') || value.ends_with(' ') { Err(HeaderError::OuterSpace) } else { Ok(()) }
}

/// A character of a token (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Result<CallHeaders, HeaderError> {
        CallHeaders::new(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    #[test]
    fn names_are_in_lower_case_and_in_order() {
        let headers = headers(&[("X-B", "2"), ("Authorization", "Bearer s3cret"), ("content-type", "")]);
        let headers = headers.expect("valid");
        let listed: Vec<_> = headers.iter().collect();
        assert_eq!(listed, [("authorization", "Bearer s3cret"), ("content-type", ""), ("x-b", "2")]);
        assert_eq!(headers.get("x-b"), Some("2"));
        assert_eq!(format!("{headers:?}"), r#"["authorization", "content-type", "x-b"]"#);
    }

    #[test]
    fn headers_that_the_server_sets_are_refused_in_any_capitals() {
        for (name, expected) in [
            ("Content-Length", HeaderError::Framing),
            ("transfer-encoding", HeaderError::Framing),
            ("Connection", HeaderError::OneHop),
            ("keep-alive", HeaderError::OneHop),
            ("TE", HeaderError::OneHop),
            ("trailer", HeaderError::OneHop),
            ("upgrade", HeaderError::OneHop),
            ("Proxy-Authorization", HeaderError::OneHop),
            ("Host", HeaderError::Host),
            ("Expect", HeaderError::Expect),
            ("Webhook-Id", HeaderError::Reserved),
            ("LINGER-receipt", HeaderError::Reserved),
            ("", HeaderError::EmptyName),
            ("a b", HeaderError::BadNameCharacter { position: 1 }),
            ("x:", HeaderError::BadNameCharacter { position: 1 }),
            ("x\r\n", HeaderError::BadNameCharacter { position: 1 }),
            ("\u{e9}", HeaderError::BadNameCharacter { position: 0 }),
        ] {
            assert_eq!(headers(&[(name, "1")]), Err(expected), "{name:?}");
        }
    }

    #[test]
    fn a_value_cannot_begin_another_header() {
        for (value, expected) in [
            ("a\r\nhost: b", HeaderError::BadValueCharacter { position: 1 }),
            ("a\nb", HeaderError::BadValueCharacter { position: 1 }),
            ("a\0", HeaderError::BadValueCharacter { position: 1 }),
            ("a\t", HeaderError::BadValueCharacter { position: 1 }),
            ("a\x7f", HeaderError::BadValueCharacter { position: 1 }),
            ("\u{e9}", HeaderError::BadValueCharacter { position: 0 }),
            (" a", HeaderError::OuterSpace),
            ("a ", HeaderError::OuterSpace),
        ] {
            assert_eq!(headers(&[("x", value)]), Err(expected), "{value:?}");
        }
    }

    #[test]
    fn sizes_are_limited() {
        let name = |len: usize| "n".repeat(len);
        let value = |len: usize| "v".repeat(len);
        assert!(headers(&[(&name(64), &value(1_024))]).is_ok());
        assert_eq!(headers(&[(&name(65), "")]), Err(HeaderError::NameTooLong { got: 65 }));
        assert_eq!(headers(&[("x", &value(1_025))]), Err(HeaderError::ValueTooLong { got: 1_025 }));
        let many = |count: u8, len: usize| {
            CallHeaders::new((b'a'..b'a' + count).map(|byte| (char::from(byte).into(), value(len))).collect())
        };
        assert!(many(16, 255).is_ok());
        assert_eq!(many(17, 0), Err(HeaderError::TooMany { got: 17 }));
        assert_eq!(many(16, 256), Err(HeaderError::TooLarge { got: 16 * 257 }));
        assert_eq!(headers(&[("x", "1"), ("y", "2"), ("X", "1")]), Err(HeaderError::Repeated));
    }
}
