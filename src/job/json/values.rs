//! Single values in JSON.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::job::{Attributes, Timestamp, format_seconds, parse_duration};

/// A duration as the API writes it: a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = RawValue::from_string(format_seconds(self.0)).map_err(serde::ser::Error::custom)?;
        number.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        parse_duration(raw.get()).map(Self).map_err(de::Error::custom)
    }
}

/// A moment as the API writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).map(Self).map_err(de::Error::custom)
    }
}

/// Bytes in base64.
pub fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes in base64; why there are none.
pub fn decode_bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|_| "it has invalid base64".to_owned())
}

/// Attributes of later versions, unless there are none.
pub fn encode_other(other: &Attributes) -> Option<String> {
    (!other.is_empty()).then(|| encode_bytes(other.as_bytes()))
}

/// Attributes of later versions; why they are none.
pub fn decode_other(text: Option<&str>) -> Result<Attributes, String> {
    let bytes = text.map(decode_bytes).transpose()?.unwrap_or_default();
    Attributes::decode(&bytes).ok_or_else(|| "its attributes are malformed".to_owned())
}
