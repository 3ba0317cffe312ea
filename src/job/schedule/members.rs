//! The members of a stored JSON object, those of later versions among them, which stay as they are.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Members by name, each as JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(BTreeMap<String, String>);

impl Members {
    /// Reads an object; why it is none.
    pub fn decode(text: &str) -> Result<Self, String> {
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|error| format!("is no JSON object: {error}"))?;
        Ok(Self(members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()))
    }

    /// The object as text.
    pub fn encode(&self) -> String {
        let mut text = String::from("{");
        for (name, value) in &self.0 {
            let comma = if text.len() == 1 { "" } else { "," };
            let name = serde_json::Value::from(name.as_str());
            write!(text, "{comma}{name}:{value}").expect("a String takes every text");
        }
        text + "}"
    }

    /// Removes a member and reads it.
    pub fn remove<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, String> {
        let value = self.0.remove(name);
        let parsed = value.map(|value| serde_json::from_str(&value)).transpose();
        parsed.map_err(|error| format!("has a malformed {name}: {error}"))
    }

    /// Removes a member that must be there and reads it.
    pub fn require<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, String> {
        self.remove(name)?.ok_or_else(|| format!("has no {name}"))
    }

    /// Sets a member, or leaves it out.
    pub fn set<T: Serialize>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            let value = serde_json::to_string(&value).expect("values of schedules are plain JSON");
            self.0.insert(name.to_owned(), value);
        }
    }
}
