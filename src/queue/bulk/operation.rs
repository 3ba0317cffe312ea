//! A bulk operation as its callers see it: what it was asked, how far it is, and the request to stop it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

use super::request::BulkRequest;
use crate::{
    job::{OperationId, Timestamp},
    queue::error::{Error, Result},
    store::ListedJob,
};

/// A bulk operation of this process.
#[derive(Debug)]
pub(super) struct Operation {
    pub id: OperationId,
    pub request: BulkRequest,
    /// When it began.
    pub started_at: Timestamp,
    progress: Mutex<Progress>,
    stop: CancellationToken,
    ended: CancellationToken,
    /// Cancelled once other processes can know how it ended, or an attempt to tell them has failed.
    reported: CancellationToken,
}

/// A bulk operation of any process, as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    /// Its id.
    pub id: OperationId,
    /// What it was asked to do.
    pub request: BulkRequest,
    /// When it began.
    pub started_at: Timestamp,
    /// How far it is.
    pub progress: Progress,
}

impl OperationView {
    /// It, unless a request that has its id asks for something else.
    pub(super) fn if_repeated_by(self, request: &BulkRequest) -> Result<Self> {
        if request.is_repeat_of(&self.request) { Ok(self) } else { Err(Error::OperationExists) }
    }
}

/// How an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// It runs.
    Running,
    /// It has changed or counted all its jobs, or as many as its limit.
    Done,
    /// It was stopped, by a caller or by the shutdown of the server.
    Stopped,
    /// The store failed.
    Failed,
    /// Its process has not been heard of for some time: it was killed, or does not reach the store.
    Abandoned,
}

impl OperationState {
    pub(super) const ALL: [Self; 5] =
        [Self::Running, Self::Done, Self::Stopped, Self::Failed, Self::Abandoned];

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// How far an operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// How it stands.
    pub state: OperationState,
    /// Jobs that matched the filter so far.
    pub matched: u64,
    /// Jobs that were changed.
    pub changed: u64,
    /// Jobs that matched but changed before their turn. The operation left them alone.
    pub skipped: u64,
    /// The first jobs that a dry run found.
    pub examples: Arc<[ListedJob]>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Operation {
    /// `stop` is cancelled to stop it.
    pub fn new(mut request: BulkRequest, now: Timestamp, stop: CancellationToken) -> Self {
        let progress = Progress {
            state: OperationState::Running,
            matched: 0,
            changed: 0,
            skipped: 0,
            examples: [].into(),
            ended_at: None,
            error: None,
        };
        Self {
            id: request.id.take().unwrap_or_else(OperationId::generate),
            request,
            started_at: now,
            progress: Mutex::new(progress),
            stop,
            ended: CancellationToken::new(),
            reported: CancellationToken::new(),
        }
    }

    /// It as it is now.
    pub fn view(&self) -> OperationView {
        let Self { id, request, started_at, .. } = self;
        let progress = self.progress();
        OperationView { id: id.clone(), request: request.clone(), started_at: *started_at, progress }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.lock().clone()
    }

    /// Stops it before its next slice. What it has changed stays changed.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns once it has ended.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Returns once other processes can know how it ended, or an attempt to tell them has failed.
    pub async fn reported(&self) {
        self.reported.cancelled().await;
    }

    pub fn set_reported(&self) {
        self.reported.cancel();
    }

    pub fn is_running(&self) -> bool {
        self.lock().state == OperationState::Running
    }

    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    pub fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
    }

    pub fn end(&self, state: OperationState, error: Option<String>, now: Timestamp) {
        self.update(|progress| {
            progress.state = state;
            progress.ended_at = Some(now);
            progress.error = error;
        });
        self.ended.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no code panics while it changes the progress")
    }
}
