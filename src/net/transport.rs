//! What all connections of a server share. Accepts no connections itself.

use std::sync::Arc;

use axum::{body::Bytes, http::Response};

use super::{options::ListenerOptions, tls::ServerTls};
use crate::{
    clock::Clock,
    metrics::{ConnectionMetrics, Metrics},
};

/// How a server speaks with its clients.
#[derive(Debug)]
pub struct Transport {
    pub(super) options: ListenerOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: ConnectionMetrics,
    pub(super) refusal_response: fn() -> Response<Bytes>,
    pub(super) tls: Option<ServerTls>,
}

impl Transport {
    /// Plain HTTP. A connection beyond the limit receives `refusal_response`.
    #[must_use]
    pub fn new(
        options: ListenerOptions,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        refusal_response: fn() -> Response<Bytes>,
    ) -> Self {
        options.publish(metrics);
        Self { options, clock, metrics: metrics.connections.clone(), refusal_response, tls: None }
    }

    /// HTTPS only, if there is a certificate.
    #[must_use]
    pub fn with_tls(self, tls: Option<ServerTls>) -> Self {
        Self { tls, ..self }
    }
}
