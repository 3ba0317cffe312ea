//! Bulk operations in the notices by which other processes know them: as JSON, of which a process ignores the fields that a
//! later version added. An operation with a value that it does not know is unknown to it.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{
    operation::{OperationState, OperationView, Progress},
    request::{BulkAction, BulkRequest},
};
use crate::{
    job::{
        Actor, Body, Callback, Delay, Due, History, Job, JobId, OperationId, Reason, RetrySchedule, State,
        Timestamp, Topic, Ttr,
    },
    store::{JobFilter, ListedJob, Notice, NoticeContent},
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
}

#[derive(Serialize, Deserialize)]
struct StoredRequest {
    action: StoredAction,
    filter: StoredFilter,
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
}

#[derive(Serialize, Deserialize)]
struct StoredProgress {
    state: String,
    matched: u64,
    changed: u64,
    skipped: u64,
    #[serde(default)]
    examples: Vec<StoredJob>,
    ended_ms: Option<i64>,
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredJob {
    id: String,
    topic: String,
    state: String,
    created_ms: i64,
    due_ms: i64,
    ttr_ms: u64,
    attempts: u32,
    max_attempts: u32,
    retry_ms: Vec<u64>,
    require_receipt: bool,
    reserved_ms: Option<i64>,
    reserved_by: Option<String>,
    reserved_until_ms: Option<i64>,
    dead_ms: Option<i64>,
    reason: Option<String>,
    /// As [`Callback::encode`] writes it, in base64.
    callback: Option<String>,
    body_bytes: u64,
}

impl StoredRequest {
    fn new(request: &BulkRequest) -> Self {
        let BulkRequest { id: _, action, filter, spread, limit, by } = request;
        let action = match action {
            BulkAction::Delete => StoredAction::Delete,
            BulkAction::Reschedule(Due::At(at)) => StoredAction::RescheduleAtMs(at.as_millis()),
            BulkAction::Reschedule(Due::After(delay)) => StoredAction::RescheduleAfterMs(millis_of(*delay)),
            BulkAction::Shift(shift_ms) => StoredAction::ShiftMs(*shift_ms),
            BulkAction::Requeue(Due::At(at)) => StoredAction::RequeueAtMs(at.as_millis()),
            BulkAction::Requeue(Due::After(delay)) => StoredAction::RequeueAfterMs(millis_of(*delay)),
        };
        Self {
            action,
            filter: StoredFilter::new(filter),
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
        };
        Some(BulkRequest {
            id: None,
            action,
            filter: self.filter.read()?,
            spread: self.spread_ms.map(Duration::from_millis),
            limit: self.limit,
            by: self.by.into(),
        })
    }
}

impl StoredFilter {
    fn new(filter: &JobFilter) -> Self {
        let JobFilter { state, topic, from, to, id_prefix, reason_prefix } = filter;
        Self {
            state: state.as_str().to_owned(),
            topic: topic.as_ref().map(Topic::to_string),
            from_ms: from.map(Timestamp::as_millis),
            to_ms: to.map(Timestamp::as_millis),
            id_prefix: id_prefix.as_deref().map(str::to_owned),
            reason_prefix: reason_prefix.as_deref().map(str::to_owned),
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
            examples: examples.iter().map(StoredJob::new).collect(),
            ended_ms: ended_at.map(Timestamp::as_millis),
            error: error.clone(),
        }
    }

    fn read(self) -> Option<Progress> {
        let examples: Vec<ListedJob> = self.examples.into_iter().filter_map(StoredJob::read).collect();
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
    fn new(listed: &ListedJob) -> Self {
        let job = &listed.job;
        Self {
            id: job.id.to_string(),
            topic: job.topic.to_string(),
            state: job.state.as_str().to_owned(),
            created_ms: job.created_at.as_millis(),
            due_ms: job.due_at.as_millis(),
            ttr_ms: millis(job.ttr.as_duration()),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            retry_ms: job.retry.steps().iter().copied().map(millis).collect(),
            require_receipt: job.require_receipt,
            reserved_ms: job.reserved_at.map(Timestamp::as_millis),
            reserved_by: job.reserved_by.as_ref().map(Actor::to_string),
            reserved_until_ms: job.reserved_until.map(Timestamp::as_millis),
            dead_ms: job.dead_at.map(Timestamp::as_millis),
            reason: job.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            callback: job.callback.as_ref().map(|callback| BASE64_STANDARD.encode(callback.encode())),
            body_bytes: listed.body_bytes,
        }
    }

    fn read(self) -> Option<ListedJob> {
        let callback = match self.callback {
            Some(text) => Some(Arc::new(Callback::decode(&BASE64_STANDARD.decode(text).ok()?)?)),
            None => None,
        };
        let job = Job {
            id: JobId::parse(&self.id).ok()?,
            topic: Topic::parse(&self.topic).ok()?,
            state: read_state(&self.state)?,
            created_at: Timestamp::from_millis(self.created_ms),
            due_at: Timestamp::from_millis(self.due_ms),
            ttr: Ttr::new(Duration::from_millis(self.ttr_ms)).ok()?,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            retry: RetrySchedule::new(self.retry_ms.into_iter().map(Duration::from_millis).collect()).ok()?,
            require_receipt: self.require_receipt,
            reserved_at: self.reserved_ms.map(Timestamp::from_millis),
            reserved_by: self.reserved_by.as_deref().and_then(|name| Actor::parse(name).ok()),
            reserved_until: self.reserved_until_ms.map(Timestamp::from_millis),
            dead_at: self.dead_ms.map(Timestamp::from_millis),
            reason: self.reason.as_deref().and_then(Reason::new),
            history: History::default(),
            callback,
            // Lists do not show it.
            trace: None,
            body: Body::from_stored(bytes::Bytes::new()),
        };
        Some(ListedJob { job, body_bytes: self.body_bytes })
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
