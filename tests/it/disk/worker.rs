//! A client that makes every kind of call and records the answers in the ledger. It has its own jobs and its own topic.
//! Delays and reservations are long, so that no job changes by itself; for the same reason only delayed jobs have
//! callbacks.

mod steps;
mod topic_calls;

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use linger::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{
    content::Content,
    ledger::{Effect, JobState, Ledger},
};
use crate::harness::blocking_http::{Response, call_until_begun};

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// 507: the change did not happen.
    Full,
    /// 503: the change may have happened.
    Unavailable,
    /// The connection was lost before the answer, or refused.
    ConnectionLost,
}

/// The callback in the settings of a topic.
pub const SETTINGS_URL: &str = "http://127.0.0.1:4999/settings";

/// What a bulk operation does with the jobs of a topic: it puts off delayed jobs, or requeues or deletes dead ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    Reschedule,
    Requeue,
    Delete,
}

pub struct Worker<'a> {
    topic: String,
    /// Part of the ids of its jobs, different for each run on one ledger.
    run: u64,
    address: SocketAddr,
    ledger: &'a Mutex<Ledger>,
    /// Numbers its jobs.
    next: usize,
}

impl<'a> Worker<'a> {
    pub fn new(topic: &str, run: u64, address: SocketAddr, ledger: &'a Mutex<Ledger>) -> Self {
        Self { topic: topic.to_owned(), run, address, ledger, next: 0 }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("not poisoned")
    }

    /// Makes a call that has this effect on the jobs `ids`.
    fn send(
        &self,
        ids: &[String],
        effect: Effect,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (Outcome, Value) {
        ids.iter().for_each(|id| self.ledger().begin(&self.topic, id, effect));
        self.send_begun(ids, method, path, body)
    }

    /// Makes a call on the jobs `ids`, which the ledger expects. Returns a 2xx answer. The ledger records 503 and 507;
    /// any other answer is wrong, because only calls that should work are sent.
    fn send_begun(&self, ids: &[String], method: &str, path: &str, body: &Value) -> (Outcome, Value) {
        let answer = call_until_begun(self.address, method, path, &body.to_string());
        let outcome = outcome_of(&answer);
        let mut ledger = self.ledger();
        match (outcome, answer) {
            (Some(Outcome::Done), Ok(answer)) => {
                let body = if answer.body.is_empty() { Value::Null } else { answer.json() };
                return (Outcome::Done, body);
            }
            (Some(Outcome::Full), _) => ids.iter().for_each(|id| ledger.unchanged(id)),
            (Some(Outcome::Unavailable | Outcome::ConnectionLost | Outcome::Done), _) => {
                ids.iter().for_each(|id| ledger.mark_uncertain(id));
            }
            (None, answer) => {
                ids.iter().for_each(|id| ledger.mark_uncertain(id));
                ledger.contradictions.push(format!("{method} {path}: {answer:?}"));
            }
        }
        (outcome.unwrap_or(Outcome::Unavailable), Value::Null)
    }

    /// Adds jobs with bodies of these lengths, delayed by an hour or ready at once.
    pub fn add(&mut self, body_bytes: &[usize], delayed: bool) -> Outcome {
        let jobs: Vec<Value> = body_bytes.iter().map(|bytes| self.new_job(*bytes, delayed)).collect();
        let ids: Vec<String> = jobs.iter().map(|job| text(job, "id")).collect();
        for (id, job) in ids.iter().zip(&jobs) {
            self.ledger().begin_add(&self.topic, id, Content::added(job));
        }
        let state = if delayed { JobState::Delayed } else { JobState::Ready };
        if let [job] = &jobs[..] {
            let (outcome, answer) = self.send_begun(&ids, "POST", "/jobs", job);
            if outcome == Outcome::Done {
                self.ledger().confirm(&ids[0], state, Content::shown(&answer, &[]));
            }
            return outcome;
        }
        let (outcome, answer) = self.send_begun(&ids, "POST", "/batch/jobs", &json!({ "jobs": jobs }));
        self.confirm_each(&ids, outcome, &answer, 201, &state);
        outcome
    }

    /// A job with its own values for everything that an add can give.
    fn new_job(&mut self, body_bytes: usize, delayed: bool) -> Value {
        self.next += 1;
        let id = format!("{}-{}-{}", self.topic, self.run, self.next);
        let n = self.next;
        // Another body for each job.
        let body = format!("{id} ").repeat(body_bytes / id.len() + 1)[..body_bytes].to_owned();
        let mut job = json!({
            "topic": self.topic, "id": id, "body": body,
            "ttr": 60 + n % 100, "max_attempts": n % 4, "retry": [n % 50 + 1, 700],
        });
        if delayed {
            job["at"] = in_an_hour().into();
            if n.is_multiple_of(2) {
                let url = format!("http://127.0.0.1:4999/{n}");
                job["callback"] = json!({ "url": url, "method": "PUT", "timeout": 7 });
            }
        }
        job
    }

    /// Records the results of a batch, whose items all should have this status and leave the jobs in this state.
    fn confirm_each(&self, ids: &[String], outcome: Outcome, answer: &Value, status: u16, state: &JobState) {
        if outcome != Outcome::Done {
            return;
        }
        let mut ledger = self.ledger();
        for (n, id) in ids.iter().enumerate() {
            let result = &answer["results"][n];
            if result["status"] == status && result["id"] == *id {
                ledger.confirm(id, state.clone(), Content::default());
            } else {
                ledger.mark_uncertain(id);
                ledger.contradictions.push(format!("{id} in a batch: {result}"));
            }
        }
    }

    /// Pops up to `max` jobs, which it holds for an hour.
    pub fn pop(&self, max: usize) -> Outcome {
        let ready = self.possible_ids(|state| *state == JobState::Ready);
        let name = format!("{} {max}", self.topic);
        let pop = json!({ "topics": [self.topic], "max": max, "ttr": "1h", "worker": name });
        let (outcome, answer) = self.send(&ready, Effect::MOVE, "POST", "/batch/pop", &pop);
        if outcome == Outcome::Done {
            let mut ledger = self.ledger();
            for job in answer["jobs"].as_array().into_iter().flatten() {
                let (id, receipt) = (text(job, "id"), text(job, "receipt"));
                if !ready.contains(&id) {
                    let known = ledger.state(&id).cloned();
                    ledger.contradictions.push(format!("{id} was handed out but its state is {known:?}"));
                    continue;
                }
                let mut shown = Content::shown(job, &["reserved_at", "reserved_by", "callback", "history"]);
                shown.learn(Content::given(&json!({ "reserved_by": pop["worker"] })));
                ledger.confirm(&id, JobState::Reserved(Some(receipt)), shown);
            }
            ready.iter().for_each(|id| ledger.unchanged(id));
        }
        outcome
    }

    pub fn finish(&self, id: &str, receipt: &str) -> Outcome {
        let path = format!("/jobs/{id}/finish?receipt={receipt}");
        self.change(id, Effect::EXISTENCE, "POST", &path, &json!({}))
    }

    pub fn finish_all(&self, held: &[(String, String)]) -> Outcome {
        let jobs: Vec<Value> =
            held.iter().map(|(id, receipt)| json!({ "id": id, "receipt": receipt })).collect();
        let ids: Vec<String> = held.iter().map(|(id, _)| id.clone()).collect();
        self.end_all("/batch/finish", &ids, &json!({ "jobs": jobs }))
    }

    pub fn delete_all(&self, ids: &[String]) -> Outcome {
        self.end_all("/batch/delete", ids, &json!({ "ids": ids }))
    }

    fn end_all(&self, path: &str, ids: &[String], body: &Value) -> Outcome {
        let (outcome, answer) = self.send(ids, Effect::EXISTENCE, "POST", path, body);
        self.confirm_each(ids, outcome, &answer, 204, &JobState::Gone);
        outcome
    }

    pub fn delete(&self, id: &str) -> Outcome {
        self.change(id, Effect::EXISTENCE, "DELETE", &format!("/jobs/{id}"), &Value::Null)
    }

    pub fn release(&self, id: &str, receipt: &str, delayed: bool) -> Outcome {
        let body = json!({ "receipt": receipt, "delay": if delayed { "1h" } else { "0s" } });
        self.change(id, Effect::MOVE, "POST", &format!("/jobs/{id}/release"), &body)
    }

    pub fn bury(&self, id: &str, receipt: &str) -> Outcome {
        self.change(id, Effect::MOVE, "POST", &format!("/jobs/{id}/bury"), &json!({ "receipt": receipt }))
    }

    pub fn requeue(&self, id: &str) -> Outcome {
        self.change(id, Effect::MOVE, "POST", &format!("/jobs/{id}/requeue"), &json!({ "delay": "1h" }))
    }

    /// Extends a reservation to two hours from now, with a note that no other reservation has.
    pub fn touch(&self, id: &str, receipt: &str) -> Outcome {
        let body = json!({ "receipt": receipt, "ttr": "2h", "note": receipt });
        let (outcome, answer) =
            self.send(&[id.to_owned()], Effect::TOUCH, "POST", &format!("/jobs/{id}/touch"), &body);
        if outcome == Outcome::Done {
            let state = JobState::Reserved(Some(receipt.to_owned()));
            self.ledger().confirm(id, state, Content::shown(&answer, &[]));
        }
        outcome
    }

    /// Gives a waiting job a body of this length.
    pub fn patch(&self, id: &str, body_bytes: usize) -> Outcome {
        self.patch_to(id, &json!({ "body": "y".repeat(body_bytes) }))
    }

    /// Puts a waiting job off by an hour, and gives it other values for everything else that a patch can give.
    pub fn reschedule(&self, id: &str, n: usize) -> Outcome {
        let patch = json!({
            "at": in_an_hour(), "ttr": 500 + n, "max_attempts": 9, "retry": [n + 1], "body": { "patched": n },
        });
        self.patch_to(id, &patch)
    }

    fn patch_to(&self, id: &str, patch: &Value) -> Outcome {
        let (outcome, answer) =
            self.send(&[id.to_owned()], Effect::PATCH, "PATCH", &format!("/jobs/{id}"), patch);
        if outcome == Outcome::Done {
            let shown = Content::shown(&answer, &[]);
            let differences = Content::given(patch).differences(&shown);
            let mut ledger = self.ledger();
            ledger
                .contradictions
                .extend(differences.into_iter().map(|difference| format!("{id}: {difference}")));
            ledger.confirm(id, JobState::of(&text(&answer, "state")), shown);
        }
        outcome
    }

    /// Makes a call on one job. Its answer has the new state of the job; without one, the job is gone.
    fn change(&self, id: &str, effect: Effect, method: &str, path: &str, body: &Value) -> Outcome {
        let (outcome, answer) = self.send(&[id.to_owned()], effect, method, path, body);
        if outcome == Outcome::Done {
            let (state, shown) = match answer["state"].as_str() {
                Some(state) => (JobState::of(state), Content::shown(&answer, &[])),
                None => (JobState::Gone, Content::default()),
            };
            self.ledger().confirm(id, state, shown);
        }
        outcome
    }

    /// Its jobs that are certainly in a state for which `wanted` is true.
    pub fn ids(&self, wanted: impl Fn(&JobState) -> bool) -> Vec<String> {
        self.ledger().known_jobs(&self.topic, wanted).into_iter().map(|(id, _)| id).collect()
    }

    /// Its jobs that are in such a state, or may be.
    fn possible_ids(&self, wanted: impl Fn(&JobState) -> bool) -> Vec<String> {
        self.ledger().possible_jobs(&self.topic, wanted)
    }

    /// The jobs that it has reserved, with their receipts.
    pub fn reservations(&self) -> Vec<(String, String)> {
        let held =
            self.ledger().known_jobs(&self.topic, |state| matches!(state, JobState::Reserved(Some(_))));
        let receipt = |(id, state)| match state {
            JobState::Reserved(Some(receipt)) => Some((id, receipt)),
            JobState::Reserved(None)
            | JobState::Delayed
            | JobState::Ready
            | JobState::Dead
            | JobState::Gone => None,
        };
        held.into_iter().filter_map(receipt).collect()
    }
}

/// The moment an hour from now, as a request has it.
fn in_an_hour() -> String {
    SystemClock::new().now().after(Duration::from_secs(3_600)).to_string()
}

/// `None` for an answer that is neither success nor a failure of the store.
fn outcome_of(answer: &std::io::Result<Response>) -> Option<Outcome> {
    match answer {
        Err(_) => Some(Outcome::ConnectionLost),
        Ok(answer) => match answer.status {
            200..300 => Some(Outcome::Done),
            503 => Some(Outcome::Unavailable),
            507 => Some(Outcome::Full),
            _ => None,
        },
    }
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}")).to_owned()
}
