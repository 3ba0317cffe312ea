//! Outlets: where a ready job is delivered to.
//!
//! Jobs with a callback of their own are kept apart by the number of their host: 8 bits of SHA-256 over a seed of
//! the store and the callback's scheme, host and port. So a slow host delays only the jobs of its own outlet, and a
//! topic has at most 257 outlets, which bounds its figures and its verification. All else is by topic: figures,
//! purges, dead letters, settings, scopes.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{Origin, Topic};

/// Identifies the host of a job's own callback in 8 bits: part of a keyed hash of scheme, host and port. Several hosts may
/// share a number, but no client can choose which ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostNumber(pub u8);

impl HostNumber {
    /// The number of a host in a store: the first byte of SHA-256 over the store's seed, which clients do not know, and the
    /// scheme, host and port.
    #[must_use]
    pub fn new(seed: &[u8; 16], origin: &Origin) -> Self {
        let Origin { scheme, host, port } = origin;
        let text = format!("{}://{host}:{port}", scheme.as_str());
        Self(Sha256::new().chain_update(seed).chain_update(text).finalize()[0])
    }
}

/// Where the ready jobs of a topic are delivered to. Jobs of one outlet are never delivered to another one.
///
/// Ordered by topic; the plain outlet of a topic comes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outlet {
    /// The topic.
    pub topic: Topic,
    /// The host of jobs with a callback of their own; `None` for all other jobs, which go to the topic's callback or to
    /// workers.
    pub host: Option<HostNumber>,
}

impl Outlet {
    /// The outlet of jobs without a callback of their own.
    #[must_use]
    pub fn plain(topic: Topic) -> Self {
        Self { topic, host: None }
    }

    /// Whether it is that of jobs without a callback of their own.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.host.is_none()
    }

    /// Parses the text of [`Display`](fmt::Display): `topic`, or `topic>3f` with the host number in two lower-case
    /// hexadecimal digits. No topic contains `>`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Some((topic, number)) = text.split_once('>') else {
            return Topic::parse(text).ok().map(Self::plain);
        };
        let is_number = number.len() == 2 && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let host = u8::from_str_radix(number, 16).ok().filter(|_| is_number).map(HostNumber)?;
        Some(Self { topic: Topic::parse(topic).ok()?, host: Some(host) })
    }
}

impl fmt::Display for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            None => write!(f, "{}", self.topic),
            Some(HostNumber(number)) => write!(f, "{}>{number:02x}", self.topic),
        }
    }
}

impl std::str::FromStr for Outlet {
    type Err = UnknownOutlet;

    fn from_str(text: &str) -> Result<Self, UnknownOutlet> {
        Self::parse(text).ok_or(UnknownOutlet)
    }
}

/// A text that names no outlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a topic, or a topic and a host number")]
pub struct UnknownOutlet;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::CallbackUrl;

    #[test]
    fn a_host_number_depends_on_seed_scheme_host_and_port() {
        let number = |seed: u8, url: &str| {
            HostNumber::new(&[seed; 16], CallbackUrl::parse(url).expect("valid").origin())
        };
        let first = number(1, "http://a.example/x");
        assert_eq!(first, number(1, "http://a.example:80/y?z"), "path and query do not matter");
        let others =
            [number(2, "http://a.example"), number(1, "https://a.example"), number(1, "http://b.example")];
        assert!(
            !others.contains(&first) && number(1, "http://a.example:81") != first,
            "{first:?} {others:?}"
        );
        let spread: std::collections::HashSet<_> =
            (0..4_000).map(|n| number(1, &format!("http://h{n}.example"))).collect();
        assert_eq!(spread.len(), 256);
    }

    #[test]
    fn outlets_are_parsed_as_they_are_shown() {
        let topic = Topic::parse("order-close").expect("valid");
        for (host, text) in [(None, "order-close"), (Some(HostNumber(0x3f)), "order-close>3f")] {
            let outlet = Outlet { topic: topic.clone(), host };
            assert_eq!(outlet.to_string(), text);
            assert_eq!(Outlet::parse(text), Some(outlet));
        }
        for text in ["", ">3f", "a>", "a>3", "a>3F", "a>+3", "a>3f0", "a>3f>3f", "a b"] {
            assert_eq!(Outlet::parse(text), None, "{text}");
        }
    }
}
