//! Reads what a script answered, value by value. An answer of another shape than agreed means that
//! somebody else's keys, or another version's, are in our place.

use bytes::Bytes;
use fred::types::Value;

use crate::store::{Error, Result};

/// The values of one answer, in order.
#[derive(Debug)]
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// The values of an array.
    pub fn new(value: Value) -> Result<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(unexpected("a list")),
        }
    }

    /// Whether every value was read.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// How many values are left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn value(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| unexpected("one more value"))
    }

    pub fn int(&mut self) -> Result<i64> {
        self.value()?.as_i64().ok_or_else(|| unexpected("a number"))
    }

    /// A number that counts something.
    pub fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| unexpected("a count"))
    }

    pub fn bytes(&mut self) -> Result<Bytes> {
        self.value()?.into_bytes().ok_or_else(|| unexpected("bytes"))
    }

    pub fn text(&mut self) -> Result<String> {
        self.value()?.into_string().ok_or_else(|| unexpected("a text"))
    }

    /// A text that must be a name of ours.
    pub fn name<T: std::str::FromStr>(&mut self) -> Result<T> {
        self.text()?.parse().map_err(|_| unexpected("a name"))
    }

    /// A name of ours, or nothing where the script had none to say.
    pub fn name_or_none<T: std::str::FromStr>(&mut self) -> Result<Option<T>> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| unexpected("a name"))
    }

    pub fn list(&mut self) -> Result<Self> {
        Self::new(self.value()?)
    }
}

/// The error for an answer that is not `expected`.
pub(super) fn unexpected(expected: &str) -> Error {
    Error::Damaged(format!("a script's answer is not what was agreed: expected {expected}"))
}
