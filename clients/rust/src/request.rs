//! One call as it is sent and answered: path, JSON and status. Owns what a repeat of it may do.

use std::time::Duration;

use bytes::Bytes;
use hyper::{
    HeaderMap, Method,
    header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Refusal, beginning};

/// When a client may send a call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Also when it may have happened: the server recognises the repeat, or a second run changes nothing.
    Safe,
    /// The same, and a repeat that finds no such job or schedule has reached its aim: the first attempt removed it.
    SafeUntilGone,
    /// Only when the server has not seen or not begun it, because a second run would do more: another job is added, or
    /// another one is reserved.
    IfNotSent,
}

/// A call to send.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name of the call for people.
    pub name: &'static str,
    /// The HTTP method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// JSON, or empty.
    pub body: Bytes,
    /// The revision that a schedule must have, sent as `If-Match`.
    pub if_revision: Option<u64>,
    /// How much longer than other calls this one may take, such as a long poll.
    pub wait: Duration,
    /// When it may be sent again.
    pub repeat: Repeat,
}

impl Request {
    pub(crate) fn new(name: &'static str, method: Method, path: impl Into<String>) -> Self {
        let (path, body, wait) = (path.into(), Bytes::new(), Duration::ZERO);
        Self { name, method, path, body, if_revision: None, wait, repeat: Repeat::Safe }
    }

    pub(crate) fn get(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::GET, path)
    }

    pub(crate) fn post(name: &'static str, path: impl Into<String>) -> Self {
        Self::new(name, Method::POST, path)
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        let text = serde_json::to_vec(body).expect("a request holds nothing that JSON cannot express");
        self.body = text.into();
        self
    }

    pub(crate) fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The same call with another rule for its repeats.
    #[must_use]
    pub fn repeat(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// Whether it may be sent again after `failure`.
    pub(crate) fn may_follow(&self, failure: &Error) -> bool {
        let is_temporary = match failure {
            Error::Refused { refusal, .. } => refusal.status >= 500,
            Error::NotConnected { is_permanent, .. } => !is_permanent,
            // A login page does not go away by itself.
            Error::WrongScheme { .. } | Error::Untrusted { .. } | Error::Foreign { .. } => false,
            Error::Cut { .. } | Error::TimedOut { .. } | Error::Unreadable { .. } => true,
        };
        is_temporary && (self.repeat != Repeat::IfNotSent || !failure.may_have_happened())
    }
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    /// The name of the call.
    pub call: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Whether the add has replaced an older version of the job.
    #[must_use]
    pub fn is_replacement(&self) -> bool {
        self.headers.contains_key("linger-replaced")
    }

    /// Itself when its status is a success.
    ///
    /// # Errors
    /// The refusal, when it is not.
    pub fn success(self) -> Result<Self, Error> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let seconds = self.header(&RETRY_AFTER).and_then(|value| value.parse().ok());
        let mut refusal = Refusal::new(self.status, seconds.map(Duration::from_secs), self.body.clone());
        if let Some(target) = self.header(&LOCATION).filter(|_| !refusal.is_own()) {
            refusal.detail = format!("a redirect to {target}");
        }
        Err(Error::Refused { call: self.call, refusal: Box::new(refusal) })
    }

    /// Itself when it says that a call without a result is done: 204, or 404 if an earlier attempt did it.
    ///
    /// # Errors
    /// When it is another success, which is not Linger's.
    pub fn done(self) -> Result<Self, Error> {
        match self.status {
            204 | 404 => Ok(self),
            _ => Err(self.foreign(&"204 was expected")),
        }
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Its body.
    ///
    /// # Errors
    /// When that is no JSON of this shape, and so not Linger's.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| self.foreign(&error))
    }

    /// Its body as it came.
    ///
    /// # Errors
    /// When that is not UTF-8, which no answer of Linger is.
    pub fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.body).map_err(|error| self.foreign(&error))
    }

    fn foreign(&self, reason: &dyn std::fmt::Display) -> Error {
        let media_type =
            self.header(&CONTENT_TYPE).map_or(String::new(), |media_type| format!(" {media_type}"));
        let reason = format!("{}{media_type}: {} ({reason})", self.status, beginning(&self.body));
        Error::Foreign { call: self.call, reason }
    }

    pub(crate) fn unreadable(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::Unreadable { call: self.call, reason: reason.to_string() }
    }
}

/// Text as one segment of a path, or one value of a query.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            // What ids and topics consist of, except for `+` and `=`, which mean something in a query.
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Error {
        let refusal = Refusal::new(status, None, Bytes::new());
        Error::Refused { call: "test", refusal: Box::new(refusal) }
    }

    #[test]
    fn only_temporary_failures_are_repeated_and_unsafe_calls_only_when_they_were_not_sent() {
        let cut = Error::Cut { call: "test", reason: String::new() };
        let document = r#"{"status":503,"code":"not_begun","detail":"nothing was done"}"#;
        let not_begun =
            Error::Refused { call: "test", refusal: Box::new(Refusal::new(503, None, document.into())) };
        let late = |was_sent| Error::TimedOut { call: "test", limit: Duration::ZERO, was_sent };
        let no_connection =
            |is_permanent| Error::NotConnected { call: "test", reason: String::new(), is_permanent };
        for (failure, safe, not_safe) in [
            (refused(409), false, false),
            (refused(503), true, false),
            (not_begun, true, true),
            (cut, true, false),
            (late(true), true, false),
            (late(false), true, true),
            (no_connection(false), true, true),
            (no_connection(true), false, false),
            (Error::WrongScheme { call: "test", server_speaks_tls: true }, false, false),
            (Error::Foreign { call: "test", reason: String::new() }, false, false),
        ] {
            let request = Request::get("test", "/");
            assert_eq!(request.may_follow(&failure), safe, "{failure:?}");
            assert_eq!(request.repeat(Repeat::IfNotSent).may_follow(&failure), not_safe, "{failure:?}");
        }
    }

    #[test]
    fn segments_hold_nothing_that_a_path_or_a_query_would_take_apart() {
        assert_eq!(segment("a:b~c@d_e-f.g"), "a:b~c@d_e-f.g");
        assert_eq!(segment("a/b?c&d=e+ü"), "a%2Fb%3Fc%26d%3De%2B%C3%BC");
    }
}
