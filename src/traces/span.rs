//! One span: what took place, from when to when, and to which trace it belongs. Knows no protocol.

use xxhash_rust::xxh3::xxh3_128;

use crate::job::{JobId, Receipt, Topic, TraceContext};

/// A span that has ended.
#[derive(Debug)]
pub struct TraceSpan {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// The span within the same trace that this one belongs to.
    pub parent: Option<[u8; 8]>,
    pub state: Option<Box<str>>,
    /// The span of another trace that led to this one.
    pub link: Option<TraceContext>,
    pub name: String,
    pub kind: SpanKind,
    /// In microseconds since the Unix epoch.
    pub began_us: i64,
    pub ended_us: i64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    pub outcome: SpanStatus,
}

/// What a span is to those around it, by its number in the protocol.
#[derive(Debug, Clone, Copy)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// How a span ended.
#[derive(Debug)]
pub enum SpanStatus {
    Unset,
    Failed(String),
}

#[derive(Debug)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

/// The ids of the span of a delivery. They follow from its receipt, so that no state is kept for them.
fn delivery_span(receipt: &Receipt) -> ([u8; 16], [u8; 8]) {
    let hash = |what: &[u8]| xxh3_128(&[what, receipt.as_bytes()].concat()).max(1);
    let span_id = (hash(b"span") as u64).max(1);
    (hash(b"trace").to_be_bytes(), span_id.to_be_bytes())
}

impl TraceSpan {
    /// A span of the server in the trace of the client that called it.
    pub fn child_of(trace: &TraceContext, what: &'static str, topic: &Topic, times: (i64, i64)) -> Self {
        let state = trace.tracestate().map(Into::into);
        let span = Self::new((trace.trace_id(), new_id()), Some(trace.span_id()), what, topic, times);
        Self { kind: SpanKind::Server, state, ..span }
    }

    /// The span of a delivery, with which its trace begins.
    pub fn delivery(receipt: &Receipt, topic: &Topic, times: (i64, i64)) -> Self {
        Self::new(delivery_span(receipt), None, "deliver", topic, times)
    }

    /// A span that belongs to a delivery.
    pub fn of_delivery(receipt: &Receipt, what: &'static str, topic: &Topic, times: (i64, i64)) -> Self {
        let (trace_id, parent) = delivery_span(receipt);
        Self::new((trace_id, new_id()), Some(parent), what, topic, times)
    }

    fn new(
        (trace_id, span_id): ([u8; 16], [u8; 8]),
        parent: Option<[u8; 8]>,
        what: &'static str,
        topic: &Topic,
        (began_us, ended_us): (i64, i64),
    ) -> Self {
        let mut span = Self {
            trace_id,
            span_id,
            parent,
            state: None,
            link: None,
            name: format!("{what} {topic}"),
            kind: SpanKind::Internal,
            // Clocks of several machines may differ.
            began_us: began_us.min(ended_us),
            ended_us,
            attributes: Vec::with_capacity(8),
            outcome: SpanStatus::Unset,
        };
        span.text("messaging.system", "linger");
        span.text("messaging.operation.name", what);
        span.text("messaging.destination.name", topic.as_str());
        span
    }

    /// Says which job it is about.
    pub fn job(&mut self, id: &JobId) {
        self.text("messaging.message.id", id.as_str());
    }

    /// Adds an attribute.
    pub fn text(&mut self, name: &'static str, value: &str) {
        self.attributes.push((name, AttributeValue::Text(value.to_owned())));
    }

    /// Adds an attribute.
    pub fn number(&mut self, name: &'static str, value: i64) {
        self.attributes.push((name, AttributeValue::Number(value)));
    }
}

/// A new id, which is not zero.
fn new_id() -> [u8; 8] {
    rand::random::<u64>().max(1).to_be_bytes()
}
