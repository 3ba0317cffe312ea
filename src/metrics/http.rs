//! Metrics of the HTTP layer: requests by route and status, their durations, and the waits of polls.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Labels of a count of requests. The route is a pattern of the router, never the path of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

/// Labels of a duration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
    method: &'static str,
}

/// Label of a problem: the stable code of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

type Durations = Family<RouteLabels, Histogram, fn() -> Histogram>;

/// The metrics of the HTTP layer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Durations,
    waits: Durations,
    problems: Family<CodeLabel, Counter>,
    in_flight: Gauge,
    buffered: Gauge,
    answering: Gauge,
}

/// Counts in a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub(super) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Adds bytes to a gauge until it is dropped.
#[derive(Debug)]
pub struct ByteGauge {
    gauge: Gauge,
    bytes: i64,
}

impl ByteGauge {
    /// Adds `bytes`.
    pub fn add(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.gauge.inc_by(bytes);
        self.bytes += bytes;
    }

    /// Reduces the count to at most `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).min(self.bytes);
        self.gauge.dec_by(self.bytes - bytes);
        self.bytes = bytes;
    }
}

impl Drop for ByteGauge {
    fn drop(&mut self) {
        self.gauge.dec_by(self.bytes);
    }
}

/// 0.25 ms to 8 s: the duration of a request.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

/// 10 ms to 82 s: the wait of a long poll.
fn waits() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 14))
}

impl HttpMetrics {
    /// Registers the HTTP layer's metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            waits: Family::new_with_constructor(waits),
            problems: Family::default(),
            in_flight: Gauge::default(),
            buffered: Gauge::default(),
            answering: Gauge::default(),
        };
        registry.register("linger_http_requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "linger_http_request_duration_seconds",
            "Time to answer a request, without the wait of a poll",
            metrics.durations.clone(),
        );
        registry.register(
            "linger_http_poll_wait_seconds",
            "Time that polls waited for a job",
            metrics.waits.clone(),
        );
        registry.register(
            "linger_http_requests_in_flight",
            "Requests in progress, including waiting polls",
            metrics.in_flight.clone(),
        );
        registry.register(
            "linger_http_problems",
            "Requests refused or failed, by the code of the response",
            metrics.problems.clone(),
        );
        registry.register(
            "linger_http_buffered_bytes",
            "Bytes held by the bodies of requests in progress",
            metrics.buffered.clone(),
        );
        registry.register(
            "linger_http_answer_bytes",
            "Bytes of large responses that clients have not read yet",
            metrics.answering.clone(),
        );
        metrics
    }

    /// Counts a request in progress until the guard is dropped.
    #[must_use]
    pub fn request(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_flight)
    }

    /// A gauge for the bytes of a request's body.
    #[must_use]
    pub fn buffered(&self) -> ByteGauge {
        ByteGauge { gauge: self.buffered.clone(), bytes: 0 }
    }

    /// A gauge for the bytes of a large response that its client has not read yet.
    #[must_use]
    pub fn answering(&self) -> ByteGauge {
        ByteGauge { gauge: self.answering.clone(), bytes: 0 }
    }

    /// Shows a problem from now on, also before it happens, so that its rate is zero rather than unknown.
    pub fn expect_problem(&self, code: &'static str) {
        drop(self.problems.get_or_create(&CodeLabel { code }));
    }

    /// Counts a request that was refused or failed.
    pub fn problem(&self, code: &'static str) {
        self.problems.get_or_create(&CodeLabel { code }).inc();
    }

    /// Records a response with `status` after `took`, of which a poll waited for `waited`.
    pub fn answered(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
        waited: Option<Duration>,
    ) {
        self.requests.get_or_create(&RequestLabels { route, method, status }).inc();
        let labels = RouteLabels { route, method };
        let duration = took.saturating_sub(waited.unwrap_or_default());
        self.durations.get_or_create(&labels).observe(duration.as_secs_f64());
        if let Some(waited) = waited {
            self.waits.get_or_create(&labels).observe(waited.as_secs_f64());
        }
    }
}
