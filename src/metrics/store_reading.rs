//! What a scrape reads from the store: the jobs by topic and state, the pauses, and the space that the store takes. It is
//! replaced as a whole, so that a concurrent scrape shows the previous reading or the new one, never a mixture.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::labels::{TopicLabel, shared_label};

const JOBS: &str = "Jobs by topic and state. Every process of one Redis shows all jobs there: use max, not sum, over processes.";
const OVERDUE: &str =
    "How long ago the longest waiting ready job was due. Every process of one Redis shows the same.";
const PAUSED: &str =
    "1 for each topic whose delivery or intake is paused. Every process of one Redis shows the same.";
const BYTES: &str =
    "Bytes that the store takes: its files on disk, or the memory in use on its Redis servers.";
const FREE: &str =
    "Bytes that the store may still take: of the disk, or of maxmemory on the Redis server that has least.";

/// The store at one moment. Its topics are labels.
#[derive(Debug, Default)]
pub struct StoreReading {
    topics: BTreeMap<Arc<str>, TopicReading>,
    used_bytes: Option<u64>,
    free_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct TopicReading {
    states: BTreeMap<&'static str, u64>,
    overdue: Option<Duration>,
    paused: Vec<&'static str>,
}

impl StoreReading {
    /// Adds the jobs of a topic. The counts of topics without a label of their own add up.
    pub fn add(&mut self, label: Option<Arc<str>>, states: impl IntoIterator<Item = (&'static str, u64)>) {
        let topic = self.topic(label);
        for (state, jobs) in states {
            *topic.states.entry(state).or_default() += jobs;
        }
    }

    /// Records how long ago the oldest ready job of a topic was due. The longest counts for topics that share a label.
    pub fn overdue(&mut self, label: Option<Arc<str>>, overdue: Duration) {
        let topic = self.topic(label);
        topic.overdue = topic.overdue.max(Some(overdue));
    }

    /// Records what is paused of a topic with a label of its own. Alerts leave out what is paused, so a topic that shares
    /// a label must not hide the others.
    pub fn paused(&mut self, label: Arc<str>, what: impl IntoIterator<Item = &'static str>) {
        self.topic(Some(label)).paused.extend(what);
    }

    /// Records the space that the store takes, and what is left; `None` if it is not known.
    pub fn space(&mut self, used_bytes: Option<u64>, free_bytes: Option<u64>) {
        (self.used_bytes, self.free_bytes) = (used_bytes, free_bytes);
    }

    fn topic(&mut self, label: Option<Arc<str>>) -> &mut TopicReading {
        self.topics.entry(label.unwrap_or_else(shared_label)).or_default()
    }
}

/// The last reading, as the registry encodes it.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreCollector(Arc<Mutex<Arc<StoreReading>>>);

impl StoreCollector {
    pub fn set(&self, reading: StoreReading) {
        *self.lock() = Arc::new(reading);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<StoreReading>> {
        self.0.lock().expect("no code panics while it holds the reading")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    topic: Arc<str>,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PauseLabel {
    topic: Arc<str>,
    what: &'static str,
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let reading = self.lock().clone();
        let mut jobs = encoder.encode_descriptor("linger_jobs", JOBS, None, MetricType::Gauge)?;
        for (topic, TopicReading { states, .. }) in &reading.topics {
            for (state, count) in states {
                let label = StateLabel { topic: topic.clone(), state };
                gauge(*count).encode(jobs.encode_family(&label)?)?;
            }
        }
        let name = "linger_oldest_overdue_seconds";
        let mut ages = encoder.encode_descriptor(name, OVERDUE, None, MetricType::Gauge)?;
        for (topic, TopicReading { overdue, .. }) in &reading.topics {
            if let Some(overdue) = overdue {
                let label = TopicLabel { topic: topic.clone() };
                ConstGauge::new(overdue.as_secs_f64()).encode(ages.encode_family(&label)?)?;
            }
        }
        let mut pauses = encoder.encode_descriptor("linger_topic_paused", PAUSED, None, MetricType::Gauge)?;
        for (topic, TopicReading { paused, .. }) in &reading.topics {
            for what in paused {
                let label = PauseLabel { topic: topic.clone(), what };
                gauge(1).encode(pauses.encode_family(&label)?)?;
            }
        }
        let space = [
            ("linger_store_bytes", BYTES, reading.used_bytes),
            ("linger_store_free_bytes", FREE, reading.free_bytes),
        ];
        for (name, help, bytes) in space {
            if let Some(bytes) = bytes {
                gauge(bytes).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
            }
        }
        Ok(())
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
