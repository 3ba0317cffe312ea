//! The engine as a [`Movable`] store.

use async_trait::async_trait;

use super::Redis;
use crate::job::{JobId, RememberedId};
use crate::store::{
    ClockOffsets, JobRecord, Movable, MoveMark, Put, RecordReader, Result, ServerSet, Steps, Store,
    redis::ops::moving,
};

#[async_trait]
impl Movable for Redis {
    fn store_id(&self) -> String {
        moving::store_id(&self.shards)
    }

    async fn clock_offsets(&self) -> Result<ClockOffsets> {
        moving::clock_offsets(&self.shards).await
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        moving::mark(&self.shards).await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
        moving::set_mark(&self.shards, was, mark).await
    }

    async fn set_fence(&self, number: u64, closed: bool) -> Result<bool> {
        moving::set_fence(&self.shards, number, closed).await
    }

    async fn servers(&self) -> Result<ServerSet> {
        moving::servers(&self.shards).await
    }

    async fn wait_for_replicas(&self) -> Result<()> {
        moving::wait_for_replicas(&self.shards).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        Store::records(self).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        Store::put(self, jobs).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        Store::put_remembered(self, ids).await
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<()> {
        Steps::discard(self, ids).await
    }
}
