//! Figures of connections: how many there are, which were refused and which were cut, and why.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Present;

/// Label of a reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Why a connection was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many as may be are open.
    All,
    /// As many as one address may have are open.
    Address,
    /// The system had no means for it, such as an open file.
    System,
}

impl Refusal {
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

/// Why a connection was ended by this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It stayed silent from the start.
    FirstByte,
    /// TLS was not agreed on in time.
    Handshake,
    /// The head of a request took too long.
    Head,
    /// It was idle between two requests for too long.
    Idle,
    /// The body of a request came too slowly.
    Body,
    /// The client read its answer too slowly.
    Answer,
    /// The head of a request was too large or had too many headers.
    HeadTooLarge,
    /// What came is not HTTP/1.
    Malformed,
    /// The client sent too much behind a poll that was not answered yet.
    Ahead,
}

impl Cut {
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

/// What the accept loop and the connections count. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConnectionMetrics {
    open: Gauge,
    refused: Family<ReasonLabel, Counter>,
    cut: Family<ReasonLabel, Counter>,
}

impl ConnectionMetrics {
    /// Registers the figures of connections in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { open: Gauge::default(), refused: Family::default(), cut: Family::default() };
        // Each reason is there from the start, so that its rate is zero rather than unknown.
        for refusal in Refusal::ALL {
            drop(metrics.refused.get_or_create(&refusal.label()));
        }
        for cut in Cut::ALL {
            drop(metrics.cut.get_or_create(&cut.label()));
        }
        registry.register("linger_http_connections", "Open connections", metrics.open.clone());
        registry.register(
            "linger_http_connections_refused",
            "Connections not let in",
            metrics.refused.clone(),
        );
        registry.register(
            "linger_http_connections_cut",
            "Connections ended for what the client did or did not do",
            metrics.cut.clone(),
        );
        metrics
    }

    /// A connection was let in.
    #[must_use]
    pub fn opened(&self) -> Present {
        Present::new(&self.open)
    }

    /// A connection was not let in.
    pub fn refused(&self, why: Refusal) {
        self.refused.get_or_create(&why.label()).inc();
    }

    /// A connection was ended by this side.
    pub fn cut(&self, why: Cut) {
        self.cut.get_or_create(&why.label()).inc();
    }
}
