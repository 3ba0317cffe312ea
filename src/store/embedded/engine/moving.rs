//! The engine as a [`Movable`] store.

use async_trait::async_trait;

use super::EmbeddedStore;
use crate::clock::SystemClock;
use crate::job::{JobId, RememberedId};
use crate::store::{
    ClockOffsets, Error, JobRecord, Movable, MoveMark, Put, RecordReader, Result, ServerSet, Steps, Store,
    embedded::rows::meta::StoreId,
};

#[async_trait]
impl Movable for EmbeddedStore {
    fn store_id(&self) -> String {
        StoreId(self.host_seed).to_text()
    }

    async fn clock_offsets(&self) -> Result<ClockOffsets> {
        let now = self.run(|txn| Ok(txn.now.rounded_down)).await?;
        Ok(ClockOffsets::of_moment(now, &SystemClock::new()))
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        let mark = self.run(|txn| txn.db.move_mark()).await?;
        mark.transpose().map_err(|damaged| Error::Damaged(damaged.to_string()))
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
        // A store that may be served has no mark, so that no damage to one can stop it.
        let was = was.filter(|was| was.forbids().is_some()).cloned();
        let mark = Some(mark).filter(|mark| mark.forbids().is_some()).cloned();
        self.run(move |txn| {
            let stored = txn.db.move_mark()?;
            if stored != was.clone().map(Ok) && stored != mark.clone().map(Ok) {
                return Ok(false);
            }
            txn.db.put_move_mark(mark.as_ref())?;
            Ok(true)
        })
        .await
    }

    /// Only one process can have the directory open, so no fence is needed.
    async fn set_fence(&self, _number: u64, _closed: bool) -> Result<bool> {
        Ok(true)
    }

    async fn servers(&self) -> Result<ServerSet> {
        Ok(ServerSet::default())
    }

    async fn wait_for_replicas(&self) -> Result<()> {
        Ok(())
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
