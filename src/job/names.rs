//! Identifiers: job ids, topics and receipts. They are made only by parsing, so every value has the alphabet and the
//! length of the contract (`openapi.yaml`, components `JobId` and `Topic`).

use std::{fmt, sync::Arc};

/// Why a name was refused; the message says what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text was empty.
    #[error("must not be empty")]
    Empty,
    /// The text was longer than the limit, in bytes.
    #[error("must be at most {limit} characters long, got {got}")]
    TooLong {
        /// Longest accepted length in bytes.
        limit: usize,
        /// Length given, in bytes.
        got: usize,
    },
    /// The text was shorter than its fixed length, in bytes.
    #[error("must be {needed} characters long, got {got}")]
    TooShort {
        /// The fixed length in bytes.
        needed: usize,
        /// Length given, in bytes.
        got: usize,
    },
    /// `.` or `..`: dot segments of a URL, which clients remove from a path before they send it (RFC 3986, 5.2.4). No
    /// request could reach a job or topic with such a name.
    #[error("must not be \".\" or \"..\", which no URL can name")]
    DotSegment,
    /// A character outside of the alphabet.
    #[error("may only hold {alphabet}; {found:?} at position {position} is not among them")]
    BadCharacter {
        /// The accepted characters, as text for people.
        alphabet: &'static str,
        /// The first refused character.
        found: char,
        /// Its offset in bytes, from 0.
        position: usize,
    },
}

fn check(text: &str, limit: usize, alphabet: &'static str, extra: &[u8]) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > limit {
        return Err(NameError::TooLong { limit, got: text.len() });
    }
    if matches!(text, "." | "..") {
        return Err(NameError::DotSegment);
    }
    let accepted = |c: char| c.is_ascii_alphanumeric() || (c.is_ascii() && extra.contains(&(c as u8)));
    match text.char_indices().find(|(_, c)| !accepted(*c)) {
        None => Ok(()),
        Some((position, found)) => Err(NameError::BadCharacter { alphabet, found, position }),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $limit:expr, $alphabet:literal, $extra:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Longest accepted text, in bytes.
            pub const MAX_LEN: usize = $limit;

            /// Accepts `text` when it is 1 to `MAX_LEN` bytes of the alphabet.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                check(text, $limit, $alphabet, $extra)?;
                Ok(Self(text.into()))
            }

            /// The text as it was parsed.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }
    };
}

name!(
    /// A job's id: global over all topics, chosen by the client or made by the server.
    JobId, 255, "A-Z a-z 0-9 . _ ~ : @ + = -", b"._~:@+=-"
);
name!(
    /// A topic: the name of a queue.
    Topic, 128, "A-Z a-z 0-9 . _ : -", b"._:-"
);

name!(
    /// The id of a bulk operation, chosen by the client or made by the server.
    OperationId, 64, "A-Z a-z 0-9 . _ : -", b"._:-"
);
name!(
    /// A schedule: the name of a recurring job. The ids of its jobs begin with it.
    ScheduleName, 200, "A-Z a-z 0-9 . _ ~ : @ + = -", b"._~:@+=-"
);

impl OperationId {
    /// Generates an id: `op_` and a UUID version 7.
    #[must_use]
    pub fn generate() -> Self {
        Self(format!("op_{}", uuid::Uuid::now_v7().simple()).into())
    }
}

impl JobId {
    /// Generates an id (UUID version 7, RFC 9562): ordered by creation, unique without coordination.
    #[must_use]
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().hyphenated().to_string().into())
    }
}

/// Proof of one reservation: opaque text with 128 random bits.
///
/// It is a capability. It is compared as a whole with the record and never logged; its `Debug` output is redacted.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt([u8; Receipt::BYTES]);

impl Receipt {
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// Generates a receipt with the thread's cryptographic generator.
    #[must_use]
    pub fn generate() -> Self {
        Self(rand::random())
    }

    /// Parses 32 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`NameError`] if the text cannot be a receipt of this server.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        const ALPHABET: &str = "32 digits 0-9 a-f";
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > 32 {
            return Err(NameError::TooLong { limit: 32, got: text.len() });
        }
        if let Some((position, found)) =
            text.char_indices().find(|(_, c)| !matches!(c, '0'..='9' | 'a'..='f'))
        {
            return Err(NameError::BadCharacter { alphabet: ALPHABET, found, position });
        }
        if text.len() < 32 {
            return Err(NameError::TooShort { needed: 32, got: text.len() });
        }
        let bits = u128::from_str_radix(text, 16).expect("32 hexadecimal digits fit 128 bits");
        Ok(Self(bits.to_be_bytes()))
    }

    /// The raw 16 bytes, as engines store them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The receipt that an engine stored as `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_keep_their_alphabets_and_lengths() {
        assert!(JobId::parse("orders:1001:close~a@b+c=d-e.f_g").is_ok());
        assert_eq!(JobId::parse(""), Err(NameError::Empty));
        assert!(JobId::parse(&"x".repeat(255)).is_ok());
        assert_eq!(JobId::parse(&"x".repeat(256)), Err(NameError::TooLong { limit: 255, got: 256 }));
        assert!(matches!(JobId::parse("a b"), Err(NameError::BadCharacter { found: ' ', position: 1, .. })));
        assert!(matches!(JobId::parse("a/b"), Err(NameError::BadCharacter { .. })));
        assert!(matches!(JobId::parse("aé"), Err(NameError::BadCharacter { found: 'é', .. })));
        assert!(Topic::parse(&"t".repeat(128)).is_ok());
        assert!(Topic::parse(&"t".repeat(129)).is_err());
        assert!(Topic::parse("a+b").is_err(), "ids may hold a plus, topics may not");
        assert!(Topic::parse("a{b}").is_err(), "braces would move a Redis hash tag");
        for dots in [".", ".."] {
            assert_eq!(JobId::parse(dots), Err(NameError::DotSegment));
            assert_eq!(Topic::parse(dots), Err(NameError::DotSegment));
        }
        assert!(JobId::parse("...").is_ok());
    }

    #[test]
    fn generated_ids_are_valid_and_differ() {
        let (a, b) = (JobId::generate(), JobId::generate());
        assert_ne!(a, b);
        assert_eq!(JobId::parse(a.as_str()).as_ref(), Ok(&a));
    }

    #[test]
    fn only_the_form_of_receipts_is_accepted() {
        for text in ["", "abc", "zz", &"a".repeat(33), &"A".repeat(32), &"é".repeat(16)] {
            assert!(Receipt::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(format!("{:?}", Receipt::generate()), "Receipt(..)");
    }

    proptest! {
        #[test]
        fn receipts_round_trip(bytes in any::<[u8; 16]>()) {
            let receipt = Receipt::from_bytes(bytes);
            prop_assert_eq!(Receipt::parse(&receipt.to_string()), Ok(receipt));
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "\\PC*") {
            let _ = (JobId::parse(&text), Topic::parse(&text), Receipt::parse(&text));
        }
    }
}
