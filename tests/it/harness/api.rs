//! The API under test: the real router over a real queue, on a manual clock, every exchange checked
//! against the contract.

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
    http::{self, App, HttpOptions},
    job::Timestamp,
    metrics::Metrics,
    queue::{Limits, Queue, StoreEvents},
};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    failing::Failing,
    openapi::{Exchange, contract},
    stores::{Engine, Opened, START},
    wait::{bounded, until},
};

/// What a case may set apart from the defaults.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub limits: Limits,
    pub options: HttpOptions,
    /// Who is let in; everybody when left out.
    pub gate: Option<Arc<Authenticator>>,
    /// Leaves due jobs where they are until `pass` moves them.
    pub no_timer: bool,
}

/// One server under test, without a socket. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    pub queue: Arc<Queue>,
    pub clock: Arc<ManualClock>,
    pub store: Arc<Failing>,
    router: Router,
    seen: Arc<Mutex<BTreeSet<(String, u16)>>>,
    _running: Arc<Running>,
}

/// What lives as long as the server: its timer and its data.
struct Running {
    stop: CancellationToken,
    _home: Opened,
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
        let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
        let (hints, metrics, stop) =
            (Arc::new(StoreEvents::default()), Metrics::new(), CancellationToken::new());
        let opened = Opened::new(engine, &clock, hints.clone()).await;
        let store = Failing::new(opened.store.clone());
        let queue =
            Queue::new(store.clone(), &hints, clock.clone(), setup.limits.clone(), metrics.queue.clone());
        if !setup.no_timer {
            let (queue, stop) = (queue.clone(), stop.clone());
            tokio::spawn(async move { queue.run_timer(stop).await });
        }
        let app = App::new(queue.clone(), clock.clone(), metrics, setup.options);
        let app = app.with_auth(setup.gate.unwrap_or_default());
        let router = http::router(&app);
        let running = Arc::new(Running { stop, _home: opened });
        Self { queue, clock, store, router, seen: Arc::default(), _running: running }
    }

    /// Moves the clock on, and everything that is then due.
    pub async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.queue.promote_due().await.expect("moves what is due");
    }

    /// Lets the other tasks run until `reached`.
    #[track_caller]
    pub fn until(&self, reached: impl Fn() -> bool) -> impl Future<Output = ()> {
        until(reached)
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
            extreme: false,
        }
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.call("GET", target).send().await
    }

    pub async fn delete(&self, target: &str) -> Answer {
        self.call("DELETE", target).send().await
    }

    /// A POST without a body.
    pub async fn post(&self, target: &str) -> Answer {
        self.call("POST", target).send().await
    }

    /// A call with a JSON body, given as text so that its bytes are the test's own.
    pub async fn send(&self, method: &str, target: &str, json: &str) -> Answer {
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

    /// A long poll in a task of its own, parked by the time this returns.
    pub async fn park(&self, call: Call) -> JoinHandle<Answer> {
        let before = self.queue.waiting();
        let poll = tokio::spawn(call.send());
        self.until(|| self.queue.waiting() > before || poll.is_finished()).await;
        poll
    }

    /// Operations exercised on this server so far, each with the statuses it answered.
    pub fn seen(&self) -> BTreeSet<(String, u16)> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// Stops taking work, as a shutdown does.
    pub fn drain(&self) {
        self.queue.drain();
    }
}

/// A call being put together.
pub struct Call {
    api: Api,
    method: String,
    target: String,
    headers: HeaderMap,
    body: Bytes,
    extreme: bool,
}

impl Call {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).expect("a header's name");
        self.headers.append(name, HeaderValue::try_from(value).expect("a header's value"));
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

    /// Says that the JSON on the way is beyond what the checker's own reader takes (numbers past f64,
    /// 128 levels), though the server passes it through: this exchange is not checked.
    pub fn extreme(mut self) -> Self {
        self.extreme = true;
        self
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.parse().expect("a method");
        *request.uri_mut() = self.target.parse().expect("a target");
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The answer's head, its body unread: what exists before the connection takes the bytes.
    pub async fn head(self) -> axum::response::Response {
        let answering = self.api.router.clone().oneshot(self.request());
        bounded(&self.target, answering).await.expect("the router never fails")
    }

    /// Sends the call, reads the answer and holds both against the contract.
    pub async fn send(self) -> Answer {
        let answering = self.api.router.clone().oneshot(self.request());
        let response = bounded(&self.target, answering).await.expect("the router never fails");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let exchange = Exchange {
            method: &self.method,
            target: &self.target,
            sent: &self.body,
            status: parts.status,
            headers: &parts.headers,
            body: &body,
        };
        if let Some(operation) = (!self.extreme).then(|| contract().check(&exchange)).flatten() {
            let seen = (operation.id.clone(), parts.status.as_u16());
            self.api.seen.lock().expect("not poisoned").insert(seen);
        }
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Demands a status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Demands a problem: its status and its code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        let problem = self.expect(status).json();
        assert_eq!(problem["code"], code, "{problem:#}");
        problem
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("{name} is missing")).to_str().expect("plain text")
    }
}

/// A JSON text.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Where the faults of a problem are: pointers and parameters.
pub fn places(problem: &Value) -> Vec<String> {
    let faults = problem["errors"].as_array().cloned().unwrap_or_default();
    let place = |fault: &Value| {
        let place = fault.get("pointer").or(fault.get("parameter"));
        place.and_then(Value::as_str).expect("a fault has a place").to_owned()
    };
    faults.iter().map(place).collect()
}
