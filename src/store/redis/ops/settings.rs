//! Changing topics' settings and pauses.

use std::sync::Arc;

use crate::{
    job::{Topic, TopicPause, TopicSettings},
    store::{
        Result,
        redis::{
            codec::settings::{decode_pause, encode_pause, encode_settings},
            connection::call::ScriptCall,
            coordination::{
                notifier::Notifier,
                settings_cache::{ConfigPart, SettingsCache},
                shards::Shards,
            },
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
        let values = encode_settings(&settings);
        let call = self.change(Script::PutSettings, topic).bytes_arg(values.as_bytes().to_vec());
        let version = Reply::new(self.shards.call_acknowledged(call).await?)?.count()?;
        self.cache.apply_write(ConfigPart::Settings, version, topic, |config| config.settings = settings);
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
        let call = self.change(Script::ChangePause, topic).arg(encode_pause(set)).arg(encode_pause(clear));
        let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
        let (version, pause) = (reply.count()?, decode_pause(&reply.bytes()?));
        self.cache.apply_write(ConfigPart::Pause, version, topic, |config| config.pause = pause);
        // Even if the delivery was not paused: the reply may be that of a second run.
        if clear.delivery && !pause.delivery {
            self.notifier.ready(topic);
        }
        Ok(pause)
    }

    /// A call that changes the values of a topic, with the arguments of `scripts/settings.lua`.
    fn change(&self, script: Script, topic: &Topic) -> ScriptCall {
        let keys = &self.shards.keys;
        ScriptCall::new(script, keys.slot, vec![keys.settings.clone()], Vec::with_capacity(6))
            .wait_with_mark(keys.mark.clone())
            .arg(keys.settings_channel.clone())
            .arg(topic.as_str())
            .deadline()
    }
}
