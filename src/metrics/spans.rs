//! Metrics of the spans of traced jobs.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// The metrics of spans. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SpanMetrics {
    sent: Counter,
    lost: Counter,
}

impl SpanMetrics {
    /// Registers the metrics of spans in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let spans = Family::<OutcomeLabel, Counter>::default();
        let of = |outcome| spans.get_or_create(&OutcomeLabel { outcome }).clone();
        let metrics = Self { sent: of("sent"), lost: of("lost") };
        registry.register("linger_spans", "Spans by whether the collector took them", spans);
        metrics
    }

    /// The collector took `spans` spans.
    pub fn sent(&self, spans: usize) {
        self.sent.inc_by(spans as u64);
    }

    /// `spans` spans are lost: the collector did not take them, or there were more than it could take.
    pub fn lost(&self, spans: usize) {
        self.lost.inc_by(spans as u64);
    }
}
