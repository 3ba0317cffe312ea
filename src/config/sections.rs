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

/// The files of TLS: section `[tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// `None` if neither is set.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (certificate, key) = (reader.optional_file("tls.certificate"), reader.optional_file("tls.key"));
        match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Self { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                reader.refuse("tls.key", "must be set too, since tls.certificate is");
                None
            }
            (None, Some(_)) => {
                reader.refuse("tls.certificate", "must be set too, since tls.key is");
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
