//! The changes that callers make of what is set for topics. A change reads the values, computes new ones, and begins again if
//! others were stored meanwhile.

use super::{AddedSecret, Error, Put, Result, TopicConfig, TopicRecord, TopicStore, TopicValues, Updated};
use crate::job::{Pause, PausedOperations, SecretId, SigningSecret, Topic, TopicPause, TopicSettings};

/// How often a change is tried before it fails because others were faster each time.
const MAX_TRIES: usize = 1_000;

/// Changes of what is set for a topic.
pub trait TopicUpdates {
    /// Makes a change, and returns what it returned. If others change the topic meanwhile, it is made anew on what they have
    /// stored.
    fn update_config<T: Send>(
        &self,
        topic: &Topic,
        change: impl FnMut(&mut TopicConfig) -> T + Send,
    ) -> impl Future<Output = Result<T>> + Send;

    /// The configuration as it is stored now, with what other processes changed a moment ago.
    fn read_topic_config(&self, topic: &Topic) -> impl Future<Output = Result<TopicConfig>> + Send;

    /// Replaces a topic's settings; default settings forget them. Its pause and its secrets stay.
    fn put_settings(&self, topic: &Topic, settings: TopicSettings)
    -> impl Future<Output = Result<()>> + Send;

    /// Pauses these operations of a topic: an operation that is paused already stays so since then. Returns its pauses.
    fn pause(
        &self,
        topic: &Topic,
        operations: PausedOperations,
        pause: Pause,
    ) -> impl Future<Output = Result<TopicPause>> + Send;

    /// Resumes these operations of a topic, and forgets pauses that are over. Returns the pauses that are left.
    fn resume(
        &self,
        topic: &Topic,
        operations: PausedOperations,
    ) -> impl Future<Output = Result<TopicPause>> + Send;

    /// Has the endpoints of a topic called at once, although they rest.
    fn call_now(&self, topic: &Topic) -> impl Future<Output = Result<()>> + Send;

    /// Adds a secret to a topic, unless it has this key already or [`SigningSecret::MAX_COUNT`] others.
    fn add_secret(
        &self,
        topic: &Topic,
        secret: SigningSecret,
    ) -> impl Future<Output = Result<AddedSecret>> + Send;

    /// Deletes a secret of a topic. Returns whether the topic had it.
    fn delete_secret(&self, topic: &Topic, id: SecretId) -> impl Future<Output = Result<bool>> + Send;

    /// Stores what is set for a topic, if nothing is set for it yet.
    fn put_topic(&self, record: TopicRecord) -> impl Future<Output = Result<Put>> + Send;

    /// Replaces everything that is set for a topic.
    fn replace_topic(&self, record: TopicRecord) -> impl Future<Output = Result<()>> + Send;
}

impl<S: TopicStore + ?Sized> TopicUpdates for S {
    async fn update_config<T: Send>(
        &self,
        topic: &Topic,
        mut change: impl FnMut(&mut TopicConfig) -> T + Send,
    ) -> Result<T> {
        let mut stored = self.known_topic_values(topic).await?;
        for _ in 0..MAX_TRIES {
            let mut config = stored.readable_config();
            let outcome = change(&mut config);
            // Also if nothing changes: only the step finds out that others were stored, or that the store is closed.
            match self.update_topic(topic, &stored, stored.with(&config)).await? {
                Updated::Done | Updated::Already => return Ok(outcome),
                Updated::Differs(now) => stored = now,
            }
        }
        Err(changed_again(topic))
    }

    async fn read_topic_config(&self, topic: &Topic) -> Result<TopicConfig> {
        Ok(self.topic_values(topic).await?.readable_config())
    }

    async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        let change = |config: &mut TopicConfig| {
            config.settings.clone_from(&settings);
            // A topic with default settings is then no longer stored.
            config.called_at = None;
        };
        self.update_config(topic, change).await
    }

    async fn pause(&self, topic: &Topic, operations: PausedOperations, pause: Pause) -> Result<TopicPause> {
        let change = |config: &mut TopicConfig| {
            config.pause = config.pause.active(self.now());
            config.pause.pause(operations, &pause);
            config.pause.clone()
        };
        self.update_config(topic, change).await
    }

    async fn resume(&self, topic: &Topic, operations: PausedOperations) -> Result<TopicPause> {
        let change = |config: &mut TopicConfig| {
            config.pause = config.pause.active(self.now());
            config.pause.resume(operations);
            config.pause.clone()
        };
        self.update_config(topic, change).await
    }

    async fn call_now(&self, topic: &Topic) -> Result<()> {
        // A second call within the same millisecond is one.
        self.update_config(topic, |config| config.called_at = Some(self.now())).await
    }

    async fn add_secret(&self, topic: &Topic, secret: SigningSecret) -> Result<AddedSecret> {
        let add = |config: &mut TopicConfig| {
            if let Some(known) = config.secrets.iter().find(|known| known.key == secret.key) {
                // With this id it was stored by an earlier try, whose answer was lost.
                let is_new = known.id == secret.id;
                return if is_new {
                    AddedSecret::Created(known.clone())
                } else {
                    AddedSecret::Exists(known.clone())
                };
            }
            if config.secrets.len() >= SigningSecret::MAX_COUNT {
                return AddedSecret::TooMany;
            }
            config.secrets.push(secret.clone());
            AddedSecret::Created(secret.clone())
        };
        self.update_config(topic, add).await
    }

    async fn delete_secret(&self, topic: &Topic, id: SecretId) -> Result<bool> {
        // An earlier try may have deleted it, whose answer was lost.
        let mut is_known = false;
        let delete = |config: &mut TopicConfig| {
            is_known |= config.secrets.iter().any(|secret| secret.id == id);
            config.secrets.retain(|secret| secret.id != id);
            is_known
        };
        self.update_config(topic, delete).await
    }

    async fn put_topic(&self, record: TopicRecord) -> Result<Put> {
        Ok(match self.update_topic(&record.topic, &TopicValues::default(), record.values()).await? {
            Updated::Done => Put::Done,
            Updated::Already => Put::Exists,
            Updated::Differs(_) => Put::Differs,
        })
    }

    async fn replace_topic(&self, record: TopicRecord) -> Result<()> {
        let (topic, values) = (&record.topic, record.values());
        let mut stored = self.known_topic_values(topic).await?;
        for _ in 0..MAX_TRIES {
            match self.update_topic(topic, &stored, values.clone()).await? {
                Updated::Done | Updated::Already => return Ok(()),
                Updated::Differs(now) => stored = now,
            }
        }
        Err(changed_again(topic))
    }
}

fn changed_again(topic: &Topic) -> Error {
    Error::Unavailable(format!("what is set for topic {topic} changed again and again"))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use async_trait::async_trait;

    use super::*;
    use crate::job::{SigningKey, Timestamp};

    fn secret() -> SigningSecret {
        SigningSecret {
            id: SecretId([1; 8]),
            created_at: Timestamp::from_millis(1),
            key: SigningKey::from_bytes(&[1; 32]).expect("valid"),
        }
    }

    /// Carries out the first change and loses the answer; then another caller pauses the topic.
    #[derive(Default)]
    struct LosesAnswer {
        stored: Mutex<TopicValues>,
        calls: AtomicUsize,
    }

    #[async_trait]
    impl TopicStore for LosesAnswer {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }

        async fn topic_values(&self, _: &Topic) -> Result<TopicValues> {
            Ok(self.stored.lock().expect("not poisoned").clone())
        }

        async fn update_topic(&self, _: &Topic, expected: &TopicValues, new: TopicValues) -> Result<Updated> {
            let mut stored = self.stored.lock().expect("not poisoned");
            if *stored != *expected {
                return Ok(Updated::Differs(stored.clone()));
            }
            *stored = new;
            if self.calls.fetch_add(1, Ordering::Relaxed) > 0 {
                return Ok(Updated::Done);
            }
            *stored = stored.with(&TopicConfig { pause: TopicPause::ALL, ..stored.readable_config() });
            Ok(Updated::Differs(stored.clone()))
        }
    }

    #[tokio::test]
    async fn a_change_whose_answer_was_lost_is_told_as_made() {
        let (topic, secret) = (Topic::parse("t").expect("valid"), secret());
        let store = LosesAnswer::default();
        let added = store.add_secret(&topic, secret.clone()).await.expect("answers");
        assert_eq!(added, AddedSecret::Created(secret.clone()));
        let stored = TopicConfig { secrets: vec![secret.clone()], ..TopicConfig::default() };
        let stored = Mutex::new(TopicValues::default().with(&stored));
        let store = LosesAnswer { stored, ..LosesAnswer::default() };
        assert!(store.delete_secret(&topic, secret.id).await.expect("answers"));
        assert!(!store.delete_secret(&topic, secret.id).await.expect("answers"));
        assert_eq!(store.read_topic_config(&topic).await.expect("reads").pause, TopicPause::ALL);
    }
}
