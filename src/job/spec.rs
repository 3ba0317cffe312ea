//! How a job is run. Requests to the store, jobs and both engines hold a [`JobSpec`]; only `json`, `http/wire` and the part
//! of `queue` that fills in defaults name its members.

use std::sync::Arc;

use super::{
    Attributes, Callback, DEFAULT_MAX_ATTEMPTS, DedupWindow, Expiry, RetrySchedule, Tag, TraceContext, Ttr,
};

/// How a job is run, with the defaults of its topic filled in: all that its client chose but id, topic, due time and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// How long a reservation lasts.
    pub ttr: Ttr,
    /// Reservations before it becomes a dead letter; 0 means no limit.
    pub max_attempts: u32,
    /// Waits between attempts; empty for none.
    pub retry: RetrySchedule,
    /// Whether a finish must carry the receipt.
    pub require_receipt: bool,
    /// Whether the receipt of a reservation that timed out still finishes it, until it is reserved again or changed.
    pub late_finish: bool,
    /// From when on it is not delivered any more.
    pub expiry: Option<Expiry>,
    /// The client's number of this version, at most [`MAX_REVISION`](Self::MAX_REVISION). A lower one does not replace it.
    pub revision: Option<u64>,
    /// For how long its id is remembered when it is finished or deleted; `None` remembers nothing.
    pub dedup: Option<DedupWindow>,
    /// Its own callback. Such a job is never delivered with those that have none.
    pub callback: Option<Arc<Callback>>,
    /// W3C trace context of the request that added it. A repeat does not change it.
    pub trace: Option<TraceContext>,
}

impl Default for JobSpec {
    /// How a job is run if neither its client nor its topic chose anything.
    fn default() -> Self {
        Self {
            ttr: Ttr::DEFAULT,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            retry: RetrySchedule::default(),
            require_receipt: false,
            late_finish: true,
            expiry: None,
            revision: None,
            dedup: None,
            callback: None,
            trace: None,
        }
    }
}

impl JobSpec {
    /// The attributes that this version knows completely: an engine may write them anew with a record.
    pub const WHOLE_TAGS: [Tag; 5] =
        [Tag::RETRY, Tag::EXPIRY, Tag::NO_LATE_FINISH, Tag::REVISION, Tag::DEDUP];
    /// Highest revision: the largest signed 64-bit integer.
    pub const MAX_REVISION: u64 = i64::MAX.unsigned_abs();

    /// Reads a spec from a record, whose head has the first three values; `None` when an attribute is malformed.
    #[must_use]
    pub fn decode(
        ttr: Ttr,
        max_attempts: u32,
        require_receipt: bool,
        attributes: &Attributes,
    ) -> Option<Self> {
        let callback = match attributes.get(Tag::CALLBACK) {
            Some(callback) => Some(Arc::new(Callback::decode(callback)?)),
            None => None,
        };
        let (retry, expiry, trace) = (attributes.retry()?, attributes.expiry()?, attributes.trace());
        let late_finish = attributes.get(Tag::NO_LATE_FINISH).is_none();
        let revision = match attributes.get(Tag::REVISION) {
            Some(bytes) => Some(u64::from_be_bytes(bytes.try_into().ok()?)),
            None => None,
        };
        let dedup = match attributes.get(Tag::DEDUP) {
            Some(window) => Some(DedupWindow::decode(window)?),
            None => None,
        };
        Some(Self {
            ttr,
            max_attempts,
            retry,
            require_receipt,
            late_finish,
            expiry,
            revision,
            dedup,
            callback,
            trace,
        })
    }

    /// Sets the attributes of a new job.
    pub fn encode(&self, attributes: &mut Attributes) {
        self.encode_whole(attributes);
        self.encode_extensible(attributes);
    }

    /// Sets the attributes of [`WHOLE_TAGS`](Self::WHOLE_TAGS).
    pub fn encode_whole(&self, attributes: &mut Attributes) {
        attributes.set_retry(&self.retry);
        attributes.set_expiry(self.expiry.as_ref());
        attributes.set(Tag::NO_LATE_FINISH, (!self.late_finish).then_some(&[]));
        let revision = self.revision.map(u64::to_be_bytes);
        attributes.set(Tag::REVISION, revision.as_ref().map(|bytes| &bytes[..]));
        attributes.set(Tag::DEDUP, self.dedup.map(DedupWindow::encode).as_ref().map(|bytes| &bytes[..]));
    }

    /// Sets the others. A later version may have stored parts of them that this one does not know, so they are not
    /// written over stored ones.
    pub fn encode_extensible(&self, attributes: &mut Attributes) {
        attributes.set(Tag::CALLBACK, self.callback.as_deref().map(Callback::encode).as_deref());
        attributes.set_trace(self.trace.as_ref());
    }

    /// Whether `attempts` reservations are all that the job may have.
    #[must_use]
    pub fn has_used_all_attempts(&self, attempts: u32) -> bool {
        self.max_attempts != 0 && attempts >= self.max_attempts
    }
}
