//! Where the spans of traced jobs go: to the collector at `traces.endpoint`, over the connections of callbacks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue},
};

use super::outcome::StartError;
use crate::{
    clock::Clock,
    config::{CallbackSettings, Config, FileFault},
    job::{AddressPolicy, AddressRange, CallMethod, CallbackUrl},
    metrics::Metrics,
    push::{Caller, Request, SystemResolver},
    queue::Queue,
    traces::{Exporter, SpanSender, Tracer},
};

/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Collector {
    caller: Caller,
    url: CallbackUrl,
}

/// Has the queue trace jobs, and returns the exporter of its spans; `None` if they are sent nowhere. Must be called within a
/// runtime.
///
/// # Errors
/// What is wrong with the trusted certificates.
pub(super) fn exporter(
    config: &Config,
    queue: &Queue,
    clock: &Arc<dyn Clock>,
    metrics: &Metrics,
) -> Result<Option<Exporter>, StartError> {
    let Some(url) = config.traces.endpoint.clone() else { return Ok(None) };
    // The operator names the endpoint, so any address is allowed.
    let ranges = [AddressRange::Public, AddressRange::Private, AddressRange::Loopback];
    let settings = CallbackSettings {
        networks: AddressPolicy::new(&ranges, &[]),
        allow_hosts: Vec::new(),
        allow_http: true,
        max_calls: 1,
        max_calls_per_host: 1,
        ..config.callbacks.clone()
    };
    let caller = Caller::new(settings, clock.clone(), Arc::new(SystemResolver))
        .map_err(|problem| StartError::Files(vec![FileFault { key: "callbacks.ca_file", problem }]))?;
    tracing::info!(endpoint = %url.origin(), "spans of traced jobs are sent to the collector");
    let (tracer, exporter) =
        Tracer::new(Arc::new(Collector { caller, url }), clock.clone(), metrics.spans.clone());
    queue.trace_to(tracer);
    Ok(Some(exporter))
}

#[async_trait]
impl SpanSender for Collector {
    async fn send(&self, request: Bytes) -> Result<(), String> {
        let origin = self.url.origin().clone();
        let authority = HeaderValue::from_str(&origin.authority()).expect("a host is visible ASCII");
        let mut headers = HeaderMap::new();
        headers.insert(HOST, authority);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, request.len().into());
        let (target, method) = (self.url.target().to_owned(), CallMethod::Post);
        let call = Request { origin, target, method, headers, body: request, timeout: TIMEOUT };
        let answer = self.caller.call(call).await.map_err(|failure| failure.detail().into_owned())?;
        if answer.status.is_success() { Ok(()) } else { Err(format!("it answers {}", answer.status)) }
    }
}
