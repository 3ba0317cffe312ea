//! The URL of a callback, and the origin that it names (scheme, host and port). Knows no network.
//!
//! A URL is parsed once, as the WHATWG URL standard says. Everything later uses the parsed parts, so that no second parser
//! can understand another host.

use std::{fmt, net::IpAddr, sync::Arc};

use url::Url;

/// Why a URL was refused; the message says what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// More than [`CallbackUrl::MAX_LEN`] bytes, as given or with its characters percent-encoded.
    #[error("must be at most {} characters long, got {got}", CallbackUrl::MAX_LEN)]
    TooLong {
        /// Length in bytes.
        got: usize,
    },
    /// A space, a control character or a character outside of ASCII.
    #[error("may only hold visible ASCII characters; percent-encode the one at position {position}")]
    BadCharacter {
        /// Its offset in bytes, from 0.
        position: usize,
    },
    /// Not a URL.
    #[error("is not a URL: {why}")]
    Malformed {
        /// What the parser says.
        why: String,
    },
    /// Neither `http` nor `https`.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// A user name or password.
    #[error("must not contain a user name or password; send credentials in headers")]
    UserInfo,
    /// A fragment, which is never sent to a server.
    #[error("must not contain a fragment (#)")]
    Fragment,
    /// A port that the Fetch standard blocks.
    #[error("names port {port}, which belongs to another protocol and is blocked (Fetch standard, 2.9)")]
    BlockedPort {
        /// The port.
        port: u16,
    },
}

/// The scheme of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// The scheme as a URL has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The host of a callback.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name, in lower case, to look up.
    Name(Arc<str>),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// What a connection serves: a scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The scheme.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port, also if it is the default of the scheme.
    pub port: u16,
}

impl Origin {
    /// The value of a `Host` header: the port is left out if it is the default of the scheme.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Scheme, host and port, as logs and figures show them.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

/// The URL of a callback: `http` or `https`, without user, password and fragment, at most
/// [`CallbackUrl::MAX_LEN`] bytes of visible ASCII.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CallbackUrl {
    text: Arc<str>,
    origin: Origin,
    /// Where the path begins in `text`.
    target_at: usize,
}

impl CallbackUrl {
    /// Longest URL, in bytes.
    pub const MAX_LEN: usize = 2_048;

    /// Parses a URL and normalises it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        check_length(text)?;
        if let Some(position) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(UrlError::BadCharacter { position });
        }
        let url = Url::parse(text).map_err(|error| UrlError::Malformed { why: error.to_string() })?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(UrlError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        let host = match url.host() {
            Some(url::Host::Domain(name)) => Host::Name(name.into()),
            Some(url::Host::Ipv4(address)) => Host::Address(address.into()),
            Some(url::Host::Ipv6(address)) => Host::Address(address.into()),
            None => return Err(UrlError::Malformed { why: "it has no host".to_owned() }),
        };
        let port = url.port().unwrap_or(scheme.default_port());
        if BLOCKED_PORTS.contains(&port) {
            return Err(UrlError::BlockedPort { port });
        }
        check_length(url.as_str())?;
        let target_at = url[..url::Position::BeforePath].len();
        Ok(Self { text: url.as_str().into(), origin: Origin { scheme, host, port }, target_at })
    }

    /// The normalised URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What a connection for this URL serves.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The target of a request: path and query.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.text[self.target_at..]
    }
}

/// Shows the origin only: paths and queries may contain credentials.
impl fmt::Debug for CallbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/...", self.origin)
    }
}

fn check_length(text: &str) -> Result<(), UrlError> {
    let got = text.len();
    if got > CallbackUrl::MAX_LEN { Err(UrlError::TooLong { got }) } else { Ok(()) }
}

/// The bad ports of the Fetch standard (section 2.9, "Port blocking"): a body sent there may be understood as another
/// protocol.
const BLOCKED_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> CallbackUrl {
        CallbackUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_url_is_split_into_origin_and_target() {
        for (text, origin, authority, target) in [
            ("http://localhost:8000/close", "http://localhost:8000", "localhost:8000", "/close"),
            ("HTTPS://Shop.Example", "https://shop.example:443", "shop.example", "/"),
            ("https://shop.example:443/a?b=c&d", "https://shop.example:443", "shop.example", "/a?b=c&d"),
            ("http://shop.example:443/a/../b", "http://shop.example:443", "shop.example:443", "/b"),
            ("http://[::1]:8080/?q", "http://[::1]:8080", "[::1]:8080", "/?q"),
            // The many ways to write an IPv4 address are one address here.
            ("http://0x7f.1/", "http://127.0.0.1:80", "127.0.0.1", "/"),
            ("http://2130706433/", "http://127.0.0.1:80", "127.0.0.1", "/"),
        ] {
            let url = parse(text);
            assert_eq!(url.origin().to_string(), origin, "{text}");
            assert_eq!(url.origin().authority(), authority, "{text}");
            assert_eq!(url.target(), target, "{text}");
            assert_eq!(parse(url.as_str()), url, "{text}: a normalised URL is stable");
        }
    }

    #[test]
    fn urls_that_cannot_be_called_are_refused() {
        let long = format!("http://a/{}", "x".repeat(CallbackUrl::MAX_LEN));
        let long_when_encoded = format!("http://a/{}", "<".repeat(1_000));
        for (text, expected) in [
            (long.as_str(), "must be at most 2048"),
            (long_when_encoded.as_str(), "must be at most 2048"),
            ("http://a/b c", "at position 10"),
            ("http://a/\u{e9}", "at position 9"),
            ("http://a/\n", "at position 9"),
            ("/close", "is not a URL"),
            ("http://", "is not a URL"),
            ("http://[fe80::1%25eth0]/", "is not a URL"),
            ("http://256.256.256.256/", "is not a URL"),
            ("ftp://a/", "must begin with http"),
            ("javascript:alert(1)", "must begin with http"),
            ("http://user@a/", "user name"),
            ("http://:secret@a/", "user name"),
            ("http://a/#part", "fragment"),
            ("http://a:25/", "port 25"),
            ("http://a:6379x/", "is not a URL"),
        ] {
            let error = CallbackUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn debug_shows_neither_path_nor_query() {
        let shown = format!("{:?}", parse("https://a/secret?token=secret"));
        assert_eq!(shown, "https://a:443/...");
    }
}
