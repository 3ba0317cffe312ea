//! Bulk operations in the notices by which other processes know them, as JSON. A process ignores fields that a later
//! version added, and leaves out an example whose job has members that it does not know. An operation with a value that it
//! does not know is unknown to it. The archive has the same text of an operation, from its start on.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    operation::{OperationState, OperationView, Progress},
    request::{BulkAction, BulkRequest},
};
use crate::{
    job::{
        Actor, Body, Delay, Due, Expire, ExpiryChange, History, OnExpiry, OperationId, Reason, State,
        Timestamp, Topic, json::JobJson,
    },
    store::{ArchiveContent, ArchivedRecord, JobFilter, ListedJob, Notice, NoticeContent},
};

/// A running operation whose notice is older is taken for abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);

/// An operation of another process.
#[derive(Debug, Clone)]
pub(super) struct KnownOperation {
    /// The process that runs it.
    pub owner: String,
    pub view: OperationView,
}

impl KnownOperation {
    pub fn is_running(&self) -> bool {
        self.view.progress.state == OperationState::Running
    }

    /// Reads a notice. `None` when another version wrote something that this one cannot read.
    pub fn read(notice: &Notice) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(&notice.content).ok()?;
        let mut view = OperationView {
            id: OperationId::parse(&notice.id).ok()?,
            request: stored.request.read()?,
            started_at: Timestamp::from_millis(stored.started_ms),
            progress: stored.progress.read()?,
        };
        if view.progress.state == OperationState::Running && notice.age >= ABANDONED_AFTER {
            view.progress.state = OperationState::Abandoned;
        }
        Some(Self { owner: stored.owner, view })
    }
}

/// The operation in a record of the archive, whose process is not known to run it. `None` when another version wrote something that
/// this one cannot read.
pub(super) fn read_archived(record: &ArchivedRecord) -> Option<OperationView> {
    let notice = Notice { id: record.id.clone(), content: record.content.clone(), age: ABANDONED_AFTER };
    KnownOperation::read(&notice).map(|known| known.view)
}

/// The text of an operation's record in the archive. Only dry runs have jobs, which may make it too long.
pub(super) fn archived(owner: &str, view: &OperationView) -> Option<ArchiveContent> {
    ArchiveContent::new(write(owner, view).as_bytes().to_vec())
}

/// The text of an operation's notice. Of a dry run it has as many of the first jobs as there is room for.
pub(super) fn write(owner: &str, view: &OperationView) -> NoticeContent {
    let mut stored = Stored {
        owner: owner.to_owned(),
        started_ms: view.started_at.as_millis(),
        request: StoredRequest::new(&view.request),
        progress: StoredProgress::new(&view.progress),
    };
    loop {
        let text = serde_json::to_vec(&stored).expect("every value is a text, a number or a list of those");
        if let Some(content) = NoticeContent::new(text) {
            return content;
        }
        let examples = &mut stored.progress.examples;
        assert!(!examples.is_empty(), "without jobs an operation has a few KiB");
        examples.truncate(examples.len() / 2);
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    owner: String,
    started_ms: i64,
    request: StoredRequest,
    progress: StoredProgress,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredAction {
    Delete,
    RescheduleAtMs(i64),
    RescheduleAfterMs(u64),
    ShiftMs(i64),
    RequeueAtMs(i64),
    RequeueAfterMs(u64),
    RevokeAtMs(i64),
    RevokeAfterMs(u64),
}

/// A change of the expiry; what happens at the expiry stays if it is not named.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredExpiry {
    Clear,
    AfterMs(u64, Option<String>),
    AtMs(i64, Option<String>),
}

#[derive(Serialize, Deserialize)]
struct StoredRequest {
    action: StoredAction,
    filter: StoredFilter,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<StoredExpiry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    spread_ms: Option<u64>,
    limit: Option<u64>,
    by: String,
}

#[derive(Serialize, Deserialize)]
struct StoredFilter {
    state: String,
    topic: Option<String>,
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    id_prefix: Option<String>,
    reason_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved_by: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredProgress {
    state: String,
    matched: u64,
    changed: u64,
    skipped: u64,
    #[serde(default)]
    examples: Vec<Box<RawValue>>,
    ended_ms: Option<i64>,
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredJob {
    job: JobJson,
    body_bytes: u64,
}

impl StoredRequest {
    fn new(request: &BulkRequest) -> Self {
        let BulkRequest { id: _, action, filter, expiry, reason, spread, limit, by } = request;
        let action = match action {
            BulkAction::Delete => StoredAction::Delete,
            BulkAction::Reschedule(Due::At(at)) => StoredAction::RescheduleAtMs(at.as_millis()),
            BulkAction::Reschedule(Due::After(delay)) => StoredAction::RescheduleAfterMs(millis_of(*delay)),
            BulkAction::Shift(shift_ms) => StoredAction::ShiftMs(*shift_ms),
            BulkAction::Requeue(Due::At(at)) => StoredAction::RequeueAtMs(at.as_millis()),
            BulkAction::Requeue(Due::After(delay)) => StoredAction::RequeueAfterMs(millis_of(*delay)),
            BulkAction::Revoke(Due::At(at)) => StoredAction::RevokeAtMs(at.as_millis()),
            BulkAction::Revoke(Due::After(delay)) => StoredAction::RevokeAfterMs(millis_of(*delay)),
        };
        Self {
            action,
            filter: StoredFilter::new(filter),
            expiry: StoredExpiry::new(*expiry),
            reason: reason.as_ref().map(|reason| reason.as_str().to_owned()),
            spread_ms: spread.map(millis),
            limit: *limit,
            by: by.to_string(),
        }
    }

    fn read(self) -> Option<BulkRequest> {
        let delay = |ms| Delay::new(Duration::from_millis(ms)).ok();
        let action = match self.action {
            StoredAction::Delete => BulkAction::Delete,
            StoredAction::RescheduleAtMs(ms) => BulkAction::Reschedule(Due::At(Timestamp::from_millis(ms))),
            StoredAction::RescheduleAfterMs(ms) => BulkAction::Reschedule(Due::After(delay(ms)?)),
            StoredAction::ShiftMs(ms) => BulkAction::Shift(ms),
            StoredAction::RequeueAtMs(ms) => BulkAction::Requeue(Due::At(Timestamp::from_millis(ms))),
            StoredAction::RequeueAfterMs(ms) => BulkAction::Requeue(Due::After(delay(ms)?)),
            StoredAction::RevokeAtMs(ms) => BulkAction::Revoke(Due::At(Timestamp::from_millis(ms))),
            StoredAction::RevokeAfterMs(ms) => BulkAction::Revoke(Due::After(delay(ms)?)),
        };
        Some(BulkRequest {
            id: None,
            action,
            filter: self.filter.read()?,
            expiry: self.expiry.map_or(Some(ExpiryChange::Keep), StoredExpiry::read)?,
            reason: match self.reason {
                Some(reason) => Some(Reason::new(&reason)?),
                None => None,
            },
            spread: self.spread_ms.map(Duration::from_millis),
            limit: self.limit,
            by: self.by.into(),
        })
    }
}

impl StoredExpiry {
    fn new(change: ExpiryChange) -> Option<Self> {
        let name = |on_expiry: Option<OnExpiry>| on_expiry.map(|named| named.as_str().to_owned());
        match change {
            ExpiryChange::Keep => None,
            ExpiryChange::Clear => Some(Self::Clear),
            ExpiryChange::Set(Expire::After(delay), on_expiry) => {
                Some(Self::AfterMs(millis_of(delay), name(on_expiry)))
            }
            ExpiryChange::Set(Expire::At(moment), on_expiry) => {
                Some(Self::AtMs(moment.as_millis(), name(on_expiry)))
            }
        }
    }

    fn read(self) -> Option<ExpiryChange> {
        let (expire, name) = match self {
            Self::Clear => return Some(ExpiryChange::Clear),
            Self::AfterMs(ms, name) => (Expire::After(Delay::new(Duration::from_millis(ms)).ok()?), name),
            Self::AtMs(ms, name) => (Expire::At(Timestamp::from_millis(ms)), name),
        };
        let find = |name: String| OnExpiry::ALL.into_iter().find(|named| named.as_str() == name);
        let on_expiry = name.map_or(Some(None), |name| find(name).map(Some))?;
        Some(ExpiryChange::Set(expire, on_expiry))
    }
}

impl StoredFilter {
    fn new(filter: &JobFilter) -> Self {
        let JobFilter { state, topic, from, to, id_prefix, reason_prefix, reserved_by } = filter;
        Self {
            state: state.as_str().to_owned(),
            topic: topic.as_ref().map(Topic::to_string),
            from_ms: from.map(Timestamp::as_millis),
            to_ms: to.map(Timestamp::as_millis),
            id_prefix: id_prefix.as_deref().map(str::to_owned),
            reason_prefix: reason_prefix.as_deref().map(str::to_owned),
            reserved_by: reserved_by.as_ref().map(Actor::to_string),
        }
    }

    fn read(self) -> Option<JobFilter> {
        Some(JobFilter {
            state: read_state(&self.state)?,
            topic: self.topic.map(|topic| Topic::parse(&topic)).transpose().ok()?,
            from: self.from_ms.map(Timestamp::from_millis),
            to: self.to_ms.map(Timestamp::from_millis),
            id_prefix: self.id_prefix.map(Arc::from),
            reason_prefix: self.reason_prefix.map(Arc::from),
            reserved_by: self.reserved_by.map(|name| Actor::parse(&name)).transpose().ok()?,
        })
    }
}

impl StoredProgress {
    fn new(progress: &Progress) -> Self {
        let Progress { state, matched, changed, skipped, examples, ended_at, error } = progress;
        Self {
            state: state.as_str().to_owned(),
            matched: *matched,
            changed: *changed,
            skipped: *skipped,
            examples: examples.iter().map(StoredJob::write).collect(),
            ended_ms: ended_at.map(Timestamp::as_millis),
            error: error.clone(),
        }
    }

    fn read(self) -> Option<Progress> {
        let examples: Vec<ListedJob> = self.examples.iter().filter_map(|job| StoredJob::read(job)).collect();
        Some(Progress {
            state: OperationState::ALL.into_iter().find(|state| state.as_str() == self.state)?,
            matched: self.matched,
            changed: self.changed,
            skipped: self.skipped,
            examples: examples.into(),
            ended_at: self.ended_ms.map(Timestamp::from_millis),
            error: self.error,
        })
    }
}

impl StoredJob {
    fn write(listed: &ListedJob) -> Box<RawValue> {
        let mut job = listed.job.clone();
        // Lists do not show these, and a notice has little room.
        (job.history, job.spec.trace) = (History::default(), None);
        let stored = Self { job: JobJson::new(&job), body_bytes: listed.body_bytes };
        serde_json::value::to_raw_value(&stored).expect("every value is a text, a number or a list of those")
    }

    /// `None` for a job with members that only a later version knows.
    fn read(stored: &RawValue) -> Option<ListedJob> {
        let Self { job, body_bytes } = serde_json::from_str(stored.get()).ok()?;
        Some(ListedJob { job: job.into_job(Body::from_stored(bytes::Bytes::new())).ok()?, body_bytes })
    }
}

fn read_state(text: &str) -> Option<State> {
    State::ALL.into_iter().find(|state| state.as_str() == text)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn millis_of(delay: Delay) -> u64 {
    millis(delay.as_duration())
}
