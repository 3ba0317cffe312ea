//! Sends spans in batches. A batch that cannot be sent is lost: traces are worth neither memory nor a retry that delays
//! newer ones.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{otlp, span::TraceSpan};
use crate::{clock::Clock, messages::failure_log::FailureLog, metrics::SpanMetrics};

/// Most spans of a batch.
const MAX_BATCH: usize = 512;
/// How long a batch that is not full waits for more spans.
const PERIOD: Duration = Duration::from_secs(1);
/// How long sending may take when the server stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends encoded spans to the collector.
#[async_trait]
pub trait SpanSender: Send + Sync {
    /// Sends the JSON of an export request.
    ///
    /// # Errors
    /// Why the collector did not take it.
    async fn send(&self, request: Bytes) -> Result<(), String>;
}

/// Takes the spans of a [`Tracer`](super::Tracer) to the collector.
pub struct Exporter {
    spans: mpsc::Receiver<TraceSpan>,
    /// Spans that found no room since the log last said so.
    lost: Arc<AtomicU64>,
    sender: Arc<dyn SpanSender>,
    clock: Arc<dyn Clock>,
    log: FailureLog,
    overflow_log: FailureLog,
    metrics: SpanMetrics,
}

impl Exporter {
    pub(super) fn new(
        spans: mpsc::Receiver<TraceSpan>,
        lost: Arc<AtomicU64>,
        sender: Arc<dyn SpanSender>,
        clock: Arc<dyn Clock>,
        metrics: SpanMetrics,
    ) -> Self {
        let (log, overflow_log) = (FailureLog::default(), FailureLog::default());
        Self { spans, lost, sender, clock, log, overflow_log, metrics }
    }

    /// Sends spans until `stop`, and then those that are there, for two seconds at most.
    pub async fn run(mut self, stop: CancellationToken) {
        let clock = self.clock.clone();
        let export = async {
            let mut batch = Vec::with_capacity(MAX_BATCH);
            loop {
                self.collect(&mut batch, &stop).await;
                if batch.is_empty() && stop.is_cancelled() {
                    return;
                }
                // Not given up when the server stops: the collector may have the batch already.
                self.send(&batch).await;
                batch.clear();
            }
        };
        let end = async {
            stop.cancelled().await;
            clock.sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = export => {}
            () = end => tracing::warn!("the collector of traces took the last spans too slowly"),
        }
    }

    /// Waits for spans: for a full batch, or for so many as come within a period from the first on. After `stop` it takes
    /// those that are there.
    async fn collect(&mut self, batch: &mut Vec<TraceSpan>, stop: &CancellationToken) {
        tokio::select! {
            biased;
            received = self.spans.recv_many(batch, MAX_BATCH) => {
                if received == 0 {
                    // There is no tracer any more.
                    return stop.cancelled().await;
                }
            }
            () = stop.cancelled() => return,
        }
        let mut period = pin!(self.clock.sleep(PERIOD));
        while batch.len() < MAX_BATCH {
            let room = MAX_BATCH - batch.len();
            tokio::select! {
                biased;
                received = self.spans.recv_many(batch, room) => {
                    if received == 0 {
                        return;
                    }
                }
                () = stop.cancelled() => return,
                () = &mut period => return,
            }
        }
    }

    async fn send(&self, batch: &[TraceSpan]) {
        if batch.is_empty() {
            return;
        }
        let sent = self.sender.send(otlp::encode(batch)).await;
        let now_us = self.clock.now_micros();
        match sent {
            Ok(()) => {
                self.metrics.sent(batch.len());
                if let Some(lasted) = self.log.succeeded(now_us) {
                    tracing::info!(lasted_s = lasted.as_secs(), "the collector takes spans again");
                }
            }
            Err(why) => {
                self.metrics.lost(batch.len());
                if self.log.failed(now_us) {
                    tracing::warn!(%why, "cannot send spans to traces.endpoint; they are lost");
                }
            }
        }
        if self.lost.load(Ordering::Relaxed) > 0 && self.overflow_log.failed(now_us) {
            let lost = self.lost.swap(0, Ordering::Relaxed);
            tracing::warn!(
                lost,
                "there were more spans than the collector took; lost counts those since the last line"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::{
        clock::ManualClock,
        job::{Receipt, Timestamp, Topic},
        metrics::Metrics,
        traces::{MAX_WAITING, Tracer},
    };

    /// A collector that answers a request for each permit.
    struct Gate {
        arrivals: mpsc::UnboundedSender<()>,
        permits: Semaphore,
        spans: Mutex<Vec<usize>>,
    }

    #[async_trait]
    impl SpanSender for Gate {
        async fn send(&self, request: Bytes) -> Result<(), String> {
            let request: serde_json::Value = serde_json::from_slice(&request).expect("is JSON");
            let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
            self.spans.lock().expect("not poisoned").push(spans.as_array().expect("a list").len());
            self.arrivals.send(()).expect("the test waits");
            self.permits.acquire().await.expect("is open").forget();
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_batch_that_is_under_way_at_the_stop_is_sent_once_and_the_rest_behind_it() {
        let (arrivals, mut arrived) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate { arrivals, permits: Semaphore::new(0), spans: Mutex::default() });
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let (tracer, exporter) = Tracer::new(gate.clone(), clock.clone(), Metrics::new().spans);
        let stop = CancellationToken::new();
        let topic = Topic::parse("t").expect("valid");
        for _ in 0..MAX_BATCH + 3 {
            tracer.record(TraceSpan::delivery(&Receipt::generate(), &topic, (1, 2)));
        }
        let exporting = tokio::spawn(exporter.run(stop.clone()));
        arrived.recv().await.expect("a full batch does not wait for the clock");
        stop.cancel();
        tokio::task::yield_now().await;
        gate.permits.add_permits(2);
        exporting.await.expect("does not panic");
        assert_eq!(*gate.spans.lock().expect("not poisoned"), [MAX_BATCH, 3]);
    }

    #[tokio::test]
    async fn spans_are_counted_by_whether_the_collector_took_them() {
        let (arrivals, _arrived) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate { arrivals, permits: Semaphore::new(9_999), spans: Mutex::default() });
        let (clock, metrics) = (ManualClock::new(Timestamp::from_millis(0)), Metrics::new());
        let (tracer, exporter) = Tracer::new(gate, clock, metrics.spans.clone());
        let (stop, topic) = (CancellationToken::new(), Topic::parse("t").expect("valid"));
        for _ in 0..MAX_WAITING + 3 {
            tracer.record(TraceSpan::delivery(&Receipt::generate(), &topic, (1, 2)));
        }
        stop.cancel();
        exporter.run(stop).await;
        let text = metrics.encode_text();
        for (outcome, spans) in [("sent", MAX_WAITING), ("lost", 3)] {
            let line = format!("linger_spans_total{{outcome=\"{outcome}\"}} {spans}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[tokio::test]
    async fn a_collector_that_hangs_holds_up_the_stop_for_two_seconds_only() {
        let (arrivals, mut arrived) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate { arrivals, permits: Semaphore::new(0), spans: Mutex::default() });
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let (tracer, exporter) = Tracer::new(gate.clone(), clock.clone(), Metrics::new().spans);
        let (stop, topic) = (CancellationToken::new(), Topic::parse("t").expect("valid"));
        tracer.record(TraceSpan::delivery(&Receipt::generate(), &topic, (1, 2)));
        stop.cancel();
        let exporting = tokio::spawn(exporter.run(stop));
        arrived.recv().await.expect("what is there is sent");
        while !exporting.is_finished() {
            assert!(clock.now_micros() <= 10_000_000, "it ends");
            clock.advance(Duration::from_millis(500));
            tokio::task::yield_now().await;
        }
        exporting.await.expect("does not panic");
    }
}
