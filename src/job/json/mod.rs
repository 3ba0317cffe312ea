//! The one JSON form of a job, as exports and the notices of bulk operations have it: the members of the API's job, with the
//! values of headers and without those members that the API computes. Knows no file and no notice.

mod callback;
mod expiry;
mod history;
mod values;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

pub use callback::CallbackJson;
use expiry::ExpiryJson;
use history::{EntryJson, parse_actor, parse_history};
pub use values::{Moment, Seconds, decode_other, encode_other};
use values::{decode_bytes, encode_bytes};

use super::{
    Body, DedupWindow, History, Job, JobId, JobSpec, JobState, MAX_ATTEMPTS_LIMIT, NoteText, ProgressNote,
    Reason, Reserved, RetrySchedule, State, Topic, TraceContext, Ttr,
};

const WRONG_RESERVATION: &str = "exactly a reserved job has reserved_at and reserved_until";

/// A job in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobJson {
    /// Its id, not checked.
    pub id: String,
    topic: String,
    state: String,
    created_at: Moment,
    due_at: Moment,
    ttr: Seconds,
    attempts: u32,
    max_attempts: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retry: Vec<Seconds>,
    #[serde(default, skip_serializing_if = "is_false")]
    require_receipt: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    late_finish: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<ExpiryJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedup: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noted_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<CallbackJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<EntryJson>,
    /// The stored history in base64, if its entries do not say all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_history: Option<String>,
    /// The receipt of its reservation. This and what follows is in exports only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// The fingerprint of its request, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The receipt of a reservation that timed out, and attributes of later versions, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<String>,
    /// The body.
    #[serde(default, deserialize_with = "some_value", skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// The body, if it has line breaks between its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_text: Option<String>,
}

/// A value that is there, also if it is `null`.
fn some_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl JobJson {
    /// A job without its body and without what only an export has.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        let JobSpec {
            ttr,
            max_attempts,
            retry,
            require_receipt,
            late_finish,
            expiry,
            revision,
            dedup,
            callback,
            trace,
        } = &job.spec;
        let history: Vec<EntryJson> = job.history.entries().map(|entry| EntryJson::new(&entry)).collect();
        let says_all = parse_history(&history).is_ok_and(|parsed| parsed == job.history);
        Self {
            id: job.id.as_str().to_owned(),
            topic: job.topic.as_str().to_owned(),
            state: job.state().as_str().to_owned(),
            created_at: Moment(job.created_at),
            due_at: Moment(job.due_at),
            ttr: Seconds(ttr.as_duration()),
            attempts: job.attempts,
            max_attempts: *max_attempts,
            retry: retry.steps().iter().copied().map(Seconds).collect(),
            require_receipt: *require_receipt,
            late_finish: *late_finish,
            expiry: expiry.zip(job.expires_at).map(|(expiry, at)| ExpiryJson::new(expiry, at)),
            revision: *revision,
            dedup: dedup.map(|window| Seconds(window.as_duration())),
            reserved_at: job.reserved_at().map(Moment),
            reserved_by: job.reserved_by().map(|by| by.as_str().to_owned()),
            reserved_until: job.reserved_until().map(Moment),
            dead_at: job.dead_at().map(Moment),
            reason: job.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            note: job.note.as_ref().map(|note| note.text.as_str().to_owned()),
            noted_at: job.note.as_ref().map(|note| Moment(note.at)),
            callback: callback.as_deref().map(CallbackJson::new),
            traceparent: trace.as_ref().map(TraceContext::traceparent),
            tracestate: trace.as_ref().and_then(TraceContext::tracestate).map(str::to_owned),
            history,
            stored_history: (!says_all).then(|| encode_bytes(job.history.as_bytes())),
            receipt: None,
            fingerprint: None,
            attributes: None,
            body: None,
            body_text: None,
        }
    }

    /// The job with this body; what is wrong with it.
    ///
    /// # Errors
    /// A sentence that begins with the member at fault.
    pub fn into_job(self, body: Body) -> Result<Job, String> {
        let state = self.state()?;
        let history = match &self.stored_history {
            Some(stored) => History::from_stored(&decode_bytes(stored)?),
            None => parse_history(&self.history)?,
        };
        let (expiry, expires_at) = self.expiry.map(ExpiryJson::into_expiry).transpose()?.unzip();
        let steps = self.retry.iter().map(|step| step.0).collect();
        let spec = JobSpec {
            ttr: Ttr::new(self.ttr.0).map_err(|error| format!("its ttr {error}"))?,
            max_attempts: self.max_attempts,
            retry: RetrySchedule::new(steps).map_err(|error| format!("its retry {error}"))?,
            require_receipt: self.require_receipt,
            late_finish: self.late_finish,
            expiry,
            revision: self.revision,
            dedup: self
                .dedup
                .map(|window| DedupWindow::new(window.0))
                .transpose()
                .map_err(|error| format!("its dedup {error}"))?,
            callback: self.callback.map(CallbackJson::into_callback).transpose()?.map(Arc::new),
            trace: parse_trace(self.traceparent.as_deref(), self.tracestate.as_deref())?,
        };
        if spec.max_attempts > MAX_ATTEMPTS_LIMIT {
            return Err("its attempts are out of range".to_owned());
        }
        Ok(Job {
            id: JobId::parse(&self.id).map_err(|error| format!("its id {error}"))?,
            topic: Topic::parse(&self.topic).map_err(|error| format!("its topic {error}"))?,
            state,
            created_at: self.created_at.0,
            due_at: self.due_at.0,
            expires_at,
            spec,
            attempts: self.attempts,
            reason: self.reason.as_deref().map(parse_reason).transpose()?,
            note: parse_note(self.note.as_deref(), self.noted_at)?,
            history,
            body,
        })
    }

    /// The state with what belongs to it, and nothing of another state.
    fn state(&self) -> Result<JobState, String> {
        let state = State::ALL.into_iter().find(|state| state.as_str() == self.state);
        let by = self.reserved_by.as_deref().map(parse_actor).transpose()?;
        let reserved = match (self.reserved_at, self.reserved_until) {
            (Some(Moment(since)), Some(Moment(until))) => Some(Reserved { since, until, by }),
            (None, None) if by.is_none() => None,
            (Some(_) | None, Some(_) | None) => return Err(WRONG_RESERVATION.to_owned()),
        };
        match (state.ok_or("its state is unknown")?, reserved, self.dead_at) {
            (State::Delayed, None, None) => Ok(JobState::Delayed),
            (State::Ready, None, None) => Ok(JobState::Ready),
            (State::Reserved, Some(reserved), None) => Ok(JobState::Reserved(reserved)),
            (State::Dead, None, Some(Moment(at))) => Ok(JobState::Dead(at)),
            (State::Reserved, None, _) | (State::Delayed | State::Ready | State::Dead, Some(_), _) => {
                Err(WRONG_RESERVATION.to_owned())
            }
            (State::Delayed | State::Ready | State::Reserved, _, Some(_)) | (State::Dead, None, None) => {
                Err("exactly a dead letter has dead_at".to_owned())
            }
        }
    }
}

fn parse_trace(parent: Option<&str>, state: Option<&str>) -> Result<Option<TraceContext>, String> {
    let Some(parent) = parent else {
        return if state.is_none() {
            Ok(None)
        } else {
            Err("its tracestate is without a traceparent".to_owned())
        };
    };
    let trace = TraceContext::parse(parent, state).filter(|trace| trace.tracestate() == state);
    trace.map(Some).ok_or_else(|| "its trace context is malformed".to_owned())
}

fn parse_note(text: Option<&str>, at: Option<Moment>) -> Result<Option<ProgressNote>, String> {
    match (text, at) {
        (None, None) => Ok(None),
        (Some(text), Some(Moment(at))) => {
            let text = NoteText::new(text).ok_or("its note must be 1 to 256 bytes long")?;
            Ok(Some(ProgressNote { at, text }))
        }
        (Some(_), None) | (None, Some(_)) => Err("exactly a job with a note has noted_at".to_owned()),
    }
}

fn parse_reason(text: &str) -> Result<Reason, String> {
    Reason::new(text).ok_or_else(|| "its reason is too long".to_owned())
}
