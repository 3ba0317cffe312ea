//! A job in an export: the members of the API's job, unredacted, and those that only a store knows.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::values::{Moment, Seconds, decode_bytes, decode_other, encode_bytes, encode_other};
use crate::{
    job::{
        Actor, AttemptEnd, Attributes, Body, CallHeaders, CallMethod, Callback, CallbackUrl, Fingerprint,
        History, HistoryEntry, HistoryEvent, Job, JobId, MAX_ATTEMPTS_LIMIT, Reason, Receipt, RetrySchedule,
        State, Tag, Topic, TraceContext, Ttr,
    },
    store::JobRecord,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    id: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<CallbackLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<EntryLine>,
    /// The stored history in base64, if its entries do not say all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_history: Option<String>,
    fingerprint: String,
    /// Attributes of later versions, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<String>,
    #[serde(default, deserialize_with = "some_value", skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    /// The body, if it has line breaks between its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<String>,
}

/// A callback. That of a topic may have no URL.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbackLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryLine {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A value that is there, also if it is `null`.
fn some_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl JobLine {
    /// The line of a record; why there is none.
    pub fn new(record: &JobRecord) -> Result<Self, String> {
        let JobRecord { job, fingerprint, receipt, other } = record;
        let history: Vec<EntryLine> = job.history.entries().map(|entry| EntryLine::new(&entry)).collect();
        let says_all = parse_history(&history).is_ok_and(|parsed| parsed == job.history);
        let text =
            std::str::from_utf8(job.body.as_bytes()).map_err(|_| "its body is not UTF-8".to_owned())?;
        let (body, body_text) = if text.contains('\n') {
            (None, Some(text.to_owned()))
        } else {
            let raw =
                RawValue::from_string(text.to_owned()).map_err(|_| "its body is not JSON".to_owned())?;
            (Some(raw), None)
        };
        Ok(Self {
            id: job.id.as_str().to_owned(),
            topic: job.topic.as_str().to_owned(),
            state: job.state.as_str().to_owned(),
            created_at: Moment(job.created_at),
            due_at: Moment(job.due_at),
            ttr: Seconds(job.ttr.as_duration()),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            retry: job.retry.steps().iter().copied().map(Seconds).collect(),
            require_receipt: job.require_receipt,
            reserved_at: job.reserved_at.map(Moment),
            reserved_by: job.reserved_by.as_ref().map(|by| by.as_str().to_owned()),
            reserved_until: job.reserved_until.map(Moment),
            receipt: receipt.as_ref().map(ToString::to_string),
            dead_at: job.dead_at.map(Moment),
            reason: job.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            callback: job.callback.as_deref().map(CallbackLine::new),
            traceparent: job.trace.as_ref().map(TraceContext::traceparent),
            tracestate: job.trace.as_ref().and_then(TraceContext::tracestate).map(str::to_owned),
            history,
            stored_history: (!says_all).then(|| encode_bytes(job.history.as_bytes())),
            fingerprint: format!("{:032x}", u128::from_be_bytes(fingerprint.0)),
            attributes: encode_other(other),
            body,
            body_text,
        })
    }

    /// The record in the line; what is wrong with it.
    pub fn into_record(self) -> Result<JobRecord, String> {
        let id = JobId::parse(&self.id).map_err(|error| format!("its id {error}"))?;
        let named = format!("job {id}");
        self.parse(id).map_err(|why| format!("{named}: {why}"))
    }

    fn parse(self, id: JobId) -> Result<JobRecord, String> {
        let state = State::ALL.into_iter().find(|state| state.as_str() == self.state);
        let state = state.ok_or("its state is unknown")?;
        let history = match &self.stored_history {
            Some(stored) => History::from_stored(&decode_bytes(stored)?),
            None => parse_history(&self.history)?,
        };
        let text = match (self.body, self.body_text) {
            (Some(body), None) => String::from(Box::<str>::from(body)),
            (None, Some(text)) => text,
            (Some(_), Some(_)) | (None, None) => return Err("it must have one body".to_owned()),
        };
        let steps = self.retry.iter().map(|step| step.0).collect();
        let job = Job {
            id,
            topic: Topic::parse(&self.topic).map_err(|error| format!("its topic {error}"))?,
            state,
            created_at: self.created_at.0,
            due_at: self.due_at.0,
            ttr: Ttr::new(self.ttr.0).map_err(|error| format!("its ttr {error}"))?,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            retry: RetrySchedule::new(steps).map_err(|error| format!("its retry {error}"))?,
            require_receipt: self.require_receipt,
            reserved_at: self.reserved_at.map(|moment| moment.0),
            reserved_by: self.reserved_by.as_deref().map(parse_actor).transpose()?,
            reserved_until: self.reserved_until.map(|moment| moment.0),
            dead_at: self.dead_at.map(|moment| moment.0),
            reason: self.reason.as_deref().map(parse_reason).transpose()?,
            history,
            callback: self.callback.map(CallbackLine::into_callback).transpose()?.map(Arc::new),
            trace: parse_trace(self.traceparent.as_deref(), self.tracestate.as_deref())?,
            body: Body::parse(Bytes::from(text)).map_err(|error| format!("its body {error}"))?,
        };
        let receipt = self.receipt.as_deref().map(Receipt::parse).transpose();
        let receipt = receipt.map_err(|_| "its receipt is malformed")?;
        let record = JobRecord {
            job,
            fingerprint: parse_fingerprint(&self.fingerprint)?,
            receipt,
            other: decode_other(self.attributes.as_deref())?,
        };
        check(&record).map(|()| record).map_err(str::to_owned)
    }
}

/// Checks what the engines rely on.
fn check(record: &JobRecord) -> Result<(), &'static str> {
    let job = &record.job;
    let is_reserved = job.state == State::Reserved;
    let reservation = [job.reserved_at.is_some(), job.reserved_until.is_some(), record.receipt.is_some()];
    if reservation.into_iter().any(|present| present != is_reserved)
        || job.reserved_by.is_some() && !is_reserved
    {
        return Err("exactly a reserved job has reserved_at, reserved_until and a receipt");
    }
    if (job.state == State::Dead) != job.dead_at.is_some() {
        return Err("exactly a dead letter has dead_at");
    }
    if job.max_attempts > MAX_ATTEMPTS_LIMIT || is_reserved && job.attempts == 0 {
        return Err("its attempts are out of range");
    }
    let own = [Tag::LEASE, Tag::DIED_AT, Tag::RETRY, Tag::REASON, Tag::HISTORY, Tag::HOST_NUMBER];
    if own.into_iter().any(|tag| record.other.get(tag).is_some())
        || record
            .other
            .get(Tag::CALLBACK)
            .is_some_and(|stored| Callback::decode(stored) != job.callback.as_deref().cloned())
        || record.attributes().trace() != job.trace
        || record.other.as_bytes().len() > Attributes::MAX_BYTES / 4
        || record.attributes().as_bytes().len() > Attributes::MAX_BYTES / 2
    {
        return Err("its attributes are out of range");
    }
    Ok(())
}

impl CallbackLine {
    pub fn new(callback: &Callback) -> Self {
        let Callback { url, method, headers, timeout } = callback;
        Self {
            url: Some(url.as_str().to_owned()),
            method: (*method != CallMethod::Post).then(|| method.as_str().to_owned()),
            headers: headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            timeout: timeout.map(Seconds),
            rate: None,
            concurrency: None,
        }
    }

    /// The callback; what is wrong with it.
    pub fn into_callback(self) -> Result<Callback, String> {
        let url = self.url.as_deref().ok_or("its callback has no URL")?;
        let method = self.method.as_deref().map_or(Some(CallMethod::Post), CallMethod::parse);
        let timeout = self.timeout.map(|timeout| Callback::check_timeout(timeout.0)).transpose();
        Ok(Callback {
            url: CallbackUrl::parse(url).map_err(|error| format!("the URL of its callback {error}"))?,
            method: method.ok_or("the method of its callback is unknown")?,
            headers: CallHeaders::new(self.headers.into_iter().collect())
                .map_err(|error| format!("a header of its callback {error}"))?,
            timeout: timeout.map_err(|error| format!("the timeout of its callback {error}"))?,
        })
    }
}

impl EntryLine {
    fn new(HistoryEntry { at, by, event }: &HistoryEntry) -> Self {
        let by = by.as_ref().map(|by| by.as_str().to_owned());
        let plain = |kind: &str| Self {
            kind: kind.to_owned(),
            n: None,
            at: Moment(*at),
            took: None,
            ended: None,
            by: by.clone(),
            reason: None,
        };
        match event {
            HistoryEvent::Attempt { number, took, end, reason } => Self {
                n: Some(*number),
                took: Some(Seconds(*took)),
                ended: Some(end.as_str().to_owned()),
                reason: reason.as_ref().map(|reason| reason.as_str().to_owned()),
                ..plain("attempt")
            },
            HistoryEvent::Requeued => plain("requeued"),
            HistoryEvent::Rescheduled => plain("rescheduled"),
        }
    }

    fn parse(&self) -> Result<HistoryEntry, String> {
        const ENDS: [AttemptEnd; 3] = [AttemptEnd::Released, AttemptEnd::TimedOut, AttemptEnd::Buried];
        let attempt = || {
            let ended = self.ended.as_deref()?;
            Some(HistoryEvent::Attempt {
                number: self.n?,
                took: self.took?.0,
                end: ENDS.into_iter().find(|end| end.as_str() == ended)?,
                reason: self.reason.as_deref().map(Reason::new).unwrap_or_default(),
            })
        };
        let event = match self.kind.as_str() {
            "attempt" => attempt(),
            "requeued" => Some(HistoryEvent::Requeued),
            "rescheduled" => Some(HistoryEvent::Rescheduled),
            _ => None,
        };
        let event = event.ok_or("its history is malformed")?;
        Ok(HistoryEntry { at: self.at.0, by: self.by.as_deref().map(parse_actor).transpose()?, event })
    }
}

fn parse_history(entries: &[EntryLine]) -> Result<History, String> {
    let mut history = History::default();
    entries.iter().try_for_each(|entry| entry.parse().map(|entry| history.push(&entry)))?;
    Ok(history)
}

fn parse_actor(text: &str) -> Result<Actor, String> {
    Actor::parse(text).map_err(|error| format!("the name {text:?} {error}"))
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

fn parse_reason(text: &str) -> Result<Reason, String> {
    Reason::new(text).ok_or_else(|| "its reason is too long".to_owned())
}

fn parse_fingerprint(text: &str) -> Result<Fingerprint, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    bits.map(|bits| Fingerprint(bits.to_be_bytes())).ok_or_else(|| "its fingerprint is malformed".to_owned())
}
