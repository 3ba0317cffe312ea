//! What is set for topics: the values that an engine stores, replaced by comparison.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Result, TopicConfig};
use crate::job::{
    Attributes, SigningSecret, Timestamp, Topic, TopicPause, TopicSettings, decode_called_at,
    topic_values_need_room,
};

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
            called_at: decode_called_at(&values),
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
    /// The present moment by the clock that decides about jobs with a moment (`at`). On Redis it is an estimate: it may be some
    /// milliseconds behind, and takes a second to follow when the server's clock is set.
    fn now(&self) -> Timestamp;

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::{Callback, CallbackUrl, SecretId, SigningKey, Tag, Timestamp, Ttr};

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
}
