//! The schedules of the store.

use std::time::Duration;

use async_trait::async_trait;

use super::Redis;
use crate::{
    job::{JobId, ScheduleName},
    store::{Result, ScheduleChange, ScheduleOutcome, SchedulePage, ScheduleStore, redis::ops::schedules},
};

#[async_trait]
impl ScheduleStore for Redis {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        schedules::get(&self.shards, name).await
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        schedules::list(&self.shards, after, limit).await
    }

    async fn schedule_count(&self) -> Result<usize> {
        schedules::count(&self.shards).await
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        schedules::due(&self.shards, within, limit).await
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        schedules::change(&self.shards, &self.notifier, changes).await
    }

    fn run_id(&self, name: &ScheduleName, stem: &str) -> JobId {
        schedules::run_id(&self.shards, name, stem)
    }
}
