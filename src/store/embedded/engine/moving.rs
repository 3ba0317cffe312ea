//! The engine as a [`Movable`] store.

use async_trait::async_trait;

use super::EmbeddedStore;
use crate::job::{JobId, TopicFilter};
use crate::store::{
    Error, JobRecord, Movable, MoveMark, Put, RecordReader, Result, Store, TopicRecord,
    embedded::{ops, rows::meta::StoreId},
};

#[async_trait]
impl Movable for EmbeddedStore {
    fn store_id(&self) -> String {
        StoreId(self.host_seed).to_text()
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        let mark = self.run(|txn| txn.db.move_mark()).await?;
        mark.transpose().map_err(|damaged| Error::Damaged(damaged.to_string()))
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: Option<&MoveMark>) -> Result<bool> {
        let (was, mark) = (was.cloned(), mark.cloned());
        self.run(move |txn| {
            let stored = txn.db.move_mark()?;
            let is_new = stored == mark.clone().map(Ok);
            if !is_new && stored != was.clone().map(Ok) {
                return Ok(false);
            }
            txn.db.put_move_mark(mark.as_ref())?;
            Ok(true)
        })
        .await
    }

    /// Whoever has the store open is the only one who can change it.
    async fn set_fence(&self, _closed: bool) -> Result<()> {
        Ok(())
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        Store::records(self).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        Store::put(self, jobs).await
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<()> {
        Store::delete(self, &TopicFilter::ALL, ids).await.map(drop)
    }

    async fn replace_topic(&self, topic: TopicRecord) -> Result<()> {
        self.run_weighted(1, 0, move |txn| ops::replace_topic(txn, &topic)).await
    }
}
