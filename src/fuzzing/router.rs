//! Fuzz target of the whole API through its router, on the embedded engine. A server serves inputs until one of them changed
//! something, so that every input finds an empty store.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use crate::{
    clock::SystemClock,
    http::{App, CONTRACT, Edge, HttpOptions, router},
    metrics::Metrics,
    queue::{Limits, Queue, StoreEvents},
    store::embedded,
};

/// Ends a request of an input.
const END: u8 = 0x1e;

/// Statuses of requests that belong to no operation: an unknown path, a wrong method, a foreign page.
const REFUSALS: [u16; 7] = [400, 401, 403, 404, 405, 408, 413];

/// The server that serves the next input, unless the last one changed something.
static KEPT: Mutex<Option<Server>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Server>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the server and removes its data.
#[cfg(test)]
pub fn stop() {
    *kept() = None;
}

/// Requests to serve one after the other. A request is a byte that chooses the operation of the contract, a line with what
/// stands for its path parameters and its query, header lines, an empty line, and the body.
pub fn requests(data: &[u8]) {
    let mut kept = kept();
    let server = kept.get_or_insert_with(Server::start);
    let mut changed = false;
    for (request, operation) in data.split(|byte| *byte == END).filter_map(request) {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD)
            && !request.uri().path().ends_with("/pop");
        changed |= server.serve(request, operation).is_success() && !reads;
    }
    if changed {
        *kept = None;
    }
}

/// A path: it is decoded once, and what it names is an id or is refused.
pub fn paths(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(target) = format!("/jobs/{text}").parse::<axum::http::Uri>() else { return };
    // Then it is another path.
    if target.path().len() != "/jobs/".len() + text.len() || text.contains('/') || text.is_empty() {
        return;
    }
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = target;
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    let expected = match decoded(text).map(|id| crate::job::JobId::parse(&id)) {
        Some(Ok(_)) => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    let operation = OPERATIONS.iter().find(|found| found.method == "GET" && found.template == "/jobs/{id}");
    assert_eq!(kept().get_or_insert_with(Server::start).serve(request, operation), expected, "{text:?}");
}

/// The text with its escapes decoded (RFC 3986, 2.1). An escape that is none stands for itself.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.first_chunk::<2>().filter(|_| *first == b'%');
        let digits = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(out).ok()
}

/// One operation of the contract.
struct Operation {
    method: &'static str,
    template: &'static str,
    statuses: Vec<u16>,
}

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(operations);

/// The operations, read by the indentation of our own file.
fn operations() -> Vec<Operation> {
    let (mut operations, mut template): (Vec<Operation>, _) = (Vec::new(), "");
    let (_, paths) = CONTRACT.split_once("\npaths:\n").expect("the contract has paths");
    for line in paths.lines().take_while(|line| *line != "components:") {
        let name = || line.trim().split(':').next().unwrap_or_default().trim_matches('\'');
        match line.len() - line.trim_start().len() {
            2 => template = name(),
            4 if matches!(name(), "get" | "post" | "put" | "patch" | "delete") => {
                operations.push(Operation { method: name(), template, statuses: Vec::new() });
            }
            8 => {
                let status: Option<u16> = name().parse().ok();
                operations.last_mut().into_iter().for_each(|operation| operation.statuses.extend(status));
            }
            _ => {}
        }
    }
    operations
}

/// A request of an input, and its operation unless it has none or maybe another one.
fn request(data: &[u8]) -> Option<(Request<Body>, Option<&'static Operation>)> {
    let (chosen, rest) = data.split_first()?;
    let (first, rest) = split_line(rest);
    let first = std::str::from_utf8(first).ok()?;
    // Readable in files: the first operation is `0`.
    let operation = OPERATIONS.get(usize::from(chosen.wrapping_sub(b'0')));
    let (given, query) = first.split_once('?').unwrap_or((first, ""));
    let (method, path) = match operation {
        Some(operation) => {
            let parts =
                operation.template.split('/').map(|part| if part.starts_with('{') { given } else { part });
            (operation.method.to_uppercase(), parts.collect::<Vec<_>>().join("/"))
        }
        // Any method and target.
        None => given.split_once(' ').map(|(method, path)| (method.to_owned(), path.to_owned()))?,
    };
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = format!("{path}?{query}").parse().ok()?;
    *request.headers_mut() = HeaderMap::from_iter([
        (header::HOST, HeaderValue::from_static("localhost")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ]);
    let mut rest = rest;
    loop {
        let (line, after) = split_line(rest);
        rest = after;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().insert(HeaderName::from_bytes(&line[..colon]).ok()?, value);
    }
    *request.body_mut() = Body::from(rest.to_vec());
    // What was given for a parameter may lead to another path.
    let is_certain = !given.contains('/') && !given.is_empty() && request.uri().path() == path;
    Some((request, operation.filter(|_| is_certain)))
}

fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// A server over an empty store.
struct Server {
    runtime: Runtime,
    queue: Arc<Queue>,
    router: Router,
    directory: PathBuf,
}

impl Server {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let directory = std::env::temp_dir().join(format!("linger-fuzz-{}", std::process::id()));
        let mut options = embedded::Options::new(&directory);
        options.durability = embedded::Durability::Os;
        (options.min_free_bytes, options.ballast_bytes, options.promotes_by_itself) = (0, 0, false);
        // A poll waits for real time.
        let limits = Limits { max_wait: Duration::from_millis(1), ..Limits::default() };
        let (clock, events, metrics) =
            (Arc::new(SystemClock::new()), Arc::new(StoreEvents::default()), Metrics::new());
        let queue = runtime.block_on(async {
            let store = embedded::open(options, clock.clone(), events.clone(), metrics.engine.clone()).await;
            Queue::new(store.expect("opens"), &events, clock.clone(), limits, metrics.queue.clone())
        });
        let router = router(&App::new(queue.clone(), Edge::new(clock, metrics, HttpOptions::default())));
        Self { runtime, queue, router, directory }
    }

    /// Serves a request and checks the answer.
    fn serve(&self, request: Request<Body>, operation: Option<&Operation>) -> StatusCode {
        let (is_head, about) =
            (request.method() == Method::HEAD, format!("{} {}", request.method(), request.uri()));
        let is_page = request.uri().path().starts_with("/ui");
        let (response, body) = self.runtime.block_on(async {
            let (parts, body) =
                self.router.clone().oneshot(request).await.expect("the router never fails").into_parts();
            (parts, body.collect().await.expect("a body in memory").to_bytes())
        });
        let (status, headers) = (response.status, response.headers);
        let about = format!("{about}: {status} {}", String::from_utf8_lossy(&body));
        assert!(!status.is_server_error(), "{about}");
        assert!(headers.contains_key("x-request-id"), "{about}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{about}");
        if !is_page {
            assert_eq!(headers[header::CACHE_CONTROL], "no-store", "{about}");
        }
        if let Some(operation) = operation {
            assert!(
                operation.statuses.contains(&status.as_u16()),
                "{} documents no such answer: {about}",
                operation.template
            );
        } else if status.is_client_error() {
            let known = OPERATIONS.iter().any(|operation| operation.statuses.contains(&status.as_u16()));
            assert!(known || REFUSALS.contains(&status.as_u16()), "{about}");
        }
        if status.is_client_error() && !is_head {
            assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{about}");
            let problem: Value =
                serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {about}"));
            assert_eq!(problem["status"], status.as_u16(), "{about}");
            assert!(problem["code"].is_string() && problem["detail"].is_string(), "{about}");
        } else if headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json")
            && !is_head
        {
            let read = serde_json::from_slice::<&serde_json::value::RawValue>(&body);
            // A job's body may be deeper than this reader allows.
            let fault =
                read.err().map(|error| error.to_string()).filter(|error| !error.contains("recursion limit"));
            assert_eq!(fault, None, "{about}");
        }
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data is not needed any more.
        let _ = self.runtime.block_on(self.queue.close());
        let _ = fs::remove_dir_all(&self.directory);
    }
}
