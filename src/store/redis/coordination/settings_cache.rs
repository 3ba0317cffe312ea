//! This process's copy of all topics' settings and pauses, and how it is refreshed. Must not know who changes them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use fred::types::Value;

use super::{notifier::Notifier, shards::Shards};
use crate::{
    job::{Timestamp, Topic},
    store::{
        Result, TopicConfig, TopicValues, WATCHED_FOR,
        redis::{
            codec::settings::{KnownTopic, StoredConfigs, decode_configs},
            connection::call::ScriptCall,
            reply::Reply,
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// The settings of all topics, as this process knows them.
pub struct SettingsCache {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    known: KnownConfigs,
    /// By how much the server's clock was ahead of ours when the settings were read last, in microseconds.
    ahead_us: AtomicI64,
}

impl SettingsCache {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Arc<Self> {
        Arc::new(Self { shards, notifier, known: KnownConfigs::default(), ahead_us: AtomicI64::new(0) })
    }

    /// The server's time, or a little earlier.
    pub fn now(&self) -> Timestamp {
        let now_us = self.shards.server_now_us(self.ahead_us.load(Ordering::Relaxed));
        Timestamp::from_millis(now_us.div_euclid(1_000))
    }

    pub fn get(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.known.get(topic)
    }

    /// What is stored for a topic, as this process knows it.
    pub fn values(&self, topic: &Topic) -> TopicValues {
        self.known.lock().topics.get(topic).map(|stored| stored.values.clone()).unwrap_or_default()
    }

    /// The topics with settings or a pause.
    pub fn topics(&self) -> Vec<Topic> {
        let known = self.known.lock();
        let set = known.topics.iter().filter(|(_, stored)| !stored.config.is_default());
        set.map(|(topic, _)| topic.clone()).collect()
    }

    /// Applies what this process has just written, unless something newer is known, and notifies the listener if jobs of
    /// the topic may go somewhere since.
    pub fn apply_write(&self, version: u64, topic: &Topic, values: TopicValues) {
        if self.known.apply_write(version, topic, values) {
            self.notifier.restarted(topic);
        }
    }

    /// Reads all settings again if they have changed, and notifies the listener of topics whose jobs may go somewhere
    /// since.
    pub async fn refresh(&self) -> Result<()> {
        loop {
            let (version, writes) = self.known.version_and_writes();
            let (is_watched, stored) = self.read(version.to_string()).await?;
            if is_watched {
                self.notifier.watched();
            }
            let Some(StoredConfigs { version, topics, faults }) = stored else { return Ok(()) };
            faults.iter().for_each(|fault| tracing::error!(%fault, "ignored a setting of a topic"));
            if let Some(restarted) = self.known.replace(writes, version, topics) {
                restarted.iter().for_each(|topic| self.notifier.restarted(topic));
                return Ok(());
            }
        }
    }

    /// The stored settings that cannot be read.
    pub async fn faults(&self) -> Result<Vec<String>> {
        let (_, stored) = self.read(String::new()).await?;
        Ok(stored.map(|stored| stored.faults).unwrap_or_default())
    }

    /// What is stored for each topic, undecoded.
    pub async fn stored_values(&self) -> Result<Vec<(String, Bytes)>> {
        let (_, stored) = self.read_raw(String::new()).await?;
        let mut fields = if stored.is_null() { return Ok(Vec::new()) } else { Reply::new(stored)? };
        let mut values = Vec::with_capacity(fields.len() / 2);
        while !fields.is_empty() {
            let (field, value) = (fields.text()?, fields.bytes()?);
            if field != "#" && field != "!" {
                values.push((field, value));
            }
        }
        Ok(values)
    }

    /// Whether a client reads the figures of all processes, and all settings, unless `version` is current.
    async fn read(&self, version: String) -> Result<(bool, Option<StoredConfigs>)> {
        let (is_watched, stored) = self.read_raw(version).await?;
        let stored = if stored.is_null() { None } else { Some(decode_configs(Reply::new(stored)?)?) };
        Ok((is_watched, stored))
    }

    /// As [`read`](Self::read), with the settings as they are stored, or null.
    async fn read_raw(&self, version: String) -> Result<(bool, Value)> {
        let keys = &self.shards.keys;
        let keys_of_call = vec![keys.settings.clone(), keys.notices.clone(), keys.meta.clone()];
        let call = ScriptCall::new(Script::GetSettings, keys.slot, keys_of_call, Vec::with_capacity(3))
            .arg(version)
            .arg(self.shards.now_arg())
            .arg(millis_arg(WATCHED_FOR));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        // Our clock is read after the answer, so that no pause ends early.
        let ahead_us = reply.int()?.saturating_sub(self.shards.context().now_us());
        self.ahead_us.store(ahead_us, Ordering::Relaxed);
        Ok((reply.int()? == 1, reply.value()?))
    }
}

#[derive(Debug, Default)]
struct KnownConfigs {
    state: Mutex<CacheState>,
    default: Arc<TopicConfig>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// The version that was read last. Only equality is meaningful: a failover may have decreased it. None is used twice
    /// (`settings.lua`).
    version: u64,
    /// Number of writes of this process, so that a read that began before a write does not replace its result.
    writes: u64,
    /// The version after the last write of this process since the last read, by topic: the replies to concurrent writes may
    /// arrive in another order than the writes happened.
    written: HashMap<Topic, u64>,
    topics: HashMap<Topic, KnownTopic>,
}

impl KnownConfigs {
    fn get(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.lock().topics.get(topic).map_or_else(|| self.default.clone(), |stored| stored.config.clone())
    }

    /// The version that was read last, and the number of writes so far.
    fn version_and_writes(&self) -> (u64, u64) {
        let state = self.lock();
        (state.version, state.writes)
    }

    /// Returns whether jobs of the topic may go somewhere since.
    fn apply_write(&self, version: u64, topic: &Topic, values: TopicValues) -> bool {
        let mut state = self.lock();
        state.writes += 1;
        let last = state.version.max(state.written.get(topic).copied().unwrap_or(0));
        if version <= last {
            return false;
        }
        state.written.insert(topic.clone(), version);
        let before = state.topics.remove(topic).unwrap_or_default();
        let Some(stored) = KnownTopic::new(values) else { return false };
        let restarted = stored.config.restarts_delivery(&before.config);
        if !stored.values.is_empty() {
            state.topics.insert(topic.clone(), stored);
        }
        restarted
    }

    /// Replaces everything by the result of a read that began after `writes` writes. Returns the topics whose jobs may go
    /// somewhere since, or `None` if this process wrote meanwhile and must read again.
    fn replace(&self, writes: u64, version: u64, topics: HashMap<Topic, KnownTopic>) -> Option<Vec<Topic>> {
        let mut state = self.lock();
        if writes != state.writes {
            return None;
        }
        let new = CacheState { version, writes, written: HashMap::new(), topics };
        let old = std::mem::replace(&mut *state, new);
        let added = state.topics.keys().filter(|topic| !old.topics.contains_key(*topic));
        let restarted = |topic: &&Topic| {
            let config = |topics: &HashMap<Topic, KnownTopic>| {
                topics.get(*topic).map_or_else(|| self.default.clone(), |stored| stored.config.clone())
            };
            config(&state.topics).restarts_delivery(&config(&old.topics))
        };
        Some(old.topics.keys().chain(added).filter(restarted).cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().expect("no code panics while it holds the settings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Pause;

    fn paused(delivery: bool) -> TopicValues {
        let mut config = TopicConfig::default();
        config.pause.delivery = delivery.then(Pause::default);
        TopicValues::default().with(&config)
    }

    #[test]
    fn an_older_read_does_not_undo_a_newer_write() {
        let configs = KnownConfigs::default();
        let topic = Topic::parse("t").expect("valid");
        let (_, before) = configs.version_and_writes();
        configs.apply_write(1, &topic, paused(true));
        assert_eq!(configs.replace(before, 1, HashMap::new()), None);
        assert!(configs.get(&topic).pause.delivery.is_some());
        let (_, after) = configs.version_and_writes();
        assert_eq!(configs.replace(after, 2, HashMap::new()), Some(vec![topic.clone()]), "delivery resumed");
        assert!(configs.get(&topic).is_default());
    }

    #[test]
    fn an_older_write_does_not_undo_a_newer_one_whose_reply_came_first() {
        let configs = KnownConfigs::default();
        let topic = Topic::parse("t").expect("valid");
        let write = |version, delivery| configs.apply_write(version, &topic, paused(delivery));
        write(2, true);
        write(1, false);
        assert!(configs.get(&topic).pause.delivery.is_some());
        let (_, writes) = configs.version_and_writes();
        assert!(configs.replace(writes, 3, HashMap::new()).is_some());
        write(3, true);
        assert!(configs.get(&topic).is_default(), "the read returned the same version or a later one");
        write(4, true);
        assert!(configs.get(&topic).pause.delivery.is_some());
    }
}
