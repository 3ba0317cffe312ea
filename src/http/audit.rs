//! Notes calls in the audit list of the queue: what of a request may be kept, and which topic it is about.

use std::sync::Arc;

use axum::response::Response;
use futures_util::future::BoxFuture;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::edge::{AuditedRequest, Auditor};
use crate::{
    job::{Actor, JobId},
    queue::{AuditedCall, Queue},
};

/// Longest path, and longest request, of which more than the beginning is kept, in bytes.
const MAX_TEXT: usize = 2_048;

/// Members that may be secret or large: headers of calls, and bodies of jobs.
const LEFT_OUT: [&str; 2] = ["body", "headers"];

/// The route of the secrets that sign calls. Of its requests nothing is kept, whatever the name of the member that has the secret.
const SECRETS: &str = "/topics/{topic}/secrets";

/// Notes calls in the audit list of a queue.
#[derive(Debug)]
pub struct QueueAuditor {
    queue: Arc<Queue>,
}

impl QueueAuditor {
    pub fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    async fn describe(&self, request: &AuditedRequest) -> AuditedCall {
        let body = serde_json::from_slice::<Map<String, Value>>(&request.body).ok();
        let topic = match (request.path_param("topic"), request.route.strip_prefix("/jobs/{id}")) {
            (Some(topic), _) => Some(topic.to_owned()),
            (None, Some(_)) => self.topic_of_job(request).await,
            (None, None) => body.as_ref().and_then(topic_in).map(str::to_owned),
        };
        let address = request.address.map(|address| address.to_canonical());
        let named = Actor::abridged(&request.caller.name).map(|name| name.as_str().to_owned());
        AuditedCall {
            by: named.or_else(|| address.map(|address| address.to_string())).unwrap_or_default(),
            address,
            from_browser: request.from_browser,
            method: request.method.to_string(),
            path: beginning(request.uri.path_and_query().map_or("", |path| path.as_str())),
            topic,
            request: body.filter(|body| !body.is_empty() && request.route != SECRETS).map(noted),
            status: None,
        }
    }

    async fn topic_of_job(&self, request: &AuditedRequest) -> Option<String> {
        let id = JobId::parse(request.path_param("id")?).ok()?;
        let topic = self.queue.topic_of(&request.caller.topics, &id).await?;
        Some(topic.as_str().to_owned())
    }
}

impl Auditor for QueueAuditor {
    fn carry_out<'a>(
        &'a self,
        request: AuditedRequest,
        answer: BoxFuture<'a, Response>,
    ) -> BoxFuture<'a, Response> {
        Box::pin(async move {
            let id = format!("{:032x}", rand::random::<u128>());
            let mut call = self.describe(&request).await;
            self.queue.note_call(&id, &call).await;
            let response = answer.await;
            call.status = Some(response.status().as_u16());
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

/// What is kept of a request.
fn noted(body: Map<String, Value>) -> Box<RawValue> {
    let mut body = Value::Object(body);
    leave_out(&mut body);
    let text = body.to_string();
    let kept = if text.len() <= MAX_TEXT { body } else { Value::String(beginning(&text)) };
    to_raw_value(&kept).expect("is JSON")
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
