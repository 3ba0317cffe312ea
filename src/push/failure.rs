//! Why a call got no answer.

use std::{borrow::Cow, fmt};

/// Why a call got no answer. Names neither an address nor a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// The name of the host was not found, or not in time.
    Dns(String),
    /// A setting forbids the URL or all addresses of its host.
    AddressRefused {
        /// The key of the setting.
        key: &'static str,
    },
    /// No connection to any address.
    Connect(String),
    /// No connection in time, TLS included.
    ConnectTimeout,
    /// TLS failed, for example because the certificate is not trusted.
    Tls(String),
    /// No whole head of an answer in time.
    Timeout,
    /// The connection ended before a whole head of an answer.
    Reset,
    /// An answer that is not HTTP, or has too large a head.
    BadAnswer(String),
}

impl CallFailure {
    /// The word for it in the API.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::AddressRefused { .. } => "address_refused",
            Self::Connect(_) => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls(_) => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::BadAnswer(_) => "bad_answer",
        }
    }

    /// What happened.
    #[must_use]
    pub fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::Dns(detail) | Self::Connect(detail) | Self::Tls(detail) | Self::BadAnswer(detail) => {
                detail.into()
            }
            Self::AddressRefused { key } => format!("forbidden by the setting {key}").into(),
            Self::ConnectTimeout => "not connected in time".into(),
            Self::Timeout => "no answer in time".into(),
            Self::Reset => "the connection ended before the answer".into(),
        }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.word(), self.detail())
    }
}

impl std::error::Error for CallFailure {}
