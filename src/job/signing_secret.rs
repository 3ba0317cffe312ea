//! The secrets with which the calls of a topic are signed, as Standard Webhooks 1.0 writes them.

use std::{fmt, sync::Arc};

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};

use super::Timestamp;

/// Why a text was refused as a secret; the message says what is valid, and repeats nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not `whsec_` and base64.
    #[error("must be whsec_ followed by base64 (standard alphabet)")]
    Malformed,
    /// Fewer than [`SigningKey::MIN_BYTES`] or more than [`SigningKey::MAX_BYTES`].
    #[error("must be {} to {} bytes in base64, got {got}", SigningKey::MIN_BYTES, SigningKey::MAX_BYTES)]
    Length {
        /// Bytes given.
        got: usize,
    },
}

/// The bytes with which calls are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Arc<[u8]>);

impl SigningKey {
    /// Fewest bytes.
    pub const MIN_BYTES: usize = 24;
    /// Most bytes.
    pub const MAX_BYTES: usize = 64;
    const PREFIX: &str = "whsec_";

    /// 32 bytes of the operating system's randomness.
    ///
    /// # Panics
    /// If the operating system has none.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        rand::TryRng::try_fill_bytes(&mut rand::rngs::SysRng, &mut bytes)
            .expect("the system gives random bytes");
        Self(bytes.as_slice().into())
    }

    /// Parses `whsec_` and base64, padded or not.
    ///
    /// # Errors
    /// [`SecretError`] for any other text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        const ANY_PADDING: GeneralPurpose = GeneralPurpose::new(
            &base64::alphabet::STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let base64 = text.strip_prefix(Self::PREFIX).ok_or(SecretError::Malformed)?;
        let bytes = ANY_PADDING.decode(base64).map_err(|_| SecretError::Malformed)?;
        Self::from_bytes(&bytes).ok_or(SecretError::Length { got: bytes.len() })
    }

    /// Accepts [`SigningKey::MIN_BYTES`] to [`SigningKey::MAX_BYTES`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text that [`parse`](Self::parse) reads. It is shown once, to the client that adds the secret.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}{}", Self::PREFIX, STANDARD.encode(&self.0))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// Names one secret of a topic: 16 hexadecimal digits, chosen at random, so that a deletion that is sent again cannot
/// delete a secret that was added meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretId(pub [u8; 8]);

impl SecretId {
    /// Generates an id.
    #[must_use]
    pub fn generate() -> Self {
        Self(rand::random())
    }

    /// Parses the text of [`Display`](fmt::Display).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u64::from_str_radix(text, 16).ok().filter(|_| digits).map(|bits| Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// A secret of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSecret {
    /// Its id.
    pub id: SecretId,
    /// When it was added.
    pub created_at: Timestamp,
    /// The key.
    pub key: SigningKey,
}

impl SigningSecret {
    /// Most secrets of a topic: the old one and the new one while they are exchanged.
    pub const MAX_COUNT: usize = 2;

    /// Secrets as they are stored, one after the other: the id (8 bytes), when it was added (6 bytes, in milliseconds,
    /// big-endian), the length of the key (1 byte), the key.
    #[must_use]
    pub fn encode_all(secrets: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Self { id, created_at, key } in secrets {
            bytes.extend(id.0);
            bytes.extend(&created_at.as_millis().to_be_bytes()[2..]);
            bytes.push(u8::try_from(key.as_bytes().len()).expect("a key has at most 64 bytes"));
            bytes.extend(key.as_bytes());
        }
        bytes
    }

    /// Reads stored secrets; `None` when they are malformed.
    #[must_use]
    pub fn decode_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut secrets = Vec::new();
        while !bytes.is_empty() {
            let (id, rest) = bytes.split_first_chunk()?;
            let (moment, rest) = rest.split_first_chunk::<6>()?;
            let ms = moment.iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte));
            let (len, rest) = rest.split_first()?;
            let (key, rest) = rest.split_at_checked(usize::from(*len))?;
            let (id, key) = (SecretId(*id), SigningKey::from_bytes(key)?);
            secrets.push(Self { id, created_at: Timestamp::from_millis(ms), key });
            bytes = rest;
        }
        Some(secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn secrets_are_decoded_as_they_were_encoded(
            keys in prop::collection::vec((any::<[u8; 8]>(), prop::collection::vec(any::<u8>(), 24..=64)), 0..=2),
            ms in 0i64..=253_402_207_199_999,
        ) {
            let secret = |(id, key): ([u8; 8], Vec<u8>)| SigningSecret {
                id: SecretId(id),
                created_at: Timestamp::from_millis(ms),
                key: SigningKey::from_bytes(&key).expect("valid"),
            };
            let secrets: Vec<_> = keys.into_iter().map(secret).collect();
            for SigningSecret { id, key, .. } in &secrets {
                prop_assert_eq!(SecretId::parse(&id.to_string()), Some(*id));
                prop_assert_eq!(SigningKey::parse(&key.reveal()), Ok(key.clone()));
            }
            prop_assert_eq!(SigningSecret::decode_all(&SigningSecret::encode_all(&secrets)), Some(secrets));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = SigningSecret::decode_all(&bytes);
        }
    }

    #[test]
    fn a_key_is_base64_behind_its_prefix() {
        let key = SigningKey::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("valid");
        assert_eq!(key.as_bytes().len(), 24);
        let padded = format!("whsec_{}", STANDARD.encode([7; 32]));
        assert_eq!(SigningKey::parse(padded.trim_end_matches('=')), SigningKey::parse(&padded));
        for (text, expected) in [
            ("", SecretError::Malformed),
            ("C2FVsBQIhrscChlQIMV+b5sSYspob7oD", SecretError::Malformed),
            ("whsec_C2FVsBQIhrscChlQIMV-b5sSYspob7oD", SecretError::Malformed),
            ("whsec_AAAA", SecretError::Length { got: 3 }),
            (&format!("whsec_{}", STANDARD.encode([7; 65])), SecretError::Length { got: 65 }),
        ] {
            assert_eq!(SigningKey::parse(text), Err(expected), "{text}");
        }
        assert_ne!(SigningKey::generate(), SigningKey::generate());
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
    }

    #[test]
    fn only_the_form_of_ids_is_accepted() {
        for text in ["", "1", "0123456789ABCDEF", "0123456789abcdef0", "+123456789abcdef"] {
            assert_eq!(SecretId::parse(text), None, "{text}");
        }
    }
}
