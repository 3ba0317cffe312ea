//! Spans of what happens to traced jobs, sent to a collector by OTLP over HTTP.
//!
//! A job has spans if its trace context says that its trace is recorded; no trace begins here otherwise. Its add belongs to
//! the trace of the request that adds it. Each delivery is a trace of its own, since that of the add has often long
//! ended, with a link to the span that the job comes from; what the server knows of the delivery's end belongs to it.
//!
//! Written by hand: it needs one message of the protocol, whose JSON is stable. The libraries for it bring an HTTP client
//! of their own, threads and a second runtime.

mod export;
mod otlp;
mod span;

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::mpsc;

pub use export::{Exporter, SpanSender};

use crate::{
    clock::Clock,
    job::{Job, JobId, Origin, Receipt, Topic, TraceContext},
    metrics::SpanMetrics,
};
use span::{SpanKind, SpanStatus, TraceSpan};

/// Most spans that wait to be sent.
const MAX_WAITING: usize = 8_192;
/// Most deliveries that are remembered until they are settled.
const MAX_DELIVERIES: usize = 16_384;

/// Takes spans. Never waits: spans that cannot be sent fast enough are lost, and counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tracer {
    spans: mpsc::Sender<TraceSpan>,
    /// Spans that found no room since the log last said so.
    lost: Arc<AtomicU64>,
    metrics: SpanMetrics,
    deliveries: Arc<Mutex<Deliveries>>,
}

impl Tracer {
    /// A tracer, and the exporter that sends its spans; run that beside it.
    #[must_use]
    pub fn new(sender: Arc<dyn SpanSender>, clock: Arc<dyn Clock>, metrics: SpanMetrics) -> (Self, Exporter) {
        let (spans, waiting) = mpsc::channel(MAX_WAITING);
        let lost = Arc::<AtomicU64>::default();
        let exporter = Exporter::new(waiting, lost.clone(), sender, clock, metrics.clone());
        (Self { spans, lost, metrics, deliveries: Arc::default() }, exporter)
    }

    /// A job was added.
    pub fn added(&self, job: &Job, began_us: i64, ended_us: i64) {
        let Some(trace) = recorded(job) else { return };
        let mut span = TraceSpan::child_of(trace, "add", &job.topic, (began_us, ended_us));
        span.job(&job.id);
        self.record(span);
    }

    /// A job is on its way to a worker or an endpoint. It was reserved at `began_us`.
    pub fn delivered(&self, job: &Job, receipt: &Receipt, began_us: i64, ended_us: i64) {
        let Some(trace) = recorded(job) else { return };
        let mut span = TraceSpan::delivery(receipt, &job.topic, (began_us, ended_us));
        span.link = Some(trace.clone());
        span.job(&job.id);
        span.number("linger.attempt", job.attempts.into());
        span.number("linger.late_ms", began_us / 1_000 - job.due_at.as_millis());
        self.lock().remember(receipt);
        self.record(span);
    }

    /// A callback was called for a delivered job. `failure` says why the call did not finish it.
    pub fn called(
        &self,
        job: &Job,
        receipt: &Receipt,
        origin: &Origin,
        failure: Option<&str>,
        times: (i64, i64),
    ) {
        if recorded(job).is_none() {
            return;
        }
        let mut span = TraceSpan::of_delivery(receipt, "call", &job.topic, times);
        span.kind = SpanKind::Client;
        span.outcome = failure.map_or(SpanStatus::Unset, |why| SpanStatus::Failed(why.to_owned()));
        span.job(&job.id);
        span.text("server.address", &origin.host.to_string());
        span.number("server.port", origin.port.into());
        self.record(span);
    }

    /// A delivery has ended: its job was finished, released or buried, which is `how`. Spans are known of those deliveries
    /// that this process made.
    pub fn settled(
        &self,
        how: &'static str,
        id: &JobId,
        topic: &Topic,
        receipt: &Receipt,
        times: (i64, i64),
    ) {
        if !self.lock().forget(receipt) {
            return;
        }
        let mut span = TraceSpan::of_delivery(receipt, how, topic, times);
        span.job(id);
        self.record(span);
    }

    fn record(&self, span: TraceSpan) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.metrics.lost(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().expect("no code panics while it holds the deliveries")
    }
}

/// The context of a job whose trace is recorded.
fn recorded(job: &Job) -> Option<&TraceContext> {
    job.spec.trace.as_ref().filter(|trace| trace.is_sampled())
}

/// The deliveries of traced jobs that were not settled yet, the oldest first. Those that are never settled leave when newer
/// ones need their room.
#[derive(Debug, Default)]
struct Deliveries {
    open: HashSet<Receipt>,
    order: VecDeque<Receipt>,
}

impl Deliveries {
    fn remember(&mut self, receipt: &Receipt) {
        if self.order.len() == MAX_DELIVERIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.open.insert(receipt.clone());
        self.order.push_back(receipt.clone());
    }

    /// Returns whether it was remembered. Its place in the order is left, and costs only room.
    fn forget(&mut self, receipt: &Receipt) -> bool {
        self.open.remove(receipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_remembered_until_they_are_settled_or_many_newer_ones_came() {
        let receipt = |n: usize| Receipt::from_bytes((n as u128).to_be_bytes());
        let mut deliveries = Deliveries::default();
        (0..=MAX_DELIVERIES).for_each(|n| deliveries.remember(&receipt(n)));
        assert!(!deliveries.forget(&receipt(0)), "the oldest has left");
        assert!(deliveries.forget(&receipt(1)) && deliveries.forget(&receipt(MAX_DELIVERIES)));
        assert!(!deliveries.forget(&receipt(1)), "once");
        (0..3 * MAX_DELIVERIES).for_each(|n| deliveries.remember(&receipt(n + 9_000_000)));
        assert_eq!((deliveries.open.len(), deliveries.order.len()), (MAX_DELIVERIES, MAX_DELIVERIES));
    }
}
