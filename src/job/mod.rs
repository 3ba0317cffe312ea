//! The domain: jobs, their names, their times and their retry schedules.
//!
//! Pure: no I/O, no clock, no HTTP and no storage format. The constructors enforce the ranges of the API, so every value
//! is valid.

mod actor;
mod attributes;
mod body;
mod callback;
mod callback_headers;
mod callback_url;
mod dedup;
mod duration;
mod expiry;
mod filter;
mod history;
pub(crate) mod json;
mod model;
mod names;
mod network;
mod new_job;
mod outlet;
mod progress_note;
mod retry;
pub mod schedule;
mod signing_secret;
mod spec;
mod surrogates;
mod time;
mod topic;
mod topic_values;
mod trace_context;

pub use actor::{Actor, ActorError};
pub use attributes::{Attributes, Tag, decode_steps, encode_steps};
pub use body::{Body, BodyError, MAX_DEPTH};
pub use callback::{CallMethod, CallRate, Callback, CallbackError, TopicCallback};
pub use callback_headers::{CallHeaders, HeaderError, check_name, check_value};
pub use callback_url::{CallbackUrl, Host, Origin, Scheme, UrlError};
pub use dedup::{DedupWindow, IdEnd, RememberedId};
pub use duration::{DurationError, format_seconds, parse_duration};
pub use expiry::{Expire, ExpiresAt, Expiry, ExpiryChange, OnExpiry};
pub use filter::{TopicFilter, TopicPattern};
pub use history::{AttemptEnd, DueChange, History, HistoryEntry, HistoryEvent};
pub use model::{
    Delay, Due, DueKind, Job, JobState, MAX_ATTEMPTS_LIMIT, Reason, Reserved, State, Ttr, ValueError,
};
pub use names::{JobId, NameError, OperationId, Receipt, ScheduleName, Topic};
pub use network::{AddressPolicy, AddressRange, Network, NetworkError};
pub use new_job::{Fingerprint, NewJob};
pub use outlet::{HostNumber, Outlet};
pub use progress_note::{NoteText, ProgressNote};
pub use retry::{DEFAULT_MAX_ATTEMPTS, RetrySchedule};
pub use signing_secret::{SecretError, SecretId, SigningKey, SigningSecret};
pub use spec::JobSpec;
pub use time::{Now, TimeError, Timestamp};
pub use topic::{Pause, PausedOperations, TopicPause, TopicSettings};
pub use topic_values::{decode_called_at, encode_called_at, topic_values_need_room};
pub use trace_context::TraceContext;
