//! Changing topics' settings and pauses.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    job::{Topic, TopicPause, TopicSettings},
    store::{
        Result,
        redis::{
            codec::settings::{decode_pause, encode_pause, encode_settings, pause_field, settings_field},
            connection::call::ScriptCall,
            coordination::{notifier::Notifier, settings_cache::SettingsCache, shards::Shards},
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Changes settings and pauses.
pub struct SettingsWriter {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    cache: Arc<SettingsCache>,
}

impl SettingsWriter {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, cache: Arc<SettingsCache>) -> Self {
        Self { shards, notifier, cache }
    }

    pub async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        let encoded =
            if settings == TopicSettings::default() { Bytes::new() } else { encode_settings(&settings) };
        let field = settings_field(topic);
        let call = self.change(Script::PutSettings, &field).bytes_arg(encoded);
        let call = call.arg(topic.as_str()).deadline();
        let version = Reply::new(self.shards.call_acknowledged(call).await?)?.count()?;
        self.cache.apply_write(field, version, topic, |config| config.settings = settings);
        Ok(())
    }

    /// Combines the change with the stored pause inside the script: this process may not know the latest change of
    /// another one.
    pub async fn change_pause(
        &self,
        topic: &Topic,
        set: TopicPause,
        clear: TopicPause,
    ) -> Result<TopicPause> {
        let field = pause_field(topic);
        let call = self.change(Script::ChangePause, &field).arg(encode_pause(set)).arg(encode_pause(clear));
        let call = call.arg(topic.as_str()).deadline();
        let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
        let (version, pause) = (reply.count()?, decode_pause(&reply.bytes()?));
        self.cache.apply_write(field, version, topic, |config| config.pause = pause);
        // Even if the delivery was not paused: the reply may be that of a second run.
        if clear.delivery && !pause.delivery {
            self.notifier.ready(topic);
        }
        Ok(pause)
    }

    /// A call that changes one field of the settings.
    fn change(&self, script: Script, field: &str) -> ScriptCall {
        let keys = &self.shards.keys;
        ScriptCall::new(script, keys.slot, vec![keys.settings.clone()], Vec::with_capacity(6))
            .wait_with_mark(keys.mark.clone())
            .arg(keys.settings_channel.clone())
            .arg(field)
    }
}
