//! Tokens and their hashes. The server keeps only hashes; the token itself exists only where it is made and at the
//! client.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Every token begins with this, so that scanners for leaked secrets can find tokens.
const PREFIX: &str = "linger_";

/// The SHA-256 of a token. A slow hash would add nothing: a token has 256 random bits and cannot be guessed.
#[derive(Clone, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes a token as a client sends it.
    #[must_use]
    pub fn new(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Parses 64 hexadecimal digits.
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

/// Compares in a time that does not depend on where the hashes differ.
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

/// Makes a token of 256 random bits.
#[must_use]
pub fn generate_token() -> String {
    let bits: [u8; 32] = rand::random();
    let mut token = PREFIX.to_owned();
    bits.iter().for_each(|byte| token.push_str(&format!("{byte:02x}")));
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_same_as_those_of_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::new(b"abc");
        assert_eq!(hash.to_string(), expected);
        assert_eq!(TokenHash::parse(expected), Some(hash.clone()));
        assert_eq!(TokenHash::parse(&expected.to_uppercase()), Some(hash.clone()));
        assert_eq!(hash, hash.clone());
        assert_ne!(hash, TokenHash::new(b"abd"));
        for text in ["", "abc", &expected[1..], &format!("{expected}0"), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(TokenHash::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_differ_and_can_be_sent_in_a_header() {
        let (one, other) = (generate_token(), generate_token());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
}
