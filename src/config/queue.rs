//! The limits of the queue: section `[queue]`.

use std::time::Duration;

use super::{
    CallbackSettings,
    reader::{self, GIB, HOUR, Reader, SECOND},
    values,
};
use crate::job::{Body, Delay};

/// Limits of the queue. A call past one of them is refused with an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a job, in bytes.
    pub max_body: usize,
    /// Most items of a batch add, finish or delete.
    pub max_batch: usize,
    /// Most jobs delivered by one batch pop.
    pub max_batch_pop: usize,
    /// Most bytes of bodies delivered by one pop, unless a single job has more.
    pub max_delivery: usize,
    /// Longest delay of an add, a patch, a release or a requeue, and longest step of a retry list.
    pub max_delay: Delay,
    /// Longest wait of a poll; a longer one is shortened to this.
    pub max_wait: Duration,
    /// Most polls waiting at once.
    pub max_waiting: usize,
    /// How long the store keeps dead letters; `None` keeps them forever.
    pub dead_retention: Option<Duration>,
    /// Most callers that read lists, reasons, timelines or sorted topics at the same time. Not a setting; only tests change it.
    pub max_looks: usize,
    /// Which callbacks are accepted, and what they add to a job.
    pub callbacks: CallbackSettings,
}

impl Default for Limits {
    fn default() -> Self {
        let callbacks = CallbackSettings::default();
        reader::read_defaults(|reader| Self::read(reader, callbacks))
    }
}

impl Limits {
    pub(super) fn read(reader: &mut Reader<'_>, callbacks: CallbackSettings) -> Self {
        Self {
            max_body: reader.size("queue.max_body", 1, Body::LARGEST_LIMIT),
            max_batch: reader.count("queue.max_batch", 1, 100_000),
            max_batch_pop: reader.count("queue.max_batch_pop", 1, 10_000),
            max_delivery: reader.size("queue.max_delivery", 1, GIB),
            max_delay: Delay::new(reader.duration("queue.max_delay", SECOND, Delay::MAX))
                .expect("the range of the key is that of delays"),
            max_wait: reader.duration("queue.max_wait", Duration::ZERO, HOUR),
            max_waiting: reader.count("queue.max_waiting", 0, 10_000_000),
            dead_retention: None,
            max_looks: 4,
            callbacks,
        }
    }
}

/// Maximum number of remembered ids.
pub(super) fn dedup_max(reader: &mut Reader<'_>) -> u64 {
    reader.count("queue.dedup_max", 1, 100_000_000)
}

/// How long dead letters are kept; `None` keeps them forever.
pub(super) fn dead_retention(reader: &mut Reader<'_>) -> Option<Duration> {
    reader.get("queue.dead_retention", |kind| match values::optional_text(kind) {
        Ok(None) => Ok(None),
        Ok(Some(text)) if text == "forever" => Ok(None),
        _ => values::duration(kind, SECOND, 36_500 * 24 * HOUR)
            .map(Some)
            .map_err(|problem| format!("{problem}, or \"forever\"")),
    })
}
