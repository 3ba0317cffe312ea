//! The engine as a [`Movable`] store.

use async_trait::async_trait;

use super::Redis;
use crate::job::{JobId, TopicFilter};
use crate::store::{
    ClockOffsets, JobRecord, Movable, MoveMark, Put, RecordReader, Result, ServerSet, Steps, Store,
};

#[async_trait]
impl Movable for Redis {
    fn store_id(&self) -> String {
        self.move_writer.store_id()
    }

    async fn clock_offsets(&self) -> Result<ClockOffsets> {
        self.move_writer.clock_offsets().await
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        self.move_writer.mark().await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
        self.move_writer.set_mark(was, mark).await
    }

    async fn set_fence(&self, number: u64, closed: bool) -> Result<bool> {
        self.move_writer.set_fence(number, closed).await
    }

    async fn servers(&self) -> Result<ServerSet> {
        self.move_writer.servers().await
    }

    async fn wait_for_replicas(&self) -> Result<()> {
        self.move_writer.wait_for_replicas().await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        Store::records(self).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        Store::put(self, jobs).await
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<()> {
        Steps::delete(self, &TopicFilter::ALL, ids).await.map(drop)
    }
}
