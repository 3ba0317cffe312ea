//! Topics' settings and pauses: the copy that this process reads, and how they are written down.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::store::redis::{Engine, connection::call::Call, reply::Reply, scripts::Op};
use crate::{
    job::{RetrySchedule, Topic, TopicPause, TopicSettings, Ttr},
    store::{Result, TopicConfig},
};

/// What this process knows of all topics' settings.
#[derive(Debug, Default)]
pub struct Configs {
    known: Mutex<Known>,
    default: Arc<TopicConfig>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the server called the version that was read last. Compared for being the same only: after
    /// a failover it may have gone back.
    version: u64,
    /// Writes of this process, so that a reading that began before one is not taken for newer.
    writes: u64,
    /// The version after the last write of this process, by field, since the last reading: the answers to
    /// writes side by side may come in another order than the writes happened.
    written: HashMap<String, u64>,
    topics: HashMap<Topic, Arc<TopicConfig>>,
}

/// Which of the two things that are kept apart, as the first letter of a field.
const SETTINGS: char = 's';
const PAUSE: char = 'p';

impl Configs {
    pub fn get(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.lock().topics.get(topic).unwrap_or(&self.default).clone()
    }

    /// Topics with settings or a pause.
    pub fn named(&self) -> Vec<Topic> {
        self.lock().topics.keys().cloned().collect()
    }

    /// The version that was read last, and how many writes there were before now.
    fn seen(&self) -> (u64, u64) {
        let known = self.lock();
        (known.version, known.writes)
    }

    /// Takes in what this process has just written to `field`, unless something later is known already.
    fn wrote(&self, field: String, version: u64, topic: &Topic, change: impl FnOnce(&mut TopicConfig)) {
        let mut known = self.lock();
        known.writes += 1;
        let last = known.version.max(known.written.get(&field).copied().unwrap_or(0));
        if version <= last {
            return;
        }
        known.written.insert(field, version);
        let mut config =
            known.topics.get(topic).map_or_else(TopicConfig::default, |config| (**config).clone());
        change(&mut config);
        if config.is_default() {
            known.topics.remove(topic);
        } else {
            known.topics.insert(topic.clone(), Arc::new(config));
        }
    }

    /// Replaces everything by what was read when there had been `writes`: the topics whose delivery
    /// resumed, or `None` when this process wrote meanwhile and must read again.
    fn replace(
        &self,
        writes: u64,
        version: u64,
        topics: HashMap<Topic, Arc<TopicConfig>>,
    ) -> Option<Vec<Topic>> {
        let mut known = self.lock();
        if writes != known.writes {
            return None;
        }
        let old = std::mem::replace(&mut *known, Known { version, writes, written: HashMap::new(), topics });
        let paused = |topics: &HashMap<Topic, Arc<TopicConfig>>, topic: &Topic| {
            topics.get(topic).is_some_and(|config| config.pause.delivery)
        };
        let resumed = |topic: &&Topic| paused(&old.topics, topic) && !paused(&known.topics, topic);
        Some(old.topics.keys().filter(resumed).cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds the settings")
    }
}

impl Engine {
    pub async fn write_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        let packed = if settings == TopicSettings::default() { Bytes::new() } else { pack(&settings) };
        let field = format!("{SETTINGS}{topic}");
        let call = self.config_change(Op::Settings, &field).bytes(packed).arg(topic.as_str()).dated();
        let version = Reply::new(self.acked(call).await?)?.count()?;
        self.configs.wrote(field, version, topic, |config| config.settings = settings);
        Ok(())
    }

    /// The script combines the change with what is stored: this process may not have heard of others' changes.
    pub async fn change_pause(
        &self,
        topic: &Topic,
        set: TopicPause,
        clear: TopicPause,
    ) -> Result<TopicPause> {
        let field = format!("{PAUSE}{topic}");
        let call = self.config_change(Op::Pause, &field);
        let call = call.arg(letters(set)).arg(letters(clear)).arg(topic.as_str()).dated();
        let mut reply = Reply::new(self.acked(call).await?)?;
        let (version, pause) = (reply.count()?, read_pause(&reply.bytes()?));
        self.configs.wrote(field, version, topic, |config| config.pause = pause);
        // Also where it was resumed already: the answer may be that of a second run.
        if clear.delivery && !pause.delivery {
            self.listener.ready(topic);
        }
        Ok(pause)
    }

    /// A call that changes one field of the settings.
    fn config_change(&self, op: Op, field: &str) -> Call {
        Call::new(op, self.keys.slot, vec![self.keys.settings.clone()], Vec::with_capacity(6))
            .marked(self.keys.mark.clone())
            .arg(self.keys.settings_channel.clone())
            .arg(field)
    }

    /// What of the stored settings cannot be read.
    pub async fn unreadable_configs(&self) -> Result<Vec<String>> {
        let call = Call::new(Op::Config, self.keys.slot, vec![self.keys.settings.clone()], Vec::new());
        let (_, _, faults) = read_all(Reply::new(self.call(call.arg("")).await?)?)?;
        Ok(faults)
    }

    /// Reads all settings anew if they have changed, and tells the listener what resumed.
    pub async fn refresh_configs(&self) -> Result<()> {
        loop {
            let (version, writes) = self.configs.seen();
            let call = Call::new(Op::Config, self.keys.slot, vec![self.keys.settings.clone()], Vec::new());
            let reply = self.call(call.arg(version.to_string())).await?;
            if reply.is_null() {
                return Ok(());
            }
            let (version, topics, faults) = read_all(Reply::new(reply)?)?;
            faults.iter().for_each(|fault| tracing::error!(%fault, "a topic's setting is passed over"));
            if let Some(resumed) = self.configs.replace(writes, version, topics) {
                resumed.iter().for_each(|topic| self.listener.ready(topic));
                return Ok(());
            }
        }
    }
}

/// What is paused, as letters: see `scripts/change_pause.lua`.
fn letters(pause: TopicPause) -> &'static str {
    match (pause.delivery, pause.intake) {
        (false, false) => "",
        (true, false) => "d",
        (false, true) => "i",
        (true, true) => "di",
    }
}

fn read_pause(letters: &[u8]) -> TopicPause {
    TopicPause { delivery: letters.contains(&b'd'), intake: letters.contains(&b'i') }
}

/// What was read of all settings: their version, the topics, and what was passed over.
type AllConfigs = (u64, HashMap<Topic, Arc<TopicConfig>>, Vec<String>);

/// Reads every field and value; what cannot be read is passed over and named.
fn read_all(mut reply: Reply) -> Result<AllConfigs> {
    let (mut version, mut topics, mut faults) = (0, BTreeMap::<Topic, TopicConfig>::new(), Vec::new());
    while !reply.is_empty() {
        let (field, mut value) = (reply.text()?, reply.bytes()?);
        if field == "#" {
            version = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            continue;
        }
        let mut rest = field.chars();
        let (kind, topic) = (rest.next(), Topic::parse(rest.as_str()));
        match (kind, topic, value.is_empty()) {
            (Some(SETTINGS), Ok(topic), false) => match unpack(&mut value) {
                Some(settings) => topics.entry(topic).or_default().settings = settings,
                None => faults.push(format!("topic {topic}: its settings cannot be read")),
            },
            (Some(PAUSE), Ok(topic), false) => {
                topics.entry(topic).or_default().pause = read_pause(&value);
            }
            (Some(_) | None, Ok(_) | Err(_), _) => {
                faults.push(format!("setting {field}: it is none of ours"));
            }
        }
    }
    let topics = topics.into_iter().map(|(topic, config)| (topic, Arc::new(config))).collect();
    Ok((version, topics, faults))
}

/// Version of the layout of settings: the first byte.
const VERSION: u8 = 1;
const TTR: u8 = 1;
const MAX_ATTEMPTS: u8 = 2;
const RETRY: u8 = 4;
const STRICT: u8 = 8;

/// Settings as bytes: version, flags, then what the flags name: TTR in ms (4), attempts (4), steps in ms
/// (count 1, each 8); big-endian.
fn pack(settings: &TopicSettings) -> Bytes {
    let mut packed = BytesMut::new();
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    packed.put_u8(VERSION);
    packed.put_u8(
        flag(settings.ttr.is_some(), TTR)
            | flag(settings.max_attempts.is_some(), MAX_ATTEMPTS)
            | flag(settings.retry.is_some(), RETRY)
            | flag(settings.require_receipt, STRICT),
    );
    if let Some(ttr) = settings.ttr {
        packed.put_u32(u32::try_from(ttr.as_duration().as_millis()).expect("a TTR is at most a day"));
    }
    if let Some(max_attempts) = settings.max_attempts {
        packed.put_u32(max_attempts);
    }
    if let Some(retry) = &settings.retry {
        packed.put_u8(u8::try_from(retry.steps().len()).expect("schedules have at most 64 steps"));
        for step in retry.steps() {
            packed.put_u64(u64::try_from(step.as_millis()).expect("steps are at most ten years"));
        }
    }
    packed.freeze()
}

fn unpack(packed: &mut Bytes) -> Option<TopicSettings> {
    if packed.try_get_u8().ok()? != VERSION {
        return None;
    }
    let flags = packed.try_get_u8().ok()?;
    let mut settings = TopicSettings { require_receipt: flags & STRICT != 0, ..TopicSettings::default() };
    if flags & TTR != 0 {
        let ttr_ms = packed.try_get_u32().ok()?;
        settings.ttr = Some(Ttr::new(Duration::from_millis(u64::from(ttr_ms))).ok()?);
    }
    if flags & MAX_ATTEMPTS != 0 {
        settings.max_attempts = Some(packed.try_get_u32().ok()?);
    }
    if flags & RETRY != 0 {
        let count = packed.try_get_u8().ok()?;
        let steps = (0..count).map(|_| packed.try_get_u64().ok().map(Duration::from_millis));
        settings.retry = Some(RetrySchedule::new(steps.collect::<Option<_>>()?).ok()?);
    }
    packed.is_empty().then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settings_come_out_as_they_went_in(
            ttr_ms in prop::option::of(1_000u64..=86_400_000),
            max_attempts in prop::option::of(0u32..=1_000_000),
            steps_ms in prop::option::of(prop::collection::vec(0u64..315_576_000_000, 0..=64)),
            require_receipt in any::<bool>(),
        ) {
            let schedule = |steps: Vec<u64>| {
                RetrySchedule::new(steps.into_iter().map(Duration::from_millis).collect()).expect("valid")
            };
            let settings = TopicSettings {
                ttr: ttr_ms.map(|ms| Ttr::new(Duration::from_millis(ms)).expect("valid")),
                max_attempts,
                retry: steps_ms.map(schedule),
                require_receipt,
            };
            prop_assert_eq!(unpack(&mut pack(&settings)), Some(settings));
        }

        #[test]
        fn any_bytes_are_read_or_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack(&mut Bytes::from(bytes));
        }
    }

    #[test]
    fn an_older_reading_does_not_undo_a_newer_write() {
        let configs = Configs::default();
        let topic = Topic::parse("t").expect("valid");
        let (_, before) = configs.seen();
        configs.wrote("pt".to_owned(), 1, &topic, |config| config.pause.delivery = true);
        assert_eq!(configs.replace(before, 1, HashMap::new()), None);
        assert!(configs.get(&topic).pause.delivery);
        let (_, after) = configs.seen();
        assert_eq!(configs.replace(after, 2, HashMap::new()), Some(vec![topic.clone()]), "delivery resumed");
        assert!(configs.get(&topic).is_default());
    }

    #[test]
    fn an_older_write_does_not_undo_a_newer_one_whose_answer_came_first() {
        let configs = Configs::default();
        let topic = Topic::parse("t").expect("valid");
        let wrote = |version, delivery| {
            configs.wrote("pt".to_owned(), version, &topic, |config| config.pause.delivery = delivery);
        };
        wrote(2, true);
        wrote(1, false);
        assert!(configs.get(&topic).pause.delivery);
        let (_, writes) = configs.seen();
        assert!(configs.replace(writes, 3, HashMap::new()).is_some());
        wrote(3, true);
        assert!(configs.get(&topic).is_default(), "the reading was of the same version or a later one");
        wrote(4, true);
        assert!(configs.get(&topic).pause.delivery);
    }
}
