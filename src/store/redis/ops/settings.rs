//! Changing topics' settings, pauses and secrets.

use std::sync::Arc;

use super::records::decode_outcome;
use crate::{
    job::{Callback, SecretId, SigningKey, SigningSecret, Topic, TopicPause, TopicSettings},
    store::{
        AddedSecret, Error, Put, Result, TopicRecord,
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

/// Changes settings, pauses and secrets.
pub struct SettingsWriter {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    cache: Arc<SettingsCache>,
}

impl SettingsWriter {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, cache: Arc<SettingsCache>) -> Self {
        Self { shards, notifier, cache }
    }

    pub async fn put_settings_if(
        &self,
        topic: &Topic,
        settings: TopicSettings,
        was: Option<Callback>,
    ) -> Result<bool> {
        let values = encode_settings(&settings);
        let call = self.change(Script::PutSettings, topic).bytes_arg(values.as_bytes().to_vec());
        let call = call.bytes_arg(was.map(|was| was.encode()).unwrap_or_default());
        let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
        let (version, is_put) = (reply.count()?, reply.count()? > 0);
        if is_put {
            self.cache.apply_write(ConfigPart::Settings, version, topic, |config| config.settings = settings);
        }
        Ok(is_put)
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
            self.notifier.restarted(topic);
        }
        Ok(pause)
    }

    pub async fn put_topic(&self, record: TopicRecord) -> Result<Put> {
        let values = record.values();
        let call = self.change(Script::PutTopic, &record.topic).bytes_arg(values.as_bytes().to_vec());
        let put = decode_outcome(Reply::new(self.shards.call_acknowledged(call).await?)?.int()?)?;
        self.cache.refresh().await?;
        Ok(put)
    }

    pub async fn replace_topic(&self, record: TopicRecord) -> Result<()> {
        let values = record.values();
        let call = self.change(Script::ReplaceTopic, &record.topic).bytes_arg(values.as_bytes().to_vec());
        self.shards.call_acknowledged(call).await?;
        self.cache.refresh().await
    }

    pub async fn add_secret(&self, topic: &Topic, id: SecretId, key: SigningKey) -> Result<AddedSecret> {
        let call = self.change(Script::AddSecret, topic).bytes_arg(id.0.to_vec());
        let (added, secrets) = self.change_secrets(topic, call.bytes_arg(key.as_bytes().to_vec())).await?;
        let secret = secrets.into_iter().find(|secret| secret.key == key);
        Ok(match secret {
            Some(secret) if added => AddedSecret::Created(secret),
            Some(secret) => AddedSecret::Exists(secret),
            None => AddedSecret::TooMany,
        })
    }

    pub async fn delete_secret(&self, topic: &Topic, id: SecretId) -> Result<bool> {
        // Read before, because the reply may be that of a second run, when the first one has deleted the secret already.
        let is_known = || self.cache.get(topic).secrets.iter().any(|secret| secret.id == id);
        if !is_known() {
            self.cache.refresh().await?;
        }
        let was_known = is_known();
        let call = self.change(Script::DeleteSecret, topic).bytes_arg(id.0.to_vec());
        let (deleted, _) = self.change_secrets(topic, call).await?;
        Ok(deleted || was_known)
    }

    /// Whether the script changed something, and the secrets afterwards.
    async fn change_secrets(&self, topic: &Topic, call: ScriptCall) -> Result<(bool, Vec<SigningSecret>)> {
        let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
        let (version, changed) = (reply.count()?, reply.count()? > 0);
        let secrets = SigningSecret::decode_all(&reply.bytes()?)
            .ok_or_else(|| Error::Damaged(format!("the secrets of topic {topic} cannot be read")))?;
        self.cache
            .apply_write(ConfigPart::Secrets, version, topic, |config| config.secrets.clone_from(&secrets));
        Ok((changed, secrets))
    }

    /// A call that changes the values of a topic, with the arguments of `scripts/settings.lua`.
    fn change(&self, script: Script, topic: &Topic) -> ScriptCall {
        let keys = &self.shards.keys;
        ScriptCall::new(
            script,
            keys.slot,
            vec![keys.settings.clone(), keys.meta.clone()],
            Vec::with_capacity(6),
        )
        .wait_with_mark(keys.mark.clone())
        .arg(keys.settings_channel.clone())
        .arg(topic.as_str())
        .deadline()
        .arg(self.shards.process())
    }
}
