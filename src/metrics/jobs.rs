//! The jobs by topic and state: one reading of the whole store, replaced as a whole, so that a concurrent scrape shows
//! the previous reading or the new one, never a mixture.

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

/// The jobs of the store at one moment, by topic label.
#[derive(Debug, Default)]
pub struct JobsReading(BTreeMap<Arc<str>, TopicJobs>);

#[derive(Debug, Default)]
struct TopicJobs {
    states: BTreeMap<&'static str, u64>,
    overdue: Option<Duration>,
}

impl JobsReading {
    /// Adds the jobs of a topic. The counts of topics without a label of their own add up.
    pub fn add(&mut self, label: Option<Arc<str>>, states: impl IntoIterator<Item = (&'static str, u64)>) {
        let topic = self.0.entry(label.unwrap_or_else(shared_label)).or_default();
        for (state, jobs) in states {
            *topic.states.entry(state).or_default() += jobs;
        }
    }

    /// Records how long ago the oldest ready job of a topic was due. The longest counts for topics that share a label.
    pub fn overdue(&mut self, label: Option<Arc<str>>, overdue: Duration) {
        let topic = self.0.entry(label.unwrap_or_else(shared_label)).or_default();
        topic.overdue = topic.overdue.max(Some(overdue));
    }
}

/// The last reading, as the registry encodes it.
#[derive(Debug, Clone, Default)]
pub(super) struct JobsCollector(Arc<Mutex<Arc<JobsReading>>>);

impl JobsCollector {
    pub fn set(&self, reading: JobsReading) {
        *self.lock() = Arc::new(reading);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<JobsReading>> {
        self.0.lock().expect("no code panics while it holds the reading")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    topic: Arc<str>,
    state: &'static str,
}

impl Collector for JobsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let reading = self.lock().clone();
        let mut jobs = encoder.encode_descriptor("linger_jobs", JOBS, None, MetricType::Gauge)?;
        for (topic, TopicJobs { states, .. }) in &reading.0 {
            for (state, count) in states {
                let label = StateLabel { topic: topic.clone(), state };
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                ConstGauge::new(count).encode(jobs.encode_family(&label)?)?;
            }
        }
        let name = "linger_oldest_overdue_seconds";
        let mut ages = encoder.encode_descriptor(name, OVERDUE, None, MetricType::Gauge)?;
        for (topic, TopicJobs { overdue, .. }) in &reading.0 {
            if let Some(overdue) = overdue {
                let label = TopicLabel { topic: topic.clone() };
                ConstGauge::new(overdue.as_secs_f64()).encode(ages.encode_family(&label)?)?;
            }
        }
        Ok(())
    }
}
