//! Topics' settings and pauses as they are stored in Redis: one field for each topic, with tagged values
//! (`job/topic_values.rs`). Knows no call.

use std::{collections::HashMap, sync::Arc};

use crate::{
    job::Topic,
    store::{Result, TopicConfig, TopicValues, redis::reply::Reply},
};

/// What is stored for a topic, and the configuration that it means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTopic {
    pub values: TopicValues,
    pub config: Arc<TopicConfig>,
}

impl KnownTopic {
    /// `None` when the values are malformed.
    pub fn new(values: TopicValues) -> Option<Self> {
        let config = Arc::new(values.config()?);
        Some(Self { values, config })
    }
}

/// All settings and pauses of one prefix.
#[derive(Debug)]
pub struct StoredConfigs {
    pub version: u64,
    pub topics: HashMap<Topic, KnownTopic>,
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
        match (Topic::parse(&field), KnownTopic::new(TopicValues::new(value))) {
            (Ok(topic), Some(values)) => {
                stored.topics.insert(topic, values);
            }
            (Ok(topic), None) => stored.faults.push(format!("topic {topic}: its settings cannot be read")),
            (Err(_), _) => stored.faults.push(format!("setting {field}: it is not of this engine")),
        }
    }
    Ok(stored)
}
