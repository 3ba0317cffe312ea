//! Which calls are audited: those that need the scope `admin`, and every change that a page in a browser sends for a caller with
//! that scope. Any program can claim to be a page, so that others could push what admins did out of the list. The edge only hands
//! the calls to an [`Auditor`].

use std::{fmt, net::IpAddr};

use axum::{
    RequestExt,
    body::Bytes,
    extract::{RawPathParams, Request},
    http::{Method, Uri, header},
    response::Response,
};
use futures_util::future::BoxFuture;

use super::route::{RequiredScope, RouteKind, RouteSpec};
use crate::auth::{Caller, Scope};

/// Notes calls that people may ask about later.
pub trait Auditor: fmt::Debug + Send + Sync {
    /// Notes a call, has it carried out by `answer`, and notes its status. Neither takes long.
    fn carry_out<'a>(
        &'a self,
        call: AuditedRequest,
        answer: BoxFuture<'a, Response>,
    ) -> BoxFuture<'a, Response>;
}

/// What is known of a call before it is carried out.
#[derive(Debug)]
pub struct AuditedRequest {
    pub caller: Caller,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// Whether a page in a browser sent it.
    pub from_browser: bool,
    pub method: Method,
    pub uri: Uri,
    /// The pattern of the path.
    pub route: &'static str,
    /// The parameters in the path, decoded.
    pub path_params: Vec<(String, String)>,
    pub body: Bytes,
}

impl AuditedRequest {
    /// Whether a call of `caller` is audited.
    pub fn is_audited(route: &RouteSpec, request: &Request, caller: &Caller) -> bool {
        is_audited(route, request.method(), is_from_browser(request), caller)
    }

    /// What is known of a call of `caller`; `None` if its path cannot be read, so that its handler refuses it.
    pub async fn of_request(
        route: &RouteSpec,
        request: &mut Request,
        caller: &Caller,
        address: Option<IpAddr>,
        body: &Bytes,
    ) -> Option<Self> {
        let params = request.extract_parts::<RawPathParams>().await.ok()?;
        let path_params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Self {
            caller: caller.clone(),
            address,
            from_browser: is_from_browser(request),
            method: request.method().clone(),
            uri: request.uri().clone(),
            route: route.path,
            path_params,
            body: body.clone(),
        })
    }

    /// A parameter in the path.
    pub fn path_param(&self, name: &str) -> Option<&str> {
        self.path_params.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}

/// Browsers send an origin with every request that is no plain GET, and `browser.rs` has refused those of foreign pages.
fn is_from_browser(request: &Request) -> bool {
    request.headers().contains_key(header::ORIGIN)
}

fn is_audited(route: &RouteSpec, method: &Method, from_browser: bool, caller: &Caller) -> bool {
    let changes = match route.kind {
        RouteKind::Change => true,
        RouteKind::Call => !matches!(*method, Method::GET | Method::HEAD),
        RouteKind::Read
        | RouteKind::Delivery
        | RouteKind::Page
        | RouteKind::Metrics
        | RouteKind::Probe
        | RouteKind::Unknown => false,
    };
    let needs_admin =
        matches!(route.required, RequiredScope::Of(Scope::Admin) | RequiredScope::AllTopics(Scope::Admin));
    route.has_handler && changes && (needs_admin || from_browser && caller.has_scope(Scope::Admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_for_admins_and_changes_from_pages_are_audited() {
        use Scope::{Add, Admin, Read, Work};
        let route = |scope| RouteSpec::new("/x", RequiredScope::Of(scope));
        for (route, method, from_browser, expected) in [
            (route(Admin), Method::POST, false, true),
            (route(Admin), Method::DELETE, true, true),
            (route(Admin), Method::GET, true, false),
            (route(Add), Method::POST, false, false),
            (route(Add), Method::PATCH, true, true),
            (route(Work), Method::POST, true, true),
            (route(Read), Method::GET, true, false),
            (RouteSpec { kind: RouteKind::Delivery, ..route(Work) }, Method::POST, true, false),
            (RouteSpec { kind: RouteKind::Change, ..route(Admin) }, Method::GET, false, true),
            (route(Admin).without_method(), Method::POST, false, false),
            (RouteSpec::UNKNOWN, Method::POST, true, false),
        ] {
            let found = is_audited(&route, &method, from_browser, &Caller::unrestricted());
            assert_eq!(found, expected, "{route:?} {method}");
        }
        let add = route(Add);
        assert!(!is_audited(&add, &Method::POST, true, &Caller::unprivileged()), "it might fill the list");
    }
}
