//! Why a call failed. Owns the wording, and whether the call may have happened all the same.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

/// Why a call failed; `call` is its name for people.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server, or a proxy in its place, answered that it does not do this.
    #[error("{call}: {}", .refusal.sentence())]
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
    /// Nothing that this client trusts vouches for the certificate, so the server has not seen the call.
    #[error("{call}: the certificate of the server is not trusted: {reason}")]
    Untrusted {
        /// The name of the call.
        call: &'static str,
        /// Why it is not.
        reason: String,
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
    /// The answer is a success, but not as Linger answers: a proxy, a login or another service has answered.
    #[error("{call}: the answer is not Linger's: {reason}")]
    Foreign {
        /// The name of the call.
        call: &'static str,
        /// The status, the beginning of the answer, and what is wrong with it.
        reason: String,
    },
    /// The answer is not HTTP, or contradicts itself.
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
    /// The first fault, and how to correct it.
    pub detail: String,
    /// How long the server asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The whole answer, usually a problem document (RFC 9457).
    pub document: Bytes,
    /// Of `lease_lost`: whether the receipt is good for nothing any more. If not, its reservation timed out, and a finish still
    /// counts. True where the server does not say.
    pub is_retaken: bool,
    /// Whether an earlier attempt of the same call may have happened, so that this refuses what is done already.
    pub is_after_attempt: bool,
}

impl Refusal {
    /// Reads a problem document about a failure with this status; of anything else the beginning is the detail, in one line.
    #[must_use]
    pub fn new(status: u16, retry_after: Option<Duration>, document: Bytes) -> Self {
        #[derive(Deserialize)]
        struct Problem {
            status: u16,
            code: String,
            detail: String,
            #[serde(default = "yes")]
            retaken: bool,
        }
        // Other services have a code and a detail, too, and a status of their own.
        let problem =
            serde_json::from_slice::<Problem>(&document).ok().filter(|problem| problem.status == status);
        let is_retaken = problem.as_ref().is_none_or(|problem| problem.retaken);
        let (code, detail) = problem
            .map_or_else(|| (String::new(), beginning(&document)), |problem| (problem.code, problem.detail));
        Self { status, code, detail, retry_after, document, is_retaken, is_after_attempt: false }
    }

    /// Whether it is the server's own, and not that of a proxy, a login or another service.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.code.is_empty()
    }

    /// The refusal in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let who = if self.is_own() { "the server answers" } else { "the answer is not Linger's:" };
        format!("{who} {self}")
    }
}

fn yes() -> bool {
    true
}

/// The beginning of a body that is not what it should be, in one line.
pub(crate) fn beginning(body: &[u8]) -> String {
    const MOST: usize = 200;
    match std::str::from_utf8(body) {
        Ok(text) => {
            text.split_whitespace().take(MOST).collect::<Vec<_>>().join(" ").chars().take(MOST).collect()
        }
        Err(_) => format!("{} bytes that are not text", body.len()),
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
    /// The name of the call, with which the error in words begins.
    #[must_use]
    pub fn call(&self) -> &'static str {
        match self {
            Self::Refused { call, .. }
            | Self::NotConnected { call, .. }
            | Self::WrongScheme { call, .. }
            | Self::Untrusted { call, .. }
            | Self::Cut { call, .. }
            | Self::TimedOut { call, .. }
            | Self::Foreign { call, .. }
            | Self::Unreadable { call, .. } => call,
        }
    }

    /// The answer that refused the call.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::NotConnected { .. }
            | Self::WrongScheme { .. }
            | Self::Untrusted { .. }
            | Self::Cut { .. }
            | Self::TimedOut { .. }
            | Self::Foreign { .. }
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

    /// Whether the server says that it has not begun the call, because it was paused or took the client for gone.
    #[must_use]
    pub fn is_not_begun(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.status == 503 && refusal.code == "not_begun")
    }

    /// Whether the call may have happened: no 4xx did, any 5xx and any missing answer may have, unless the server says that
    /// it has not begun it.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.status >= 500 && !self.is_not_begun(),
            Self::NotConnected { .. } | Self::WrongScheme { .. } | Self::Untrusted { .. } => false,
            // What answered in the server's place may have passed the call on.
            Self::Cut { .. } | Self::Foreign { .. } | Self::Unreadable { .. } => true,
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
        let full = r#"{"status":507,"code":"store_full","detail":"no space"}"#;
        assert_eq!(worded(full), "507: store_full, no space");
        assert_eq!(worded("<html>\n  <p>x"), "507: <html> <p>x");
        assert_eq!(worded(""), "507");
        assert_eq!(
            Refusal::new(502, None, Bytes::from_static(b"\x1f\x8b")).to_string(),
            "502: 2 bytes that are not text"
        );
    }

    #[test]
    fn a_refusal_without_a_code_is_not_the_servers_own() {
        let sentence =
            |body: &'static str| Refusal::new(403, None, Bytes::from_static(body.as_bytes())).sentence();
        assert_eq!(
            sentence(r#"{"status":403,"code":"forbidden","detail":"no"}"#),
            "the server answers 403: forbidden, no"
        );
        for foreign in [
            "",
            "<html>",
            r#"{"detail":"Not authenticated"}"#,
            r#"{"status":403,"code":403,"detail":"no"}"#,
            r#"{"code":"token_not_valid","detail":"Given token not valid for any token type"}"#,
            r#"{"status":"error","code":"forbidden","detail":"no"}"#,
            r#"{"status":401,"code":"forbidden","detail":"no"}"#,
        ] {
            let sentence = sentence(foreign);
            assert!(sentence.starts_with("the answer is not Linger's: 403"), "{foreign}: {sentence}");
        }
    }
}
