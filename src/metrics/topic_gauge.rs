//! A gauge by topic that is read when it is scraped, and replaced as a whole.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::labels::TopicLabel;

/// Values by the label of their topic.
pub(super) type TopicValues = BTreeMap<Arc<str>, u64>;

/// The last values, by the label of their topic. Topics without a value are absent.
#[derive(Debug, Clone)]
pub(super) struct TopicGauge {
    name: &'static str,
    help: &'static str,
    values: Arc<Mutex<Arc<TopicValues>>>,
}

impl TopicGauge {
    pub fn register(registry: &mut Registry, name: &'static str, help: &'static str) -> Self {
        let gauge = Self { name, help, values: Arc::default() };
        registry.register_collector(Box::new(gauge.clone()));
        gauge
    }

    pub fn set(&self, values: TopicValues) {
        *self.lock() = Arc::new(values);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<TopicValues>> {
        self.values.lock().expect("no code panics while it holds the values")
    }
}

impl Collector for TopicGauge {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let values = self.lock().clone();
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (topic, value) in &*values {
            let label = TopicLabel { topic: topic.clone() };
            let value = i64::try_from(*value).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}
