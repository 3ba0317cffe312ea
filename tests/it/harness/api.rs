//! The API under test: the real router over a real queue, on a manual clock. Every exchange is checked against
//! the contract.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode},
};
use http_body_util::BodyExt;
use linger::{
    auth::Authenticator,
    clock::ManualClock,
    config::{CallbackSettings, UiSettings},
    http::{self, App, Edge, HttpOptions},
    job::Timestamp,
    metrics::Metrics,
    push::{Callbacks, Caller},
    queue::{Limits, Queue, StoreEvents},
};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    failing::FailingStore,
    openapi::{Exchange, contract},
    resolver::TestResolver,
    stores::{Engine, Opened, START, Settings},
    wait::{TimeLimit, assert_waits, bounded, let_others_run, until},
};

/// The options of a case.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub store: Settings,
    pub limits: Limits,
    pub options: HttpOptions,
    /// The tokens that are accepted. `None` accepts every caller.
    pub auth: Option<Arc<Authenticator>>,
    /// Starts no timer, so that only `advance_and_promote` promotes due jobs.
    pub no_timer: bool,
    /// Makes callbacks.
    pub callbacks: Option<CallbackSettings>,
    pub ui: UiSettings,
}

/// One server under test, without a socket. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    pub queue: Arc<Queue>,
    pub clock: Arc<ManualClock>,
    pub store: Arc<FailingStore>,
    router: Router,
    exercised: Arc<Mutex<BTreeSet<(String, u16)>>>,
    stop_calls: CancellationToken,
    _running: Arc<Running>,
}

/// Stops the timer and removes the data once the last clone of the server is dropped.
struct Running {
    stop: CancellationToken,
    _data: Opened,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Api {
    pub async fn new(engine: Engine) -> Self {
        Self::with(engine, Setup::default()).await
    }

    pub async fn with(engine: Engine, setup: Setup) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
        let (hints, metrics, stop) =
            (Arc::new(StoreEvents::default()), Metrics::new(), CancellationToken::new());
        let opened = Opened::new(engine, setup.store, &clock, hints.clone()).await;
        let store = FailingStore::new(opened.store.clone());
        let queue =
            Queue::new(store.clone(), &hints, clock.clone(), setup.limits.clone(), metrics.queue.clone());
        if !setup.no_timer {
            let (queue, stop) = (queue.clone(), stop.clone());
            tokio::spawn(async move { queue.run_timer(stop).await });
        }
        let queue_metrics = metrics.queue.clone();
        let edge = Edge::new(clock.clone(), metrics, setup.options);
        let stop_calls = stop.child_token();
        let app = App::new(queue.clone(), edge.with_auth(setup.auth.unwrap_or_default())).with_ui(setup.ui);
        if let Some(settings) = setup.callbacks {
            let resolver = Arc::new(TestResolver);
            let caller =
                Caller::new(settings.clone(), clock.clone(), resolver).expect("the settings are valid");
            let callbacks = Callbacks::new(queue.clone(), caller, settings, clock.clone(), queue_metrics);
            let stop = stop_calls.clone();
            tokio::spawn(async move { callbacks.run(stop, Duration::ZERO).await });
        }
        let router = http::router(&app);
        let running = Arc::new(Running { stop, _data: opened });
        Self { queue, clock, store, router, exercised: Arc::default(), stop_calls, _running: running }
    }

    /// Advances the clock and promotes every job that is then due.
    pub async fn advance_and_promote(&self, time: Duration) {
        self.clock.advance(time);
        self.queue.promote_due().await.expect("due jobs are promoted");
    }

    /// Lets the other tasks run until `condition` is true.
    #[track_caller]
    pub fn until(&self, condition: impl Fn() -> bool) -> impl Future<Output = ()> {
        until(condition)
    }

    pub fn call(&self, method: &str, target: &str) -> Call {
        let headers =
            HeaderMap::from_iter([(axum::http::header::HOST, HeaderValue::from_static("localhost"))]);
        Call {
            api: self.clone(),
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: Bytes::new(),
            unchecked: false,
        }
    }

    pub async fn get(&self, target: &str) -> Response {
        self.call("GET", target).send().await
    }

    pub async fn delete(&self, target: &str) -> Response {
        self.call("DELETE", target).send().await
    }

    /// A POST without a body.
    pub async fn post(&self, target: &str) -> Response {
        self.call("POST", target).send().await
    }

    /// Sends a call with a JSON body. The body is text, so that the test determines its bytes.
    pub async fn send(&self, method: &str, target: &str, json: &str) -> Response {
        self.call(method, target).json(json).send().await
    }

    /// Adds a job that must be new.
    pub async fn add(&self, json: &str) -> Value {
        self.send("POST", "/jobs", json).await.expect(201).json()
    }

    /// Reserves a job of `topic` that must be ready.
    pub async fn pop(&self, topic: &str) -> Value {
        self.get(&format!("/topics/{topic}/pop")).await.expect(200).json()
    }

    /// Reserves a job of `topic` and makes it a dead letter.
    pub async fn bury(&self, topic: &str) -> Value {
        let job = self.pop(topic).await;
        let body = format!("{{\"receipt\":{}}}", job["receipt"]);
        self.send("POST", &format!("/jobs/{}/bury", text(&job["id"])), &body).await.expect(200).json()
    }

    /// Starts a long poll in a task of its own, and returns once it is parked.
    pub async fn park(&self, call: Call) -> JoinHandle<Response> {
        let before = self.queue.waiting();
        let poll = tokio::spawn(call.send());
        self.until(|| self.queue.waiting() > before || poll.is_finished()).await;
        poll
    }

    /// Asserts that a call is not answered although everything could run: also the store has answered another call.
    pub async fn assert_waits(&self, call: &JoinHandle<Response>, why: &str) {
        let_others_run().await;
        self.get("/jobs/nobody").await.expect(404);
        assert_waits(call, why).await;
    }

    /// Moves the clock in steps until a call is answered. If the answer still needs the store, the clock may move far.
    pub async fn advance_until_answered(&self, step: Duration, call: JoinHandle<Response>) -> Response {
        let time_limit = TimeLimit::new();
        while !call.is_finished() {
            time_limit.check(|| "the call is not answered".to_owned());
            self.clock.advance(step);
            tokio::task::yield_now().await;
        }
        call.await.expect("the call does not panic")
    }

    /// The operations that were called on this server so far, with the statuses of their responses.
    pub fn exercised(&self) -> BTreeSet<(String, u16)> {
        self.exercised.lock().expect("not poisoned").clone()
    }

    /// Begins to drain, as a shutdown does.
    pub fn drain(&self) {
        self.queue.drain();
    }

    /// Begins no more callbacks, and gives up at once those that are unanswered.
    pub fn stop_calls(&self) {
        self.stop_calls.cancel();
    }
}

/// A call that has not been sent yet.
pub struct Call {
    api: Api,
    method: String,
    target: String,
    headers: HeaderMap,
    body: Bytes,
    unchecked: bool,
}

impl Call {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).expect("a valid header name");
        self.headers.append(name, HeaderValue::try_from(value).expect("a valid header value"));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub fn json(self, json: &str) -> Self {
        self.body(json.as_bytes()).header("content-type", "application/json")
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = Bytes::copy_from_slice(body);
        self
    }

    /// Skips the contract check for this exchange, because its JSON exceeds what the checker's parser accepts
    /// (numbers that fit no f64, more than 128 levels). The server passes such JSON through.
    pub fn without_contract_check(mut self) -> Self {
        self.unchecked = true;
        self
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.parse().expect("a method");
        *request.uri_mut() = self.target.parse().expect("a target");
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The response with its body unread, as it is before the connection takes its bytes.
    pub async fn head(self) -> axum::response::Response {
        let response = self.api.router.clone().oneshot(self.request());
        bounded(&self.target, response).await.expect("the router never fails")
    }

    /// Sends the call, reads the response and checks both against the contract.
    pub async fn send(self) -> Response {
        let response = self.api.router.clone().oneshot(self.request());
        let response = bounded(&self.target, response).await.expect("the router never fails");
        let (parts, body) = response.into_parts();
        let body = bounded(&self.target, body.collect()).await.expect("a body in memory").to_bytes();
        let exchange = Exchange {
            method: &self.method,
            target: &self.target,
            sent: &self.body,
            status: parts.status,
            headers: &parts.headers,
            body: &body,
        };
        if let Some(operation) = (!self.unchecked).then(|| contract().check(&exchange)).flatten() {
            let exercised = (operation.id.clone(), parts.status.as_u16());
            self.api.exercised.lock().expect("not poisoned").insert(exercised);
        }
        Response { status: parts.status, headers: parts.headers, body }
    }
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    /// Panics if the response has another status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Panics if the response is not a problem with this status and code.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Value {
        let problem = self.expect(status).json();
        assert_eq!(problem["code"], code, "{problem:#}");
        problem
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the response is JSON")
    }

    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("{name} is missing")).to_str().expect("plain text")
    }
}

/// The text of a JSON string.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

/// The location of each fault of a problem: a pointer or a parameter.
pub fn error_locations(problem: &Value) -> Vec<String> {
    let faults = problem["errors"].as_array().cloned().unwrap_or_default();
    let location = |fault: &Value| {
        let location = fault.get("pointer").or(fault.get("parameter"));
        location.and_then(Value::as_str).expect("a fault has a location").to_owned()
    };
    faults.iter().map(location).collect()
}
