//! When the certificates of this process expire.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

/// Stands for no certificate, or one whose end cannot be read.
const UNKNOWN: i64 = i64::MAX;

/// A certificate of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    /// The one that the HTTPS server shows to its clients.
    Server,
    /// The one that it shows to Redis.
    RedisClient,
}

impl Certificate {
    const ALL: [Self; 2] = [Self::Server, Self::RedisClient];

    fn label(self) -> CertificateLabel {
        let certificate = match self {
            Self::Server => "server",
            Self::RedisClient => "redis_client",
        };
        CertificateLabel { certificate }
    }
}

#[derive(Debug, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

/// The ends of the certificates, in seconds since the Unix epoch. A certificate is absent while its end is unknown.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct CertificateMetrics(Arc<[AtomicI64; Certificate::ALL.len()]>);

impl CertificateMetrics {
    /// Registers the metric in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self(Arc::new(Certificate::ALL.map(|_| AtomicI64::new(UNKNOWN))));
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Sets when a certificate expires, in seconds since the Unix epoch, if that is known.
    pub fn set_end(&self, certificate: Certificate, not_after: Option<i64>) {
        self.0[certificate as usize].store(not_after.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }
}

impl Collector for CertificateMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let ends = Certificate::ALL
            .map(|certificate| (certificate.label(), self.0[certificate as usize].load(Ordering::Relaxed)));
        if ends.iter().all(|(_, end)| *end == UNKNOWN) {
            return Ok(());
        }
        let (name, help) =
            ("linger_certificate_not_after_seconds", "When the certificate expires, since the Unix epoch.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (label, end) in ends.iter().filter(|(_, end)| *end != UNKNOWN) {
            ConstGauge::new(*end).encode(family.encode_family(label)?)?;
        }
        Ok(())
    }
}
