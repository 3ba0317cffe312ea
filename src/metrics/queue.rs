//! Metrics of the queue: jobs by topic and state, events of jobs, and lateness.

use std::{
    sync::{Arc, Mutex, MutexGuard},
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

use super::{
    buckets::waits,
    callbacks::{CallResult, CallbackMetrics},
    event::Event,
    labels::{TopicLabel, TopicLabels, TopicUsage, shared_label},
    polls::RecentPolls,
    recent::RecentEvents,
    schedules::ScheduleMetrics,
    store_reading::{StoreCollector, StoreReading},
    topic_gauge::{TopicGauge, TopicValues},
};

/// Label of a store operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
    outcome: &'static str,
}

type OperationDurations = Family<OperationLabel, Histogram, fn() -> Histogram>;
type TopicDurations = Family<TopicLabel, Histogram, fn() -> Histogram>;

/// The metrics of the queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    events: [Family<TopicLabel, Counter>; Event::ALL.len()],
    store: StoreCollector,
    ready_late: TopicDurations,
    delivered_late: TopicDurations,
    waits: TopicDurations,
    operations: OperationDurations,
    waiting: Gauge,
    parked_polls: TopicGauge,
    resting_outlets: TopicGauge,
    store_up: Gauge,
    limits: Family<LimitLabel, Gauge>,
    labels: Arc<Mutex<TopicLabels>>,
    /// The events of the last hour, and of the last minute by topic.
    pub recent: Arc<RecentEvents>,
    /// The polls of this process.
    pub polls: Arc<RecentPolls>,
    /// Of callbacks. Their topics share the labels.
    pub callbacks: CallbackMetrics,
    /// Of schedules.
    pub schedules: ScheduleMetrics,
    /// Calls that are missing in the audit list, because the store did not take them.
    pub audit_gaps: Counter,
}

/// Label of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// 50 us to about 1.6 s: durations of store operations.
fn operations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 16))
}

impl QueueMetrics {
    /// Registers the queue's metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            events: Default::default(),
            store: StoreCollector::default(),
            ready_late: Family::new_with_constructor(waits),
            delivered_late: Family::new_with_constructor(waits),
            waits: Family::new_with_constructor(waits),
            operations: Family::new_with_constructor(operations),
            waiting: Gauge::default(),
            parked_polls: TopicGauge::register(
                registry,
                "linger_topic_parked_polls",
                "Long polls waiting for a job, by topic. A poll of several topics counts in each.",
            ),
            resting_outlets: TopicGauge::register(
                registry,
                "linger_topic_resting_outlets",
                "Outlets that rest because their endpoint fails, by topic.",
            ),
            store_up: Gauge::default(),
            limits: Family::default(),
            labels: Arc::default(),
            recent: Arc::default(),
            polls: Arc::default(),
            callbacks: CallbackMetrics::register(registry),
            schedules: ScheduleMetrics::register(registry),
            audit_gaps: Counter::default(),
        };
        for (event, name, help) in Event::ALL {
            registry.register(name, help, metrics.events[event as usize].clone());
        }
        registry.register_collector(Box::new(metrics.store.clone()));
        registry.register(
            "linger_ready_lateness_seconds",
            "From the due time to the job being ready",
            metrics.ready_late.clone(),
        );
        registry.register(
            "linger_delivered_lateness_seconds",
            "From the due time to the reservation that was delivered",
            metrics.delivered_late.clone(),
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
        registry.register(
            "linger_audit_gaps",
            "Calls that are missing in the audit list, because the store did not take them; they were carried out all the same",
            metrics.audit_gaps.clone(),
        );
        metrics.set_store_up(true);
        metrics
    }

    /// Counts `event` for `n` jobs of `topic`.
    pub fn count(&self, event: Event, topic: &str, n: u64) {
        self.with_label(topic, |label, own| {
            self.recent.count(event, own, n);
            self.events[event as usize].get_or_create(label).inc_by(n);
        });
    }

    /// Records that a worker has finished, released, buried or touched a job of `topic`.
    pub fn worker_sign(&self, topic: &str) {
        self.with_label(topic, |_, own| self.recent.worker_sign(own));
    }

    /// Counts a job of `topic` that came due and became ready `late` after its due time.
    pub fn became_ready(&self, topic: &str, late: Duration) {
        self.with_label(topic, |label, own| {
            self.recent.became_ready(own, late);
            self.events[Event::Due as usize].get_or_create(label).inc();
            self.ready_late.get_or_create(label).observe(late.as_secs_f64());
        });
    }

    /// Counts a delivery of a job of `topic`, which was reserved `late` after its due time and `waited` after it was ready.
    pub fn delivered(&self, topic: &str, late: Duration, waited: Duration) {
        self.with_label(topic, |label, own| {
            self.recent.delivered(own, late);
            self.events[Event::Delivered as usize].get_or_create(label).inc();
            self.delivered_late.get_or_create(label).observe(late.as_secs_f64());
            self.waits.get_or_create(label).observe(waited.as_secs_f64());
        });
    }

    /// Records the result of a call for a job of `topic`, and how long the call took.
    pub fn called(&self, topic: &str, result: CallResult, took: Duration) {
        self.callbacks.ended(result, took);
        self.with_label(topic, |label, _| self.callbacks.count(&label.topic, result));
    }

    /// Records the duration of a store operation.
    pub fn operation(&self, operation: &'static str, ok: bool, took: Duration) {
        let outcome = if ok { "ok" } else { "error" };
        self.operations.get_or_create(&OperationLabel { operation, outcome }).observe(took.as_secs_f64());
    }

    /// Sets whether the store works.
    pub fn set_store_up(&self, works: bool) {
        self.store_up.set(i64::from(works));
    }

    /// Sets the number of waiting polls.
    pub fn set_waiting(&self, polls: usize) {
        self.waiting.set(i64::try_from(polls).unwrap_or(i64::MAX));
    }

    /// Replaces the numbers of waiting polls by topic.
    pub fn set_parked_polls<'a>(&self, polls: impl IntoIterator<Item = (&'a str, usize)>) {
        self.parked_polls.set(self.sum_by_label(polls));
    }

    /// Replaces the numbers of resting outlets by topic.
    pub fn set_resting_outlets<'a>(&self, outlets: impl IntoIterator<Item = (&'a str, usize)>) {
        // Alerts leave out topics with resting outlets, so those that share a label must not hide the others.
        let mut by_label = self.sum_by_label(outlets);
        by_label.remove(&shared_label());
        self.resting_outlets.set(by_label);
    }

    /// Sets a configured limit.
    pub fn set_limit(&self, limit: &'static str, value: u64) {
        self.limits.get_or_create(&LimitLabel { limit }).set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Assigns labels to the topics that need them most (see `labels.rs`), and removes the metrics of topics that lose
    /// theirs.
    pub fn assign_labels(&self, topics: Vec<TopicUsage<'_>>, now_us: i64) {
        let mut labels = self.lock();
        for topic in labels.assign(topics, now_us) {
            self.callbacks.forget(&topic);
            self.recent.forget(&topic);
            let label = TopicLabel { topic };
            for event in &self.events {
                event.remove(&label);
            }
            self.ready_late.remove(&label);
            self.delivered_late.remove(&label);
            self.waits.remove(&label);
        }
    }

    /// The label of a topic, if it has one of its own.
    #[must_use]
    pub fn own_label(&self, topic: &str) -> Option<Arc<str>> {
        self.lock().find(topic)
    }

    /// Replaces what was read from the store.
    pub fn set_store(&self, reading: StoreReading) {
        self.store.set(reading);
    }

    /// Sums up numbers of topics by their labels.
    fn sum_by_label<'a>(&self, numbers: impl IntoIterator<Item = (&'a str, usize)>) -> TopicValues {
        let (labels, mut sums) = (self.lock(), TopicValues::new());
        for (topic, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
            let label = labels.find(topic).unwrap_or_else(shared_label);
            *sums.entry(label).or_default() += number as u64;
        }
        sums
    }

    /// Calls `count` with the label of a topic, and with the same if it is the topic's own. The labels stay locked
    /// meanwhile; otherwise a metric could reappear after its topic has lost its label.
    fn with_label(&self, topic: &str, count: impl FnOnce(&TopicLabel, Option<&Arc<str>>)) {
        let mut labels = self.lock();
        let own = labels.find_or_add(topic);
        count(&TopicLabel { topic: own.clone().unwrap_or_else(shared_label) }, own.as_ref());
    }

    fn lock(&self) -> MutexGuard<'_, TopicLabels> {
        self.labels.lock().expect("no code panics while it holds the labels")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MAX_TOPICS;

    fn encoded(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).expect("writes");
        text
    }

    #[test]
    fn topics_beyond_the_limit_share_a_label() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        let mut reading = StoreReading::default();
        for n in 0..MAX_TOPICS + 5 {
            let topic = format!("topic-{n}");
            metrics.count(Event::Added, &topic, 1);
            reading.add(metrics.own_label(&topic), [("ready", 2)]);
            reading.overdue(metrics.own_label(&topic), Duration::from_secs(n as u64));
        }
        metrics.set_store(reading);
        let text = encoded(&registry);
        assert!(text.contains("linger_jobs_added_total{topic=\"other\"} 5"), "{text}");
        assert!(text.contains("linger_jobs{topic=\"other\",state=\"ready\"} 10"));
        assert!(text.contains("linger_oldest_overdue_seconds{topic=\"other\"} 1004.0"));
        assert!(text.contains("linger_jobs_added_total{topic=\"topic-999\"} 1"));
    }

    #[test]
    fn only_parked_polls_are_summed_up_for_topics_that_share_a_label() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        metrics.count(Event::Added, "mail", 1);
        let numbers = [("mail", 2), ("unknown", 3), ("new", 4)];
        metrics.set_parked_polls(numbers);
        metrics.set_resting_outlets(numbers);
        let text = encoded(&registry);
        assert!(text.contains("linger_topic_parked_polls{topic=\"mail\"} 2\n"), "{text}");
        assert!(text.contains("linger_topic_parked_polls{topic=\"other\"} 7\n"), "{text}");
        assert!(text.contains("linger_topic_resting_outlets{topic=\"mail\"} 2\n"), "{text}");
        assert!(!text.contains("resting_outlets{topic=\"other\"}"), "it would hide alerts of other topics");
    }

    #[test]
    fn a_topic_that_loses_its_label_is_no_longer_shown() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        for n in 0..MAX_TOPICS {
            metrics.count(Event::Added, &format!("old-{n}"), 1);
            metrics.delivered(&format!("old-{n}"), Duration::ZERO, Duration::ZERO);
        }
        metrics.count(Event::Added, "new", 1);
        metrics.assign_labels(vec![TopicUsage { topic: "new", jobs: 1, has_settings: false }], 0);
        metrics.count(Event::Added, "new", 1);
        let text = encoded(&registry);
        let count = |metric: &str| text.lines().filter(|line| line.starts_with(metric)).count();
        assert_eq!(count("linger_jobs_added_total{"), MAX_TOPICS + 1, "a thousand, and the shared one");
        for histogram in ["linger_ready_wait_seconds_count{", "linger_delivered_lateness_seconds_count{"] {
            assert_eq!(count(histogram), MAX_TOPICS - 1);
        }
        assert!(text.contains("linger_jobs_added_total{topic=\"new\"} 1"), "{text}");
    }

    #[test]
    fn bucket_bounds_are_short_numbers() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        metrics.became_ready("t", Duration::ZERO);
        metrics.operation("add", true, Duration::ZERO);
        for bound in encoded(&registry).lines().filter_map(|line| line.split_once("le=\"")) {
            let bound = bound.1.split('"').next().expect("a bound");
            assert!(bound.len() <= 7, "{bound}");
        }
    }

    #[test]
    fn every_event_has_its_own_counter() {
        for (index, (event, _, _)) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }
}
