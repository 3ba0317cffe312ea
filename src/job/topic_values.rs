//! What is set for a topic as both engines store it: tagged values in the form of [`Attributes`]. Values whose tag is
//! unknown, written by a later version, are kept.

use std::{num::NonZeroU32, time::Duration};

use super::{
    Actor, Attributes, CallRate, Callback, DedupWindow, Delay, OnExpiry, Pause, Reason, SigningSecret, Tag,
    Timestamp, TopicCallback, TopicPause, TopicSettings, Ttr, decode_steps, encode_steps,
};

/// 8 bytes, in milliseconds.
const TTR: Tag = Tag(1);
/// 4 bytes.
const MAX_ATTEMPTS: Tag = Tag(2);
/// As in a record. Empty: jobs are not delayed when they are tried again.
const RETRY: Tag = Tag(3);
/// Present when it is set. It has no value yet; one of a later version is kept.
const REQUIRE_RECEIPT: Tag = Tag(4);
/// Both are present when they are set, with [`Pause::encode`]. An earlier version left it empty.
const PAUSE_DELIVERY: Tag = Tag(5);
const PAUSE_INTAKE: Tag = Tag(6);
/// As in a record: [`Callback::encode`].
const CALLBACK: Tag = Tag(7);
/// 4 bytes, in thousandths of a call a second.
const CALL_RATE: Tag = Tag(8);
/// 4 bytes.
const CALL_CONCURRENCY: Tag = Tag(9);
/// [`SigningSecret::encode_all`].
const SECRETS: Tag = Tag(10);
/// 8 bytes, in milliseconds.
const EXPIRE: Tag = Tag(11);
/// The name in the API.
const ON_EXPIRY: Tag = Tag(12);
/// 1 byte: 0 or 1.
const LATE_FINISH: Tag = Tag(13);
/// [`DedupWindow::encode`].
const DEDUP: Tag = Tag(14);
/// 8 bytes, in milliseconds since 1970.
const CALLED_AT: Tag = Tag(15);

/// Whether `after` has a value that `before` lacks, or another one that is not shorter. A pause and a moment take little room and do
/// not count: operators pause and call when something is wrong.
#[must_use]
pub fn topic_values_need_room(before: &Attributes, after: &Attributes) -> bool {
    let is_small = |tag| [PAUSE_DELIVERY, PAUSE_INTAKE, CALLED_AT].contains(&tag);
    after
        .iter()
        .filter(|(tag, _)| !is_small(*tag))
        .any(|(tag, value)| before.get(tag).is_none_or(|old| old != value && old.len() <= value.len()))
}

impl TopicSettings {
    /// The settings among the values of a topic; `None` when one is malformed.
    #[must_use]
    pub fn decode(values: &Attributes) -> Option<Self> {
        let duration = |bytes: &[u8]| Some(Duration::from_millis(u64::from_be_bytes(bytes.try_into().ok()?)));
        let on_expiry =
            |bytes: &[u8]| OnExpiry::ALL.into_iter().find(|named| named.as_str().as_bytes() == bytes);
        Some(Self {
            ttr: optional(values.get(TTR), |bytes| Ttr::new(duration(bytes)?).ok())?,
            max_attempts: optional(values.get(MAX_ATTEMPTS), decode_u32)?,
            retry: optional(values.get(RETRY), decode_steps)?,
            require_receipt: values.get(REQUIRE_RECEIPT).is_some(),
            expire: optional(values.get(EXPIRE), |bytes| Delay::new(duration(bytes)?).ok())?,
            on_expiry: optional(values.get(ON_EXPIRY), on_expiry)?,
            late_finish: optional(values.get(LATE_FINISH), decode_bool)?,
            dedup: optional(values.get(DEDUP), DedupWindow::decode)?,
            callback: TopicCallback::decode(values)?,
        })
    }

    /// Replaces the settings among the values of a topic.
    pub fn encode_into(&self, values: &mut Attributes) {
        let Self {
            ttr,
            max_attempts,
            retry,
            require_receipt,
            late_finish,
            expire,
            on_expiry,
            dedup,
            callback,
        } = self;
        set_duration(values, TTR, ttr.map(Ttr::as_duration));
        set_u32(values, MAX_ATTEMPTS, *max_attempts);
        values.set(RETRY, retry.as_ref().map(encode_steps).as_deref());
        set_flag(values, REQUIRE_RECEIPT, *require_receipt);
        values
            .set(LATE_FINISH, late_finish.map(|allowed| [u8::from(allowed)]).as_ref().map(|byte| &byte[..]));
        values.set(DEDUP, dedup.map(DedupWindow::encode).as_ref().map(|bytes| &bytes[..]));
        set_duration(values, EXPIRE, expire.map(Delay::as_duration));
        values.set(ON_EXPIRY, on_expiry.map(|on_expiry| on_expiry.as_str().as_bytes()));
        callback.encode_into(values);
    }
}

impl TopicCallback {
    fn decode(values: &Attributes) -> Option<Self> {
        let rate = |bytes: &[u8]| CallRate::from_milli(decode_u32(bytes)?).ok();
        let concurrency = |bytes: &[u8]| NonZeroU32::new(decode_u32(bytes)?);
        Some(Self {
            target: optional(values.get(CALLBACK), Callback::decode)?,
            rate: optional(values.get(CALL_RATE), rate)?,
            concurrency: optional(values.get(CALL_CONCURRENCY), concurrency)?,
        })
    }

    fn encode_into(&self, values: &mut Attributes) {
        let Self { target, rate, concurrency } = self;
        values.set(CALLBACK, target.as_ref().map(Callback::encode).as_deref());
        set_u32(values, CALL_RATE, rate.map(CallRate::as_milli));
        set_u32(values, CALL_CONCURRENCY, concurrency.map(NonZeroU32::get));
    }
}

impl SigningSecret {
    /// The secrets among the values of a topic, oldest first; `None` when they are malformed.
    #[must_use]
    pub fn decode_from(values: &Attributes) -> Option<Vec<Self>> {
        Self::decode_all(values.get(SECRETS).unwrap_or_default())
    }

    /// Replaces the secrets among the values of a topic.
    pub fn encode_into(secrets: &[Self], values: &mut Attributes) {
        values.set(SECRETS, (!secrets.is_empty()).then(|| Self::encode_all(secrets)).as_deref());
    }
}

/// When the endpoints of a topic were last to be called at once, among its values; `None` also when that is malformed, because it
/// decides nothing by itself.
#[must_use]
pub fn decode_called_at(values: &Attributes) -> Option<Timestamp> {
    let bytes = values.get(CALLED_AT)?.try_into().ok()?;
    Some(Timestamp::from_millis(i64::from_be_bytes(bytes)))
}

/// Replaces that moment among the values of a topic.
pub fn encode_called_at(called_at: Option<Timestamp>, values: &mut Attributes) {
    let bytes = called_at.map(|at| at.as_millis().to_be_bytes());
    values.set(CALLED_AT, bytes.as_ref().map(<[u8; 8]>::as_slice));
}

impl TopicPause {
    /// The pause among the values of a topic.
    #[must_use]
    pub fn decode(values: &Attributes) -> Self {
        let pause = |tag| values.get(tag).map(Pause::decode);
        Self { delivery: pause(PAUSE_DELIVERY), intake: pause(PAUSE_INTAKE) }
    }

    /// Replaces the pauses among the values of a topic.
    pub fn encode_into(&self, values: &mut Attributes) {
        let Self { delivery, intake } = self;
        values.set(PAUSE_DELIVERY, delivery.as_ref().map(Pause::encode).as_deref());
        values.set(PAUSE_INTAKE, intake.as_ref().map(Pause::encode).as_deref());
    }
}

/// Tags within the value of a pause. Moments have 8 bytes, in milliseconds.
const SINCE: Tag = Tag(1);
const BY: Tag = Tag(2);
const REASON: Tag = Tag(3);
const UNTIL: Tag = Tag(4);

impl Pause {
    fn encode(&self) -> Vec<u8> {
        let Self { since, by, reason, until } = self;
        let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.as_millis().to_be_bytes());
        let mut values = Attributes::default();
        values.set(SINCE, moment(*since).as_ref().map(<[u8; 8]>::as_slice));
        values.set(BY, by.as_ref().map(|by| by.as_str().as_bytes()));
        values.set(REASON, reason.as_ref().map(|reason| reason.as_str().as_bytes()));
        values.set(UNTIL, moment(*until).as_ref().map(<[u8; 8]>::as_slice));
        values.as_bytes().to_vec()
    }

    /// What cannot be read is left out: the operation is paused all the same.
    fn decode(bytes: &[u8]) -> Self {
        let values = Attributes::decode(bytes).unwrap_or_default();
        let moment =
            |tag| Some(Timestamp::from_millis(i64::from_be_bytes(values.get(tag)?.try_into().ok()?)));
        let text = |tag| std::str::from_utf8(values.get(tag)?).ok();
        Self {
            since: moment(SINCE),
            by: text(BY).and_then(|by| Actor::parse(by).ok()),
            reason: text(REASON).and_then(Reason::new),
            until: moment(UNTIL),
        }
    }
}

fn decode_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn decode_bool(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

fn set_duration(values: &mut Attributes, tag: Tag, duration: Option<Duration>) {
    let ms = duration.map(|duration| u64::try_from(duration.as_millis()).expect("is at most ten years"));
    values.set(tag, ms.map(u64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
}

fn set_u32(values: &mut Attributes, tag: Tag, number: Option<u32>) {
    values.set(tag, number.map(u32::to_be_bytes).as_ref().map(<[u8; 4]>::as_slice));
}

fn set_flag(values: &mut Attributes, tag: Tag, is_set: bool) {
    if values.get(tag).is_some() != is_set {
        values.set(tag, is_set.then_some(&[]));
    }
}

/// `Some(None)` when there is no value, `None` when it cannot be decoded.
fn optional<T>(value: Option<&[u8]>, decode: impl Fn(&[u8]) -> Option<T>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(bytes) => decode(bytes).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{CallbackUrl, RetrySchedule, SecretId, SigningKey, Timestamp};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settings_and_pauses_are_decoded_as_they_were_encoded(
            ttr_ms in prop::option::of(1_000u64..=2_592_000_000),
            max_attempts in prop::option::of(0u32..=1_000_000),
            steps_ms in prop::option::of(prop::collection::vec(0u64..315_576_000_000, 0..=64)),
            require_receipt in any::<bool>(),
            delivery in any::<bool>(),
            intake in any::<bool>(),
            url in prop::option::of("http://[a-z]{1,9}/"),
            rate in prop::option::of(10u32..=10_000_000),
            concurrency in prop::option::of(1u32..),
            secrets in 0u8..=2,
        ) {
            let schedule = |steps: Vec<u64>| {
                RetrySchedule::new(steps.into_iter().map(Duration::from_millis).collect()).expect("valid")
            };
            let settings = TopicSettings {
                ttr: ttr_ms.map(|ms| Ttr::new(Duration::from_millis(ms)).expect("valid")),
                max_attempts,
                retry: steps_ms.map(schedule),
                require_receipt,
                late_finish: delivery.then_some(intake),
                expire: ttr_ms.map(|ms| Delay::new(Duration::from_millis(ms)).expect("valid")),
                on_expiry: (secrets > 0).then_some(OnExpiry::Delete),
                dedup: (secrets > 1).then(|| DedupWindow::new(DedupWindow::MAX).expect("valid")),
                callback: TopicCallback {
                    target: url.map(|url| Callback::to(CallbackUrl::parse(&url).expect("valid"))),
                    rate: rate.map(|milli| CallRate::from_milli(milli).expect("valid")),
                    concurrency: concurrency.and_then(NonZeroU32::new),
                },
            };
            let secret = |n| SigningSecret {
                id: SecretId([n; 8]),
                created_at: Timestamp::from_millis(1),
                key: SigningKey::from_bytes(&[n; 24]).expect("valid"),
            };
            let secrets: Vec<_> = (0..secrets).map(secret).collect();
            let paused = Pause {
                since: rate.map(|rate| Timestamp::from_millis(i64::from(rate))),
                by: Actor::parse("ann").ok(),
                reason: Reason::new("the bank is down"),
                until: ttr_ms.map(|ms| Timestamp::from_millis(ms.cast_signed())),
            };
            let pause = TopicPause {
                delivery: delivery.then(|| paused.clone()),
                intake: intake.then(Pause::default),
            };
            let mut values = Attributes::default();
            values.set(Tag(200), Some(b"later"));
            pause.encode_into(&mut values);
            SigningSecret::encode_into(&secrets, &mut values);
            settings.encode_into(&mut values);
            prop_assert_eq!(SigningSecret::decode_from(&values), Some(secrets));
            prop_assert_eq!((TopicSettings::decode(&values), TopicPause::decode(&values)), (Some(settings), pause));
            TopicSettings::default().encode_into(&mut values);
            TopicPause::default().encode_into(&mut values);
            SigningSecret::encode_into(&[], &mut values);
            prop_assert_eq!(values.as_bytes(), b"\xc8\0\x05later");
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let values = Attributes::decode(&bytes);
            let _ = values.map(|values| (TopicSettings::decode(&values), SigningSecret::decode_from(&values)));
            let pause = Pause::decode(&bytes);
            prop_assert_eq!(Pause::decode(&pause.encode()), pause);
        }
    }
}
