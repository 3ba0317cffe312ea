//! Metrics of connections: how many are open, how many were refused or closed by the server, and why.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::GaugeGuard;

/// Label of a reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The limit of all connections is reached.
    All,
    /// The limit of one address is reached.
    Address,
    /// The system ran out of a resource, such as open files.
    System,
}

impl RefusalReason {
    const ALL: [Self; 3] = [Self::All, Self::Address, Self::System];

    fn label(self) -> ReasonLabel {
        let reason = match self {
            Self::All => "all",
            Self::Address => "address",
            Self::System => "system",
        };
        ReasonLabel { reason }
    }
}

/// Why the server closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client sent nothing.
    FirstByte,
    /// The TLS handshake took too long.
    Handshake,
    /// The head of a request took too long.
    Head,
    /// The connection was idle between two requests for too long.
    Idle,
    /// The body of a request came too slowly.
    Body,
    /// The client read its response too slowly.
    Answer,
    /// The head of a request was too large or had too many headers.
    HeadTooLarge,
    /// The client does not speak HTTP/1.
    Malformed,
    /// The client sent too much behind a poll that has no response yet.
    Ahead,
}

impl CloseReason {
    const ALL: [Self; 9] = [
        Self::FirstByte,
        Self::Handshake,
        Self::Head,
        Self::Idle,
        Self::Body,
        Self::Answer,
        Self::HeadTooLarge,
        Self::Malformed,
        Self::Ahead,
    ];

    fn label(self) -> ReasonLabel {
        let reason = match self {
            Self::FirstByte => "first_byte",
            Self::Handshake => "handshake",
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Body => "body",
            Self::Answer => "answer",
            Self::HeadTooLarge => "head_too_large",
            Self::Malformed => "malformed",
            Self::Ahead => "ahead",
        };
        ReasonLabel { reason }
    }
}

/// The metrics of the accept loop and of connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConnectionMetrics {
    open: Gauge,
    refused: Family<ReasonLabel, Counter>,
    closed: Family<ReasonLabel, Counter>,
}

impl ConnectionMetrics {
    /// Registers the metrics of connections in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { open: Gauge::default(), refused: Family::default(), closed: Family::default() };
        // Every reason is registered at start, so that its rate is zero rather than unknown.
        for refusal in RefusalReason::ALL {
            drop(metrics.refused.get_or_create(&refusal.label()));
        }
        for reason in CloseReason::ALL {
            drop(metrics.closed.get_or_create(&reason.label()));
        }
        registry.register("linger_http_connections", "Open connections", metrics.open.clone());
        registry.register("linger_http_connections_refused", "Connections refused", metrics.refused.clone());
        registry.register(
            "linger_http_connections_cut",
            "Connections closed because of what the client did or did not do",
            metrics.closed.clone(),
        );
        metrics
    }

    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub fn opened(&self) -> GaugeGuard {
        GaugeGuard::new(&self.open)
    }

    /// Counts a refused connection.
    pub fn refused(&self, why: RefusalReason) {
        self.refused.get_or_create(&why.label()).inc();
    }

    /// Counts a connection closed by the server.
    pub fn closed(&self, why: CloseReason) {
        self.closed.get_or_create(&why.label()).inc();
    }
}
