//! The address of a server as a URL names it. Owns what is accepted as one.

use std::{fmt, str::FromStr};

/// Scheme, host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    secure: bool,
    authority: String,
}

/// The text is not the URL of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be like http://127.0.0.1:9277 or https://queue.internal")]
pub struct InvalidUrl(String);

impl ServerUrl {
    /// The server at `authority`, a host and a port.
    #[must_use]
    pub fn new(authority: impl Into<String>, secure: bool) -> Self {
        Self { secure, authority: authority.into() }
    }

    /// Whether calls go over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host and port, as in a `Host` header.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(self.authority(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl FromStr for ServerUrl {
    type Err = InvalidUrl;

    /// Reads an `http://` or `https://` URL. The path is ignored; a missing port is that of the scheme.
    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let invalid = || InvalidUrl(text.to_owned());
        let (rest, secure, port) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false, 80),
            (None, Some(rest)) => (rest, true, 443),
            (None, None) => return Err(invalid()),
        };
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let is_legal = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(is_legal) {
            return Err(invalid());
        }
        let after_brackets = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
        if after_brackets.contains(':') {
            return Ok(Self::new(authority, secure));
        }
        Ok(Self::new(format!("{authority}:{port}"), secure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (url, expected) in [
            ("http://127.0.0.1:9277", Some("127.0.0.1:9277")),
            ("http://linger/readyz", Some("linger:80")),
            ("http://[::1]", Some("[::1]:80")),
            ("http://[::1]:9277/", Some("[::1]:9277")),
            ("https://linger", Some("linger:443")),
            ("ftp://linger", None),
            ("linger:9277", None),
            ("http://", None),
            ("http://a b", None),
            ("http://a\r\nX: y", None),
        ] {
            let expected = expected.map(|authority| ServerUrl::new(authority, url.starts_with("https")));
            assert_eq!(url.parse().ok(), expected, "{url}");
        }
    }

    #[test]
    fn the_host_has_neither_port_nor_brackets() {
        for (url, host) in [("https://[::1]:9277", "::1"), ("https://linger", "linger")] {
            assert_eq!(url.parse::<ServerUrl>().expect("is a URL").host(), host);
        }
    }
}
