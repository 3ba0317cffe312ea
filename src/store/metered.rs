//! A decorator that measures another store: the duration of each operation by name and result. It also notifies the
//! health check of failures.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use tokio::sync::Notify;

use super::{
    AddJob, Added, Allowed, Applied, Archive, ArchiveContent, ArchiveKind, ArchivedRecord, Claim, Degraded,
    EngineInfo, Error, FinishJob, Finished, JobFilter, JobPage, JobRecord, LastBackup, ListPosition, Notice,
    NoticeContent, NoticeKind, Notices, Order, Outcome, Promoted, PurgeCursor, PurgeSlice, Put, RecordReader,
    Reservation, Result, ScheduleChange, ScheduleOutcome, SchedulePage, ScheduleStore, Span, Step, Store,
    StoreSpace, Timeline, TopicConfig, TopicStats, TopicStore, TopicValues, Updated, Verified, Wait,
};
use crate::{
    clock::Clock,
    job::{
        CallRate, HostNumber, Job, JobId, Origin, Outlet, RememberedId, ScheduleName, Timestamp, Topic,
        TopicFilter,
    },
    metrics::QueueMetrics,
};

/// Measures each operation of a store, and otherwise passes it on unchanged.
#[derive(Debug)]
pub struct Metered {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    failed: Arc<Notify>,
}

impl Metered {
    /// Measures `store` with `clock` into `metrics`, and notifies `failed` after each operation that reports the
    /// store as unavailable or damaged.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        failed: Arc<Notify>,
    ) -> Self {
        Self { store, clock, metrics, failed }
    }

    async fn timed<T>(&self, name: &'static str, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let start_us = self.clock.now_micros();
        let result = operation.await;
        let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
        self.metrics.operation(name, result.is_ok(), std::time::Duration::from_micros(took_us));
        let unsettled =
            |error: &Error| error.is_unavailable() || matches!(error, Error::Damaged(_) | Error::Stopped(_));
        if result.as_ref().is_err_and(unsettled) {
            self.failed.notify_one();
        }
        result
    }
}

#[async_trait]
impl Store for Metered {
    fn info(&self) -> EngineInfo {
        self.store.info()
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        self.timed("add", self.store.add(jobs)).await
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>> {
        self.timed("reserve", self.store.reserve(outlet, claims, wait)).await
    }

    fn may_have_ready(&self, outlet: &Outlet) -> bool {
        self.store.may_have_ready(outlet)
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        self.store.host_number(origin)
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        self.timed("ready_outlets", self.store.ready_outlets()).await
    }

    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        self.timed("allow", self.store.allow(topic, rate, want)).await
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        self.timed("give_back_calls", self.store.give_back_calls(topic, allowed, unused)).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        self.timed("finish", self.store.finish(scope, jobs)).await
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>> {
        let name = steps.first().map_or("apply", |step| step.action.name());
        self.timed(name, self.store.apply(steps)).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        self.timed("get", self.store.get(scope, id)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        self.timed("promote", self.store.promote(limit)).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.store.topic_config(topic)
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        self.timed("topics", self.store.topics(scope, after, limit)).await
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        self.timed("timeline", self.store.timeline(topic, span)).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        self.timed("topic", self.store.topic(topic)).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        self.timed("list", self.store.list(filter, order, after, limit)).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        self.timed("purge", self.store.purge(topic, cursor, limit)).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        self.timed("records", self.store.records()).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        self.timed("put", self.store.put(jobs)).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        self.timed("put_remembered", self.store.put_remembered(ids)).await
    }

    fn archive(&self) -> &dyn Archive {
        self
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    async fn verify(&self) -> Result<Verified> {
        self.timed("verify", self.store.verify()).await
    }

    async fn check(&self) -> Result<()> {
        self.timed("check", self.store.check()).await
    }

    fn degraded(&self) -> Vec<Degraded> {
        self.store.degraded()
    }

    async fn space(&self) -> Result<StoreSpace> {
        self.timed("space", self.store.space()).await
    }

    async fn last_backup(&self) -> Result<LastBackup> {
        self.store.last_backup().await
    }

    async fn close(&self) -> Result<()> {
        self.timed("close", self.store.close()).await
    }
}

#[async_trait]
impl TopicStore for Metered {
    fn now(&self) -> Timestamp {
        self.store.now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.timed("read_topic_config", self.store.topic_values(topic)).await
    }

    async fn known_topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.store.known_topic_values(topic).await
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        self.timed("update_topic", self.store.update_topic(topic, expected, values)).await
    }
}

#[async_trait]
impl Archive for Metered {
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()> {
        self.timed("put_archived", self.store.archive().put(kind, id, content)).await
    }

    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>> {
        self.timed("get_archived", self.store.archive().get(kind, id)).await
    }

    async fn page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchivedRecord>> {
        self.timed("list_archived", self.store.archive().page(kind, before, limit)).await
    }
}

#[async_trait]
impl Notices for Metered {
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()> {
        self.timed("put_notice", self.store.notices().put(kind, id, content)).await
    }

    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>> {
        self.timed("put_notice", self.store.notices().put_new(kind, id, content)).await
    }

    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>> {
        self.timed("get_notice", self.store.notices().get(kind, id)).await
    }

    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>> {
        self.timed("list_notices", self.store.notices().list(kind)).await
    }

    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()> {
        self.timed("delete_notice", self.store.notices().delete(kind, id)).await
    }
}

#[async_trait]
impl ScheduleStore for Metered {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        self.timed("schedule", self.store.schedule(name)).await
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        self.timed("schedules", self.store.schedules(after, limit)).await
    }

    async fn schedule_count(&self) -> Result<usize> {
        self.timed("schedule_count", self.store.schedule_count()).await
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        self.timed("due_schedules", self.store.due_schedules(within, limit)).await
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        self.timed("change_schedules", self.store.change_schedules(changes)).await
    }

    fn run_id(&self, name: &ScheduleName, stem: &str) -> JobId {
        self.store.run_id(name, stem)
    }
}
