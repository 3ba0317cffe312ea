//! Parses the URL of a Redis server. A problem never quotes the URL, which may contain a password.

use std::fmt;

use super::{secret::Secret, values::ValueProblem};

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name or address; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Node {
    /// Parses `host:port`, with or without a scheme. Returns too whether that asks for TLS.
    pub(super) fn parse_with_scheme(text: &str) -> Result<(Self, bool), ValueProblem> {
        let (tls, rest) = split_scheme(text).unwrap_or((false, text));
        if rest.contains('@') {
            return Err("must not have a user or a password; other redis keys set them".to_owned());
        }
        Ok((Self::parse(rest, None)?, tls))
    }

    /// Parses `host[:port]`. An IPv6 address must be in brackets.
    pub(super) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, ValueProblem> {
        let malformed = || "must be host:port, such as 127.0.0.1:6379 or [::1]:6379".to_owned();
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(malformed)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| malformed())?;
                let port = after.strip_prefix(':');
                if port.is_none() && !after.is_empty() {
                    return Err(malformed());
                }
                (host, port)
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(legal) {
            return Err(malformed());
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(malformed)?,
            None => default_port.ok_or_else(malformed)?,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl From<std::net::SocketAddr> for Node {
    fn from(address: std::net::SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The scheme of a URL: with TLS, or without.
pub(super) fn scheme(tls: bool) -> &'static str {
    if tls { "rediss://" } else { "redis://" }
}

/// Whether the scheme asks for TLS, and what follows it; `None` without a scheme of Redis.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    [true, false].into_iter().find_map(|tls| Some((tls, text.strip_prefix(scheme(tls))?)))
}

/// `redis[s]://[user[:password]@]host[:port][/database]`. `Display` redacts the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Whether it begins with `rediss://`.
    pub tls: bool,
    /// The server.
    pub node: Node,
    /// The number of the database, if the URL has one.
    pub database: Option<u8>,
    /// The user, if the URL has one.
    pub username: Option<String>,
    /// The password, if the URL has one.
    pub password: Option<Secret>,
}

impl RedisUrl {
    pub(super) fn parse(text: &str) -> Result<Self, ValueProblem> {
        let (tls, rest) = split_scheme(text).ok_or(
            "must be a URL such as redis://127.0.0.1:6379, or rediss://redis.example.com:6379 for TLS",
        )?;
        if rest.contains(['?', '#']) {
            return Err(
                "must not have a query or a fragment; the other redis keys set what they would".into()
            );
        }
        let (rest, database) = match rest.rsplit_once('/').filter(|(before, _)| !before.contains('/')) {
            Some((before, "")) => (before, None),
            Some((before, number)) => {
                (before, Some(number.parse().map_err(|_| "must end in /database, a number up to 255")?))
            }
            None => (rest, None),
        };
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((name, password)) => (percent_decode(name)?, percent_decode(password)?.map(Secret::new)),
            None => (None, None),
        };
        Ok(Self { tls, node: Node::parse(host, Some(6379))?, database, username, password })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(scheme(self.tls))?;
        match (&self.username, &self.password) {
            (None, None) => {}
            (name, None) => write!(f, "{}@", name.as_deref().unwrap_or_default())?,
            (name, Some(_)) => write!(f, "{}:<redacted>@", name.as_deref().unwrap_or_default())?,
        }
        write!(f, "{}", self.node)?;
        self.database.map_or(Ok(()), |database| write!(f, "/{database}"))
    }
}

/// Decodes `%xx`; `None` if the text is empty.
fn percent_decode(text: &str) -> Result<Option<String>, ValueProblem> {
    let malformed = || "has a user or password whose %-signs are not followed by two hex digits".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(malformed);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).expect("two hex digits fit a byte"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "has a user or password that is not UTF-8".to_owned())?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_parsed_and_the_password_is_redacted() {
        let url = RedisUrl::parse("redis://app:p%40ss:w@redis.example:6380/3").expect("is valid");
        assert_eq!(url.node, Node { host: "redis.example".to_owned(), port: 6380 });
        assert_eq!((url.database, url.username.as_deref()), (Some(3), Some("app")));
        assert_eq!(url.password.as_ref().map(Secret::expose), Some("p@ss:w"));
        assert_eq!(url.to_string(), "redis://app:<redacted>@redis.example:6380/3");
        assert!(!format!("{url:?}").contains("ss:w"));
    }

    #[test]
    fn parts_may_be_left_out() {
        for (text, shown) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://localhost/", "redis://localhost:6379"),
            ("redis://:secret@localhost", "redis://:<redacted>@localhost:6379"),
            ("redis://app@[::1]:7000/0", "redis://app@[::1]:7000/0"),
            ("rediss://:secret@cache.example", "rediss://:<redacted>@cache.example:6379"),
        ] {
            assert_eq!(RedisUrl::parse(text).map(|url| url.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn problems_do_not_quote_the_url() {
        for text in [
            "",
            "localhost:6379",
            "http://secret",
            "rediss://:secret@host:port",
            "rediss:secret",
            "redis://",
            "redis://:secret@",
            "redis://:secret@host:0",
            "redis://:secret@host:port",
            "redis://:secret@host/one",
            "redis://:secret@host/1/2",
            "redis://:secret%zz@host",
            "redis://:secret%ff@host",
            "redis://host?password=secret",
            "redis://[::1:secret",
        ] {
            let problem = RedisUrl::parse(text).expect_err(text);
            assert!(!problem.contains("secret"), "{text}: {problem}");
            let problem = Node::parse_with_scheme(text).err();
            assert!(problem.is_none_or(|problem| !problem.contains("secret")), "{text}");
        }
    }

    #[test]
    fn a_node_may_have_a_scheme() {
        let parsed = |text| Node::parse_with_scheme(text).map(|(node, tls)| (node.to_string(), tls));
        assert_eq!(parsed("a:1"), Ok(("a:1".to_owned(), false)));
        assert_eq!(parsed("redis://a:1"), Ok(("a:1".to_owned(), false)));
        assert_eq!(parsed("rediss://[::1]:2"), Ok(("[::1]:2".to_owned(), true)));
        for wrong in ["rediss://a", "rediss://a:1/0", "http://a:1", "rediss://u:p@a:1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
