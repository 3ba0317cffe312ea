//! What adds, patches and requeues send.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::durations::{duration, durations, moment, some_duration};

/// A job to add. Times are precise to the millisecond.
#[derive(Debug, Clone, Serialize)]
pub struct NewJob {
    /// The topic.
    pub topic: String,
    /// The job's id, which makes a repeat recognisable; the server makes one when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it is due; at once when left out.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// How long a reservation lasts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub ttr: Option<Duration>,
    /// Reservations before it is a dead letter; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "durations")]
    pub retry: Vec<Duration>,
    /// From when on it is not delivered any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire: Option<Expire>,
    /// What happens at its expiry; only together with `expire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// The number of this version, which rises with each: a higher one replaces, a lower one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// What happens to a job of the same topic and id; [`IfExists::Keep`] when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_exists: Option<IfExists>,
    /// Whom the server calls when it is due, in place of workers or of its topic's callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// The W3C trace context that it comes from; a malformed one is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What tracing systems add to `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Any JSON value, which the server keeps byte for byte; null when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// Whom to call for a job, and how.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Callback {
    /// The URL.
    pub url: String,
    /// `POST`, `PUT`, `PATCH`, `GET` or `DELETE`; `POST` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of the call; values are often credentials.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Until the end of the answer's head; 30 s when left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub timeout: Option<Duration>,
}

/// Leaves out the URL and the values of headers.
impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Callback").field("headers", &headers).finish_non_exhaustive()
    }
}

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// So long after the server reads the call.
    #[serde(serialize_with = "duration")]
    Delay(Duration),
    /// At this moment.
    #[serde(serialize_with = "moment")]
    At(Timestamp),
}

/// When a job expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Expire {
    /// This long after it is due.
    #[serde(serialize_with = "duration")]
    After(Duration),
    /// At this moment.
    #[serde(serialize_with = "moment")]
    At(Timestamp),
}

/// What an add does to a job of the same topic and id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IfExists {
    /// Nothing: the same job is a repeat, another one is refused.
    Keep,
    /// The new job takes its place, unless its revision is not higher.
    Replace,
}

/// What happens to a job that expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It becomes a dead letter with the reason `expired`.
    Dead,
    /// It is deleted.
    Delete,
}

/// How to requeue a dead letter.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Requeue {
    /// When it is due; at once when left out.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// Another expiry, which one whose expiry has passed needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire: Option<Expire>,
    /// Whether it does not expire any more; not together with `expire`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear_expire: bool,
}

impl From<Option<Due>> for Requeue {
    fn from(due: Option<Due>) -> Self {
        Self { due, ..Self::default() }
    }
}

impl NewJob {
    /// A job that is due at once, with the defaults of its topic.
    #[must_use]
    pub fn new(topic: impl Into<String>) -> Self {
        let topic = topic.into();
        Self {
            topic,
            id: None,
            due: None,
            ttr: None,
            max_attempts: None,
            retry: Vec::new(),
            expire: None,
            on_expiry: None,
            revision: None,
            if_exists: None,
            callback: None,
            traceparent: None,
            tracestate: None,
            body: None,
        }
    }

    /// Whether the same add may be sent twice: the server recognises a repeat by the id, and of a job that replaces another
    /// one by the revision. Without a revision, a late repeat would restore an older version.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.id.is_some() && (self.if_exists != Some(IfExists::Replace) || self.revision.is_some())
    }

    /// The same with this id.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// The same, due after `delay`.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { due: Some(Due::Delay(delay)), ..self }
    }

    /// The same with this body.
    #[must_use]
    pub fn body(self, body: Box<RawValue>) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// Changes to a job; what is left out stays.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobPatch {
    /// When it is due now.
    #[serde(flatten)]
    pub due: Option<Due>,
    /// How long a reservation lasts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub ttr: Option<Duration>,
    /// Reservations before it is a dead letter; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Another expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire: Option<Expire>,
    /// What happens at its expiry; only together with `expire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// Whether it does not expire any more; not together with `expire`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear_expire: bool,
    /// Its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_written_with_what_was_given_and_no_more() {
        let json = |job: &NewJob| serde_json::to_string(job).expect("is JSON");
        assert_eq!(json(&NewJob::new("t")), r#"{"topic":"t"}"#);
        let body = RawValue::from_string(r#"{"n": 1e400}"#.to_owned()).expect("is JSON");
        let mut job = NewJob::new("t").id("a").delay(Duration::from_millis(1_001)).body(body);
        job.retry = vec![Duration::from_secs(15)];
        let written = r#"{"topic":"t","id":"a","delay":"1001ms","retry":["15000ms"],"body":{"n": 1e400}}"#;
        assert_eq!(json(&job), written);
        let headers = [("authorization".to_owned(), "Bearer s3cret".to_owned())].into();
        let url = "https://a/s3cret".to_owned();
        let called =
            NewJob { callback: Some(Callback { url, headers, ..Callback::default() }), ..NewJob::new("t") };
        let written = r#"{"topic":"t","callback":{"url":"https://a/s3cret","headers":{"authorization":"Bearer s3cret"}}}"#;
        assert_eq!(json(&called), written);
        assert!(!format!("{called:?}").contains("s3cret"));
        let traced = NewJob { traceparent: Some("00-1-2-01".to_owned()), ..NewJob::new("t") };
        assert_eq!(json(&traced), r#"{"topic":"t","traceparent":"00-1-2-01"}"#);
        let moment = "2026-11-21T05:40:00.1Z".parse().expect("is a moment");
        let at = NewJob { due: Some(Due::At(moment)), ..NewJob::new("t") };
        assert_eq!(json(&at), r#"{"topic":"t","at":"2026-11-21T05:40:00.100Z"}"#);
        for (expire, written) in [
            (Expire::After(Duration::from_millis(1_500)), r#""1500ms""#),
            (Expire::At(moment), r#""2026-11-21T05:40:00.100Z""#),
        ] {
            let (expire, on_expiry) = (Some(expire), Some(OnExpiry::Delete));
            let expiring = NewJob { expire, on_expiry, ..NewJob::new("t") };
            assert_eq!(
                json(&expiring),
                format!(r#"{{"topic":"t","expire":{written},"on_expiry":"delete"}}"#)
            );
        }
    }
}
