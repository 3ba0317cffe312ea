//! The metrics of the process, in the format of Prometheus, with base units.
//!
//! It knows names and numbers, not queues. Each layer is handed the metrics that it updates.
//! The number of labels is bounded: at most [`MAX_TOPICS`] topics have a label of their own, the others share `other`.

mod buckets;
mod callbacks;
mod certificate;
mod clock;
mod connections;
mod engine;
mod event;
mod http;
mod labels;
mod log;
mod past;
mod polls;
mod process;
mod queue;
mod recent;
mod schedules;
mod signs;
mod spans;
mod store_info;
mod store_reading;
mod summary;
mod text;
mod topic_gauge;

use std::sync::{Arc, Mutex};

use prometheus_client::{metrics::info::Info, registry::Registry};

pub use callbacks::{CallResult, CallbackMetrics};
pub use certificate::{Certificate, CertificateMetrics};
pub use clock::ClockMetrics;
pub use connections::{CloseReason, ConnectionMetrics, RefusalReason};
pub use engine::EngineMetrics;
pub use event::Event;
pub use http::{ByteGauge, GaugeGuard, HttpMetrics};
pub use labels::{MAX_TOPICS, TopicUsage};
pub use log::LogMetrics;
pub use past::PastHour;
pub use polls::{OpenPoll, PollsByTopic, RecentPolls};
pub use process::resident_bytes;
pub use queue::QueueMetrics;
pub use recent::RecentEvents;
pub use schedules::{OccurrenceEnd, ScheduleMetrics, ScheduleProblem};
pub use signs::{KEPT as SIGNS_KEPT, SignsByTopic};
pub use spans::SpanMetrics;
pub use store_reading::StoreReading;
pub use summary::{EventSummary, EventsByTopic, Lateness};

use process::ProcessCollector;
use store_info::StoreInfo;

/// All metrics of the process, and the registry that encodes them.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    store: StoreInfo,
    /// Of the clock.
    pub clock: ClockMetrics,
    /// Of the engine.
    pub engine: EngineMetrics,
    /// Of the queue.
    pub queue: QueueMetrics,
    /// Of the HTTP layer.
    pub http: HttpMetrics,
    /// Of the accept loop.
    pub connections: ConnectionMetrics,
    /// Of the certificates of this process.
    pub certificates: CertificateMetrics,
    /// Of the log.
    pub log: LogMetrics,
    /// Of the spans of traced jobs.
    pub spans: SpanMetrics,
}

impl Metrics {
    /// Media type of [`Metrics::encode`], which Prometheus requests by name.
    pub const OPEN_METRICS: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    /// Media type of [`Metrics::encode_text`], which everything else understands.
    pub const TEXT: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// New metrics, all zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let clock = ClockMetrics::register(&mut registry);
        let engine = EngineMetrics::register(&mut registry);
        let queue = QueueMetrics::register(&mut registry);
        let http = HttpMetrics::register(&mut registry);
        let connections = ConnectionMetrics::register(&mut registry);
        let certificates = CertificateMetrics::register(&mut registry);
        let log = LogMetrics::register(&mut registry);
        let spans = SpanMetrics::register(&mut registry);
        let store = StoreInfo::register(&mut registry);
        ProcessCollector::register(&mut registry);
        registry.register("linger_build", "The program that runs here", Info::new(build_labels()));
        let registry = Arc::new(Mutex::new(registry));
        Self { registry, store, clock, engine, queue, http, connections, certificates, log, spans }
    }

    /// Sets which store is behind this process and what its acknowledgements mean. Replaces the previous description.
    pub fn describe_store(&self, engine: &str, version: &str, durability: &str) {
        let labels = [("engine", engine), ("version", version), ("durability", durability)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        self.store.set(labels);
    }

    /// Encodes the metrics as OpenMetrics 1.0.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().expect("no code panics while it holds the registry");
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a String cannot fail");
        text
    }

    /// Encodes the metrics in the text format of Prometheus, version 0.0.4.
    #[must_use]
    pub fn encode_text(&self) -> String {
        text::from_open_metrics(&self.encode())
    }
}

/// The version, and the commit if it is known.
fn build_labels() -> Vec<(&'static str, &'static str)> {
    let (version, commit) = env!("LINGER_VERSION").split_once(" (").unwrap_or((env!("LINGER_VERSION"), ""));
    vec![("version", version), ("commit", commit.trim_end_matches(')'))]
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
