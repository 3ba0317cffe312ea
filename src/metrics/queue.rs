//! Figures of the queue: jobs by topic and state, what happened to them, and how late.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

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

/// Topics that get a label of their own; later ones share `other`, so that clients who invent topics
/// cannot fill the memory of whoever scrapes.
pub const MAX_TOPICS: usize = 1_000;

/// Label of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabel {
    topic: Arc<str>,
}

/// Labels of a count of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    topic: Arc<str>,
    state: &'static str,
}

/// Label of a store operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
    outcome: &'static str,
}

type OperationDurations = Family<OperationLabel, Histogram, fn() -> Histogram>;
type TopicDurations = Family<TopicLabel, Histogram, fn() -> Histogram>;

/// Something that happened to jobs, each with its own counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Added (repeats do not count).
    Added,
    /// Handed to a worker.
    Delivered,
    /// Finished.
    Finished,
    /// Given back by a worker.
    Released,
    /// Taken back because the TTR ended.
    Expired,
    /// Became a dead letter.
    Buried,
    /// Deleted, purged or past their retention.
    Deleted,
    /// Requeued from the dead letters.
    Requeued,
    /// Given back uncounted because the client had gone.
    Cancelled,
}

impl Event {
    const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Added, "linger_jobs_added", "Jobs added"),
        (Self::Delivered, "linger_jobs_delivered", "Reservations handed out"),
        (Self::Finished, "linger_jobs_finished", "Jobs finished"),
        (Self::Released, "linger_jobs_released", "Jobs given back by workers"),
        (Self::Expired, "linger_jobs_expired", "Reservations ended by their TTR"),
        (Self::Buried, "linger_jobs_buried", "Jobs that became dead letters"),
        (Self::Deleted, "linger_jobs_deleted", "Jobs deleted, purged or past their retention"),
        (Self::Requeued, "linger_jobs_requeued", "Dead letters put back to work"),
        (Self::Cancelled, "linger_jobs_cancelled", "Reservations taken back because the client had gone"),
    ];
}

/// What the queue reports. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    events: [Family<TopicLabel, Counter>; 9],
    jobs: Family<StateLabel, Gauge>,
    overdue: Family<TopicLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    lateness: TopicDurations,
    waits: TopicDurations,
    operations: OperationDurations,
    waiting: Gauge,
    store_up: Gauge,
    limits: Family<LimitLabel, Gauge>,
    known: Arc<Mutex<HashSet<Arc<str>>>>,
}

/// Label of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// 1 ms to about 2 h: what a lateness or a wait can be.
fn waits() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 3.0, 15))
}

/// 50 us to about 1.6 s: what a store operation can take.
fn operations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 16))
}

impl QueueMetrics {
    /// Registers the queue's figures in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            events: Default::default(),
            jobs: Family::default(),
            overdue: Family::default(),
            lateness: Family::new_with_constructor(waits),
            waits: Family::new_with_constructor(waits),
            operations: Family::new_with_constructor(operations),
            waiting: Gauge::default(),
            store_up: Gauge::default(),
            limits: Family::default(),
            known: Arc::default(),
        };
        for (event, name, help) in Event::ALL {
            registry.register(name, help, metrics.events[event as usize].clone());
        }
        registry.register("linger_jobs", "Jobs by topic and state", metrics.jobs.clone());
        registry.register(
            "linger_oldest_overdue_seconds",
            "How long ago the longest waiting ready job was due",
            metrics.overdue.clone(),
        );
        registry.register(
            "linger_ready_lateness_seconds",
            "From the due time to the job being ready",
            metrics.lateness.clone(),
        );
        registry.register(
            "linger_ready_wait_seconds",
            "From the job being ready to its reservation",
            metrics.waits.clone(),
        );
        registry.register(
            "linger_store_operation_duration_seconds",
            "Time of store operations",
            metrics.operations.clone(),
        );
        registry.register(
            "linger_store_up",
            "Whether the store works; while it does not, the counts of jobs are left out",
            metrics.store_up.clone(),
        );
        registry.register("linger_parked_polls", "Long polls waiting for a job", metrics.waiting.clone());
        registry.register("linger_limit", "Configured limits, in their base unit", metrics.limits.clone());
        metrics.set_store_up(true);
        metrics
    }

    /// Counts `event` for `n` jobs of `topic`.
    pub fn count(&self, event: Event, topic: &str, n: u64) {
        self.events[event as usize].get_or_create(&self.topic(topic)).inc_by(n);
    }

    /// A job of `topic` became ready `late` after its due time.
    pub fn became_ready(&self, topic: &str, late: Duration) {
        self.lateness.get_or_create(&self.topic(topic)).observe(late.as_secs_f64());
    }

    /// A job of `topic` was reserved `waited` after it was ready.
    pub fn reserved(&self, topic: &str, waited: Duration) {
        self.waits.get_or_create(&self.topic(topic)).observe(waited.as_secs_f64());
    }

    /// A store operation took so long.
    pub fn operation(&self, operation: &'static str, ok: bool, took: Duration) {
        let outcome = if ok { "ok" } else { "error" };
        self.operations.get_or_create(&OperationLabel { operation, outcome }).observe(took.as_secs_f64());
    }

    /// Whether the store works.
    pub fn set_store_up(&self, works: bool) {
        self.store_up.set(i64::from(works));
    }

    /// So many polls are parked.
    pub fn set_waiting(&self, polls: usize) {
        self.waiting.set(i64::try_from(polls).unwrap_or(i64::MAX));
    }

    /// Publishes a configured limit.
    pub fn set_limit(&self, limit: &'static str, value: u64) {
        self.limits.get_or_create(&LimitLabel { limit }).set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Forgets the counts of jobs before a new reading.
    pub fn clear_jobs(&self) {
        self.jobs.clear();
        self.overdue.clear();
    }

    /// Adds a topic's count of jobs in one state; topics without a label of their own add up.
    pub fn add_jobs(&self, topic: &str, state: &'static str, jobs: u64) {
        let labels = StateLabel { topic: self.topic(topic).topic, state };
        self.jobs.get_or_create(&labels).inc_by(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    /// How long ago the longest waiting ready job of a topic was due; the largest counts.
    pub fn overdue(&self, topic: &str, overdue: Duration) {
        let gauge = self.overdue.get_or_create(&self.topic(topic)).clone();
        gauge.set(gauge.get().max(overdue.as_secs_f64()));
    }

    fn topic(&self, topic: &str) -> TopicLabel {
        let mut known = self.known.lock().expect("no code panics while it holds the labels");
        let topic = match known.get(topic) {
            Some(label) => label.clone(),
            None if known.len() < MAX_TOPICS => {
                let label: Arc<str> = topic.into();
                known.insert(label.clone());
                label
            }
            None => "other".into(),
        };
        TopicLabel { topic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_limit_share_a_label() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        for n in 0..MAX_TOPICS + 5 {
            metrics.count(Event::Added, &format!("topic-{n}"), 1);
            metrics.add_jobs(&format!("topic-{n}"), "ready", 2);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writes");
        assert!(text.contains("linger_jobs_added_total{topic=\"other\"} 5"), "{text}");
        assert!(text.contains("linger_jobs{topic=\"other\",state=\"ready\"} 10"));
        assert!(text.contains("linger_jobs_added_total{topic=\"topic-999\"} 1"));
    }

    #[test]
    fn every_event_has_its_own_counter() {
        for (index, (event, _, _)) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }
}
