//! When the certificate of the server expires.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

/// Stands for no certificate, or one whose end cannot be read.
const UNKNOWN: i64 = i64::MAX;

/// Seconds since the Unix epoch. The metric is absent while they are unknown.
#[derive(Debug, Clone)]
pub(super) struct CertificateEnd(Arc<AtomicI64>);

impl CertificateEnd {
    pub fn register(registry: &mut Registry) -> Self {
        let end = Self(Arc::new(AtomicI64::new(UNKNOWN)));
        registry.register_collector(Box::new(end.clone()));
        end
    }

    pub fn set(&self, seconds: Option<i64>) {
        self.0.store(seconds.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }
}

impl Collector for CertificateEnd {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let seconds = self.0.load(Ordering::Relaxed);
        if seconds == UNKNOWN {
            return Ok(());
        }
        let (name, help) =
            ("linger_certificate_not_after_seconds", "When the certificate expires, since the Unix epoch.");
        ConstGauge::new(seconds).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}
