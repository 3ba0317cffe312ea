//! The trace that a command runs in. Tracing tools, and `linger work`, name it in the environment.

use std::env;

/// The variables that carry a W3C trace context. The server ignores a malformed one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TraceVariables {
    pub traceparent: Option<String>,
    pub tracestate: Option<String>,
}

impl TraceVariables {
    /// Those of this process.
    pub fn read() -> Self {
        Self { traceparent: variable("TRACEPARENT"), tracestate: variable("TRACESTATE") }
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
