//! The middleware around every handler, from the outside in: the request span, which also renders errors; panics; and
//! the guard, which checks the caller and reads the body.
//!
//! Tower services around each handler, not axum's layers around a whole `Router`: those are boxed, and copied for every
//! request together with all that is below them. A service here knows its route without a lookup, and not the type of
//! its handler: each type would be a copy of all of this for the compiler.

use std::{
    any::Any,
    convert::Infallible,
    net::Ipv4Addr,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Bytes,
    extract::Request,
    handler::Handler,
    http::Method,
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use tower::{Layer, Service};
use tower_http::catch_panic::{CatchPanic, CatchPanicLayer};

use super::{
    audit::{AuditedRequest, Auditor},
    browser,
    context::RouteContext,
    dialect::Dialect,
    request_body,
    request_span::{self, CallerName, RequestSpan},
    response_budget::{self, ResponseClass},
    route::RouteSpec,
    state::Edge,
};
use crate::{
    auth::Caller,
    http::{
        entity_tag::{self, KnownTags},
        errors::Problem,
    },
    net::{ConnectedClient, byte_budget::CallerKey, limited_network},
};

/// Wraps the handlers of one route. Cheap to clone.
#[derive(Clone)]
pub struct Middleware(Arc<RouteContext>);

type PanicHandler = fn(Box<dyn Any + Send>) -> Response;
type ResponseFuture = BoxFuture<'static, Result<Response, Infallible>>;

impl Middleware {
    pub fn new(edge: &Edge, dialect: Arc<dyn Dialect>, route: RouteSpec) -> Self {
        Self(Arc::new(RouteContext { edge: edge.clone(), dialect, route, auditor: None }))
    }

    /// Has `auditor` note the calls that are audited.
    pub fn audited_by(self, auditor: Arc<dyn Auditor>) -> Self {
        let RouteContext { edge, dialect, route, .. } = &*self.0;
        let (edge, dialect, route) = (edge.clone(), dialect.clone(), *route);
        Self(Arc::new(RouteContext { edge, dialect, route, auditor: Some(auditor) }))
    }

    /// The service that answers the requests of the route with `handler`, which gets `state`.
    pub fn wrap<T, S: Clone + Send + Sync + 'static>(
        self,
        handler: impl Handler<T, S>,
        state: S,
    ) -> Spanned<CatchPanic<Guarded, PanicHandler>> {
        let handler: ErasedHandler =
            Arc::new(move |request| Box::pin(handler.clone().call(request, state.clone())));
        let guarded = Guarded { middleware: self.clone(), handler };
        let caught = CatchPanicLayer::custom(request_span::panicked as PanicHandler).layer(guarded);
        Spanned { middleware: self, inner: caught }
    }
}

/// A handler of any type.
type ErasedHandler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// Logs and counts a request and gives its response the final form.
#[derive(Clone)]
pub struct Spanned<S> {
    middleware: Middleware,
    inner: S,
}

impl<S, B> Service<Request> for Spanned<S>
where
    S: Service<Request, Response = axum::http::Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: axum::body::HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> ResponseFuture {
        let span = RequestSpan::new(self.middleware.0.clone(), &request);
        let response = self.inner.call(request);
        Box::pin(async move { Ok(span.run(async { response.await.into_response() }).await) })
    }
}

/// Lets a request through to its handler if it may pass, and charges the response to the budget.
#[derive(Clone)]
pub struct Guarded {
    middleware: Middleware,
    handler: ErasedHandler,
}

impl Service<Request> for Guarded {
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> ResponseFuture {
        Box::pin(call_guarded(self.middleware.clone(), request, self.handler.clone()))
    }
}

async fn call_guarded(
    Middleware(context): Middleware,
    mut request: Request,
    handler: ErasedHandler,
) -> Result<Response, Infallible> {
    let RouteContext { edge, dialect, route, auditor } = &*context;
    let class = ResponseClass::of_request(route, request.method());
    let client = ConnectedClient::of_request(&request);
    let (mut caller, mut body) = (None, Bytes::new());
    let admitted = match admit(&context, &mut request, &mut caller) {
        Ok(()) => {
            let key = caller_key(caller.as_ref(), client.as_ref());
            request_body::read(edge, (&**dialect, route), key, request).await
        }
        Err(problem) => Err(problem),
    };
    let response =
        match admitted.and_then(|admitted| check_begins(edge, class, client.as_ref()).map(|()| admitted)) {
            Ok((mut request, bytes)) => {
                if class == ResponseClass::Delivery {
                    // A poll may wait for a minute and needs its body only until it is parsed.
                    drop(bytes);
                } else {
                    body = bytes;
                }
                let address = client.as_ref().map(|client| client.address);
                let audited = match auditor {
                    Some(auditor) => {
                        AuditedRequest::of_request(route, &mut request, caller.as_ref(), address, &body)
                            .await
                            .map(|call| (auditor, call))
                    }
                    None => None,
                };
                let answer = respond(route, request, &handler);
                let response = match audited {
                    Some((auditor, call)) => {
                        // Once more: the client may have given up while the call was noted.
                        let answer = async {
                            match check_begins(edge, class, client.as_ref()) {
                                Ok(()) => answer.await,
                                Err(problem) => problem.into_response(),
                            }
                        };
                        auditor.carry_out(call, Box::pin(answer)).await
                    }
                    None => answer.await,
                };
                match client {
                    // The jobs are given back when the response is dropped.
                    Some(client) if class == ResponseClass::Delivery && client.has_left() => {
                        Problem::not_begun(CLIENT_LEFT).into_response()
                    }
                    Some(_) | None => response,
                }
            }
            Err(problem) => problem.into_response(),
        };
    // The body counts against the budget as long as the handler uses what was parsed from it.
    drop(body);
    let mut response = response_budget::charge(edge, class, response);
    if let Some(caller) = caller.filter(|_| response.status().is_server_error()) {
        response.extensions_mut().insert(CallerName(caller.name));
    }
    Ok(response)
}

/// The answer of the handler, with its tag if it has one. That to `HEAD` has none: as a 304 it would tell the length of nothing.
async fn respond(route: &RouteSpec, request: Request, handler: &ErasedHandler) -> Response {
    if !route.is_tagged || request.method() != Method::GET {
        return handler(request).await;
    }
    let known = KnownTags::sent_in(request.headers());
    entity_tag::tag(&known, handler(request).await).await
}

/// Refuses requests that must not pass. Stores in `caller` who sent the request.
fn admit(
    RouteContext { edge, dialect, route, .. }: &RouteContext,
    request: &mut Request,
    caller: &mut Option<Caller>,
) -> Result<(), Problem> {
    request_body::check_framing(request.headers())?;
    let check_host = edge.options.check_host || dialect.is_anonymous();
    browser::check(request, (route, check_host), &edge.options)?;
    let found = dialect.authenticate(&edge.authenticator, route.required, request)?;
    // The level is checked first because finding the span costs something.
    if tracing::level_filters::LevelFilter::current() >= tracing::Level::DEBUG {
        tracing::Span::current().record("caller", &*found.name);
    }
    request.extensions_mut().insert(found.clone());
    *caller = Some(found);
    Ok(())
}

const CLIENT_LEFT: &str = "the client closed its sending side before the call began, so nothing was done; keep it open until \
                           the answer is there";
const PAUSED: &str = "the server was paused and cannot know how long this call has waited, so nothing was done; send it again, \
                      that is safe";

/// Refuses a request whose client may have given up, as the last check before it is carried out: the client has left, or
/// the request may have lain in its socket while the process was paused. Its client may have repeated it elsewhere and gone
/// on, so that carrying it out now would undo what followed. A request that changes nothing, or only takes jobs, ends as
/// soon as its client leaves; any other one is answered once it has begun.
fn check_begins(edge: &Edge, class: ResponseClass, client: Option<&ConnectedClient>) -> Result<(), Problem> {
    let Some(client) = client else { return Ok(()) };
    match class {
        ResponseClass::Uncounted => return Ok(()),
        ResponseClass::Read | ResponseClass::Metrics => {
            client.cancel_on_close();
            return Ok(());
        }
        ResponseClass::Delivery => client.cancel_on_close(),
        ResponseClass::Change => {}
    }
    if client.has_left() {
        return Err(Problem::not_begun(CLIENT_LEFT));
    }
    if edge.pauses.as_ref().is_some_and(|pauses| pauses.was_just_paused()) {
        return Err(Problem::not_begun(PAUSED));
    }
    Ok(())
}

/// Whose budget a request's body counts against: the token's, or the address's where there are no tokens.
fn caller_key(caller: Option<&Caller>, client: Option<&ConnectedClient>) -> CallerKey {
    match (caller, client) {
        (Some(caller), _) if !caller.name.is_empty() => CallerKey::Token(caller.name.clone()),
        (_, Some(client)) => CallerKey::Address(limited_network(client.address)),
        (_, None) => CallerKey::Address(Ipv4Addr::UNSPECIFIED.into()),
    }
}
