//! The notices of the store, which only one process has. Only in memory: a restart forgets them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    clock::Clock,
    job::Timestamp,
    store::{MAX_NOTICES, Notice, NoticeContent, NoticeKind, Notices, Result},
};

#[derive(Debug)]
pub(crate) struct NoticeBoard {
    clock: Arc<dyn Clock>,
    written: Mutex<BTreeMap<(NoticeKind, String), Written>>,
}

#[derive(Debug, Clone)]
struct Written {
    at: Timestamp,
    content: Bytes,
}

impl NoticeBoard {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, written: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(NoticeKind, String), Written>> {
        self.written.lock().expect("no code panics while it holds the notices")
    }

    fn write(
        &self,
        notices: &mut BTreeMap<(NoticeKind, String), Written>,
        kind: NoticeKind,
        id: &str,
        content: &NoticeContent,
    ) {
        let key = (kind, id.to_owned());
        let others = || notices.iter().filter(|((other, _), _)| *other == kind);
        if !notices.contains_key(&key) && others().count() >= MAX_NOTICES {
            let oldest = others().min_by_key(|(_, written)| written.at).map(|(key, _)| key.clone());
            oldest.map(|oldest| notices.remove(&oldest));
        }
        // A copy, because the text may be a part of something larger.
        let content = Bytes::copy_from_slice(content.as_bytes());
        notices.insert(key, Written { at: self.clock.now(), content });
    }

    fn notice(&self, id: &str, written: &Written) -> Notice {
        let age = self.clock.now().since(written.at);
        Notice { id: id.to_owned(), content: written.content.clone(), age }
    }
}

#[async_trait]
impl Notices for NoticeBoard {
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()> {
        self.write(&mut self.lock(), kind, id, &content);
        Ok(())
    }

    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>> {
        let mut notices = self.lock();
        let known = notices.get(&(kind, id.to_owned()));
        if let Some(known) = known.filter(|known| known.content != content.as_bytes()) {
            return Ok(Some(self.notice(id, known)));
        }
        self.write(&mut notices, kind, id, &content);
        Ok(None)
    }

    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>> {
        Ok(self.lock().get(&(kind, id.to_owned())).map(|written| self.notice(id, written)))
    }

    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>> {
        let notices = self.lock();
        let of_kind = notices.iter().filter(|((other, _), _)| *other == kind);
        Ok(of_kind.map(|((_, id), written)| self.notice(id, written)).collect())
    }

    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()> {
        self.lock().remove(&(kind, id.to_owned()));
        Ok(())
    }
}
