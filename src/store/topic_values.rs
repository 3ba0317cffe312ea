//! What is set for topics: the values that an engine stores, replaced by comparison, and the changes that callers make of
//! them. A change reads the values, computes new ones, and begins again if others were stored meanwhile.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{AddedSecret, Error, Put, Result, TopicConfig, TopicRecord};
use crate::job::{
    Attributes, SecretId, SigningSecret, Topic, TopicPause, TopicSettings, topic_values_need_room,
};

/// How often a change is begun anew. Others were faster each time.
const MAX_TRIES: usize = 100;

/// What an engine stores for a topic: tagged values ([`Attributes`]), those of later versions included. Empty when nothing
/// is set.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TopicValues(Bytes);

impl TopicValues {
    /// Values as they are stored.
    pub fn new(stored: impl Into<Bytes>) -> Self {
        Self(stored.into())
    }

    /// Values as they are stored.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The configuration; `None` when the values are malformed.
    #[must_use]
    pub fn config(&self) -> Option<TopicConfig> {
        TopicConfig::decode(&Attributes::decode(&self.0)?)
    }

    /// The values with another configuration. Those of later versions stay, but malformed ones are replaced as a whole.
    #[must_use]
    pub fn with(&self, config: &TopicConfig) -> Self {
        let mut values = Attributes::decode(&self.0).unwrap_or_default();
        config.encode_into(&mut values);
        Self(values.as_bytes().to_vec().into())
    }

    /// Whether a full store refuses them in place of `before`: whether something was added or changed, except for a pause.
    #[must_use]
    pub fn need_room(&self, before: &Self) -> bool {
        let [before, after] = [before, self].map(|values| Attributes::decode(&values.0).unwrap_or_default());
        topic_values_need_room(&before, &after)
    }
}

/// Without the values: there are secrets among them.
impl fmt::Debug for TopicValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicValues({} bytes)", self.0.len())
    }
}

/// Result of replacing what is stored for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// Replaced.
    Done,
    /// The new values are stored already; nothing changed.
    Already,
    /// These other values are stored; nothing changed.
    Differs(TopicValues),
}

/// The part of a store that keeps what is set for topics.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// What is stored for a topic now, with what other processes changed a moment ago.
    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues>;

    /// Replaces what is stored for a topic if it is as `expected`: compared and replaced in one step. A change of the callback,
    /// and resuming the delivery, notify the [`Listener`](super::Listener). Works on a full store unless the values
    /// [need room](TopicValues::need_room).
    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated>;
}

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

    /// Pauses what `set` names, then resumes what `clear` names. Returns the pause afterwards.
    fn change_pause(
        &self,
        topic: &Topic,
        set: TopicPause,
        clear: TopicPause,
    ) -> impl Future<Output = Result<TopicPause>> + Send;

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
        let mut stored = self.topic_values(topic).await?;
        for _ in 0..MAX_TRIES {
            let known = stored.config();
            let mut config = known.clone().unwrap_or_default();
            let outcome = change(&mut config);
            // Also if nothing changes: only the step finds out that the store is closed, or is another one.
            let values = if known.as_ref() == Some(&config) { stored.clone() } else { stored.with(&config) };
            match self.update_topic(topic, &stored, values).await? {
                Updated::Done | Updated::Already => return Ok(outcome),
                Updated::Differs(now) => stored = now,
            }
        }
        Err(changed_again(topic))
    }

    async fn read_topic_config(&self, topic: &Topic) -> Result<TopicConfig> {
        Ok(self.topic_values(topic).await?.config().unwrap_or_default())
    }

    async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        self.update_config(topic, |config| config.settings.clone_from(&settings)).await
    }

    async fn change_pause(&self, topic: &Topic, set: TopicPause, clear: TopicPause) -> Result<TopicPause> {
        let change = |config: &mut TopicConfig| {
            config.pause = config.pause.changed(set, clear);
            config.pause
        };
        self.update_config(topic, change).await
    }

    async fn add_secret(&self, topic: &Topic, secret: SigningSecret) -> Result<AddedSecret> {
        let add = |config: &mut TopicConfig| {
            if let Some(known) = config.secrets.iter().find(|known| known.key == secret.key) {
                return AddedSecret::Exists(known.clone());
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
        let delete = |config: &mut TopicConfig| {
            let before = config.secrets.len();
            config.secrets.retain(|secret| secret.id != id);
            config.secrets.len() < before
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
        let mut stored = self.topic_values(topic).await?;
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
    use std::time::Duration;

    use super::*;
    use crate::job::{SigningKey, Tag, Timestamp, Ttr};

    fn values(change: impl FnOnce(&mut TopicConfig)) -> TopicValues {
        let mut config = TopicConfig::default();
        change(&mut config);
        TopicValues::default().with(&config)
    }

    fn ttr(seconds: u64) -> TopicValues {
        values(|config| config.settings.ttr = Some(Ttr::new(Duration::from_secs(seconds)).expect("valid")))
    }

    fn secrets(keys: &[u8]) -> TopicValues {
        let secret = |n: &u8| SigningSecret {
            id: SecretId([*n; 8]),
            created_at: Timestamp::from_millis(1),
            key: SigningKey::from_bytes(&[*n; 32]).expect("valid"),
        };
        values(|config| config.secrets = keys.iter().map(secret).collect())
    }

    #[test]
    fn what_frees_and_a_pause_need_no_room() {
        let (none, paused) = (TopicValues::default(), values(|config| config.pause = TopicPause::ALL));
        for (before, after, needs_room) in [
            (&none, &ttr(5), true),
            (&ttr(5), &ttr(6), true),
            (&ttr(5), &ttr(5), false),
            (&ttr(5), &none, false),
            (&none, &paused, false),
            (&paused, &none, false),
            (&ttr(5), &paused, false),
            (&paused, &ttr(5), true),
            (&secrets(&[1]), &secrets(&[1, 2]), true),
            (&secrets(&[1, 2]), &secrets(&[2]), false),
            (&secrets(&[1]), &secrets(&[2]), true),
        ] {
            assert_eq!(after.need_room(before), needs_room, "{before:?} {after:?}");
        }
    }

    #[test]
    fn values_of_a_later_version_stay_and_malformed_ones_go() {
        let mut later = Attributes::default();
        later.set(Tag(200), Some(b"later"));
        let stored = TopicValues::new(later.as_bytes().to_vec());
        let set = stored.with(&ttr(5).config().expect("sound"));
        assert_eq!(set.config(), ttr(5).config());
        assert_eq!(set.with(&TopicConfig::default()), stored);
        let malformed = TopicValues::new(&b"\x01\x00\x09short"[..]);
        assert_eq!(malformed.config(), None);
        assert_eq!(malformed.with(&ttr(5).config().expect("sound")), ttr(5));
    }
}
