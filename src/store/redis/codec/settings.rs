//! Topics' settings and pauses as they are stored in Redis. Knows no call.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{
    job::{RetrySchedule, Topic, TopicPause, TopicSettings, Ttr},
    store::{Result, TopicConfig, redis::reply::Reply},
};

/// First letter of a field: whether it holds a topic's settings or its pause.
const SETTINGS: char = 's';
const PAUSE: char = 'p';

/// The field of a topic's settings.
pub fn settings_field(topic: &Topic) -> String {
    format!("{SETTINGS}{topic}")
}

/// The field of a topic's pause.
pub fn pause_field(topic: &Topic) -> String {
    format!("{PAUSE}{topic}")
}

/// The paused parts as letters, see `scripts/change_pause.lua`.
pub fn encode_pause(pause: TopicPause) -> &'static str {
    match (pause.delivery, pause.intake) {
        (false, false) => "",
        (true, false) => "d",
        (false, true) => "i",
        (true, true) => "di",
    }
}

/// The pause that letters stand for.
pub fn decode_pause(letters: &[u8]) -> TopicPause {
    TopicPause { delivery: letters.contains(&b'd'), intake: letters.contains(&b'i') }
}

/// All settings and pauses of one prefix.
#[derive(Debug)]
pub struct StoredConfigs {
    pub version: u64,
    pub topics: HashMap<Topic, Arc<TopicConfig>>,
    /// What could not be read and was ignored.
    pub faults: Vec<String>,
}

/// Reads every field and value of the reply of `scripts/get_settings.lua`.
pub fn decode_configs(mut reply: Reply) -> Result<StoredConfigs> {
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
            (Some(SETTINGS), Ok(topic), false) => match decode_settings(&mut value) {
                Some(settings) => topics.entry(topic).or_default().settings = settings,
                None => faults.push(format!("topic {topic}: its settings cannot be read")),
            },
            (Some(PAUSE), Ok(topic), false) => {
                topics.entry(topic).or_default().pause = decode_pause(&value);
            }
            (Some(_) | None, Ok(_) | Err(_), _) => {
                faults.push(format!("setting {field}: it is not of this engine"));
            }
        }
    }
    let topics = topics.into_iter().map(|(topic, config)| (topic, Arc::new(config))).collect();
    Ok(StoredConfigs { version, topics, faults })
}

/// Version of the encoding: the first byte.
const VERSION: u8 = 1;
const TTR: u8 = 1;
const MAX_ATTEMPTS: u8 = 2;
const RETRY: u8 = 4;
const STRICT: u8 = 8;

/// Settings as bytes: version, flags, then the fields that the flags name: TTR in ms (4), attempts (4), steps in ms
/// (count 1, each 8); big-endian.
pub fn encode_settings(settings: &TopicSettings) -> Bytes {
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

/// The settings in these bytes, if they are any.
fn decode_settings(packed: &mut Bytes) -> Option<TopicSettings> {
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
        fn settings_are_decoded_as_they_were_encoded(
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
            prop_assert_eq!(decode_settings(&mut encode_settings(&settings)), Some(settings));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_settings(&mut Bytes::from(bytes));
        }
    }
}
