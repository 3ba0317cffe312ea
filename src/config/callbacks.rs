//! Callbacks: section `[callbacks]`.

use std::{path::PathBuf, time::Duration};

use config::ValueKind;

use super::{
    reader::{self, HOUR, Reader, SECOND},
    values::{self, ValueProblem},
};
use crate::job::{AddressPolicy, AddressRange, Host, Origin, RetrySchedule, Scheme};

/// Section `[callbacks]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackSettings {
    /// Most calls at the same time; with 0 this process makes none.
    pub max_calls: usize,
    /// Most calls at the same time to one host number.
    pub max_calls_per_host: usize,
    /// Longest timeout that a callback may have.
    pub max_timeout: Duration,
    /// The retry schedule of jobs for which neither the job nor its topic has one.
    pub retry: RetrySchedule,
    /// Which addresses may be called, with `auto` resolved.
    pub networks: AddressPolicy,
    /// Whether `allow_networks` is `auto`.
    pub has_auto_networks: bool,
    /// Host names that may be called, such as `hooks.example.com` or `*.example.com`; if empty, all.
    pub allow_hosts: Vec<String>,
    /// Whether URLs may begin with `http:`.
    pub allow_http: bool,
    /// Whether jobs may have callbacks of their own.
    pub in_jobs: bool,
    /// A file with certificates of authorities that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

impl Default for CallbackSettings {
    /// For a server on loopback without tokens.
    fn default() -> Self {
        reader::read_defaults(|reader| Self::read(reader, true))
    }
}

impl CallbackSettings {
    /// The key of [`in_jobs`](Self::in_jobs).
    pub const IN_JOBS: &str = "callbacks.in_jobs";

    /// `is_local` says whether the server listens on loopback without tokens. A client that can call such a server can
    /// also connect to private networks and to this machine by itself.
    pub(super) fn read(reader: &mut Reader<'_>, is_local: bool) -> Self {
        let (networks, has_auto_networks) = networks(reader, is_local);
        Self {
            max_calls: reader.count("callbacks.max_calls", 0, 100_000),
            max_calls_per_host: reader.count("callbacks.max_calls_per_host", 1, 100_000),
            // For longer work, an endpoint answers and holds the job (`linger-hold`).
            max_timeout: reader.duration("callbacks.max_timeout", SECOND, 23 * HOUR),
            retry: reader.get("callbacks.retry", retry),
            networks,
            has_auto_networks,
            allow_hosts: reader.host_names("callbacks.allow_hosts"),
            allow_http: reader.flag("callbacks.allow_http"),
            in_jobs: reader.flag("callbacks.in_jobs"),
            ca_file: reader.optional_file("callbacks.ca_file"),
        }
    }

    /// The key of the setting that forbids calls of this origin, or `None`. The addresses of a name are known only when it
    /// is called, so the code that connects checks each with [`networks`](Self::networks).
    #[must_use]
    pub fn forbidden_by(&self, origin: &Origin) -> Option<&'static str> {
        if origin.scheme == Scheme::Http && !self.allow_http {
            return Some("callbacks.allow_http");
        }
        let host = origin.host.to_string();
        if !self.allow_hosts.is_empty() && !self.allow_hosts.iter().any(|allowed| matches(allowed, &host)) {
            return Some("callbacks.allow_hosts");
        }
        match &origin.host {
            Host::Address(address) if !self.networks.allows(*address) => Some("callbacks.allow_networks"),
            Host::Address(_) | Host::Name(_) => None,
        }
    }
}

/// Whether a host is the allowed one. `*.example.com` stands for every name below example.com.
fn matches(allowed: &str, host: &str) -> bool {
    match allowed.strip_prefix('*') {
        Some(suffix) => host
            .len()
            .checked_sub(suffix.len())
            .is_some_and(|at| at > 0 && host.as_bytes()[at..].eq_ignore_ascii_case(suffix.as_bytes())),
        None => host.eq_ignore_ascii_case(allowed),
    }
}

/// The word for the addresses that suit where the server listens.
const AUTO: &str = "auto";

/// The addresses that may be called, and whether [`AUTO`] decides that.
fn networks(reader: &mut Reader<'_>, is_local: bool) -> (AddressPolicy, bool) {
    let auto: &[AddressRange] = if is_local {
        &[AddressRange::Public, AddressRange::Private, AddressRange::Loopback]
    } else {
        &[AddressRange::Public]
    };
    let (allowed, is_auto) = reader.get("callbacks.allow_networks", |kind| match values::list(kind)? {
        words if words == [AUTO] => Ok((auto.to_vec(), true)),
        words if words.iter().any(|word| word == AUTO) => Err("\"auto\" must stand alone".to_owned()),
        texts => match ranges(&texts) {
            Ok(ranges) => Ok((ranges, false)),
            Err(problem) => Err(format!("{problem}; or \"auto\" alone")),
        },
    });
    let denied = reader.get("callbacks.deny_networks", |kind| ranges(&values::list(kind)?));
    (AddressPolicy::new(&allowed, &denied), is_auto)
}

fn ranges(texts: &[String]) -> Result<Vec<AddressRange>, ValueProblem> {
    let range = |text: &String| text.parse().map_err(|error| format!("{} {error}", values::quoted(text)));
    texts.iter().map(range).collect()
}

/// A list of at least one step. The steps of an array may be numbers of seconds.
fn retry(kind: &ValueKind) -> Result<RetrySchedule, ValueProblem> {
    let step = |kind: &ValueKind| values::duration(kind, Duration::ZERO, RetrySchedule::MAX_STEP);
    let steps: Vec<Duration> = match kind {
        ValueKind::Array(items) => items.iter().map(|item| step(&item.kind)).collect::<Result<_, _>>()?,
        _ => values::list(kind)?
            .into_iter()
            .map(|text| step(&ValueKind::String(text)))
            .collect::<Result<_, _>>()?,
    };
    if steps.is_empty() {
        return Err("must have at least one step, such as [\"15s\", \"3m\"]".to_owned());
    }
    RetrySchedule::new(steps).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::CallbackUrl;

    fn forbidden_by(settings: &CallbackSettings, url: &str) -> Option<&'static str> {
        settings.forbidden_by(CallbackUrl::parse(url).expect("a URL").origin())
    }

    #[test]
    fn a_url_is_forbidden_by_the_setting_that_is_named() {
        let settings = CallbackSettings::default();
        for url in ["http://localhost:8000/", "http://127.0.0.1/", "https://[fd00::1]/", "https://a.example/"]
        {
            assert_eq!(forbidden_by(&settings, url), None, "{url}");
        }
        for url in ["http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://0xa9fea9fe/"] {
            assert_eq!(forbidden_by(&settings, url), Some("callbacks.allow_networks"), "{url}");
        }
        let settings = CallbackSettings { allow_http: false, ..settings };
        assert_eq!(forbidden_by(&settings, "http://localhost/"), Some("callbacks.allow_http"));
        assert_eq!(forbidden_by(&settings, "https://localhost/"), None);
    }

    #[test]
    fn only_listed_hosts_may_be_called() {
        let allow_hosts = ["Hooks.Example", "*.shop.example", "10.0.0.1"].map(str::to_owned).to_vec();
        let settings = CallbackSettings { allow_hosts, ..CallbackSettings::default() };
        for url in
            ["http://hooks.example/", "http://a.shop.example/", "http://a.B.shop.example/", "http://10.1/"]
        {
            assert_eq!(forbidden_by(&settings, url), None, "{url}");
        }
        for url in [
            "http://shop.example/",
            "http://xshop.example/",
            "http://a.hooks.example/",
            "http://hooks.example.evil/",
            "http://hooks.example./",
            "http://10.0.0.2/",
            "http://[::1]/",
        ] {
            assert_eq!(forbidden_by(&settings, url), Some("callbacks.allow_hosts"), "{url}");
        }
    }
}
