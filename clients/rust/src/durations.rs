//! Durations and moments as the API reads and writes them.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration as the API reads it, exact to the millisecond.
pub(crate) fn duration_text(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

pub(crate) fn duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration_text(*duration))
}

pub(crate) fn some_duration<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration.map(duration_text).serialize(to)
}

pub(crate) fn durations<S: Serializer>(durations: &[Duration], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(durations.iter().copied().map(duration_text))
}

/// A moment to the millisecond.
pub(crate) fn moment<S: Serializer>(moment: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{moment:.3}"))
}

pub(crate) fn some_moment<S: Serializer>(moment: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    moment.map(|moment| format!("{moment:.3}")).serialize(to)
}

pub(crate) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
}

pub(crate) fn some_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    seconds(from).map(Some)
}

pub(crate) fn list_of_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
    let seconds = Vec::<f64>::deserialize(from)?;
    let durations = seconds.into_iter().map(Duration::try_from_secs_f64);
    durations.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}
