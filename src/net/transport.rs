//! What all connections of a server share. Accepts no connections itself.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{connection_limit::ConnectionLimit, options::ListenerOptions};
use crate::{
    clock::Clock,
    metrics::{ConnectionMetrics, Metrics},
};

/// Most connections that are answered with a refusal at a time; further ones are closed without a response. Each is an
/// open file beyond `max_connections` (`server/open_files.rs` leaves room for them).
const MAX_REFUSALS: usize = 128;

/// The limits of all connections of a server, whatever is spoken on them.
#[derive(Debug)]
pub struct Transport {
    pub(super) options: ListenerOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: ConnectionMetrics,
    pub(super) limit: Arc<ConnectionLimit>,
    pub(super) refusal_slots: Arc<Semaphore>,
}

impl Transport {
    /// Publishes the limits as metrics.
    #[must_use]
    pub fn new(options: ListenerOptions, clock: Arc<dyn Clock>, metrics: &Metrics) -> Arc<Self> {
        options.publish(metrics);
        Arc::new(Self {
            limit: ConnectionLimit::new(&options),
            refusal_slots: Arc::new(Semaphore::new(MAX_REFUSALS)),
            options,
            clock,
            metrics: metrics.connections.clone(),
        })
    }
}
