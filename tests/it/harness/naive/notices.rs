//! The notices of the model.

use async_trait::async_trait;
use bytes::Bytes;
use linger::store::{Notice, NoticeContent, NoticeKind, Notices, Result};

use super::Naive;

#[async_trait]
impl Notices for Naive {
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()> {
        let written = (self.clock.now(), Bytes::copy_from_slice(content.as_bytes()));
        let notices = &mut self.content().notices;
        notices.insert((kind, id.to_owned()), written);
        let mut of_kind: Vec<_> = notices.iter().filter(|((other, _), _)| *other == kind).collect();
        // The one that was just written is the last one.
        of_kind.sort_by_key(|((_, other), (at, _))| (other == id, *at));
        if of_kind.len() > 64 {
            let first = of_kind[0].0.clone();
            notices.remove(&first);
        }
        Ok(())
    }

    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>> {
        match self.get(kind, id).await? {
            Some(known) if known.content != content.as_bytes() => Ok(Some(known)),
            Some(_) | None => self.put(kind, id, content).await.map(|()| None),
        }
    }

    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>> {
        Ok(self.list(kind).await?.into_iter().find(|notice| notice.id == id))
    }

    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>> {
        let (now, content) = (self.clock.now(), self.content());
        let of_kind = content.notices.iter().filter(|((other, _), _)| *other == kind);
        let notice = |((_, id), (at, text)): (&(NoticeKind, String), &(_, Bytes))| Notice {
            id: id.clone(),
            content: text.clone(),
            age: now.since(*at),
        };
        Ok(of_kind.map(notice).collect())
    }

    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()> {
        self.content().notices.remove(&(kind, id.to_owned()));
        Ok(())
    }
}
