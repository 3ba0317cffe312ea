//! What the processes of a store leave for each other.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    job::Timestamp,
    store::{
        MAX_NOTICES, Notice, NoticeContent, NoticeKind, Notices, Result,
        redis::{connection::call::ScriptCall, coordination::shards::Shards, reply::Reply, scripts::Script},
    },
};

/// Reads and writes notices.
pub struct SharedNotices {
    shards: Arc<Shards>,
}

impl SharedNotices {
    pub fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }

    fn call(&self, script: Script) -> ScriptCall {
        let keys = &self.shards.keys;
        ScriptCall::new(script, keys.slot, vec![keys.notices.clone()], Vec::with_capacity(7))
    }

    async fn write(
        &self,
        kind: NoticeKind,
        id: &str,
        content: &NoticeContent,
        is_new: bool,
    ) -> Result<Option<Notice>> {
        let most = i64::try_from(MAX_NOTICES).expect("is small");
        let call = self.call(Script::PutNotice).arg(self.shards.now_arg()).arg(letter(kind)).arg(id);
        let call = call.bytes_arg(content.as_bytes().to_vec()).optional_arg(is_new.then_some("1"));
        let reply = self.shards.call(call.arg(most).deadline()).await?;
        Ok(read_notices(Reply::new(reply)?)?.pop())
    }

    async fn read(&self, kind: NoticeKind, id: &str) -> Result<Vec<Notice>> {
        let call = self.call(Script::ListNotices).arg(self.shards.now_arg()).arg(letter(kind)).arg(id);
        read_notices(Reply::new(self.shards.call(call).await?)?)
    }
}

#[async_trait]
impl Notices for SharedNotices {
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()> {
        self.write(kind, id, &content, false).await.map(drop)
    }

    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>> {
        self.write(kind, id, &content, true).await
    }

    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>> {
        Ok(self.read(kind, id).await?.pop())
    }

    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>> {
        self.read(kind, "").await
    }

    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()> {
        let call = self.call(Script::DeleteNotice).arg(letter(kind)).arg(id).deadline();
        self.shards.call(call).await.map(drop)
    }
}

/// What the fields of the notices of a kind begin with. Part of the layout.
fn letter(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Operation => "o",
        NoticeKind::StopRequest => "s",
        NoticeKind::Process => "p",
        NoticeKind::Activity => "a",
        // `scripts/get_settings.lua` reads it.
        NoticeKind::Watch => "w",
    }
}

/// Reads the present moment and the notices behind it; nothing from an empty reply.
fn read_notices(mut reply: Reply) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    if reply.is_empty() {
        return Ok(notices);
    }
    let now = Timestamp::from_millis(reply.int()?);
    while !reply.is_empty() {
        let (id, written_at) = (reply.text()?, Timestamp::from_millis(reply.int()?));
        notices.push(Notice { id, content: reply.bytes()?, age: now.since(written_at) });
    }
    Ok(notices)
}
