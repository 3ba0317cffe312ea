//! The request to add a job, and the hash by which a repeat of it is recognised.

use std::sync::Arc;

use super::{
    Body, Callback, DEFAULT_MAX_ATTEMPTS, Due, Expire, JobId, OnExpiry, RetrySchedule, Topic, TopicSettings,
    TraceContext, Ttr,
};

/// A 128-bit hash of the request that added a job, by which a repeated add is recognised. It does not cover resolved
/// defaults or due times, so that a retry still matches after a change of the topic's settings. Rescheduling does not
/// change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// A request to add a job. Fields that the client left out are `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The client's id; the server generates one if it is left out.
    pub id: Option<JobId>,
    /// The topic from which workers pop it.
    pub topic: Topic,
    /// When it becomes due.
    pub due: Due,
    /// How long a reservation lasts.
    pub ttr: Option<Ttr>,
    /// Reservations before it becomes a dead letter; 0 means no limit.
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    pub retry: Option<RetrySchedule>,
    /// When it expires.
    pub expire: Option<Expire>,
    /// What happens when it expires.
    pub on_expiry: Option<OnExpiry>,
    /// Its [revision](super::JobSpec::revision).
    pub revision: Option<u64>,
    /// Whether it replaces a job with its id. Not part of the fingerprint.
    pub replaces: bool,
    /// Whom to call when it is due, in place of the callback of its topic or of workers.
    pub callback: Option<Arc<Callback>>,
    /// W3C trace context of the request.
    pub trace: Option<TraceContext>,
    /// The payload for the worker.
    pub body: Body,
}

impl NewJob {
    /// Hashes every field of the job except the id and the trace context, with XXH3-128 over length-prefixed fields. A repeat is
    /// sent in another span. The hash protects clients from their own mistakes, not from an attacker.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        let mut field = |tag: u8, bytes: &[u8]| {
            hash.update(&[tag]);
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(b't', self.topic.as_str().as_bytes());
        match self.due {
            Due::After(delay) => field(b'd', &delay.as_duration().as_millis().to_le_bytes()),
            Due::At(moment) => field(b'a', &moment.as_millis().to_le_bytes()),
        }
        if let Some(ttr) = self.ttr {
            field(b'r', &ttr.as_duration().as_millis().to_le_bytes());
        }
        if let Some(max) = self.max_attempts {
            field(b'm', &max.to_le_bytes());
        }
        if let Some(retry) = &self.retry {
            let steps: Vec<u8> =
                retry.steps().iter().flat_map(|step| step.as_millis().to_le_bytes()).collect();
            field(b's', &steps);
        }
        match self.expire {
            Some(Expire::After(delay)) => field(b'e', &delay.as_duration().as_millis().to_le_bytes()),
            Some(Expire::At(moment)) => field(b'x', &moment.as_millis().to_le_bytes()),
            None => {}
        }
        if let Some(on_expiry) = self.on_expiry {
            field(b'o', on_expiry.as_str().as_bytes());
        }
        if let Some(revision) = self.revision {
            field(b'v', &revision.to_le_bytes());
        }
        if let Some(callback) = &self.callback {
            field(b'c', &callback.encode());
        }
        field(b'b', self.body.as_bytes());
        Fingerprint(hash.digest128().to_le_bytes())
    }

    /// The limit on attempts: the job's own, else the length of its retry list plus 1, else the topic's in the same
    /// order, else [`DEFAULT_MAX_ATTEMPTS`]. An empty list of the job's own replaces the topic's list as any other does,
    /// and has no length that counts.
    #[must_use]
    pub fn resolved_max_attempts(&self, topic: &TopicSettings) -> u32 {
        let by_list = |list: &RetrySchedule| {
            (!list.is_empty()).then(|| u32::try_from(list.steps().len()).unwrap_or(u32::MAX - 1) + 1)
        };
        let topics_list = topic.retry.as_ref().filter(|_| self.retry.is_none());
        self.max_attempts
            .or_else(|| self.retry.as_ref().and_then(by_list))
            .or(topic.max_attempts)
            .or_else(|| topics_list.and_then(by_list))
            .unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }
}

#[cfg(test)]
mod tests;
