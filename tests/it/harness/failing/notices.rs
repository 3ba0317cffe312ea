//! The notices of the store that fails on demand.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use linger::store::{Error, Notice, NoticeContent, NoticeKind, Notices, Result};

use super::{FailingStore, HungCalls};

impl FailingStore {
    /// How many notices were written.
    pub fn written_notices(&self) -> usize {
        self.written_notices.load(Ordering::Relaxed)
    }

    /// Makes lists of notices hang from now on, after they were read.
    pub fn hang_notices(&self) -> Arc<HungCalls> {
        self.hung_notices.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Writes new notices from now on and loses the answer, or not any more.
    pub fn lose_new_notices(&self, loses: bool) {
        self.new_notices_lost.store(loses, Ordering::Relaxed);
    }

    fn inner_notices(&self) -> Result<&dyn Notices> {
        if self.notices_fail.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("as the test demanded".to_owned()));
        }
        Ok(self.inner.notices())
    }
}

#[async_trait]
impl Notices for FailingStore {
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()> {
        self.inner_notices()?.put(kind, id, content).await?;
        self.written_notices.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>> {
        let earlier = self.inner_notices()?.put_new(kind, id, content).await;
        if self.new_notices_lost.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("the answer is lost, as the test demanded".to_owned()));
        }
        earlier
    }

    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>> {
        self.inner_notices()?.get(kind, id).await
    }

    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>> {
        let notices = self.inner_notices()?.list(kind).await;
        let hung = self.hung_notices.lock().expect("not poisoned").clone();
        if let Some(hung) = hung {
            hung.wait().await;
        }
        notices
    }

    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()> {
        self.inner_notices()?.delete(kind, id).await
    }
}
