//! Keeps the notice of an operation up to date, by which other processes know how far it is and that its process lives, and
//! reads their requests to stop it.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    operation::{Operation, OperationView},
    stored,
};
use crate::{
    clock::Clock,
    job::Timestamp,
    messages::failure_log::FailureLog,
    store::{self, ArchiveKind, Notice, NoticeContent, NoticeKind, Store},
};

/// How often the notice is written and a request to stop is looked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the record in the archive is written while the operation runs, in microseconds.
const ARCHIVE_INTERVAL_US: i64 = 10_000_000;

/// Reports one operation.
pub(super) struct Reporter {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub operation: Arc<Operation>,
    /// This process.
    pub owner: Arc<str>,
    pub shutdown: CancellationToken,
    pub failures: Arc<FailureLog>,
    pub archive_failures: Arc<FailureLog>,
}

/// Lets callers that wait for the last report go on, also after a panic.
struct ReportedOnDrop<'a>(&'a Operation);

impl Drop for ReportedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set_reported();
    }
}

impl Reporter {
    /// Announces an operation that is about to begin, unless one has its id already: then that one is returned.
    pub async fn announce(&self) -> store::Result<Option<Notice>> {
        let (id, content) = (self.operation.id.as_str(), self.content(&self.operation.view()));
        self.store.notices().put_new(NoticeKind::Operation, id, content).await
    }

    /// Reports how far the operation is. Returns whether others can know it now. The operation goes on if they cannot.
    pub async fn report(&self) -> bool {
        let (id, content) = (self.operation.id.as_str(), self.content(&self.operation.view()));
        let written = self.store.notices().put(NoticeKind::Operation, id, content).await;
        self.log_result(written.as_ref().err());
        written.is_ok()
    }

    /// Reports until the operation has ended and others can know that, or this process ends.
    pub async fn run(self) {
        let operation = &*self.operation;
        let reported = ReportedOnDrop(operation);
        self.archive().await;
        let mut archived_us = self.clock.now_micros();
        loop {
            tokio::select! {
                () = operation.ended() => break,
                () = self.clock.sleep(INTERVAL) => {}
            }
            // Not interrupted by the end of the operation: a report that arrived late would hide the last one.
            self.report().await;
            self.read_stop_request().await;
            if self.clock.now_micros() - archived_us >= ARCHIVE_INTERVAL_US {
                self.archive().await;
                archived_us = self.clock.now_micros();
            }
        }
        while !self.report().await && !self.shutdown.is_cancelled() {
            operation.set_reported();
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = self.clock.sleep(INTERVAL) => {}
            }
        }
        while !self.archive().await && !self.shutdown.is_cancelled() {
            operation.set_reported();
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = self.clock.sleep(INTERVAL) => {}
            }
        }
        // If the delete fails, later requests displace this one.
        let deleted = self.store.notices().delete(NoticeKind::StopRequest, operation.id.as_str()).await;
        self.log_result(deleted.err().as_ref());
        drop(reported);
    }

    /// Writes how the operation stands into the archive, which has it also after a restart. A dry run changes nothing, and is
    /// not kept. Returns whether there is nothing left to write.
    async fn archive(&self) -> bool {
        if self.operation.request.is_dry_run() {
            return true;
        }
        let Some(content) = stored::archived(&self.owner, &self.operation.view()) else { return true };
        let written =
            self.store.archive().put(ArchiveKind::Operation, self.operation.id.as_str(), content).await;
        let now_us = self.clock.now_micros();
        match &written {
            Ok(()) => {
                let _ = self.archive_failures.succeeded(now_us);
            }
            Err(error) if self.archive_failures.failed(now_us) => {
                tracing::warn!(%error, "a bulk operation goes on without a record in the archive");
            }
            Err(_) => {}
        }
        written.is_ok()
    }

    async fn read_stop_request(&self) {
        let operation = &self.operation;
        let request = self.store.notices().get(NoticeKind::StopRequest, operation.id.as_str()).await;
        self.log_result(request.as_ref().err());
        let is_meant = |request: &Notice| request.content == stop_request(operation.started_at).as_bytes();
        if request.ok().flatten().is_some_and(|request| is_meant(&request)) {
            operation.stop();
        }
    }

    fn content(&self, view: &OperationView) -> NoticeContent {
        stored::write(&self.owner, view)
    }

    fn log_result(&self, error: Option<&store::Error>) {
        let now_us = self.clock.now_micros();
        match error {
            None => {
                if self.failures.succeeded(now_us).is_some() {
                    tracing::info!("other processes can follow bulk operations again");
                }
            }
            Some(error) => {
                if self.failures.failed(now_us) {
                    tracing::warn!(%error, "other processes cannot follow bulk operations, which go on");
                }
            }
        }
    }
}

/// The text of a request to stop the operation that began then: another one may later have the same id.
pub(super) fn stop_request(started_at: Timestamp) -> NoticeContent {
    NoticeContent::new(started_at.as_millis().to_string()).expect("is short")
}
