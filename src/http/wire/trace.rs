//! The trace context of a job: how an add gives it, in headers or in the job's definition, and how responses show it.
//!
//! A malformed context is ignored, as the W3C recommendation demands, and is never a fault of the request.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, request::Parts},
};

use super::{fields::Fields, values};
use crate::{
    http::{errors::Problem, json::ObjectWriter},
    job::{NewJob, TraceContext},
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The context in the headers of a request.
pub struct RequestTrace(Option<TraceContext>);

impl RequestTrace {
    /// The same job, in this context if its definition has none.
    pub fn complete(&self, job: NewJob) -> NewJob {
        NewJob { trace: job.trace.or_else(|| self.0.clone()), ..job }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestTrace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(of_headers(&parts.headers)))
    }
}

fn of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next()?;
    if parents.next().is_some() {
        return None;
    }
    // A list may be sent as several headers.
    let states = headers.get_all(TRACESTATE).iter().map(|value| value.to_str().ok());
    let state = states.collect::<Option<Vec<_>>>().map(|states| states.join(","));
    TraceContext::parse(parent.to_str().ok()?, state.as_deref())
}

/// The context in the definition of a job.
pub fn of_definition(fields: &mut Fields<'_>) -> Option<TraceContext> {
    let parent = fields.optional("traceparent", values::text);
    let state = fields.optional("tracestate", values::text);
    TraceContext::parse(&parent?, state.as_deref())
}

/// Writes the context of a job that has one.
pub fn write(object: &mut ObjectWriter<'_>, trace: Option<&TraceContext>) {
    if let Some(trace) = trace {
        object.text("traceparent", &trace.traceparent());
        if let Some(state) = trace.tracestate() {
            object.text("tracestate", state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn context(headers: &[(&'static str, &str)]) -> Option<(String, Option<String>)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.as_bytes().try_into().expect("is a value"));
        }
        let context = of_headers(&map)?;
        Some((context.traceparent(), context.tracestate().map(str::to_owned)))
    }

    #[test]
    fn several_headers_of_a_list_are_one_list() {
        let (parent, state) = ("traceparent", "tracestate");
        let expected = |state: Option<&str>| Some((PARENT.to_owned(), state.map(str::to_owned)));
        assert_eq!(context(&[(parent, PARENT), (state, "b=2"), (state, "a=1")]), expected(Some("b=2,a=1")));
        assert_eq!(context(&[(parent, PARENT), (state, "b=2"), (state, "ä=1")]), expected(None));
        assert_eq!(context(&[(parent, PARENT)]), expected(None));
        for none in [&[(parent, PARENT), (parent, PARENT)][..], &[(state, "a=1")], &[(parent, "ä")]] {
            assert_eq!(context(none), None, "{none:?}");
        }
    }
}
