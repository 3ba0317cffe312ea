//! The archive of the store.

use async_trait::async_trait;

use super::EmbeddedStore;
use crate::store::{
    Archive, ArchiveContent, ArchiveKind, ArchivedRecord, Result,
    embedded::{disk::disk_space::SpaceNeed, rows::archive::ReadArchived},
};

#[async_trait]
impl Archive for EmbeddedStore {
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()> {
        let (id, bytes) = (id.to_owned(), content.as_bytes().len());
        self.run_weighted(1, bytes, move |txn| {
            let need = match txn.db.archived(kind, &id)? {
                Some(_) => SpaceNeed::Rewrite,
                None => SpaceNeed::Growth,
            };
            if let Err(full) = txn.check_space(need) {
                return Ok(Err(full));
            }
            let now = txn.wall_now().rounded_down;
            txn.db.put_archived(kind, &id, &content, now).map(Ok)
        })
        .await
    }

    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>> {
        let id = id.to_owned();
        let read = self.run(move |txn| txn.db.archived(kind, &id)).await?;
        Ok(read.and_then(ReadArchived::ok))
    }

    async fn page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchivedRecord>> {
        let read = self.run(move |txn| txn.db.archived_page(kind, before, limit)).await?;
        Ok(read.into_iter().filter_map(ReadArchived::ok).collect())
    }
}
