//! What is set for a topic in an export: settings, pause and secrets, unredacted.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{
    job::{
        Actor, CallRate, DedupWindow, Delay, OnExpiry, Pause, Reason, RetrySchedule, SecretId, SigningKey,
        SigningSecret, Topic, TopicCallback, TopicPause, TopicSettings, Ttr,
        json::{CallbackJson, Moment, Seconds, decode_other, encode_other},
    },
    store::{TopicConfig, TopicRecord},
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicLine {
    topic: String,
    settings: SettingsLine,
    paused: TopicPauseLine,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<SecretLine>,
    /// Values of later versions, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Vec<Seconds>>,
    require_receipt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_finish: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_expiry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedup: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<CallbackJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicPauseLine {
    delivery: PauseLine,
    intake: PauseLine,
}

/// `true`, `false`, or what is known of the pause.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PauseLine {
    Flag(bool),
    Pause(KnownPause),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownPause {
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Moment>,
}

impl PauseLine {
    fn new(pause: Option<&Pause>) -> Self {
        let Some(pause) = pause else { return Self::Flag(false) };
        if *pause == Pause::default() {
            return Self::Flag(true);
        }
        Self::Pause(KnownPause {
            since: pause.since.map(Moment),
            by: pause.by.as_ref().map(|by| by.as_str().to_owned()),
            reason: pause.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            until: pause.until.map(Moment),
        })
    }

    fn parse(self) -> Result<Option<Pause>, String> {
        let pause = match self {
            Self::Flag(is_paused) => return Ok(is_paused.then(Pause::default)),
            Self::Pause(pause) => pause,
        };
        let by = pause.by.map(|by| Actor::parse(&by)).transpose();
        let reason = pause.reason.map(|text| Reason::new(&text).ok_or("the reason of its pause is too long"));
        Ok(Some(Pause {
            since: pause.since.map(|since| since.0),
            by: by.map_err(|error| format!("the author of its pause {error}"))?,
            reason: reason.transpose()?,
            until: pause.until.map(|until| until.0),
        }))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretLine {
    id: String,
    created_at: Moment,
    secret: String,
}

impl TopicLine {
    pub fn new(record: &TopicRecord) -> Self {
        // When endpoints were called at once matters to the servers of this store alone.
        let TopicConfig { settings, pause, secrets, called_at: _ } = &record.config;
        let secret = |secret: &SigningSecret| SecretLine {
            id: secret.id.to_string(),
            created_at: Moment(secret.created_at),
            secret: secret.key.reveal(),
        };
        Self {
            topic: record.topic.as_str().to_owned(),
            settings: SettingsLine {
                ttr: settings.ttr.map(|ttr| Seconds(ttr.as_duration())),
                max_attempts: settings.max_attempts,
                retry: settings
                    .retry
                    .as_ref()
                    .map(|retry| retry.steps().iter().copied().map(Seconds).collect()),
                require_receipt: settings.require_receipt,
                late_finish: settings.late_finish,
                expire: settings.expire.map(|expire| Seconds(expire.as_duration())),
                on_expiry: settings.on_expiry.map(|on_expiry| on_expiry.as_str().to_owned()),
                dedup: settings.dedup.map(|window| Seconds(window.as_duration())),
                callback: callback_line(&settings.callback),
            },
            paused: TopicPauseLine {
                delivery: PauseLine::new(pause.delivery.as_ref()),
                intake: PauseLine::new(pause.intake.as_ref()),
            },
            secrets: secrets.iter().map(secret).collect(),
            values: encode_other(&record.other),
        }
    }

    /// The record in the line; what is wrong with it.
    pub fn into_record(self) -> Result<TopicRecord, String> {
        let topic = Topic::parse(&self.topic).map_err(|error| format!("the topic {error}"))?;
        let named = format!("topic {topic}");
        self.parse(topic).map_err(|why| format!("{named}: {why}"))
    }

    fn parse(self, topic: Topic) -> Result<TopicRecord, String> {
        let SettingsLine {
            ttr,
            max_attempts,
            retry,
            require_receipt,
            late_finish,
            expire,
            on_expiry,
            dedup,
            callback,
        } = self.settings;
        let named = |name: String| OnExpiry::ALL.into_iter().find(|on_expiry| on_expiry.as_str() == name);
        let schedule = |steps: Vec<Seconds>| RetrySchedule::new(steps.iter().map(|step| step.0).collect());
        let settings = TopicSettings {
            ttr: ttr.map(|ttr| Ttr::new(ttr.0)).transpose().map_err(|error| format!("its ttr {error}"))?,
            max_attempts,
            retry: retry.map(schedule).transpose().map_err(|error| format!("its retry {error}"))?,
            require_receipt,
            late_finish,
            expire: expire
                .map(|expire| Delay::new(expire.0))
                .transpose()
                .map_err(|error| format!("its expire {error}"))?,
            on_expiry: on_expiry.map(|name| named(name).ok_or("its on_expiry is unknown")).transpose()?,
            dedup: dedup
                .map(|window| DedupWindow::new(window.0))
                .transpose()
                .map_err(|error| format!("its dedup {error}"))?,
            callback: callback.map(parse_callback).transpose()?.unwrap_or_default(),
        };
        let pause =
            TopicPause { delivery: self.paused.delivery.parse()?, intake: self.paused.intake.parse()? };
        if self.secrets.len() > SigningSecret::MAX_COUNT {
            return Err("it has too many secrets".to_owned());
        }
        let secrets = self.secrets.into_iter().map(SecretLine::parse).collect::<Result<_, _>>()?;
        let record = TopicRecord {
            topic,
            config: TopicConfig { settings, pause, secrets, called_at: None },
            other: decode_other(self.values.as_deref())?,
        };
        // Values that this version knows would hide those of the line.
        let again = TopicRecord::decode(record.topic.clone(), &record.values());
        again.filter(|again| *again == record).ok_or_else(|| "its values are out of range".to_owned())
    }
}

impl SecretLine {
    fn parse(self) -> Result<SigningSecret, String> {
        let id = SecretId::parse(&self.id).ok_or("the id of a secret is malformed")?;
        let key = SigningKey::parse(&self.secret).map_err(|error| format!("a secret {error}"))?;
        Ok(SigningSecret { id, created_at: self.created_at.0, key })
    }
}

fn callback_line(TopicCallback { target, rate, concurrency }: &TopicCallback) -> Option<CallbackJson> {
    let is_set = target.is_some() || rate.is_some() || concurrency.is_some();
    is_set.then(|| CallbackJson {
        rate: rate.map(|rate| f64::from(rate.as_milli()) / 1e3),
        concurrency: concurrency.map(NonZeroU32::get),
        ..target.as_ref().map(CallbackJson::new).unwrap_or_default()
    })
}

fn parse_callback(line: CallbackJson) -> Result<TopicCallback, String> {
    let rate = line.rate.map(CallRate::new).transpose();
    Ok(TopicCallback {
        rate: rate.map_err(|error| format!("the rate of its callback {error}"))?,
        concurrency: line.concurrency.and_then(NonZeroU32::new),
        target: line.url.is_some().then(|| line.into_callback()).transpose()?,
    })
}
