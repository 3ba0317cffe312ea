//! The middleware around every handler, from the outside in: the request span, which also renders errors; panics; and
//! the guard, which checks the caller and reads the body.
//!
//! A tower service around each handler, not axum's layers around a whole `Router`: those are boxed, and copied for every
//! request together with all that is below them. The service here knows its route without a lookup, and not the type of
//! its handler: each type would be a copy of all of this for the compiler.
//!
//! The request is lent to what comes after, down to the handler: each async function that took it over would hold a copy of
//! it, and what is allocated for a request is to stay below a kilobyte, up to which the allocator is quick.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    panic::AssertUnwindSafe,
    pin::pin,
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
use futures_util::{FutureExt, future::BoxFuture};
use tower::Service;

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
        handler: impl AsyncHandler<T, S>,
        state: S,
    ) -> Guarded {
        let handler = Arc::new(move |request| handler.clone().call(request, state.clone()));
        Guarded { context: self.0, handler }
    }
}

/// A handler that is an async function. axum boxes the futures of all of these.
pub trait AsyncHandler<T, S>: Handler<T, S, Future = BoxFuture<'static, Response>> {}

impl<T, S, H: Handler<T, S, Future = BoxFuture<'static, Response>>> AsyncHandler<T, S> for H {}

/// A handler of any type.
type ErasedHandler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// Logs and counts a request, lets it through to its handler if it may pass, and gives its response the final form.
#[derive(Clone)]
pub struct Guarded {
    context: Arc<RouteContext>,
    handler: ErasedHandler,
}

impl Service<Request> for Guarded {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let Self { context, handler } = self.clone();
        Box::pin(async move {
            let span = RequestSpan::new(&context, &request);
            let answered = AssertUnwindSafe(call_guarded(&context, &mut request, &handler)).catch_unwind();
            let answered = answered.map(|answered| answered.unwrap_or_else(request_span::panicked));
            Ok(span.run(pin!(answered)).await)
        })
    }
}

/// Has the handler answer a request if it may pass, and charges the response to the budget.
async fn call_guarded(context: &RouteContext, request: &mut Request, handler: &ErasedHandler) -> Response {
    let class = ResponseClass::of_request(&context.route, request.method());
    let client = ConnectedClient::of_request(request);
    let mut caller = None;
    let answered = answer(context, (class, client.as_ref()), request, &mut caller, handler).await;
    let response = answered.unwrap_or_else(IntoResponse::into_response);
    let mut response = response_budget::charge(&context.edge, class, response);
    if let Some(caller) = caller.filter(|_| response.status().is_server_error()) {
        response.extensions_mut().insert(CallerName(caller.name));
    }
    response
}

/// Has the handler answer a request if it may pass. Stores in `caller` who sent it.
async fn answer(
    context: &RouteContext,
    (class, client): (ResponseClass, Option<&ConnectedClient>),
    request: &mut Request,
    caller: &mut Option<Caller>,
    handler: &ErasedHandler,
) -> Result<Response, Problem> {
    let RouteContext { edge, dialect, route, auditor } = context;
    admit(context, request, caller)?;
    let key = caller_key(caller.as_ref(), client);
    let mut body = request_body::read(edge, (&**dialect, route), key, request).await?;
    check_begins(edge, class, client)?;
    if class == ResponseClass::Delivery {
        // A poll may wait for a minute and needs its body only until it is parsed.
        body = Bytes::new();
    }
    let caller = caller.as_ref().filter(|caller| AuditedRequest::is_audited(route, request, caller));
    let response = match auditor.as_ref().zip(caller) {
        None => respond(route, request, handler).await,
        // Boxed to keep the future of all other calls small.
        Some((auditor, caller)) => {
            let address = client.map(|client| client.address);
            Box::pin(async {
                let call = AuditedRequest::of_request(route, request, caller, address, &body).await;
                let Some(call) = call else { return respond(route, request, handler).await };
                let answer = async {
                    // Once more: the client may have given up while the call was noted.
                    match check_begins(edge, class, client) {
                        Ok(()) => respond(route, request, handler).await,
                        Err(problem) => problem.into_response(),
                    }
                };
                auditor.carry_out(call, Box::pin(answer)).await
            })
            .await
        }
    };
    // The body counts against the budget as long as the handler uses what was parsed from it.
    drop(body);
    if class == ResponseClass::Delivery && client.is_some_and(ConnectedClient::has_left) {
        // The jobs are given back when the response is dropped.
        return Err(Problem::not_begun(CLIENT_LEFT));
    }
    Ok(response)
}

/// The answer of the handler, with its tag if it has one. That to `HEAD` has none: as a 304 it would tell the length of nothing.
async fn respond(route: &RouteSpec, request: &mut Request, handler: &ErasedHandler) -> Response {
    let known =
        (route.is_tagged && request.method() == Method::GET).then(|| KnownTags::sent_in(request.headers()));
    let response = handler(std::mem::take(request)).await;
    match known {
        Some(known) => Box::pin(entity_tag::tag(&known, response)).await,
        None => response,
    }
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
