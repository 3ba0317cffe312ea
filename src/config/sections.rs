//! The small sections: `[auth]`, `[tls]` and `[store]`.

use std::path::PathBuf;

use super::reader::Reader;

/// Who may call: section `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSettings {
    /// The file of tokens; without it no token is required.
    pub tokens_file: Option<PathBuf>,
    /// Whether clients on other machines may call without a token.
    pub allow_anonymous: bool,
}

impl AuthSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            tokens_file: reader.optional_file("auth.tokens_file"),
            allow_anonymous: reader.flag("auth.allow_anonymous"),
        }
    }
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file with the certificate chain.
    pub certificate: PathBuf,
    /// The file with its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads section `[tls]`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (certificate, key) = (reader.optional_file("tls.certificate"), reader.optional_file("tls.key"));
        Self::from_keys(reader, ("tls.certificate", certificate), ("tls.key", key))
    }

    /// From the two keys that name the files, with their values. `None` if neither is set.
    pub(super) fn from_keys(
        reader: &mut Reader<'_>,
        (certificate_key, certificate): (&str, Option<PathBuf>),
        (key_key, key): (&str, Option<PathBuf>),
    ) -> Option<Self> {
        match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Self { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                reader.refuse(key_key, format!("must be set too, since {certificate_key} is"));
                None
            }
            (None, Some(_)) => {
                reader.refuse(certificate_key, format!("must be set too, since {key_key} is"));
                None
            }
        }
    }
}

/// Which engine stores the jobs: key `store.engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// This process and one directory.
    Embedded,
    /// Redis or a server that speaks its protocol.
    Redis,
}

impl EngineKind {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        reader.choice("store.engine", &[("embedded", Self::Embedded), ("redis", Self::Redis)])
    }
}
