//! The layers around every handler, from the outside in: figures and the final form of the answer, panics,
//! who may call and with which body.
//!
//! Services of our own around each handler: what axum puts around a whole `Router` is boxed, and copied for
//! every request together with all that is below it. A layer here knows its route without looking it up.

use std::{
    any::Any,
    convert::Infallible,
    net::Ipv4Addr,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Bytes,
    extract::Request,
    response::{IntoResponse, Response},
};
use tower::{Layer, Service};
use tower_http::catch_panic::{CatchPanic, CatchPanicLayer};

pub mod refusal_log;
pub mod request_body;
pub mod request_span;
pub mod response_budget;

use self::response_budget::Hold;
use crate::auth::Caller;
use crate::{
    http::{
        App,
        access::{self, CallerName},
        browser,
        client::Client,
        errors::Problem,
        seats,
    },
    net::byte_budget::Holder,
};

/// The layers for the handlers of one route.
#[derive(Debug, Clone)]
pub struct Layers {
    app: App,
    /// The route's pattern.
    route: &'static str,
}

type Panicked = fn(Box<dyn Any + Send>) -> Response;
type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Layers {
    pub fn new(app: &App, route: &'static str) -> Self {
        Self { app: app.clone(), route }
    }
}

impl<S> Layer<S> for Layers {
    type Service = Observed<CatchPanic<Passed<S>, Panicked>>;

    fn layer(&self, handler: S) -> Self::Service {
        let passed = Passed { layers: self.clone(), handler };
        let caught = CatchPanicLayer::custom(request_span::panicked as Panicked).layer(passed);
        Observed { layers: self.clone(), inner: caught }
    }
}

/// Layer: logs and counts the request and gives its answer the final form.
#[derive(Debug, Clone)]
pub struct Observed<S> {
    layers: Layers,
    inner: S,
}

impl<S, B> Service<Request> for Observed<S>
where
    S: Service<Request, Response = axum::http::Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: axum::body::HttpBody<Data = axum::body::Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Answering {
        let Layers { app, route } = self.layers.clone();
        let call = request_span::Call::new(app, route, &request);
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(call.observe(async { answer.await.into_response() }).await) })
    }
}

/// Layer: what every request passes on its way to its handler, and its answer on the way back.
#[derive(Debug, Clone)]
pub struct Passed<S> {
    layers: Layers,
    handler: S,
}

impl<S> Service<Request> for Passed<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.handler.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Answering {
        let unused = self.handler.clone();
        let ready = std::mem::replace(&mut self.handler, unused);
        Box::pin(pass(self.layers.clone(), request, ready))
    }
}

async fn pass<S>(
    Layers { app, route }: Layers,
    mut request: Request,
    mut handler: S,
) -> Result<Response, Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let hold = Hold::of(route, request.method());
    let client = Client::of(&request);
    let (mut caller, mut body) = (None, Bytes::new());
    let admitted = match admit(&app, route, &mut request, &mut caller) {
        Ok(()) => request_body::read(&app, route, holder(caller.as_ref(), client.as_ref()), request).await,
        Err(problem) => Err(problem),
    };
    let answer = match admitted {
        Ok((request, bytes)) => {
            if hold == Hold::Delivery {
                // A poll may wait for a minute, and needs its body no longer than it takes to parse it.
                drop(bytes);
                if let Some(client) = client {
                    client.watch();
                }
            } else {
                body = bytes;
            }
            handler.call(request).await?
        }
        Err(problem) => problem.into_response(),
    };
    // The body stays counted as long as the handler is at work with what was parsed from it.
    drop(body);
    let mut answer = response_budget::on_the_way(&app, hold, answer);
    if let Some(caller) = caller.filter(|_| answer.status().is_server_error()) {
        answer.extensions_mut().insert(CallerName(caller.name));
    }
    Ok(answer)
}

/// Whether whoever sent the request may; says who it is.
fn admit(app: &App, route: &str, request: &mut Request, caller: &mut Option<Caller>) -> Result<(), Problem> {
    request_body::check_framing(request.headers())?;
    browser::check(request, &app.options)?;
    *caller = Some(access::check(&app.gate, route, request)?);
    Ok(())
}

/// On whose account the body of a request goes: its token's, or that of the address where nobody has one.
fn holder(caller: Option<&Caller>, client: Option<&Client>) -> Holder {
    match (caller, client) {
        (Some(caller), _) if !caller.name.is_empty() => Holder::Token(caller.name.clone()),
        (_, Some(client)) => Holder::Address(seats::counted_as(client.address)),
        (_, None) => Holder::Address(Ipv4Addr::UNSPECIFIED.into()),
    }
}
