//! A second dialect: the edge treats its requests as those of our own API, and the dialect gives the refusals another form.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, Method, Response, StatusCode, header, request::Parts},
    routing::{MethodFilter, MethodRouter},
};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt};

use super::*;
use crate::{
    auth::{Authenticator, Caller, Scope, parse_tokens, token_entry},
    clock::SystemClock,
    http::errors::Problem,
    metrics::Metrics,
};

const TOKEN: &str = "linger_known";

/// Tokens in a header of its own, bodies of any bytes with any method, and refusals as text with the status 200.
#[derive(Default)]
struct Plain {
    is_anonymous: bool,
}

impl Dialect for Plain {
    fn authenticate(
        &self,
        authenticator: &Authenticator,
        required: RequiredScope,
        request: &mut Request,
    ) -> Result<Caller, Problem> {
        let token = request.headers_mut().remove("x-token").ok_or_else(Problem::no_token)?;
        let credential = [b"Bearer ", token.as_bytes()].concat();
        let caller = authenticator.authenticate(Some(&credential)).map_err(|_| Problem::unknown_token())?;
        if required.is_met_by(&caller) { Ok(caller) } else { Err(Problem::forbidden("another scope")) }
    }

    fn is_anonymous(&self) -> bool {
        self.is_anonymous
    }

    fn accepts_body(&self, _: &Method) -> bool {
        true
    }

    fn render(&self, problem: &Problem, request_id: &str) -> Response<Vec<u8>> {
        Response::new(format!("refused: {} ({request_id})", problem.code()).into_bytes())
    }
}

/// The whole body, whatever it is.
struct Payload(Bytes);

impl<S: Send + Sync> FromRequestParts<S> for Payload {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(request_body::remove_body(parts).unwrap_or_default()))
    }
}

async fn echo(State(state): State<&'static str>, Payload(bytes): Payload) -> Vec<u8> {
    [state.as_bytes(), &bytes].concat()
}

async fn refuse() -> Problem {
    Problem::confirmation_required()
}

async fn fail() {
    panic!("on purpose");
}

/// A refusal as the framework makes it.
async fn conflict() -> (StatusCode, &'static str) {
    (StatusCode::CONFLICT, "a text of the framework")
}

/// The routes, and what answers all others.
fn router(metrics: &Metrics) -> Router {
    let tokens = token_entry("worker", TOKEN, &[Scope::Work], &[]);
    let authenticator = Authenticator::with_tokens(parse_tokens(&tokens).expect("is valid"));
    let options = HttpOptions { max_request_bytes: 100, ..HttpOptions::default() };
    let edge =
        Edge::new(Arc::new(SystemClock::new()), metrics.clone(), options).with_auth(Arc::new(authenticator));
    let route = |path, scope| {
        Middleware::new(&edge, Arc::new(Plain::default()), RouteSpec::new(path, RequiredScope::Of(scope)))
    };
    let echo = route("/echo", Scope::Work).wrap(echo, "got ");
    let methods = MethodRouter::new().on_service(MethodFilter::PUT.or(MethodFilter::DELETE), echo);
    let fail = MethodRouter::new().on_service(MethodFilter::GET, route("/fail", Scope::Work).wrap(fail, ()));
    let refused = route("/refuse", Scope::Add).wrap(refuse, ());
    let refused = MethodRouter::new().on_service(MethodFilter::POST, refused);
    let conflict = route("/conflict", Scope::Work).wrap(conflict, ());
    let conflict = MethodRouter::new().on_service(MethodFilter::GET, conflict);
    let unknown = Middleware::new(&edge, Arc::new(Plain::default()), RouteSpec::UNKNOWN);
    let unknown = unknown.wrap(async || Problem::no_route("nothing"), ());
    Router::new()
        .route("/echo", methods)
        .route("/fail", fail)
        .route("/refuse", refused)
        .route("/conflict", conflict)
        .fallback_service(unknown)
}

/// The answer to a request with the token and these headers besides, and whether the connection ends with it.
async fn call(
    router: &Router,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> (String, bool) {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    for (name, value) in [("x-token", TOKEN), ("x-request-id", "r1")].iter().chain(headers) {
        let name: HeaderName = name.parse().expect("is a name");
        request.headers_mut().expect("is valid").insert(name, value.parse().expect("is a value"));
    }
    let request = request.body(Body::from(body.to_vec())).expect("is valid");
    let response = router.clone().oneshot(request).await.expect("never fails");
    assert_eq!(response.status(), StatusCode::OK);
    assert_common(response.headers());
    assert!(!response.headers().contains_key(header::CONTENT_TYPE) || path == "/echo");
    let closes = response.headers().get(header::CONNECTION).is_some_and(|value| value == "close");
    let bytes = response.into_body().collect().await.expect("a body in memory").to_bytes();
    (String::from_utf8(bytes.to_vec()).expect("is text"), closes)
}

/// What every response of a server has.
fn assert_common(headers: &HeaderMap) {
    assert_eq!(headers["x-request-id"], "r1");
    assert_eq!(headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn a_second_dialect_has_its_own_tokens_bodies_and_refusals() {
    let metrics = Metrics::new();
    let router = router(&metrics);
    // No JSON, and a body with a method that has none in our own API.
    assert_eq!(call(&router, ("PUT", "/echo"), &[], b"{no").await.0, "got {no");
    assert_eq!(call(&router, ("DELETE", "/echo"), &[], b"id").await.0, "got id");
    for (target, headers, body, code, closes) in [
        (("PUT", "/echo"), &[("x-token", "linger_other")][..], &b""[..], "unauthorized", false),
        (("POST", "/refuse"), &[], b"", "forbidden", false),
        (("GET", "/nowhere"), &[], b"", "forbidden", false),
        // Of the edge itself, and of the framework.
        (("PUT", "/echo"), &[("origin", "http://evil.example")], b"", "cross_site_refused", false),
        (("PUT", "/echo"), &[("host", "evil.example")], b"", "host_refused", false),
        (("PUT", "/echo"), &[("transfer-encoding", "gzip")], b"", "malformed_request", true),
        (("PUT", "/echo"), &[], &[b'x'; 101], "body_too_large", true),
        (("GET", "/fail"), &[], b"", "internal", false),
        (("GET", "/conflict"), &[], b"", "malformed_request", false),
    ] {
        let answer = call(&router, target, headers, body).await;
        assert_eq!(answer, (format!("refused: {code} (r1)"), closes), "{target:?} {headers:?}");
    }
    let page = metrics.encode();
    assert!(
        page.contains(r#"route="/echo""#) && page.contains("cross_site_refused"),
        "they are counted: {page}"
    );
    let refusal = too_many_connections(&Plain::default());
    let id = refusal.headers()["x-request-id"].to_str().expect("text");
    assert_eq!(refusal.body(), format!("refused: overloaded ({id})").as_bytes(), "{refusal:?}");
    assert_eq!(refusal.headers()[header::CONNECTION], "close");
}

/// The operator may know that tokens keep web pages out; they do not where none are asked for.
#[tokio::test]
async fn a_dialect_without_tokens_checks_the_host_in_any_case() {
    for (is_anonymous, expected) in [(true, "refused: host_refused (r1)"), (false, "got ")] {
        let options = HttpOptions { check_host: false, ..HttpOptions::default() };
        let edge = Edge::new(Arc::new(SystemClock::new()), Metrics::new(), options).with_auth(Arc::new(
            Authenticator::with_tokens(
                parse_tokens(&token_entry("worker", TOKEN, &[Scope::Work], &[])).expect("is valid"),
            ),
        ));
        let route = RouteSpec::new("/echo", RequiredScope::Of(Scope::Work));
        let echo = Middleware::new(&edge, Arc::new(Plain { is_anonymous }), route).wrap(echo, "got ");
        let router = Router::new().route("/echo", MethodRouter::new().on_service(MethodFilter::PUT, echo));
        let answer = call(&router, ("PUT", "/echo"), &[("host", "evil.example")], b"").await;
        assert_eq!(answer.0, expected);
    }
}

/// The allocator is quick up to a kilobyte, and a parked poll keeps it.
#[test]
fn what_is_allocated_around_a_handler_is_below_a_kilobyte() {
    let edge = Edge::new(Arc::new(SystemClock::new()), Metrics::new(), HttpOptions::default());
    let route = RouteSpec::new("/echo", RequiredScope::Public);
    let mut echo = Middleware::new(&edge, Arc::new(Plain::default()), route).wrap(echo, "got ");
    let answer = echo.call(Request::default());
    assert!(size_of_val(&*answer) <= 1_024, "{} bytes", size_of_val(&*answer));
}
