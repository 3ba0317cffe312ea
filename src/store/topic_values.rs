//! What is set for topics: the values that an engine stores, replaced by comparison, and the changes that callers make of
//! them. A change reads the values, computes new ones, and begins again if others were stored meanwhile.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{AddedSecret, Error, Put, Result, TopicConfig, TopicRecord};
use crate::job::{
    Attributes, SecretId, SigningSecret, Topic, TopicPause, TopicSettings, topic_values_need_room,
};

/// How often a change is tried before it fails because others were faster each time.
const MAX_TRIES: usize = 1_000;

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

    /// What can be read of the configuration: a part that is malformed, or of a later version, has its defaults.
    #[must_use]
    pub fn readable_config(&self) -> TopicConfig {
        let values = Attributes::decode(&self.0).unwrap_or_default();
        TopicConfig {
            settings: TopicSettings::decode(&values).unwrap_or_default(),
            pause: TopicPause::decode(&values),
            secrets: SigningSecret::decode_from(&values).unwrap_or_default(),
        }
    }

    /// The values with another configuration. Only what differs from the [readable](Self::readable_config) one is replaced, so
    /// that a change keeps what it is not about: values of later versions, also within a value, and malformed ones.
    #[must_use]
    pub fn with(&self, config: &TopicConfig) -> Self {
        let [before, after] = [&self.readable_config(), config].map(|config| {
            let mut encoded = Attributes::default();
            config.encode_into(&mut encoded);
            encoded
        });
        if before == after {
            return self.clone();
        }
        let mut values = Attributes::decode(&self.0).unwrap_or_default();
        for (tag, _) in before.iter().chain(after.iter()) {
            if before.get(tag) != after.get(tag) {
                values.set(tag, after.get(tag));
            }
        }
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

    /// What this process knows to be stored for a topic, perhaps from memory: a change begins with it.
    async fn known_topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        self.topic_values(topic).await
    }

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
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use super::*;
    use crate::job::{Callback, CallbackUrl, SigningKey, Tag, Timestamp, Ttr};

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
        assert_eq!(malformed.with(&TopicConfig::default()), malformed, "a change that changes nothing");
    }

    #[test]
    fn a_pause_keeps_what_it_cannot_read() {
        let callback = Callback::to(CallbackUrl::parse("http://a/").expect("valid")).encode();
        let mut later = Attributes::decode(&callback).expect("sound");
        later.set(Tag(200), Some(b"of a later version"));
        let mut stored = Attributes::default();
        // A TTR is malformed, and the callback has more than this version knows.
        stored.set(Tag(1), Some(b"short"));
        stored.set(Tag(7), Some(later.as_bytes()));
        for with_ttr in [true, false] {
            if !with_ttr {
                stored.set(Tag(1), None);
            }
            let values = TopicValues::new(stored.as_bytes().to_vec());
            let paused = values.with(&TopicConfig { pause: TopicPause::ALL, ..values.readable_config() });
            assert_ne!(paused, values);
            assert_eq!(paused.with(&values.readable_config()), values);
            let kept = Attributes::decode(paused.as_bytes()).expect("sound");
            assert_eq!(kept.get(Tag(1)), stored.get(Tag(1)));
            assert_eq!(kept.get(Tag(7)), stored.get(Tag(7)));
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
        let (topic, secret) =
            (Topic::parse("t").expect("valid"), secrets(&[1]).readable_config().secrets.remove(0));
        let store = LosesAnswer::default();
        let added = store.add_secret(&topic, secret.clone()).await.expect("answers");
        assert_eq!(added, AddedSecret::Created(secret));
        let store = LosesAnswer { stored: Mutex::new(secrets(&[1])), ..LosesAnswer::default() };
        assert!(store.delete_secret(&topic, SecretId([1; 8])).await.expect("answers"));
        assert!(!store.delete_secret(&topic, SecretId([1; 8])).await.expect("answers"));
        assert_eq!(store.read_topic_config(&topic).await.expect("reads").pause, TopicPause::ALL);
    }
}
