//! Records of what was done, which the processes of a store keep together.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    job::Timestamp,
    store::{
        Archive, ArchiveContent, ArchiveKind, ArchivedRecord, Result, TOO_OLD_AT_ONCE,
        redis::{connection::call::ScriptCall, coordination::shards::Shards, reply::Reply, scripts::Script},
    },
};

/// Reads and writes the archive.
pub struct SharedArchive {
    shards: Arc<Shards>,
}

impl SharedArchive {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }

    fn call(&self, script: Script, kind: ArchiveKind) -> ScriptCall {
        let keys = &self.shards.keys;
        let [records, numbers] = keys.archive(kind);
        ScriptCall::new(script, keys.slot, vec![records.clone(), numbers.clone()], Vec::with_capacity(7))
    }
}

#[async_trait]
impl Archive for SharedArchive {
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()> {
        let call = self.call(Script::PutArchived, kind).arg(self.shards.now_arg()).arg(id);
        let kept_ms = whole(kind.kept_for().as_secs() * 1_000);
        let call = call.bytes_arg(content.as_bytes().to_vec()).arg(whole(kind.most())).arg(kept_ms);
        let call = call.arg(whole(TOO_OLD_AT_ONCE));
        let call = call.deadline().wait_with_mark(self.shards.keys.mark.clone());
        self.shards.call_acknowledged(call).await.map(drop)
    }

    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>> {
        let call = self.call(Script::ListArchived, kind).arg(id);
        Ok(read(Reply::new(self.shards.call(call).await?)?)?.pop())
    }

    async fn page(
        &self,
        kind: ArchiveKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchivedRecord>> {
        let before = before.map_or_else(|| "+inf".to_owned(), |before| format!("({before}"));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let call = self.call(Script::ListArchived, kind).arg("").arg(before).arg(limit);
        read(Reply::new(self.shards.call(call).await?)?)
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read(mut reply: Reply) -> Result<Vec<ArchivedRecord>> {
    let mut records = Vec::new();
    while !reply.is_empty() {
        let number = u64::try_from(reply.int()?).unwrap_or(0);
        let (id, at) = (reply.text()?, Timestamp::from_millis(reply.int()?));
        records.push(ArchivedRecord { number, id, at, content: reply.bytes()? });
    }
    Ok(records)
}
