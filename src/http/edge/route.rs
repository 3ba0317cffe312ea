//! The properties of a route that the middleware needs. Knows no handlers.

use crate::auth::{Caller, Scope};

/// The pattern that stands for requests that match no route.
pub const NO_ROUTE: &str = "none";

/// What a caller's token must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredScope {
    /// No token at all: orchestrators have none.
    Public,
    /// Any token.
    Any,
    /// This scope, for the topics concerned.
    Of(Scope),
    /// This scope for all topics, because the response shows all of them.
    AllTopics(Scope),
}

impl RequiredScope {
    /// Whether the token of `caller` allows what is required.
    pub fn is_met_by(self, caller: &Caller) -> bool {
        match self {
            Self::Public | Self::Any => true,
            Self::Of(scope) => caller.has_scope(scope),
            Self::AllTopics(scope) => caller.has_scope(scope) && caller.topics.is_all(),
        }
    }
}

/// How a route treats hosts, foreign pages and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// Reads or changes jobs and topics.
    Call,
    /// Changes jobs, whatever its method.
    Change,
    /// Shows jobs, whatever its method.
    Read,
    /// Hands out jobs.
    Delivery,
    /// Describes the server: changes nothing and shows nothing of any job.
    Page,
    /// The page of metrics.
    Metrics,
    /// A page for orchestrators: open to every client, under any host name.
    Probe,
    /// Matches no route.
    Unknown,
}

/// One route: a path, and for one method what a request must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteSpec {
    /// The pattern, for example `/jobs/{id}`.
    pub path: &'static str,
    pub required: RequiredScope,
    pub kind: RouteKind,
    /// Whether request bodies contain jobs, or as many ids as a batch may have.
    pub large_body: bool,
    /// Whether the answer has a tag, for clients that read it again and again.
    pub is_tagged: bool,
    /// Whether there is a handler for it. Otherwise every request is refused, whatever it brings.
    pub has_handler: bool,
}

impl RouteSpec {
    pub const fn new(path: &'static str, required: RequiredScope) -> Self {
        Self { path, required, kind: RouteKind::Call, large_body: false, is_tagged: false, has_handler: true }
    }

    /// For requests that match no route. A client without a token does not learn which routes exist.
    pub const UNKNOWN: Self = Self {
        kind: RouteKind::Unknown,
        has_handler: false,
        ..Self::new(NO_ROUTE, RequiredScope::Of(Scope::Admin))
    };

    /// For the methods that this route's path does not answer.
    pub fn without_method(self) -> Self {
        Self { required: RequiredScope::Of(Scope::Admin), has_handler: false, ..self }
    }

    /// Whether a body is a fault of a request that may have none. A probe is answered whatever it brings.
    pub fn refuses_bodies(&self) -> bool {
        self.has_handler && self.kind != RouteKind::Probe
    }

    /// Whether links on foreign pages may point here: useful for people, and the linking page cannot read the response.
    pub fn is_linkable(&self) -> bool {
        match self.kind {
            RouteKind::Page | RouteKind::Metrics | RouteKind::Probe => true,
            RouteKind::Call
            | RouteKind::Change
            | RouteKind::Read
            | RouteKind::Delivery
            | RouteKind::Unknown => false,
        }
    }
}
