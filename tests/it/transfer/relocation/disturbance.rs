//! A store of a move, of which one call fails or waits.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use linger::{
    job::{JobId, RememberedId, ScheduleName, Timestamp, Topic},
    store::{
        ClockOffsets, Error, JobRecord, Movable, MoveMark, Put, RecordReader, Result, ScheduleChange,
        ScheduleOutcome, SchedulePage, ScheduleStore, ServerSet, TopicStore, TopicValues, Updated,
    },
};
use tokio::sync::Notify;

use super::Moving;

/// What happens to a call.
pub enum Disturbance {
    /// It fails and has no effect.
    FailsBefore,
    /// It fails after it took effect.
    FailsAfter,
    /// It waits until it is resumed.
    Halts { halted: Notify, resumed: Notify },
    /// The store has another server from then on, with the same content.
    ServerReplaced,
}

/// A store of which one call is disturbed.
pub struct Disturbed {
    inner: Arc<dyn Movable>,
    calls: AtomicUsize,
    /// The number of that call, from 1.
    at: usize,
    pub how: Disturbance,
}

impl Disturbed {
    pub fn new(inner: &Moving, at: usize, how: Disturbance) -> Self {
        Self { inner: inner.movable.clone(), calls: AtomicUsize::new(0), at, how }
    }

    /// Whether there were fewer calls.
    pub fn was_undisturbed(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < self.at
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 != self.at {
            return call.await;
        }
        match &self.how {
            Disturbance::FailsBefore => {}
            Disturbance::FailsAfter => drop(call.await?),
            Disturbance::ServerReplaced => return call.await,
            Disturbance::Halts { halted, resumed } => {
                halted.notify_one();
                resumed.notified().await;
                return call.await;
            }
        }
        Err(Error::Unavailable("as the test demanded".to_owned()))
    }
}

#[async_trait]
impl Movable for Disturbed {
    fn store_id(&self) -> String {
        self.inner.store_id()
    }

    async fn clock_offsets(&self) -> Result<ClockOffsets> {
        self.inner.clock_offsets().await
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        self.call(self.inner.move_mark()).await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
        self.call(self.inner.set_move_mark(was, mark)).await
    }

    async fn set_fence(&self, number: u64, closed: bool) -> Result<bool> {
        self.call(self.inner.set_fence(number, closed)).await
    }

    async fn servers(&self) -> Result<ServerSet> {
        let servers = self.call(self.inner.servers()).await?;
        let is_replaced = matches!(self.how, Disturbance::ServerReplaced) && !self.was_undisturbed();
        Ok(if is_replaced { ServerSet(BTreeMap::from([("another".to_owned(), 0)])) } else { servers })
    }

    async fn wait_for_replicas(&self) -> Result<()> {
        self.call(self.inner.wait_for_replicas()).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        self.call(self.inner.records()).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        self.call(self.inner.put(jobs)).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        self.call(self.inner.put_remembered(ids)).await
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<()> {
        self.call(self.inner.delete(ids)).await
    }
}

#[async_trait]
impl TopicStore for Disturbed {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.call(self.inner.topic_values(topic)).await
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        self.call(self.inner.update_topic(topic, expected, values)).await
    }
}

#[async_trait]
impl ScheduleStore for Disturbed {
    async fn schedule(&self, name: &ScheduleName) -> Result<SchedulePage> {
        self.call(self.inner.schedule(name)).await
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Result<SchedulePage> {
        self.call(self.inner.schedules(after, limit)).await
    }

    async fn schedule_count(&self) -> Result<usize> {
        self.call(self.inner.schedule_count()).await
    }

    async fn due_schedules(&self, within: Duration, limit: usize) -> Result<SchedulePage> {
        self.call(self.inner.due_schedules(within, limit)).await
    }

    async fn change_schedules(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleOutcome>> {
        self.call(self.inner.change_schedules(changes)).await
    }
}
