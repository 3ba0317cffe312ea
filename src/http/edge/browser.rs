//! Refuses requests of foreign web pages: a page in a user's browser must not pop or add jobs through that browser.
//!
//! The server has no cookies and no passwords. Being reachable is the only credential, and a browser lends it to every
//! page. Four headers reveal such requests: `Sec-Fetch-Site`, which browsers send to loopback and HTTPS and pages cannot
//! forge; `Origin`, which browsers send with every request but a plain GET; `Referer`, which reveals an image or link
//! that points here; and `Host`, which reveals a name that was bound to this address afterwards (DNS rebinding).
//! Programs send none of the first three.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Method, Version, header, uri::Authority};

use super::{
    options::HttpOptions,
    route::{RouteKind, RouteSpec},
};
use crate::http::errors::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that a foreign page sent to `route`, whose host is checked if that is set.
pub fn check<B>(
    request: &axum::http::Request<B>,
    (route, check_host): (&RouteSpec, bool),
    options: &HttpOptions,
) -> Result<(), Problem> {
    let host = target_host(request)?;
    let is_checked = check_host && route.kind != RouteKind::Probe;
    if is_checked && host.as_ref().is_some_and(|host| !is_own(host.host(), options)) {
        return Err(Problem::foreign_host());
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) && route.is_linkable() {
        return Ok(());
    }
    let is_foreign = is_foreign(request.headers(), host.as_ref(), options);
    if is_foreign { Err(Problem::cross_site()) } else { Ok(()) }
}

/// The host to which the request was sent. `None` only in HTTP/1.0.
fn target_host<B>(request: &axum::http::Request<B>) -> Result<Option<Authority>, Problem> {
    let mut values = request.headers().get_all(header::HOST).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Problem::malformed("the Host header must be given once"));
    }
    // A target in absolute form overrides the header (RFC 9112, 3.2.2).
    if let Some(authority) = request.uri().authority() {
        return without_user(authority.clone()).map(Some);
    }
    match first {
        Some(value) => match Authority::try_from(value.as_bytes()) {
            Ok(authority) => without_user(authority).map(Some),
            Err(_) => Err(Problem::malformed("the Host header is not a host")),
        },
        None if request.version() <= Version::HTTP_10 => Ok(None),
        None => Err(Problem::malformed("the Host header is missing")),
    }
}

/// Refuses a host with user information, which RFC 9110, 4.2.4 forbids because it can mislead people.
fn without_user(authority: Authority) -> Result<Authority, Problem> {
    if has_user(&authority) {
        Err(Problem::malformed("the host must not name a user"))
    } else {
        Ok(authority)
    }
}

fn has_user(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

/// Whether no foreign DNS entry can make `host` lead to this server: it is an address, a name that never leaves the
/// machine (RFC 6761), or a configured name.
fn is_own(host: &str, options: &HttpOptions) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok() || is_allowed(host, options)
}

/// Whether `host` is a configured name.
fn is_allowed(host: &str, options: &HttpOptions) -> bool {
    options.allowed_hosts.iter().any(|allowed| matches_pattern(allowed, host))
}

/// Whether `host` is `pattern`, or ends with what follows the `*` of `pattern`.
fn matches_pattern(pattern: &str, host: &str) -> bool {
    let Some(suffix) = pattern.strip_prefix('*') else { return pattern.eq_ignore_ascii_case(host) };
    let suffix_at = host.len().saturating_sub(suffix.len());
    suffix_at > 0 && host.get(suffix_at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

fn is_foreign(headers: &HeaderMap, host: Option<&Authority>, options: &HttpOptions) -> bool {
    let foreign_site = |value: &axum::http::HeaderValue| value != "same-origin" && value != "none";
    let foreign_page = |value: &axum::http::HeaderValue| !is_own_page(value.as_bytes(), host, options);
    headers.get_all(SEC_FETCH_SITE).iter().any(foreign_site)
        || headers.get_all(header::ORIGIN).iter().any(foreign_page)
        || headers.get_all(header::REFERER).iter().any(foreign_page)
}

/// Whether an origin or a page's URL (`scheme://authority...`) is at `host`, or at a configured name: a proxy may have
/// replaced the `Host` that the browser sent, or dropped its port (`proxy_set_header Host $host` of nginx). With the same
/// name and a port in `Host` the ports must be the same, since another program may use another one.
fn is_own_page(url: &[u8], host: Option<&Authority>, options: &HttpOptions) -> bool {
    let Some((scheme, rest)) = std::str::from_utf8(url).ok().and_then(|text| text.split_once("://")) else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let (Ok(theirs), Some(ours)) = (authority.parse::<Authority>(), host) else { return false };
    if has_user(&theirs) {
        return false;
    }
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    let has_same_name = theirs.host().eq_ignore_ascii_case(ours.host());
    if has_same_name && (ours.port().is_some() || port(&theirs) == default_port) {
        return port(&theirs) == port(ours);
    }
    is_allowed(theirs.host(), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::edge::route::RequiredScope;

    fn route(path: &'static str) -> RouteSpec {
        let kind = match path {
            "/livez" | "/readyz" => RouteKind::Probe,
            "/metrics" => RouteKind::Metrics,
            _ => RouteKind::Call,
        };
        RouteSpec { kind, ..RouteSpec::new(path, RequiredScope::Public) }
    }

    fn code(
        method: &str,
        path: &'static str,
        headers: &[(&str, &str)],
        options: &HttpOptions,
    ) -> &'static str {
        let mut request = axum::http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match check(&request.body(()).expect("a request"), (&route(path), options.check_host), options) {
            Ok(()) => "ok",
            Err(problem) => problem.code(),
        }
    }

    fn code_of_add(headers: &[(&str, &str)]) -> &'static str {
        let headers = [&[("host", "localhost:9277")], headers].concat();
        code("POST", "/jobs", &headers, &HttpOptions::default())
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
            assert_eq!(code_of_add(headers), "cross_site_refused", "{headers:?}");
        }
    }

    #[test]
    fn requests_of_programs_and_of_own_pages_pass() {
        for headers in [
            &[][..],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:9277")],
            &[("origin", "http://LOCALHOST:9277")],
            &[("referer", "http://localhost:9277/page")],
        ] {
            assert_eq!(code_of_add(headers), "ok", "{headers:?}");
        }
    }

    #[test]
    fn pages_at_configured_names_are_our_own_behind_a_proxy_that_replaces_the_host() {
        let named = HttpOptions {
            allowed_hosts: vec!["queue.example".to_owned(), "*.corp.example".to_owned()],
            ..HttpOptions::default()
        };
        let code_from = |host: &str, origin: &str| {
            code("POST", "/jobs", &[("host", host), ("origin", origin), ("referer", origin)], &named)
        };
        for origin in ["https://queue.example", "http://Queue.example:8443", "https://a.corp.example"] {
            assert_eq!(code_from("127.0.0.1:9277", origin), "ok", "{origin}");
        }
        for origin in
            ["https://evil.example", "https://queue.example.evil", "https://u@queue.example", "null"]
        {
            assert_eq!(code_from("127.0.0.1:9277", origin), "cross_site_refused", "{origin}");
        }
        // Another program at the same name, whose page could otherwise send requests through a browser.
        assert_eq!(code_from("queue.example:9277", "http://queue.example:3000"), "cross_site_refused");
        let referred = [("host", "queue.example:9277"), ("referer", "http://queue.example:3000/page")];
        assert_eq!(code("POST", "/jobs", &referred, &named), "cross_site_refused");
        let site = [("host", "queue.example"), ("origin", "https://queue.example")];
        let headers = [&site[..], &[("sec-fetch-site", "cross-site")]].concat();
        assert_eq!(code("POST", "/jobs", &headers, &named), "cross_site_refused");
    }

    #[test]
    fn a_host_without_its_port_is_completed_for_configured_names_only() {
        let named = HttpOptions { allowed_hosts: vec!["queue.example".to_owned()], ..HttpOptions::default() };
        let unnamed = HttpOptions { check_host: false, ..HttpOptions::default() };
        let code_from = |host: &str, origin: &str, options: &HttpOptions| {
            code("POST", "/jobs", &[("host", host), ("origin", origin), ("referer", origin)], options)
        };
        for (host, origin, if_named, if_unnamed) in [
            // A proxy kept the host and dropped the port.
            ("queue.example", "http://queue.example:8080", "ok", "cross_site_refused"),
            ("Queue.Example", "https://queue.example:8443", "ok", "cross_site_refused"),
            ("queue.example", "http://queue.example:443", "ok", "cross_site_refused"),
            // Nothing was dropped.
            ("queue.example", "http://queue.example", "ok", "ok"),
            ("queue.example", "https://queue.example", "ok", "ok"),
            ("queue.example", "http://queue.example:80", "ok", "ok"),
            ("queue.example:8080", "http://queue.example:8080", "ok", "ok"),
            // Another program at the same name.
            ("queue.example:8080", "http://queue.example", "cross_site_refused", "cross_site_refused"),
            ("queue.example:8080", "https://queue.example:8443", "cross_site_refused", "cross_site_refused"),
            ("queue.example:443", "http://queue.example", "cross_site_refused", "cross_site_refused"),
            // Other names, whichever port they have.
            ("queue.example", "http://evil.example:8080", "cross_site_refused", "cross_site_refused"),
            ("queue.example", "http://evil.example", "cross_site_refused", "cross_site_refused"),
            ("queue.example", "http://queue.example.evil:8080", "cross_site_refused", "cross_site_refused"),
            ("queue.example", "http://u@queue.example:8080", "cross_site_refused", "cross_site_refused"),
            ("queue.example", "ftp://queue.example:8080", "cross_site_refused", "cross_site_refused"),
            ("queue.example", "null", "cross_site_refused", "cross_site_refused"),
            ("localhost", "http://localhost:3000", "cross_site_refused", "cross_site_refused"),
            ("127.0.0.1", "http://127.0.0.1:3000", "cross_site_refused", "cross_site_refused"),
        ] {
            assert_eq!(code_from(host, origin, &named), if_named, "{host}, {origin}, named");
            assert_eq!(code_from(host, origin, &unnamed), if_unnamed, "{host}, {origin}, not named");
        }
        // A browser that says where the page is from is believed first.
        for site in ["same-site", "cross-site"] {
            let headers = [
                ("host", "queue.example"),
                ("origin", "http://queue.example:8080"),
                ("sec-fetch-site", site),
            ];
            assert_eq!(code("POST", "/jobs", &headers, &named), "cross_site_refused", "{site}");
        }
    }

    #[test]
    fn links_may_point_at_pages_for_operators_only() {
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        let options = HttpOptions::default();
        assert_eq!(code("GET", "/readyz", &link, &options), "ok");
        assert_eq!(code("POST", "/readyz", &link, &options), "cross_site_refused");
        assert_eq!(code("GET", "/topics/t/pop", &link, &options), "cross_site_refused");
        assert_eq!(code("GET", "/jobs/1", &link, &options), "cross_site_refused");
    }

    #[test]
    fn a_rebound_name_is_refused() {
        let on = |host: &str, options: &HttpOptions| code("GET", "/jobs/1", &[("host", host)], options);
        let loopback = HttpOptions { check_host: true, ..HttpOptions::default() };
        for own in ["localhost", "localhost:9277", "127.0.0.1:1", "[::1]:9277", "app.localhost", "10.0.0.1"] {
            assert_eq!(on(own, &loopback), "ok", "{own}");
        }
        for foreign in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "evillocalhost"] {
            assert_eq!(on(foreign, &loopback), "host_refused", "{foreign}");
        }
        let named = HttpOptions { allowed_hosts: vec!["queue.internal".to_owned()], ..loopback.clone() };
        assert_eq!(on("Queue.Internal:9277", &named), "ok");
        assert_eq!(on("evil.example", &named), "host_refused");
        let open = HttpOptions { check_host: false, ..HttpOptions::default() };
        assert_eq!(on("evil.example", &open), "ok", "where tokens are required");
    }

    #[test]
    fn names_may_be_allowed_by_their_suffix() {
        let options =
            HttpOptions { allowed_hosts: vec!["*.svc.cluster.local".to_owned()], ..HttpOptions::default() };
        let on = |host: &str| code("GET", "/jobs/1", &[("host", host)], &options);
        for own in ["linger.default.svc.cluster.local", "Linger.SVC.cluster.local:9277"] {
            assert_eq!(on(own), "ok", "{own}");
        }
        for foreign in
            ["svc.cluster.local", ".svc.cluster.local", "evilsvc.cluster.local", "x.svc.cluster.local.evil"]
        {
            assert_eq!(on(foreign), "host_refused", "{foreign}");
        }
    }

    #[test]
    fn probes_may_use_any_host_name() {
        for path in ["/livez", "/readyz"] {
            assert_eq!(code("GET", path, &[("host", "pod-7.internal")], &HttpOptions::default()), "ok");
        }
        assert_eq!(
            code("GET", "/metrics", &[("host", "pod-7.internal")], &HttpOptions::default()),
            "host_refused"
        );
    }

    #[test]
    fn the_host_is_required_once_and_an_absolute_target_overrides_it() {
        let options = HttpOptions::default();
        assert_eq!(code("GET", "/livez", &[], &options), "malformed_request");
        assert_eq!(code("GET", "/livez", &[("host", "a b")], &options), "malformed_request");
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(code("GET", "/livez", &twice, &options), "malformed_request");
        let absolute = code("GET", "http://evil.example/jobs/1", &[("host", "localhost")], &options);
        assert_eq!(absolute, "host_refused");
    }
}
