//! The calls on all jobs of a topic, and on what is set for one.

use serde_json::{Value, json};

use super::{BulkAction, Outcome, SETTINGS_URL, Worker, outcome_of, text};
use crate::{
    disk::{
        content::Content,
        ledger::{Effect, JobState, topic_config},
    },
    harness::{blocking_http::call_until_begun, wait::TimeLimit},
};

impl Worker<'_> {
    /// Deletes every job of its topic.
    pub fn purge(&self) -> Outcome {
        let living = self.possible_ids(|state| *state != JobState::Gone);
        let path = format!("/topics/{0}?confirm={0}", self.topic);
        let (outcome, _) = self.send(&living, Effect::EXISTENCE, "DELETE", &path, &Value::Null);
        if outcome == Outcome::Done {
            living.iter().for_each(|id| self.ledger().confirm(id, JobState::Gone, Content::default()));
        }
        outcome
    }

    /// Replaces all settings of a topic without jobs.
    pub fn set(&self, ttr_s: u64) -> Outcome {
        let callback = json!({ "url": SETTINGS_URL, "method": "PUT", "timeout": 5, "concurrency": 3 });
        let settings = json!({
            "ttr": ttr_s, "max_attempts": ttr_s % 7, "retry": [ttr_s, 900], "require_receipt": true,
            "callback": callback,
        });
        self.change_topic("PUT", "", &settings)
    }

    /// Pauses or resumes that topic: `step` is the name of the call.
    pub fn pause(&self, step: &str) -> Outcome {
        self.change_topic("POST", &format!("/{step}"), &json!({}))
    }

    fn change_topic(&self, method: &str, step: &str, body: &Value) -> Outcome {
        let topic = format!("{}-settings", self.topic);
        let before = self.ledger().begin_topic(&topic);
        let (outcome, answer) = self.send_begun(&[], method, &format!("/topics/{topic}{step}"), body);
        let mut ledger = self.ledger();
        match outcome {
            Outcome::Done => {
                if method == "PUT" && answer["settings"] != *body {
                    ledger
                        .contradictions
                        .push(format!("{topic} was set to {body} and shows {}", answer["settings"]));
                }
                ledger.end_topic(&topic, Some(topic_config(&answer)));
            }
            Outcome::Full => ledger.end_topic(&topic, before),
            Outcome::Unavailable | Outcome::ConnectionLost => {}
        }
        outcome
    }

    /// Adds a secret to that topic. Makes no call if it has two already, or perhaps.
    pub fn add_secret(&self) -> Option<Outcome> {
        let topic = format!("{}-settings", self.topic);
        let mut secrets = self.ledger().secrets(&topic).filter(|secrets| secrets.len() < 2)?;
        Some(self.change_secrets(&topic, "POST", "", |answer| {
            secrets.push(json!({ "id": answer["id"], "created_at": answer["created_at"] }));
            secrets
        }))
    }

    /// Deletes the first secret of that topic. Makes no call unless it has one for certain.
    pub fn delete_secret(&self) -> Option<Outcome> {
        let topic = format!("{}-settings", self.topic);
        let mut secrets = self.ledger().secrets(&topic).filter(|secrets| !secrets.is_empty())?;
        let first = secrets.remove(0);
        Some(self.change_secrets(&topic, "DELETE", &format!("/{}", text(&first, "id")), |_| secrets))
    }

    fn change_secrets(
        &self,
        topic: &str,
        method: &str,
        step: &str,
        changed: impl FnOnce(&Value) -> Vec<Value>,
    ) -> Outcome {
        let before = self.ledger().secrets(topic).expect("they are known");
        self.ledger().begin_secrets(topic);
        let path = format!("/topics/{topic}/secrets{step}");
        let (outcome, answer) = self.send_begun(&[], method, &path, &json!({}));
        match outcome {
            Outcome::Done => self.ledger().end_secrets(topic, changed(&answer)),
            Outcome::Full => self.ledger().end_secrets(topic, before),
            Outcome::Unavailable | Outcome::ConnectionLost => {}
        }
        outcome
    }

    /// Requeues all dead letters of its topic by their route.
    pub fn requeue_dead(&self) -> Outcome {
        self.change_dead(Effect::MOVE, "POST", "/requeue", "requeued", &JobState::Ready)
    }

    /// Deletes all dead letters of its topic by their route.
    pub fn delete_dead(&self) -> Outcome {
        self.change_dead(Effect::EXISTENCE, "DELETE", "", "deleted", &JobState::Gone)
    }

    /// Makes a call on all dead letters of its topic, which then are in the state `to`. The answer has their number as
    /// `count`.
    fn change_dead(&self, effect: Effect, method: &str, step: &str, count: &str, to: &JobState) -> Outcome {
        let certain = self.ids(|state| *state == JobState::Dead);
        let possible = self.possible_ids(|state| *state == JobState::Dead);
        let path = format!("/topics/{}/dead{step}", self.topic);
        let (outcome, answer) = self.send(&possible, effect, method, &path, &json!({}));
        if outcome != Outcome::Done {
            return outcome;
        }
        let changed = answer[count].as_u64().and_then(|changed| usize::try_from(changed).ok());
        if changed.is_none_or(|changed| changed < certain.len() || changed > possible.len()) {
            let expected = certain.len();
            self.ledger().contradictions.push(format!("{method} {path}: {answer} with {expected} dead jobs"));
        }
        self.confirm_all(&certain, &possible, to);
        outcome
    }

    /// Records that a call has brought the jobs `certain` into the state `to`, and of others perhaps some.
    fn confirm_all(&self, certain: &[String], possible: &[String], to: &JobState) {
        let listed = self.listed(to);
        let mut ledger = self.ledger();
        for id in possible {
            if certain.contains(id) {
                let shown = listed.iter().find(|job| job["id"] == **id);
                let shown = shown.map(|job| Content::shown(job, &["body", "history"])).unwrap_or_default();
                ledger.confirm(id, to.clone(), shown);
            } else {
                ledger.mark_uncertain(id);
            }
        }
    }

    /// Runs a bulk operation on its topic to its end.
    pub fn bulk(&mut self, action: BulkAction) -> Outcome {
        let (name, from, to, effect) = match action {
            BulkAction::Reschedule => ("reschedule", JobState::Delayed, JobState::Delayed, Effect::MOVE),
            BulkAction::Requeue => ("requeue", JobState::Dead, JobState::Delayed, Effect::MOVE),
            BulkAction::Delete => ("delete", JobState::Dead, JobState::Gone, Effect::EXISTENCE),
        };
        self.next += 1;
        let operation = format!("{}-{}-{}", self.topic, self.run, self.next);
        let filter = json!({ "topic": self.topic, "state": from.name() });
        let mut request =
            json!({ "action": name, "filter": filter, "dry_run": false, "limit": 10_000, "id": operation });
        match action {
            BulkAction::Reschedule => request["shift"] = "10m".into(),
            BulkAction::Requeue => request["delay"] = "1h".into(),
            BulkAction::Delete => {}
        }
        let certain = self.ids(|state| *state == from);
        let possible = self.possible_ids(|state| *state == from);
        let (outcome, _) = self.send(&possible, effect, "POST", "/bulk", &request);
        if outcome != Outcome::Done {
            return outcome;
        }
        let outcome = self.end_of(&operation);
        let certain = if outcome == Outcome::Done { certain } else { Vec::new() };
        self.confirm_all(&certain, &possible, &to);
        outcome
    }

    /// Waits for the end of a bulk operation.
    fn end_of(&self, operation: &str) -> Outcome {
        let time_limit = TimeLimit::new();
        loop {
            let answer = call_until_begun(self.address, "GET", &format!("/bulk/{operation}"), "");
            let (outcome, Ok(answer)) = (outcome_of(&answer), answer) else { return Outcome::ConnectionLost };
            let answer = answer.json();
            match answer["state"].as_str() {
                _ if outcome != Some(Outcome::Done) => return outcome.unwrap_or(Outcome::Unavailable),
                Some("done") => return Outcome::Done,
                Some("failed") if text(&answer, "error").contains("the store is full") => {
                    return Outcome::Full;
                }
                Some("running") => time_limit.check(|| answer.to_string()),
                _ => return Outcome::Unavailable,
            }
            std::thread::yield_now();
        }
    }

    /// The jobs of its topic in this state, as a list shows them; none if it is not answered.
    fn listed(&self, state: &JobState) -> Vec<Value> {
        if *state == JobState::Gone {
            return Vec::new();
        }
        let path = format!("/jobs?topic={}&state={}&limit=200", self.topic, state.name());
        let page =
            call_until_begun(self.address, "GET", &path, "").ok().filter(|answer| answer.status == 200);
        page.and_then(|page| page.json()["jobs"].as_array().cloned()).unwrap_or_default()
    }
}
