//! The operations of the store that fails on demand.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use linger::{
    job::{
        CallRate, HostNumber, Job, JobId, Origin, Outlet, RememberedId, ScheduleName, Timestamp, Topic,
        TopicFilter,
    },
    store::{
        AddJob, Added, Allowed, Applied, Archive, Claim, EngineInfo, FinishJob, Finished, JobFilter, JobPage,
        JobRecord, LastBackup, ListPosition, Notices, Order, Outcome, Promoted, PurgeCursor, PurgeSlice, Put,
        RecordReader, Reservation, Result, ScheduleChange, ScheduleOutcome, SchedulePage, ScheduleStore,
        Span, Step, StepAction, Store, StoreSpace, Timeline, TopicConfig, TopicStats, TopicStore,
        TopicUpdates, TopicValues, Updated, Verified, Wait,
    },
};

use super::FailingStore;

#[async_trait]
impl Store for FailingStore {
    fn info(&self) -> EngineInfo {
        self.inner.info()
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        self.call("add", self.inner.add(jobs)).await
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>> {
        self.wait_if_hung(&outlet.topic).await;
        if wait == Wait::Yes {
            self.waiting_reserves.fetch_add(1, Ordering::Relaxed);
            if self.ignores_waiting.load(Ordering::Relaxed) {
                return Ok(Vec::new());
            }
        }
        let reserved = self.call("reserve", self.inner.reserve(outlet, claims, wait)).await?;
        self.lock_granted().extend(reserved.iter().map(|reservation| reservation.receipt.to_string()));
        Ok(reserved)
    }

    fn may_have_ready(&self, outlet: &Outlet) -> bool {
        let fails = self.failure.lock().expect("not poisoned").is_some();
        let hangs = self.hung_reserves.lock().expect("not poisoned").contains_key(&outlet.topic);
        fails || hangs || self.inner.may_have_ready(outlet)
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        self.inner.host_number(origin)
    }

    async fn space(&self) -> Result<StoreSpace> {
        self.call("space", self.inner.space()).await
    }

    async fn last_backup(&self) -> Result<LastBackup> {
        self.call("last_backup", self.inner.last_backup()).await
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        let hung = self.hung_timelines.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.call("timeline", self.inner.timeline(topic, span)).await
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        self.call("ready_outlets", self.inner.ready_outlets()).await
    }

    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        self.call("allow", self.inner.allow(topic, rate, want)).await
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        self.call("give_back_calls", self.inner.give_back_calls(topic, allowed, unused)).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        self.call("finish", self.inner.finish(scope, jobs)).await
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>> {
        for step in &steps {
            match &step.action {
                StepAction::Cancel(receipt) | StepAction::Postpone(receipt, _) => {
                    self.lock_granted().remove(&receipt.to_string());
                }
                StepAction::Change { .. } => {
                    let hung = self.hung_changes.lock().expect("not poisoned").clone();
                    if let Some(hung) = hung {
                        hung.wait().await;
                    }
                }
                _ => {}
            }
        }
        let name = steps.first().map_or("apply", |step| step.action.name());
        self.call(name, self.inner.apply(steps)).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let hung = self.hung_gets.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.call("get", self.inner.get(scope, id)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        self.call("promote", self.inner.promote(limit)).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.inner.topic_config(topic)
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        let hung = self.hung_topics.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.call("topics", self.inner.topics(scope, after, limit)).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        self.call("topic", self.inner.topic(topic)).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        let hung = self.hung_lists.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.call("list", self.inner.list(filter, order, after, limit)).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        self.call("purge", self.inner.purge(topic, cursor, limit)).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        self.call("records", self.inner.records()).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        self.call("put", self.inner.put(jobs)).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        self.call("put_remembered", self.inner.put_remembered(ids)).await
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    fn archive(&self) -> &dyn Archive {
        self
    }

    async fn verify(&self) -> Result<Verified> {
        self.call("verify", self.inner.verify()).await
    }

    async fn check(&self) -> Result<()> {
        let hung = self.hung_checks.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        self.call("check", self.inner.check()).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

#[async_trait]
impl TopicStore for FailingStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.call("read_topic_config", self.inner.topic_values(topic)).await
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        let first = self.put_before.lock().expect("not poisoned").take();
        if let Some(first) = first {
            self.inner.put_settings(topic, first).await?;
        }
        self.call("update_topic", self.inner.update_topic(topic, expected, values)).await
    }
}

#[async_trait]
impl ScheduleStore for FailingStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        self.call("schedule", self.inner.schedule(name)).await
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        self.call("schedules", self.inner.schedules(after, limit)).await
    }

    async fn schedule_count(&self) -> Result<usize> {
        self.call("schedule_count", self.inner.schedule_count()).await
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        self.call("due_schedules", self.inner.due_schedules(within, limit)).await
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        self.call("change_schedules", self.inner.change_schedules(changes)).await
    }

    fn run_id(&self, name: &ScheduleName, stem: &str) -> JobId {
        self.inner.run_id(name, stem)
    }
}
