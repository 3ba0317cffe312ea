//! The archive of the store that fails on demand. It does not fail with everything else.

use async_trait::async_trait;
use linger::store::{Archive, ArchiveContent, ArchiveKind, ArchivedRecord, Result};

use super::FailingStore;

#[async_trait]
impl Archive for FailingStore {
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()> {
        self.chosen_fault("put_archived").strike().await?;
        self.inner.archive().put(kind, id, content).await
    }

    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>> {
        self.chosen_fault("get_archived").strike().await?;
        self.inner.archive().get(kind, id).await
    }

    async fn page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchivedRecord>> {
        self.chosen_fault("list_archived").strike().await?;
        self.inner.archive().page(kind, before, limit).await
    }
}
