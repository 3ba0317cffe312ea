//! Fuzz targets for the input of clients: JSON bodies, query parameters, and the headers that decide who may call.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, header, uri::Authority},
};
use bytes::Bytes;

use super::{
    access,
    edge::{HttpOptions, RequiredScope, RouteSpec, check_browser},
    errors::Problem,
    wire::{
        batches,
        parameters::{Query, decode_cursor, encode_cursor},
        requests, values,
    },
};
use crate::{
    auth::{self, Authenticator, Scope},
    job::{Body, NewJob},
    queue::Limits,
};

/// The first byte chooses the operation, the rest is its body.
pub fn fuzz_bodies(data: &[u8]) {
    let Some((call, body)) = data.split_first() else { return };
    let (body, limits) = (Bytes::copy_from_slice(body), Limits::default());
    match call % 17 {
        0 => check_result(requests::new_job(&body, &limits), |job| check_job(&job)),
        1 => check_result(requests::patch(&body, &limits), |patch| patch.body.iter().for_each(check_body)),
        2 => check_result(batches::new_jobs(&body, &limits), |items| {
            assert!(items.len() <= limits.max_batch);
            items.into_iter().for_each(|item| check_result(item.parsed, |job| check_job(&job)));
        }),
        3 => check_result(requests::release(&body, None, &limits), |_| ()),
        4 => check_result(requests::touch(&body, None), |_| ()),
        5 => check_result(requests::bury(&body, None), |_| ()),
        6 => check_result(requests::requeue(&body, &limits), |_| ()),
        7 => check_result(requests::requeue_dead(&body), |limit| assert!(limit > 0)),
        8 => check_result(requests::pause(&body), |_| ()),
        9 => check_result(requests::settings(&body, &limits), |_| ()),
        10 => check_result(requests::pop(&body, &limits), |pop| {
            assert!((1..=limits.max_batch_pop).contains(&pop.max));
            assert!((1..=Limits::MAX_POP_TOPICS).contains(&pop.topics.len()));
        }),
        11 => check_result(requests::finish(&body, None), |_| ()),
        12 => check_result(batches::finish_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
        13 => check_result(batches::release_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
        14 => check_result(batches::touch_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
        15 => check_result(batches::bury_jobs(&body, &limits), |items| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
        _ => check_result(batches::delete_jobs(&body, &limits), |(items, _)| {
            items.into_iter().for_each(|item| check_result(item.parsed, |_| ()));
        }),
    }
}

/// Checks a parsed value with `check`. A refusal must be the client's fault, and must render.
fn check_result<T>(parsed: Result<T, Problem>, check: impl FnOnce(T)) {
    match parsed {
        Ok(value) => check(value),
        Err(problem) => {
            assert!(problem.status().is_client_error(), "{}", problem.code());
            let mut out = Vec::new();
            problem.write(&mut out, Some("id"));
            let written: serde_json::Value = serde_json::from_slice(&out).expect("a problem is JSON");
            assert_eq!(written["code"], problem.code());
        }
    }
}

fn check_job(job: &NewJob) {
    check_body(&job.body);
    assert_eq!(job.fingerprint(), job.clone().fingerprint());
    assert!(job.resolved_max_attempts(&Default::default()) <= crate::job::MAX_ATTEMPTS_LIMIT);
}

/// A body is exactly one JSON value.
fn check_body(body: &Body) {
    assert_eq!(Body::parse(body.as_bytes().clone()).as_ref(), Ok(body));
}

/// A query string, read as each operation with parameters reads it.
pub fn fuzz_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut query = Query::parse(text);
    query.optional("wait", values::duration_text);
    query.optional("ttr", values::ttr_text);
    query.optional("limit", |text| values::whole_number_text(text, 1, 1_000));
    query.optional("receipt", values::receipt_text);
    let confirm = query.optional_text("confirm");
    let cursor = query.optional("cursor", decode_cursor);
    if let Err(problem) = query.finish() {
        let mut out = Vec::new();
        problem.write(&mut out, None);
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "a problem is JSON");
    }
    for text in cursor.iter().chain(&confirm).map(String::as_str).chain([text]) {
        assert_eq!(decode_cursor(&encode_cursor(text)).as_deref(), Ok(text));
    }
}

/// The token and the names that [`fuzz_headers`] allows.
const TOKEN: &[u8] = b"linger_known";
const NAMES: [&str; 2] = ["queue.example", "*.corp.example"];

/// Header lines. A request that passes was not sent by a foreign page, as a browser reads URLs, and has the token.
pub fn fuzz_headers(data: &[u8]) {
    let mut request = Request::new(axum::body::Body::empty());
    *request.method_mut() = axum::http::Method::POST;
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let name = HeaderName::from_bytes(&line[..colon]);
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii())) else {
            return;
        };
        request.headers_mut().append(name, value);
    }
    let options = HttpOptions {
        check_host: true,
        allowed_hosts: NAMES.map(str::to_owned).to_vec(),
        ..HttpOptions::default()
    };
    let required = RequiredScope::Of(Scope::Add);
    let route = RouteSpec::new("/jobs", required);
    check_result(check_browser(&request, (&route, true), &options), |()| {
        check_own_pages(request.headers());
    });
    let entry = auth::token_entry("a", std::str::from_utf8(TOKEN).expect("is text"), &[Scope::Add], &[]);
    let gate = Authenticator::with_tokens(auth::parse_tokens(&entry).expect("is valid"));
    let sent: Vec<Vec<u8>> = request
        .headers()
        .get_all(header::AUTHORIZATION)
        .iter()
        .map(|value| value.as_bytes().to_vec())
        .collect();
    check_result(access::authorize(&gate, required, &mut request), |caller| {
        assert_eq!(caller.name, Arc::from("a"));
        let [sent] = &sent[..] else { panic!("passed with {} credentials", sent.len()) };
        assert!(sent.len() >= TOKEN.len() + "bearer ".len() && sent.ends_with(TOKEN), "{sent:?}");
        assert!(!request.headers().contains_key(header::AUTHORIZATION), "no code after this sees the token");
    });
}

/// The host is ours, and so is every page that the headers name.
fn check_own_pages(headers: &HeaderMap) {
    let host = headers[header::HOST].to_str().expect("a host is text");
    let authority: Authority = host.parse().expect("a host is an authority");
    let ours = url::Url::parse(&format!("http://{host}"));
    if let Ok(ours) = &ours {
        let name = ours.host_str().unwrap_or_default().trim_end_matches('.');
        let is_local = name == "localhost" || name.ends_with(".localhost");
        assert!(is_local || is_address(ours) || is_configured(name), "{host}");
    }
    assert_eq!(headers.get_all(header::HOST).iter().count(), 1);
    let foreign = |value: &HeaderValue| value != "same-origin" && value != "none";
    assert!(!headers.get_all("sec-fetch-site").iter().any(foreign), "{headers:?}");
    for page in [header::ORIGIN, header::REFERER].iter().flat_map(|name| headers.get_all(name)) {
        let page = std::str::from_utf8(page.as_bytes()).expect("a page is text");
        let Ok(theirs) = url::Url::parse(page) else { continue };
        let Ok(ours) = &ours else { continue };
        let default_port = if theirs.scheme() == "https" { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(default_port);
        let is_same = ours.host_str() == theirs.host_str() && theirs.port_or_known_default() == Some(port);
        assert!(is_same || is_configured(theirs.host_str().unwrap_or_default()), "{page} at {host}");
        assert!(theirs.username().is_empty() && theirs.password().is_none(), "{page}");
    }
}

fn is_address(url: &url::Url) -> bool {
    matches!(url.host(), Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)))
}

fn is_configured(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == NAMES[0] || name.strip_suffix(".corp.example").is_some_and(|rest| !rest.is_empty())
}
