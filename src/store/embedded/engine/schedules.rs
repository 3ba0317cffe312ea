//! The schedules of the store.

use std::time::Duration;

use async_trait::async_trait;

use super::EmbeddedStore;
use crate::{
    job::ScheduleName,
    store::{Result, ScheduleChange, ScheduleOutcome, SchedulePage, ScheduleStore, embedded::ops},
};

#[async_trait]
impl ScheduleStore for EmbeddedStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        let name = name.clone();
        self.run(move |txn| ops::schedule(txn, &name)).await
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        let after = after.cloned();
        self.run(move |txn| ops::schedules(txn, after.as_ref(), limit)).await
    }

    async fn schedule_count(&self) -> Result<usize> {
        self.run(|txn| txn.db.schedule_count()).await
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        self.run(move |txn| ops::due_schedules(txn, within, limit)).await
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        let body =
            |change: &ScheduleChange| change.run.as_ref().map_or(0, |run| run.job.body.as_bytes().len());
        let bytes = changes.iter().map(body).sum();
        self.run_weighted(changes.len(), bytes, move |txn| ops::change_schedules(txn, &changes)).await
    }
}
