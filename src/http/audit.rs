//! Notes calls in the audit list of the queue: what of a request may be kept, and which topic it is about.

use std::{mem, sync::Arc};

use axum::{http::Uri, response::Response};
use futures_util::future::BoxFuture;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::edge::{AuditedRequest, Auditor};
use crate::{
    job::{Actor, JobId, OperationId, ScheduleName, Topic},
    queue::{AuditedCall, Queue},
};

/// Longest path, and longest request, of which more than the beginning is kept, in bytes.
const MAX_TEXT: usize = 2_048;

/// A longer request is not parsed for the list, and only its length is kept.
const MAX_PARSED: usize = 64 << 10;

/// Members that may be secret or large: headers of calls, bodies of jobs, and what proves something.
const LEFT_OUT: [&str; 5] = ["body", "headers", "key", "receipt", "secret"];

/// The route of the secrets that sign calls. Of its requests nothing is kept, whatever the name of the member that has the secret.
const SECRETS: &str = "/topics/{topic}/secrets";

/// The only route with a parameter that asks what a change would do.
const SCHEDULE: &str = "/schedules/{name}";

/// Notes calls in the audit list of a queue.
#[derive(Debug)]
pub struct QueueAuditor {
    queue: Arc<Queue>,
    dialect: Option<DialectTopic>,
}

/// The topic in a path of a dialect.
type DialectTopic = fn(&Uri) -> Option<Topic>;

impl QueueAuditor {
    pub fn new(queue: Arc<Queue>) -> Self {
        Self { queue, dialect: None }
    }

    /// For a dialect, in which a body is that of a job, and a token may be in the query: neither is kept.
    #[must_use]
    pub fn of_dialect(queue: Arc<Queue>, topic: DialectTopic) -> Self {
        Self { queue, dialect: Some(topic) }
    }

    /// What is noted of a call; `None` of one that only tells what it would do.
    async fn describe(&self, request: &AuditedRequest) -> Option<AuditedCall> {
        let facts = match self.dialect {
            Some(topic) => RequestFacts { topic: topic(&request.uri), kept: None, is_preview: false },
            None => RequestFacts::of_request(request),
        };
        if facts.is_preview {
            return None;
        }
        let address = request.address.map(|address| address.to_canonical());
        let named = Actor::abridged(&request.caller.name).map(|name| name.as_str().to_owned());
        let topic = match facts.topic {
            Some(topic) => Some(topic),
            None => self.looked_up_topic(request).await,
        };
        Some(AuditedCall {
            by: named.or_else(|| address.map(|address| address.to_string())).unwrap_or_default(),
            address,
            from_browser: request.from_browser,
            method: request.method.to_string(),
            path: beginning(&match (self.dialect, request.uri.query()) {
                (None, Some(query)) => format!("{}?{}", request.uri.path(), noted_query(query)),
                (_, _) => request.uri.path().to_owned(),
            }),
            topic: topic.map(|topic| topic.as_str().to_owned()),
            request: facts.kept,
            status: None,
        })
    }

    /// The topic of the job, the schedule or the operation in the path.
    async fn looked_up_topic(&self, request: &AuditedRequest) -> Option<Topic> {
        let (queue, scope) = (&self.queue, &request.caller.topics);
        match request.route.split('/').nth(1)? {
            "jobs" => queue.topic_of_job(scope, &JobId::parse(request.path_param("id")?).ok()?).await,
            "schedules" => {
                let name = ScheduleName::parse(request.path_param("name")?).ok()?;
                queue.topic_of_schedule(scope, &name).await
            }
            "bulk" => queue.topic_of_operation(&OperationId::parse(request.path_param("id")?).ok()?).await,
            _ => None,
        }
    }
}

/// What a request tells by itself.
struct RequestFacts {
    /// The topic in its path, or else in its body: its own, that of its filter, or that of its job.
    topic: Option<Topic>,
    /// What is kept of the body.
    kept: Option<Box<RawValue>>,
    /// Whether it asks what a change would do.
    is_preview: bool,
}

impl RequestFacts {
    fn of_request(request: &AuditedRequest) -> Self {
        let is_short = request.body.len() <= MAX_PARSED;
        let body =
            is_short.then(|| serde_json::from_slice::<Map<String, Value>>(&request.body).ok()).flatten();
        let named = request.path_param("topic").or_else(|| body.as_ref().and_then(topic_in));
        let topic = named.and_then(|topic| Topic::parse(topic).ok());
        let query = request.uri.query().unwrap_or_default();
        let counts = request.route == "/bulk"
            && body.as_ref().is_some_and(|body| body.get("dry_run") != Some(&Value::Bool(false)));
        let is_dry_run = request.route == SCHEDULE && query.split('&').any(|part| part == "dry_run=true");
        let kept = match body {
            _ if request.route == SECRETS => None,
            Some(body) => (!body.is_empty()).then(|| noted(body)),
            None if is_short => None,
            None => Some(json_text(&Value::String(format!("… ({} bytes)", request.body.len())))),
        };
        Self { topic, kept, is_preview: counts || is_dry_run }
    }
}

impl Auditor for QueueAuditor {
    fn carry_out<'a>(
        &'a self,
        request: AuditedRequest,
        answer: BoxFuture<'a, Response>,
    ) -> BoxFuture<'a, Response> {
        Box::pin(async move {
            let Some(mut call) = self.describe(&request).await else { return answer.await };
            drop(request);
            let id = format!("{:032x}", rand::random::<u128>());
            // Until the call has worked, a parameter may have a wrong name, and a secret as its value.
            let without_query = call.path.split('?').next().unwrap_or_default().to_owned();
            let path = mem::replace(&mut call.path, without_query);
            self.queue.note_call(&id, &call).await;
            let response = answer.await;
            call.status = Some(response.status().as_u16());
            if response.status().is_success() {
                call.path = path;
            } else if matches!(call.status, Some(400 | 422)) {
                // So may a member of the body.
                call.request = None;
            }
            self.queue.note_call(&id, &call).await;
            response
        })
    }
}

/// The topic that a request names: its own, that of its filter, or that of its job.
fn topic_in(body: &Map<String, Value>) -> Option<&str> {
    let nested = |name: &str| body.get(name).and_then(|inner| inner.get("topic"));
    body.get("topic").or_else(|| nested("filter")).or_else(|| nested("job"))?.as_str()
}

/// A query without the values that may be secret.
fn noted_query(query: &str) -> String {
    let noted = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if LEFT_OUT.contains(&name) => format!("{name}=…"),
        Some(_) | None => parameter.to_owned(),
    };
    query.split('&').map(noted).collect::<Vec<_>>().join("&")
}

/// What is kept of a request.
fn noted(body: Map<String, Value>) -> Box<RawValue> {
    let mut body = Value::Object(body);
    leave_out(&mut body);
    let text = body.to_string();
    json_text(&if text.len() <= MAX_TEXT { body } else { Value::String(beginning(&text)) })
}

fn json_text(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("is JSON")
}

fn leave_out(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                match LEFT_OUT.contains(&&**name) {
                    true => *inner = Value::String("…".to_owned()),
                    false => leave_out(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The text, or its beginning with a mark if it is long.
fn beginning(text: &str) -> String {
    match text.len() > MAX_TEXT {
        true => format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)]),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(body: &Value) -> String {
        noted(body.as_object().expect("is one").clone()).get().to_owned()
    }

    #[test]
    fn headers_and_bodies_are_left_out_at_every_depth() {
        let settings =
            json!({"callback": {"url": "http://h/", "headers": {"authorization": "s3cret"}}, "ttr": 5});
        let found = kept(&settings);
        assert!(found.contains("http://h/") && found.contains("ttr") && !found.contains("s3cret"), "{found}");
        assert!(!kept(&json!({"job": {"topic": "t", "body": {"name": "s3cret"}}})).contains("s3cret"));
        assert!(!kept(&json!({"jobs": [{"topic": "t", "body": "s3cret"}]})).contains("s3cret"));
    }

    #[test]
    fn of_a_long_request_the_beginning_is_kept() {
        let found = kept(&json!({"reason": "é".repeat(3_000)}));
        assert!(found.len() < MAX_TEXT + 20 && found.starts_with(r#""{\"reason\":\"éé"#), "{found}");
        assert!(found.ends_with("…\""), "{found}");
    }

    #[test]
    fn the_topic_is_that_of_the_request_its_filter_or_its_job() {
        for (body, expected) in [
            (json!({"topic": "a", "filter": {"topic": "b"}}), Some("a")),
            (json!({"filter": {"topic": "b"}}), Some("b")),
            (json!({"job": {"topic": "c"}}), Some("c")),
            (json!({"filter": {"state": "dead"}, "topic": null}), None),
            (json!({"topic": 5}), None),
        ] {
            assert_eq!(topic_in(body.as_object().expect("is one")), expected, "{body}");
        }
    }
}
