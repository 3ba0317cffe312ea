//! The JSON of OTLP: `ExportTraceServiceRequest` of opentelemetry-proto 1. Ids are hexadecimal, 64-bit numbers are strings.

use bytes::Bytes;
use serde_json::{Value, json};

use super::span::{AttributeValue, SpanStatus, TraceSpan};

/// The number of a failure in the protocol.
const FAILED: u32 = 2;

/// The body of a request that sends these spans.
pub fn encode(spans: &[TraceSpan]) -> Bytes {
    let version = env!("CARGO_PKG_VERSION");
    let resource =
        [("service.name", "linger"), ("service.version", version)].map(|(name, value)| text(name, value));
    let request = json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{
                "scope": { "name": "linger", "version": version },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    });
    request.to_string().into()
}

fn span(span: &TraceSpan) -> Value {
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut object = json!({
        "traceId": hex(&span.trace_id),
        "spanId": hex(&span.span_id),
        "name": span.name,
        "kind": span.kind as u32,
        "startTimeUnixNano": nanoseconds(span.began_us),
        "endTimeUnixNano": nanoseconds(span.ended_us),
        "attributes": attributes,
    });
    if let Some(parent) = &span.parent {
        object["parentSpanId"] = hex(parent).into();
    }
    if let Some(state) = &span.state {
        object["traceState"] = (**state).into();
    }
    if let Some(link) = &span.link {
        let mut linked = json!({ "traceId": hex(&link.trace_id()), "spanId": hex(&link.span_id()) });
        if let Some(state) = link.tracestate() {
            linked["traceState"] = state.into();
        }
        object["links"] = json!([linked]);
    }
    if let SpanStatus::Failed(why) = &span.outcome {
        object["status"] = json!({ "code": FAILED, "message": why });
    }
    object
}

fn attribute(name: &str, value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Text(value) => text(name, value),
        AttributeValue::Number(value) => json!({ "key": name, "value": { "intValue": value.to_string() } }),
    }
}

fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn nanoseconds(micros: i64) -> String {
    (i128::from(micros.max(0)) * 1_000).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
