//! Why a call failed. Owns the wording, and whether the call may have happened all the same.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

/// Why a call failed; `call` is its name for people.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server answered that it does not do this.
    #[error("{call}: the server answers {refusal}")]
    Refused {
        /// The name of the call.
        call: &'static str,
        /// The answer.
        refusal: Box<Refusal>,
    },
    /// There is no connection, so the server has not seen the call.
    #[error("{call}: {reason}")]
    NotConnected {
        /// The name of the call.
        call: &'static str,
        /// What went wrong.
        reason: String,
        /// Whether another attempt would fail in the same way, as with a certificate that is not trusted.
        is_permanent: bool,
    },
    /// The server expects the other one of `http://` and `https://`, so it has not seen the call.
    #[error("{call}: the server {}", if *.server_speaks_tls { "speaks TLS" } else { "does not speak TLS" })]
    WrongScheme {
        /// The name of the call.
        call: &'static str,
        /// Whether the server speaks TLS.
        server_speaks_tls: bool,
    },
    /// The connection ended before the answer did.
    #[error("{call}: {reason}")]
    Cut {
        /// The name of the call.
        call: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// The answer did not come in time.
    #[error("{call}: no answer within {limit:?}")]
    TimedOut {
        /// The name of the call.
        call: &'static str,
        /// How long the client waited.
        limit: Duration,
        /// Whether the call had been sent.
        was_sent: bool,
    },
    /// The answer is not what the API describes.
    #[error("{call}: unreadable answer: {reason}")]
    Unreadable {
        /// The name of the call.
        call: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// An answer that refuses a call, or an item of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable word to switch on; empty where the answer is not the server's own.
    pub code: String,
    /// The first fault, and how to mend it.
    pub detail: String,
    /// How long the server asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The whole answer, usually a problem document (RFC 9457).
    pub document: Bytes,
    /// Whether an earlier attempt of the same call may have happened, so that this refuses what is done already.
    pub is_after_attempt: bool,
}

impl Refusal {
    /// Reads a problem document; of anything else the beginning is the detail.
    #[must_use]
    pub fn new(status: u16, retry_after: Option<Duration>, document: Bytes) -> Self {
        #[derive(Deserialize)]
        struct Problem {
            code: String,
            detail: String,
        }
        let problem = serde_json::from_slice::<Problem>(&document).unwrap_or_else(|_| Problem {
            code: String::new(),
            detail: String::from_utf8_lossy(&document).chars().take(200).collect(),
        });
        let Problem { code, detail } = problem;
        Self { status, code, detail, retry_after, document, is_after_attempt: false }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.status)?;
        match (self.code.as_str(), self.detail.as_str()) {
            ("", "") => Ok(()),
            ("", detail) => write!(f, ": {detail}"),
            (code, detail) => write!(f, ": {code}, {detail}"),
        }
    }
}

impl Error {
    /// The answer that refused the call.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::NotConnected { .. }
            | Self::WrongScheme { .. }
            | Self::Cut { .. }
            | Self::TimedOut { .. }
            | Self::Unreadable { .. } => None,
        }
    }

    /// The same; a refusal says whether an earlier attempt may have happened.
    pub(crate) fn after_attempt(mut self, may_have_happened: bool) -> Self {
        if let Self::Refused { refusal, .. } = &mut self {
            refusal.is_after_attempt = may_have_happened;
        }
        self
    }

    /// Whether the call may have happened: no 4xx did, any 5xx and any missing answer may have.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.status >= 500,
            Self::NotConnected { .. } | Self::WrongScheme { .. } => false,
            Self::Cut { .. } | Self::Unreadable { .. } => true,
            Self::TimedOut { was_sent, .. } => *was_sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_worded_by_what_the_answer_has() {
        let worded =
            |body: &'static str| Refusal::new(507, None, Bytes::from_static(body.as_bytes())).to_string();
        assert_eq!(worded(r#"{"code":"store_full","detail":"no space"}"#), "507: store_full, no space");
        assert_eq!(worded("<html>"), "507: <html>");
        assert_eq!(worded(""), "507");
    }
}
