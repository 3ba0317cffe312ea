//! Keeps foreign web pages out: a page in a user's browser must not pop or add through that browser.
//!
//! The server has no cookies and no passwords; being reachable is the only credential, and a browser
//! lends it to every page. Four headers tell: `Sec-Fetch-Site`, which browsers send to loopback and HTTPS
//! and pages cannot forge; `Origin`, which they send with every call that is not a plain GET; `Referer`,
//! which betrays an image or link that points here; and `Host`, which betrays a name that was bound to
//! this address afterwards (DNS rebinding). Programs send none of the first three.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, Version, header, uri::Authority};

use super::{Options, errors::Problem, paths};

/// Refuses what a foreign page sent.
pub(super) fn check<B>(request: &axum::http::Request<B>, options: &Options) -> Result<(), Problem> {
    let host = host(request)?;
    let is_probe = paths::PROBES.contains(&request.uri().path());
    if options.check_host && !is_probe && host.as_ref().is_some_and(|host| !is_ours(host.host(), options)) {
        return Err(Problem::foreign_host());
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads && paths::OPERATIONS.contains(&request.uri().path()) {
        // Links to these pages are useful, and other pages cannot read what they answer.
        return Ok(());
    }
    if is_foreign(request.headers(), host.as_ref()) { Err(Problem::cross_site()) } else { Ok(()) }
}

/// The host that was called; none only in HTTP/1.0.
fn host<B>(request: &axum::http::Request<B>) -> Result<Option<Authority>, Problem> {
    let mut values = request.headers().get_all(header::HOST).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Problem::malformed("the Host header must be there once"));
    }
    // A target in absolute form goes before the header (RFC 9112, 3.2.2).
    if let Some(authority) = request.uri().authority() {
        return plain(authority.clone()).map(Some);
    }
    match first {
        Some(value) => match Authority::try_from(value.as_bytes()) {
            Ok(authority) => plain(authority).map(Some),
            Err(_) => Err(Problem::malformed("the Host header is not a host")),
        },
        None if request.version() <= Version::HTTP_10 => Ok(None),
        None => Err(Problem::malformed("the Host header is missing")),
    }
}

/// A host, perhaps with a port; a user before it has no place here (RFC 9110, 4.2.4) and may mislead.
fn plain(authority: Authority) -> Result<Authority, Problem> {
    if has_user(&authority) {
        Err(Problem::malformed("the host must not name a user"))
    } else {
        Ok(authority)
    }
}

fn has_user(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

/// Whether `host` cannot have been bound to this server by somebody else: an address, a name that never
/// leaves the machine (RFC 6761), or a name that was configured.
fn is_ours(host: &str, options: &Options) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || options.allowed_hosts.iter().any(|allowed| is_named(allowed, host))
}

/// Whether `allowed` is the name of `host`, or `*.` before the end of its name.
fn is_named(allowed: &str, host: &str) -> bool {
    let Some(end) = allowed.strip_prefix('*') else { return allowed.eq_ignore_ascii_case(host) };
    let at = host.len().saturating_sub(end.len());
    at > 0 && host.get(at..).is_some_and(|last| last.eq_ignore_ascii_case(end))
}

fn is_foreign(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let foreign_site = |value: &axum::http::HeaderValue| value != "same-origin" && value != "none";
    headers.get_all("sec-fetch-site").iter().any(foreign_site)
        || headers.get_all(header::ORIGIN).iter().any(|value| !is_same(value.as_bytes(), host))
        || headers.get_all(header::REFERER).iter().any(|value| !is_same(value.as_bytes(), host))
}

/// Whether an origin or a page's address (`scheme://authority...`) is at `host`.
fn is_same(address: &[u8], host: Option<&Authority>) -> bool {
    let Some((scheme, rest)) = std::str::from_utf8(address).ok().and_then(|text| text.split_once("://"))
    else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let (Ok(theirs), Some(ours)) = (authority.parse::<Authority>(), host) else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    !has_user(&theirs) && theirs.host().eq_ignore_ascii_case(ours.host()) && port(&theirs) == port(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, path: &str, headers: &[(&str, &str)], options: &Options) -> &'static str {
        let mut request = axum::http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match check(&request.body(()).expect("a request"), options) {
            Ok(()) => "ok",
            Err(problem) => problem.code(),
        }
    }

    fn from(headers: &[(&str, &str)]) -> &'static str {
        let headers = [&[("host", "localhost:9277")], headers].concat();
        code("POST", "/jobs", &headers, &Options::default())
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for headers in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("origin", "http://evil.example")],
            &[("origin", "null")],
            &[("origin", "http://localhost:3000")],
            &[("origin", "https://localhost:9277.evil.example")],
            &[("referer", "http://evil.example/page?http://localhost:9277")],
            &[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")],
            &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
        ] {
            assert_eq!(from(headers), "cross_site_refused", "{headers:?}");
        }
    }

    #[test]
    fn programs_and_our_own_pages_are_let_in() {
        for headers in [
            &[][..],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:9277")],
            &[("origin", "http://LOCALHOST:9277")],
            &[("referer", "http://localhost:9277/page")],
        ] {
            assert_eq!(from(headers), "ok", "{headers:?}");
        }
    }

    #[test]
    fn a_link_may_point_at_the_operators_pages_only() {
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        let options = Options::default();
        assert_eq!(code("GET", "/readyz", &link, &options), "ok");
        assert_eq!(code("POST", "/readyz", &link, &options), "cross_site_refused");
        assert_eq!(code("GET", "/topics/t/pop", &link, &options), "cross_site_refused");
        assert_eq!(code("GET", "/jobs/1", &link, &options), "cross_site_refused");
    }

    #[test]
    fn a_rebound_name_is_refused() {
        let on = |host: &str, options: &Options| code("GET", "/jobs/1", &[("host", host)], options);
        let loopback = Options { check_host: true, ..Options::default() };
        for ours in ["localhost", "localhost:9277", "127.0.0.1:1", "[::1]:9277", "app.localhost", "10.0.0.1"]
        {
            assert_eq!(on(ours, &loopback), "ok", "{ours}");
        }
        for foreign in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "evillocalhost"] {
            assert_eq!(on(foreign, &loopback), "host_refused", "{foreign}");
        }
        let named = Options { allowed_hosts: vec!["queue.internal".to_owned()], ..loopback.clone() };
        assert_eq!(on("Queue.Internal:9277", &named), "ok");
        assert_eq!(on("evil.example", &named), "host_refused");
        let open = Options { check_host: false, ..Options::default() };
        assert_eq!(on("evil.example", &open), "ok", "where tokens are asked for");
    }

    #[test]
    fn names_may_be_allowed_by_their_end() {
        let options = Options { allowed_hosts: vec!["*.svc.cluster.local".to_owned()], ..Options::default() };
        let on = |host: &str| code("GET", "/jobs/1", &[("host", host)], &options);
        for ours in ["linger.default.svc.cluster.local", "Linger.SVC.cluster.local:9277"] {
            assert_eq!(on(ours), "ok", "{ours}");
        }
        for foreign in
            ["svc.cluster.local", ".svc.cluster.local", "evilsvc.cluster.local", "x.svc.cluster.local.evil"]
        {
            assert_eq!(on(foreign), "host_refused", "{foreign}");
        }
    }

    #[test]
    fn probes_may_use_any_name() {
        for path in ["/livez", "/readyz"] {
            assert_eq!(code("GET", path, &[("host", "pod-7.internal")], &Options::default()), "ok");
        }
        assert_eq!(
            code("GET", "/metrics", &[("host", "pod-7.internal")], &Options::default()),
            "host_refused"
        );
    }

    #[test]
    fn the_host_is_there_once_and_the_target_goes_before_it() {
        let options = Options::default();
        assert_eq!(code("GET", "/livez", &[], &options), "malformed_request");
        assert_eq!(code("GET", "/livez", &[("host", "a b")], &options), "malformed_request");
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(code("GET", "/livez", &twice, &options), "malformed_request");
        let absolute = code("GET", "http://evil.example/jobs/1", &[("host", "localhost")], &options);
        assert_eq!(absolute, "host_refused");
    }
}
