//! One call of a script: its keys, its arguments and how long to retry it. Each script has its effect only once even
//! when it runs twice, so that `retry.rs` may resend it. Sends nothing itself.

use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use crate::{
    job::Due,
    store::redis::{keys::Shard, scripts::Script, time::millis_arg},
};

/// How long a call is retried that must not delay others: time enough to find a slot's new server.
const SHORT_RETRY: Duration = Duration::from_millis(100);

/// A script with its keys and arguments.
#[derive(Debug)]
pub struct ScriptCall {
    pub script: Script,
    pub slot: u16,
    pub keys: Vec<Key>,
    pub args: Vec<Value>,
    /// The key to write before a `WAIT`; only changes that wait for replicas have it.
    pub mark: Option<Key>,
    /// How long to retry, if not `retry_for` of the options.
    pub retry_for: Option<Duration>,
    /// The index of the argument that holds the deadline: a change that arrives later has no effect.
    pub deadline_arg: Option<usize>,
    /// When the caller began to wait, if that was before the call is made.
    pub started_us: Option<i64>,
    /// The shards that the script changes.
    pub changes: Vec<Shard>,
}

impl ScriptCall {
    /// A call with keys of one slot.
    pub fn new(script: Script, slot: u16, keys: Vec<Key>, args: Vec<Value>) -> Self {
        Self {
            script,
            slot,
            keys,
            args,
            mark: None,
            retry_for: None,
            deadline_arg: None,
            started_us: None,
            changes: Vec::new(),
        }
    }

    /// Makes the call wait for replicas, after writing `mark`.
    #[must_use]
    pub fn wait_with_mark(self, mark: Key) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// Makes the call fail at the first fault.
    #[must_use]
    pub fn without_retry(self) -> Self {
        Self { retry_for: Some(Duration::ZERO), ..self }
    }

    /// Makes the call fail soon, for callers that can try other shards.
    #[must_use]
    pub fn with_short_retry(self) -> Self {
        Self { retry_for: Some(SHORT_RETRY), ..self }
    }

    /// Adds the argument that holds the deadline.
    #[must_use]
    pub fn deadline(self) -> Self {
        Self { deadline_arg: Some(self.args.len()), ..self }.arg("")
    }

    /// Counts the time that the caller has waited already.
    #[must_use]
    pub fn started_at(self, started_us: i64) -> Self {
        Self { started_us: Some(started_us), ..self }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<Value>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds an optional argument; scripts read `''` as none.
    #[must_use]
    pub fn optional_arg(self, arg: Option<impl Into<Value>>) -> Self {
        match arg {
            Some(arg) => self.arg(arg),
            None => self.arg(""),
        }
    }

    /// Adds the two arguments of a due time: what it is, and milliseconds. `None` has no kind.
    #[must_use]
    pub fn due_args(self, due: Option<Due>) -> Self {
        match due {
            None => self.arg("").arg(""),
            Some(Due::After(delay)) => self.arg("after").arg(millis_arg(delay.as_duration())),
            Some(Due::At(moment)) => self.arg("at").arg(moment.as_millis()),
        }
    }

    /// Adds an argument of bytes.
    #[must_use]
    pub fn bytes_arg(self, arg: impl Into<Bytes>) -> Self {
        let arg: Bytes = arg.into();
        self.arg(arg)
    }
}
