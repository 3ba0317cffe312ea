//! What is known to be set for topics, and the server's counts of their jobs.

use serde_json::{Value, json};

use super::{Findings, Ledger};
use crate::harness::process::Server;

/// What is set for a topic.
#[derive(Debug, Clone, Default)]
pub struct TopicEntry {
    /// Its settings and pauses as answers show them; `None` while they are unknown.
    shown: Option<Value>,
    /// Its secrets as their list shows them; `None` while they are unknown.
    secrets: Option<Vec<Value>>,
    /// Calls so far that may have changed it.
    calls: u64,
}

impl TopicEntry {
    /// A topic that no call has changed.
    fn unset() -> Self {
        Self { shown: Some(topic_config(&Value::Null)), secrets: Some(Vec::new()), calls: 0 }
    }

    /// Forgets what calls since `self` may have changed. `since` is the later entry of the topic.
    pub fn forget_if_changed(&mut self, since: &Self) {
        if self.calls != since.calls {
            (self.shown, self.secrets) = (None, None);
        }
    }

    /// Compares a server with what is known, and records its answers.
    pub fn check(&mut self, topic: &str, server: &Server, findings: &mut Findings) {
        let (Some(config), Some(secrets)) = (configured(server, topic), secrets(server, topic)) else {
            findings.unanswered.push(topic.to_owned());
            return;
        };
        let known = self.shown.as_ref().filter(|known| **known != config);
        findings.wrong.extend(known.map(|known| format!("{topic} is set to {config} and should be {known}")));
        let known = self.secrets.as_ref().filter(|known| **known != secrets);
        findings.wrong.extend(
            known.map(|known| format!("{topic} has the secrets {secrets:?} and should have {known:?}")),
        );
        (self.shown, self.secrets) = (Some(config), Some(secrets));
    }
}

impl Ledger {
    fn topic(&mut self, topic: &str) -> &mut TopicEntry {
        self.topics.entry(topic.to_owned()).or_insert_with(TopicEntry::unset)
    }

    /// Records that a call is about to be sent that changes what is set for a topic. Returns what is set before.
    pub fn begin_topic(&mut self, topic: &str) -> Option<Value> {
        let entry = self.topic(topic);
        entry.calls += 1;
        entry.shown.take()
    }

    /// Records what is set for a topic after a call, if that is known.
    pub fn end_topic(&mut self, topic: &str, shown: Option<Value>) {
        self.topic(topic).shown = shown;
    }

    /// The secrets of a topic, if they are known.
    pub fn secrets(&mut self, topic: &str) -> Option<Vec<Value>> {
        self.topic(topic).secrets.clone()
    }

    /// Records that a call is about to be sent that changes the secrets of a topic.
    pub fn begin_secrets(&mut self, topic: &str) {
        let entry = self.topic(topic);
        entry.calls += 1;
        entry.secrets = None;
    }

    /// Records the secrets of a topic after a call.
    pub fn end_secrets(&mut self, topic: &str, secrets: Vec<Value>) {
        self.topic(topic).secrets = Some(secrets);
    }
}

/// What an answer shows is set for a topic; nothing when there is no answer.
pub fn topic_config(shown: &Value) -> Value {
    let is_paused = |flag: &str| shown["paused"][flag].as_bool().unwrap_or_default();
    let unset = json!({ "require_receipt": false });
    let settings = if shown.is_null() { &unset } else { &shown["settings"] };
    json!({ "settings": settings, "paused": [is_paused("delivery"), is_paused("intake")] })
}

/// What is set for a topic on a server, if it answers. A topic without jobs and settings is not known there.
fn configured(server: &Server, topic: &str) -> Option<Value> {
    let answer = server.call("GET", &format!("/topics/{topic}"), "");
    match answer.status {
        200 => Some(topic_config(&answer.json())),
        404 => Some(topic_config(&Value::Null)),
        503 => None,
        _ => panic!("{topic}: {answer:?}"),
    }
}

/// The secrets of a topic on a server, if it answers.
fn secrets(server: &Server, topic: &str) -> Option<Vec<Value>> {
    let answer = server.call("GET", &format!("/topics/{topic}/secrets"), "");
    match answer.status {
        200 => Some(answer.json()["secrets"].as_array().expect("a list").clone()),
        503 => None,
        _ => panic!("{topic}: {answer:?}"),
    }
}

/// How the server's own count of a topic differs from the number of its jobs.
pub fn count_difference(server: &Server, topic: &str, here: u64) -> Option<String> {
    let answer = server.call("GET", &format!("/topics/{topic}"), "");
    let counted = match answer.status {
        404 => 0,
        503 => return None,
        _ => {
            let counts = answer.json()["counts"].take();
            let count =
                |state: &str| counts[state].as_u64().unwrap_or_else(|| panic!("{state} in {answer:?}"));
            ["delayed", "ready", "reserved", "dead"].map(count).iter().sum()
        }
    };
    (counted != here).then(|| format!("{topic} counts {counted} jobs and has {here}"))
}
