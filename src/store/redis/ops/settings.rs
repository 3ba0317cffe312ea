//! Changing what is set for topics.

use crate::{
    job::Topic,
    store::{
        Result, TopicValues, Updated,
        redis::{
            connection::call::ScriptCall,
            coordination::{settings_cache::SettingsCache, shards::Shards},
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// Replaces what is set for a topic if it is as expected.
pub async fn update(
    shards: &Shards,
    cache: &SettingsCache,
    topic: &Topic,
    expected: &TopicValues,
    values: TopicValues,
) -> Result<Updated> {
    let script = if values.need_room(expected) { Script::UpdateTopic } else { Script::ReduceTopic };
    let keys = &shards.keys;
    let changed = vec![keys.settings.clone(), keys.meta.clone()];
    let call = ScriptCall::new(script, keys.slot, changed, Vec::with_capacity(6))
        .wait_with_mark(keys.mark.clone())
        .arg(keys.settings_channel.clone())
        .arg(topic.as_str())
        .deadline()
        .arg(shards.process())
        .bytes_arg(expected.as_bytes().clone())
        .bytes_arg(values.as_bytes().clone());
    let mut reply = Reply::new(shards.call_acknowledged(call).await?)?;
    let (version, outcome) = (reply.count()?, reply.int()?);
    let updated = match outcome {
        1 => Updated::Done,
        2 => Updated::Already,
        3 => return Ok(Updated::Differs(TopicValues::new(reply.bytes()?))),
        _ => return Err(unexpected("the outcome of a change of a topic")),
    };
    cache.apply_write(version, topic, values);
    Ok(updated)
}
