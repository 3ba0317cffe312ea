//! The archive of the model.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use linger::store::{Archive, ArchiveContent, ArchiveKind, ArchivedRecord, Result};

use super::Naive;

#[async_trait]
impl Archive for Naive {
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()> {
        let (now, text) = (self.clock.wall_now(), Bytes::copy_from_slice(content.as_bytes()));
        let archive = &mut self.content().archive;
        if let Some((_, known)) = archive.iter_mut().find(|(of, known)| *of == kind && known.id == id) {
            known.content = text;
            return Ok(());
        }
        let last = archive.iter().filter(|(of, _)| *of == kind).map(|(_, known)| known.number).max();
        let number = last.unwrap_or(0) + 1;
        archive.push((kind, ArchivedRecord { number, id: id.to_owned(), at: now, content: text }));
        let ninety_days = Duration::from_secs(90 * 86_400);
        let most = if kind == ArchiveKind::Call { 10_000 } else { 200 };
        archive.retain(|(of, known)| {
            *of != kind || (known.number + most > number && now.since(known.at) <= ninety_days)
        });
        Ok(())
    }

    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>> {
        let content = self.content();
        let found = content.archive.iter().find(|(of, known)| *of == kind && known.id == id);
        Ok(found.map(|(_, known)| known.clone()))
    }

    async fn page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchivedRecord>> {
        let content = self.content();
        let of_kind = content.archive.iter().rev().filter(|(of, _)| *of == kind).map(|(_, known)| known);
        let older = of_kind.filter(|known| before.is_none_or(|before| known.number < before));
        Ok(older.take(limit).cloned().collect())
    }
}
