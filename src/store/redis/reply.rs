//! Reads the reply of a script, value by value. A reply of another shape means that
//! the keys belong to another program or to another version.

use bytes::Bytes;
use fred::types::Value;

use crate::store::{Error, Result};

/// What scripts reply for one job, by number as in `scripts/shard.lua` and `scripts/finish.lua`.
pub mod code {
    use crate::store::Refusal;

    pub const OK: i64 = 1;
    /// The job belongs to a topic whose keys the call did not have.
    pub const MOVED: i64 = 4;
    /// The action does not apply to the job's state, which comes next.
    pub const IN_STATE: i64 = 5;

    /// The job was replaced during the reservation, which has ended; its outlet comes next.
    pub const REPLACED: i64 = 11;

    /// Another script decides about this finish.
    pub const RARE: i64 = 12;

    /// Finished after its reservation had timed out.
    pub const FINISHED_LATE: i64 = 13;

    /// The refusal that a number stands for by itself.
    pub fn refusal(code: i64) -> Option<Refusal> {
        match code {
            2 => Some(Refusal::Gone),
            3 => Some(Refusal::Lost),
            6 => Some(Refusal::NotReserved),
            7 => Some(Refusal::ReceiptRequired),
            8 => Some(Refusal::ExpiresFirst),
            9 => Some(Refusal::Expired),
            10 => Some(Refusal::TimedOut),
            REPLACED => Some(Refusal::Replaced),
            _ => None,
        }
    }
}

/// The values of one reply, in order.
#[derive(Debug)]
pub struct Reply(std::vec::IntoIter<Value>);

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

    /// A text that must be a valid name, such as an id or a topic.
    pub fn name<T: std::str::FromStr>(&mut self) -> Result<T> {
        self.text()?.parse().map_err(|_| unexpected("a name"))
    }

    /// A valid name, or `None` for an empty text.
    pub fn optional_name<T: std::str::FromStr>(&mut self) -> Result<Option<T>> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| unexpected("a name"))
    }

    /// All values as texts.
    pub fn texts(&mut self) -> Result<Vec<String>> {
        (0..self.len()).map(|_| self.text()).collect()
    }

    pub fn list(&mut self) -> Result<Self> {
        Self::new(self.value()?)
    }
}

/// The error for a reply that is not `expected`.
pub fn unexpected(expected: &str) -> Error {
    Error::Damaged(format!("unexpected reply of a script: expected {expected}"))
}
