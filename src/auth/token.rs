//! Tokens and their hashes. The server keeps hashes alone; a token exists in full only where it is made
//! and at the client.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What tokens begin with, so that scanners for leaked secrets can find them.
const PREFIX: &str = "linger_";

/// The SHA-256 of a token. Plain and fast on purpose: tokens hold 256 random bits, so there is nothing
/// to guess that a slow hash would guard.
#[derive(Clone, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token as a client sends it.
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

/// In a time that does not depend on where they differ.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Hash for TokenHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

/// A fresh token of 256 random bits.
#[must_use]
pub fn generate() -> String {
    let bits: [u8; 32] = rand::random();
    let mut token = PREFIX.to_owned();
    bits.iter().for_each(|byte| token.push_str(&format!("{byte:02x}")));
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_sha256sum_prints() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::of(b"abc");
        assert_eq!(hash.to_string(), expected);
        assert_eq!(TokenHash::parse(expected), Some(hash.clone()));
        assert_eq!(TokenHash::parse(&expected.to_uppercase()), Some(hash.clone()));
        assert_eq!(hash, hash.clone());
        assert_ne!(hash, TokenHash::of(b"abd"));
        for text in ["", "abc", &expected[1..], &format!("{expected}0"), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(TokenHash::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_differ_and_their_form_is_fit_for_a_header() {
        let (one, other) = (generate(), generate());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
}
