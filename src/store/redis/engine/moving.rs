//! The engine as a [`Movable`] store.

use async_trait::async_trait;

use super::Redis;
use crate::store::{Movable, MoveMark, Result, TopicRecord};

#[async_trait]
impl Movable for Redis {
    fn store_id(&self) -> String {
        self.move_writer.store_id()
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        self.move_writer.mark().await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: Option<&MoveMark>) -> Result<bool> {
        self.move_writer.set_mark(was, mark).await
    }

    async fn set_fence(&self, closed: bool) -> Result<()> {
        self.move_writer.set_fence(closed).await
    }

    async fn replace_topic(&self, topic: TopicRecord) -> Result<()> {
        self.settings_writer.replace_topic(topic).await
    }
}
