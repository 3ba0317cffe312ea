//! Which store is behind this process. The servers of a store can change, and with them its durability.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::info::Info,
    registry::Registry,
};

/// Names and values of the labels.
type InfoLabels = Vec<(String, String)>;

/// The current labels. The metric is absent until they are set.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreInfo(Arc<Mutex<InfoLabels>>);

impl StoreInfo {
    pub fn register(registry: &mut Registry) -> Self {
        let info = Self::default();
        registry.register_collector(Box::new(info.clone()));
        info
    }

    pub fn set(&self, labels: InfoLabels) {
        *self.lock() = labels;
    }

    fn lock(&self) -> MutexGuard<'_, InfoLabels> {
        self.0.lock().expect("no code panics while it holds the labels")
    }
}

impl Collector for StoreInfo {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let labels = self.lock().clone();
        if labels.is_empty() {
            return Ok(());
        }
        let info = Info::new(labels);
        let help = "The store behind this process.";
        info.encode(encoder.encode_descriptor("linger_store", help, None, info.metric_type())?)
    }
}
