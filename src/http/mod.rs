//! HTTP: the only place that knows the protocol and JSON. Everything else is `queue`'s.
//!
//! A handler extracts, makes one call into the queue, converts. The contract is `openapi.yaml`.

mod access;
#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod browser;
mod client;
mod connection;
mod errors;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod handlers;
mod json;
mod middleware;
mod options;
mod pace;
mod paths;
mod refusal;
mod routes;
mod seats;
mod serve;
mod wire;

use std::{ops::Deref, sync::Arc};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::{fuzz_bodies, fuzz_query};
pub use options::Options;

use self::middleware::refusal_log::RefusalLog;
use crate::{
    auth::Authenticator,
    clock::Clock,
    metrics::Metrics,
    net::{
        Tls,
        byte_budget::{Room, Shares},
    },
    queue::Queue,
};

/// The figures may hold one part in so many of what other answers may hold, besides these.
const FIGURES_SHARE: usize = 16;

/// The HTTP service over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<Parts>);

/// What a service is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    queue: Arc<Queue>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    options: Options,
    gate: Arc<Authenticator>,
    tls: Option<Tls>,
    /// What the bodies of all requests may hold together.
    body_room: Room,
    /// What the bodies of one caller's requests may hold of it.
    body_shares: Shares,
    /// The same for answers that clients have not taken yet.
    answer_room: Room,
    /// The same for the figures alone: those who read jobs slowly must not hide them.
    figures_room: Room,
    refusal_log: Arc<RefusalLog>,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// A service over `queue` that asks nobody for a token.
    #[must_use]
    pub fn new(queue: Arc<Queue>, clock: Arc<dyn Clock>, metrics: Metrics, options: Options) -> Self {
        options.publish(&metrics);
        Self(Arc::new(Parts {
            body_room: Room::new(options.max_buffered_bytes),
            body_shares: Shares::new(options.max_buffered_bytes_per_caller),
            answer_room: Room::new(options.max_answer_bytes),
            figures_room: Room::new((options.max_answer_bytes / FIGURES_SHARE).max(1)),
            refusal_log: Arc::default(),
            gate: Arc::default(),
            tls: None,
            queue,
            clock,
            metrics,
            options,
        }))
    }

    /// The same behind `gate`, which may change its tokens later.
    #[must_use]
    pub fn behind(self, gate: Arc<Authenticator>) -> Self {
        Self(Arc::new(Parts { gate, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same, speaking HTTPS only where there is a certificate.
    #[must_use]
    pub fn over(self, tls: Option<Tls>) -> Self {
        Self(Arc::new(Parts { tls, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The whole API as a tower service.
    pub fn router(&self) -> Router {
        routes::router(self)
    }

    /// Serves connections of `listener` until `shutdown`; then stops accepting, lets requests in flight
    /// finish and returns. Parked polls are not its business: drain the queue first.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        serve::serve(self, listener, shutdown).await;
    }
}
