//! Topics' settings and pauses as they are stored in Redis: one field for each topic, with tagged values
//! (`job/topic_values.rs`). Knows no call.

use std::{collections::HashMap, sync::Arc};

use crate::{
    job::{Attributes, Topic, TopicPause, TopicSettings},
    store::{Result, TopicConfig, redis::reply::Reply},
};

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

/// The settings as values, for `scripts/put_settings.lua`.
pub fn encode_settings(settings: &TopicSettings) -> Attributes {
    let mut values = Attributes::default();
    settings.encode_into(&mut values);
    values
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
    let mut stored = StoredConfigs { version: 0, topics: HashMap::new(), faults: Vec::new() };
    while !reply.is_empty() {
        let (field, value) = (reply.text()?, reply.bytes()?);
        if field == "#" {
            let version = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
            stored.version = version.unwrap_or(0);
            continue;
        }
        // The fence of a move.
        if field == "!" {
            continue;
        }
        match (
            Topic::parse(&field),
            Attributes::decode(&value).and_then(|values| TopicConfig::decode(&values)),
        ) {
            (Ok(topic), Some(config)) => {
                if !config.is_default() {
                    stored.topics.insert(topic, Arc::new(config));
                }
            }
            (Ok(topic), None) => stored.faults.push(format!("topic {topic}: its settings cannot be read")),
            (Err(_), _) => stored.faults.push(format!("setting {field}: it is not of this engine")),
        }
    }
    Ok(stored)
}
