//! The settings of the Redis engine. They can be printed without passwords.
//!
//! Knows URLs and durations, opens no connection.

use std::{fmt, ops::RangeInclusive, time::Duration};

use fred::types::config::{Config, Server, ServerConfig};

/// The allowed numbers of shards.
pub const SHARDS: RangeInclusive<u16> = 1..=256;

/// A password that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The hidden text, for use by a connection only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Which Redis to use. URLs may contain credentials, so they are printed without them.
#[derive(Clone, PartialEq, Eq)]
pub enum Mode {
    /// One server: `redis://[user:password@]host[:port][/database]`.
    Standalone {
        /// Its URL.
        url: String,
    },
    /// The primary that Sentinels know under a name.
    Sentinel {
        /// The URLs of the Sentinels, default port 26379. Credentials and database in the first are those of the
        /// Redis server.
        urls: Vec<String>,
        /// The name of the primary.
        service: String,
        /// User name for the Sentinels themselves.
        username: Option<String>,
        /// Password for the Sentinels themselves.
        password: Option<Secret>,
    },
    /// A Cluster, discovered through any of these nodes. Credentials in the first are used for all.
    Cluster {
        /// The URLs of some nodes.
        urls: Vec<String>,
    },
}

impl Mode {
    /// The mode that URLs and settings describe: Sentinel if a service is named, Cluster if it is
    /// requested, otherwise one server.
    ///
    /// # Errors
    /// Every fault, as sentences for the person who configures.
    pub fn new(urls: &[String], sentinel_service: Option<&str>, cluster: bool) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mode = match (sentinel_service, cluster, urls) {
            (_, _, []) => {
                faults.push("at least one URL is needed".to_owned());
                Self::Cluster { urls: Vec::new() }
            }
            (Some(service), false, _) => Self::Sentinel {
                urls: urls.to_vec(),
                service: service.to_owned(),
                username: None,
                password: None,
            },
            (Some(_), true, _) => {
                faults.push("Sentinel and Cluster exclude each other".to_owned());
                Self::Cluster { urls: urls.to_vec() }
            }
            (None, true, _) => Self::Cluster { urls: urls.to_vec() },
            (None, false, [url]) => Self::Standalone { url: url.clone() },
            (None, false, _) => {
                faults.push("several URLs need either a Sentinel service or Cluster mode".to_owned());
                Self::Cluster { urls: urls.to_vec() }
            }
        };
        if let Err(more) = mode.config() {
            faults.extend(more);
        }
        if faults.is_empty() { Ok(mode) } else { Err(faults) }
    }

    fn urls(&self) -> &[String] {
        match self {
            Self::Standalone { url } => std::slice::from_ref(url),
            Self::Sentinel { urls, .. } | Self::Cluster { urls } => urls,
        }
    }

    /// The client library's configuration for this mode.
    pub fn config(&self) -> Result<Config, Vec<String>> {
        let default_port = if matches!(self, Self::Sentinel { .. }) { 26_379 } else { 6_379 };
        let mut faults = Vec::new();
        let mut parsed = Vec::new();
        for url in self.urls() {
            match parse_url(url, default_port) {
                Ok(config) => parsed.push(config),
                Err(fault) => faults.push(format!("{}: {fault}", redacted(url))),
            }
        }
        if let Self::Sentinel { service, .. } = self
            && service.is_empty()
        {
            faults.push("the Sentinel service must have a name".to_owned());
        }
        if matches!(self, Self::Cluster { .. }) && parsed.iter().any(|config| config.database.is_some()) {
            faults.push("a Cluster has only database 0".to_owned());
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let hosts: Vec<Server> = parsed.iter().flat_map(|config| config.server.hosts()).collect();
        let mut config =
            parsed.into_iter().next().ok_or_else(|| vec!["at least one URL is needed".to_owned()])?;
        config.server = match self {
            Self::Standalone { .. } => config.server,
            Self::Sentinel { service, username, password, .. } => ServerConfig::Sentinel {
                hosts,
                service_name: service.clone(),
                username: username.clone(),
                password: password.as_ref().map(|secret| secret.reveal().to_owned()),
            },
            Self::Cluster { .. } => ServerConfig::Clustered { hosts, policy: Default::default() },
        };
        Ok(config)
    }
}

/// Parses the URL of one server.
fn parse_url(url: &str, default_port: u16) -> Result<Config, String> {
    let rest = url.strip_prefix("redis://").ok_or_else(|| {
        if url.starts_with("rediss://") {
            "TLS is not built in; put a TLS proxy beside the server".to_owned()
        } else {
            "must begin with redis://".to_owned()
        }
    })?;
    let mut config = Config::from_url_centralized(url).map_err(|error| error.details().to_owned())?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    if let ServerConfig::Centralized { server } = &mut config.server
        && !has_port
    {
        server.port = default_port;
    }
    Ok(config)
}

/// A URL without the parts that may be secret.
fn redacted(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (scheme, rest) = url[..end].split_once("://").unwrap_or(("", &url[..end]));
    let host = rest.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.urls().iter().map(|url| redacted(url)).collect();
        let urls = urls.join(", ");
        match self {
            Self::Standalone { .. } => write!(f, "{urls}"),
            Self::Sentinel { service, .. } => write!(f, "{urls} (Sentinel, {service})"),
            Self::Cluster { .. } => write!(f, "{urls} (Cluster)"),
        }
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All settings of the Redis engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which Redis to use.
    pub mode: Mode,
    /// User name; overrides the one in a URL.
    pub username: Option<String>,
    /// Password; overrides the one in a URL.
    pub password: Option<Secret>,
    /// The prefix of every key and channel, so that several queues can share one Redis: 1 to 64 of
    /// `A-Z a-z 0-9 . _ : -`.
    pub prefix: String,
    /// How many shards jobs are spread over, 1 to 256. Fixed when the prefix is first used. `None` uses the number
    /// that is stored, or at first use a default for the mode.
    pub shards: Option<u16>,
    /// How long to wait for the reply to one command.
    pub command_timeout: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long a connection may go without a reply before it is closed and reopened.
    pub unresponsive_timeout: Duration,
    /// How long an operation is retried, with the same arguments, before it fails.
    pub retry_for: Duration,
    /// How long a server of a Cluster may take to reply before the jobs of the other servers no longer wait for it.
    pub prompt_timeout: Duration,
    /// First pause before reconnecting.
    pub reconnect_min: Duration,
    /// Longest pause before reconnecting.
    pub reconnect_max: Duration,
    /// How many replicas must receive a change before it is acknowledged; 0 does not wait for any.
    pub wait_replicas: u8,
    /// How long to wait for the replicas.
    pub wait_timeout: Duration,
    /// How long dead letters are kept; `None` keeps them forever.
    pub dead_retention: Option<Duration>,
}

impl Options {
    /// The defaults for one server at `url`. An invalid URL is reported by [`Self::faults`] and when
    /// connecting.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            mode: Mode::Standalone { url: url.to_owned() },
            username: None,
            password: None,
            prefix: "linger".to_owned(),
            shards: None,
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(3),
            unresponsive_timeout: Duration::from_secs(4),
            retry_for: Duration::from_secs(5),
            prompt_timeout: Duration::from_millis(150),
            reconnect_min: Duration::from_millis(20),
            reconnect_max: Duration::from_secs(1),
            wait_replicas: 0,
            wait_timeout: Duration::from_secs(1),
            dead_retention: None,
        }
    }

    /// Every fault of these options, as sentences for the person who configures.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.mode.config().err().unwrap_or_default();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        if self.prefix.is_empty() || self.prefix.len() > 64 || !self.prefix.chars().all(is_allowed) {
            faults.push("the prefix must be 1 to 64 of A-Z a-z 0-9 . _ : -".to_owned());
        }
        if self.shards.is_some_and(|shards| !SHARDS.contains(&shards)) {
            faults.push("the number of shards must be between 1 and 256".to_owned());
        }
        for (name, duration) in [
            ("command_timeout", self.command_timeout),
            ("connect_timeout", self.connect_timeout),
            ("unresponsive_timeout", self.unresponsive_timeout),
            ("prompt_timeout", self.prompt_timeout),
            ("reconnect_min", self.reconnect_min),
            ("wait_timeout", self.wait_timeout),
        ] {
            if duration < Duration::from_millis(1) {
                faults.push(format!("{name} must be at least 1 ms"));
            }
        }
        if self.reconnect_max < self.reconnect_min {
            faults.push("reconnect_max must not be below reconnect_min".to_owned());
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_ever_printed() {
        let mut options = Options::new("redis://user:hunter2@cache:7000/1");
        options.password = Some(Secret::new("hunter2"));
        options.username = Some("someone".to_owned());
        let sentinel = Mode::Sentinel {
            urls: vec!["redis://user:hunter2@a".to_owned(), "redis://:hunter2@b:1?x=hunter2".to_owned()],
            service: "main".to_owned(),
            username: None,
            password: Some(Secret::new("hunter2")),
        };
        for text in [format!("{options:?}"), format!("{sentinel:?}"), format!("{sentinel}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        let invalid = Options::new("http://user:hunter2@cache:70000");
        assert!(!invalid.faults().join(" ").contains("hunter2"));
    }

    #[test]
    fn every_fault_is_reported() {
        let mut options = Options::new("rediss://cache");
        options.prefix = "a{b}".to_owned();
        options.shards = Some(0);
        options.command_timeout = Duration::ZERO;
        options.reconnect_max = Duration::ZERO;
        assert_eq!(options.faults().len(), 5, "{:?}", options.faults());
        assert!(Options::new("redis://127.0.0.1:6379").faults().is_empty());
    }

    #[test]
    fn the_mode_follows_from_urls_and_settings() {
        let one = ["redis://a:1".to_owned()];
        let two = ["redis://a:1".to_owned(), "redis://b".to_owned()];
        assert!(matches!(Mode::new(&one, None, false), Ok(Mode::Standalone { .. })));
        assert!(matches!(Mode::new(&two, Some("main"), false), Ok(Mode::Sentinel { .. })));
        assert!(matches!(Mode::new(&two, None, true), Ok(Mode::Cluster { .. })));
        assert!(Mode::new(&two, None, false).is_err());
        assert!(Mode::new(&two, Some("main"), true).is_err());
        assert!(Mode::new(&[], None, false).is_err());
        assert!(Mode::new(&["redis://a/1".to_owned()], None, true).is_err(), "a Cluster has one database");
        let faults = Mode::new(&["x://a".to_owned(), "redis://a:b".to_owned()], None, true);
        assert_eq!(faults.map_err(|faults| faults.len()), Err(2));
    }

    #[test]
    fn default_ports_depend_on_the_mode() {
        let ports = |mode: Mode| -> Vec<u16> {
            mode.config().expect("valid").server.hosts().iter().map(|server| server.port).collect()
        };
        let urls = vec!["redis://a".to_owned(), "redis://[::1]:7".to_owned()];
        let sentinel =
            Mode::Sentinel { urls: urls.clone(), service: "m".to_owned(), username: None, password: None };
        assert_eq!(ports(sentinel), [26_379, 7]);
        assert_eq!(ports(Mode::Cluster { urls }), [6_379, 7]);
    }
}
