//! Spans of operations on traced jobs, if they are sent anywhere.

use super::service::Queue;
use crate::{
    clock::Clock,
    job::{Job, JobId, Receipt, Topic},
    traces::Tracer,
};

/// When an operation began, if there is a tracer.
pub(super) struct SpanStart<'a>(Option<(&'a Tracer, &'a dyn Clock, i64)>);

impl Queue {
    /// Gives spans of traced jobs to `tracer` from now on. The first tracer stays.
    pub fn trace_to(&self, tracer: Tracer) {
        let _ = self.tracer.set(tracer);
    }

    /// The tracer, if there is one.
    #[must_use]
    pub fn tracer(&self) -> Option<&Tracer> {
        self.tracer.get()
    }

    pub(super) fn begin_span(&self) -> SpanStart<'_> {
        SpanStart(self.tracer.get().map(|tracer| (tracer, &*self.clock, self.clock.wall_micros())))
    }
}

impl SpanStart<'_> {
    /// A job was added.
    pub fn added(&self, job: &Job) {
        if let Some((tracer, clock, began_us)) = self.0 {
            tracer.added(job, began_us, clock.wall_micros());
        }
    }

    /// The holder of a job has finished, released or buried it, which is `how`.
    pub fn settled(&self, how: &'static str, id: &JobId, topic: &Topic, receipt: Option<&Receipt>) {
        if let (Some((tracer, clock, began_us)), Some(receipt)) = (self.0, receipt) {
            tracer.settled(how, id, topic, receipt, (began_us, clock.wall_micros()));
        }
    }
}
