//! A client that sends calls and records their answers in the ledger. It has its own jobs and its own topic. Delays and
//! reservations are long, so that no job changes by itself.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
};

use rand::{RngExt, rngs::SmallRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::ledger::{JobState, Ledger, Uncertainty};
use crate::harness::blocking_http::{Response, call};

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

/// Most jobs of one client. A client with more jobs deletes instead of adding.
const MAX_JOBS: usize = 60;

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

    /// Sends a call on the jobs `ids`, which leaves them in `uncertainty` until its answer. Returns a 2xx answer. The
    /// ledger records 503 and 507; any other answer is wrong, because only calls that should work are sent.
    fn send(
        &self,
        ids: &[String],
        uncertainty: Uncertainty,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (Outcome, Value) {
        {
            let mut ledger = self.ledger();
            ids.iter().for_each(|id| ledger.begin(&self.topic, id, uncertainty));
        }
        let answer = call(self.address, method, path, &body.to_string());
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
        let ids: Vec<String> = body_bytes.iter().map(|_| self.next_id()).collect();
        let jobs = ids.iter().zip(body_bytes).map(|(id, len)| {
            json!({ "topic": self.topic, "id": id, "delay": if delayed { "1h" } else { "0s" }, "body": "x".repeat(*len) })
        });
        let jobs: Vec<Value> = jobs.collect();
        let (outcome, answer) =
            self.send(&ids, Uncertainty::Existence, "POST", "/batch/jobs", &json!({ "jobs": jobs }));
        if outcome == Outcome::Done {
            let mut ledger = self.ledger();
            let results = answer["results"].as_array().into_iter().flatten();
            for ((id, len), result) in ids.iter().zip(body_bytes).zip(results) {
                if result["status"] == 201 {
                    ledger.confirm(id, if delayed { JobState::Delayed } else { JobState::Ready });
                    ledger.set_body(id, &"x".repeat(*len).into());
                } else {
                    ledger.mark_uncertain(id);
                    ledger.contradictions.push(format!("adding {id}: {result}"));
                }
            }
        }
        outcome
    }

    fn next_id(&mut self) -> String {
        self.next += 1;
        format!("{}-{}-{}", self.topic, self.run, self.next)
    }

    /// Pops up to `max` jobs, which it holds for an hour.
    pub fn pop(&self, max: usize) -> Outcome {
        let ready = self.ids(|state| *state == JobState::Ready);
        let pop = json!({ "topics": [self.topic], "max": max, "ttr": "1h" });
        let (outcome, answer) = self.send(&ready, Uncertainty::State, "POST", "/batch/pop", &pop);
        if outcome == Outcome::Done {
            let mut ledger = self.ledger();
            ready.iter().for_each(|id| ledger.unchanged(id));
            for job in answer["jobs"].as_array().into_iter().flatten() {
                let (id, receipt) = (text(job, "id"), text(job, "receipt"));
                if matches!(ledger.state(&id), Some(state) if *state != JobState::Ready) {
                    let known = ledger.state(&id).cloned();
                    ledger.contradictions.push(format!("{id} was handed out but its state is {known:?}"));
                }
                ledger.confirm(&id, JobState::Reserved(Some(receipt)));
            }
        }
        outcome
    }

    pub fn finish(&self, id: &str, receipt: &str) -> Outcome {
        let path = format!("/jobs/{id}/finish?receipt={receipt}");
        self.change(id, Uncertainty::Existence, "POST", &path, &json!({}))
    }

    pub fn delete(&self, id: &str) -> Outcome {
        self.change(id, Uncertainty::Existence, "DELETE", &format!("/jobs/{id}"), &Value::Null)
    }

    pub fn release(&self, id: &str, receipt: &str, delayed: bool) -> Outcome {
        let body = json!({ "receipt": receipt, "delay": if delayed { "1h" } else { "0s" } });
        self.change(id, Uncertainty::State, "POST", &format!("/jobs/{id}/release"), &body)
    }

    pub fn bury(&self, id: &str, receipt: &str) -> Outcome {
        self.change(
            id,
            Uncertainty::State,
            "POST",
            &format!("/jobs/{id}/bury"),
            &json!({ "receipt": receipt }),
        )
    }

    pub fn requeue(&self, id: &str) -> Outcome {
        self.change(id, Uncertainty::State, "POST", &format!("/jobs/{id}/requeue"), &json!({ "delay": "1h" }))
    }

    /// Extends a reservation to an hour from now.
    pub fn touch(&self, id: &str, receipt: &str) -> Outcome {
        let body = json!({ "receipt": receipt, "ttr": "1h" });
        let (outcome, _) =
            self.send(&[id.to_owned()], Uncertainty::None, "POST", &format!("/jobs/{id}/touch"), &body);
        outcome
    }

    /// Gives a waiting job a body of this length.
    pub fn patch(&self, id: &str, body_bytes: usize) -> Outcome {
        let body = Value::from("y".repeat(body_bytes));
        let before = self.ledger().forget_body(id);
        let path = format!("/jobs/{id}");
        let (outcome, answer) =
            self.send(&[id.to_owned()], Uncertainty::None, "PATCH", &path, &json!({ "body": body }));
        let mut ledger = self.ledger();
        match outcome {
            Outcome::Done => {
                ledger.set_body(id, &body);
                if answer["body"] != body {
                    ledger.contradictions.push(format!("PATCH of {id} answers with another body"));
                }
            }
            Outcome::Full => ledger.keep_body(id, before),
            Outcome::Unavailable | Outcome::ConnectionLost => {}
        }
        outcome
    }

    /// Deletes every job of its topic.
    pub fn purge(&self) -> Outcome {
        let living = self.ids(|state| *state != JobState::Gone);
        let path = format!("/topics/{0}?confirm={0}", self.topic);
        let (outcome, _) = self.send(&living, Uncertainty::Existence, "DELETE", &path, &Value::Null);
        if outcome == Outcome::Done {
            living.iter().for_each(|id| self.ledger().confirm(id, JobState::Gone));
        }
        outcome
    }

    /// Sets the TTR of a topic without jobs, in seconds, and clears its other settings.
    pub fn set_ttr(&self, ttr_s: u64) -> Outcome {
        self.change_topic("PUT", "", &json!({ "ttr": ttr_s }))
    }

    /// Pauses or resumes that topic: `step` is the name of the call.
    pub fn pause(&self, step: &str) -> Outcome {
        self.change_topic("POST", &format!("/{step}"), &json!({}))
    }

    fn change_topic(&self, method: &str, step: &str, body: &Value) -> Outcome {
        let topic = format!("{}-settings", self.topic);
        let before = self.ledger().forget_topic(&topic);
        let (outcome, answer) =
            self.send(&[], Uncertainty::None, method, &format!("/topics/{topic}{step}"), body);
        match outcome {
            Outcome::Done => self.ledger().set_topic(&topic, &answer),
            Outcome::Full => self.ledger().keep_topic(&topic, before),
            Outcome::Unavailable | Outcome::ConnectionLost => {}
        }
        outcome
    }

    /// Makes a call on one job. Its answer has the new state of the job; without one, the job is gone.
    fn change(&self, id: &str, uncertainty: Uncertainty, method: &str, path: &str, body: &Value) -> Outcome {
        let (outcome, answer) = self.send(&[id.to_owned()], uncertainty, method, path, body);
        if outcome == Outcome::Done {
            let state = answer["state"].as_str().map_or(JobState::Gone, JobState::of);
            self.ledger().confirm(id, state);
        }
        outcome
    }

    /// Its jobs that are certainly in a state for which `wanted` is true.
    pub fn ids(&self, wanted: impl Fn(&JobState) -> bool) -> Vec<String> {
        self.ledger().known_jobs(&self.topic, wanted).into_iter().map(|(id, _)| id).collect()
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

    /// Makes a fixed sequence of calls of every kind, whatever the results of earlier ones.
    pub fn script(&mut self) -> Vec<Outcome> {
        let mut outcomes = vec![
            self.add(&[20, 20, 20, 20], false),
            self.add(&[50_000], false),
            self.add(&[10, 10, 10], true),
            self.pop(4),
        ];
        let held = self.reservations();
        let ended = held.iter().enumerate().take(3).map(|(n, (id, receipt))| match n {
            0 => self.finish(id, receipt),
            1 => self.bury(id, receipt),
            _ => self.release(id, receipt, true),
        });
        outcomes.extend(ended);
        outcomes.extend(self.ids(|state| *state == JobState::Delayed).first().map(|id| self.delete(id)));
        outcomes.extend(self.ids(|state| *state == JobState::Dead).first().map(|id| self.requeue(id)));
        outcomes.extend(self.reservations().first().map(|(id, receipt)| self.touch(id, receipt)));
        outcomes.extend(self.ids(|state| *state == JobState::Ready).first().map(|id| self.patch(id, 9_000)));
        outcomes.push(self.set_ttr(90));
        outcomes.push(self.pause("pause"));
        outcomes.push(self.pause("resume"));
        outcomes.push(self.add(&[30], false));
        outcomes.push(self.pop(1));
        outcomes
    }

    /// One random step of a busy client. A quarter of the adds is small, the others have bodies up to `largest` bytes.
    pub fn random_step(&mut self, rng: &mut SmallRng, largest: usize) -> Outcome {
        match rng.random_range(0..100) {
            0..40 => {
                let living = self.ids(|state| *state != JobState::Gone);
                if living.len() > MAX_JOBS {
                    return self.one_of(rng, &living, |id| self.delete(id));
                }
                let largest = if rng.random_bool(0.75) { largest } else { 200 };
                let jobs = rng.random_range(1..=8);
                let bodies: Vec<usize> = (0..jobs).map(|_| rng.random_range(0..largest)).collect();
                let delayed = rng.random_bool(0.3);
                self.add(&bodies, delayed)
            }
            40..62 => self.pop(rng.random_range(1..=4)),
            62..65 => self.one_of(rng, &self.ids(|state| *state == JobState::Dead), |id| self.requeue(id)),
            65..69 => {
                let waiting = self.ids(|state| matches!(state, JobState::Ready | JobState::Delayed));
                let body_bytes = rng.random_range(0..largest);
                self.one_of(rng, &waiting, |id| self.patch(id, body_bytes))
            }
            69 => self.set_ttr(rng.random_range(60..600)),
            70 => self.pause("pause"),
            71 => self.pause("resume"),
            kind => self.one_of(rng, &self.reservations(), |(id, receipt)| match kind {
                72..77 => self.release(id, receipt, kind < 74),
                77..80 => self.bury(id, receipt),
                80..83 => self.touch(id, receipt),
                _ => self.finish(id, receipt),
            }),
        }
    }

    fn one_of<T>(&self, rng: &mut SmallRng, things: &[T], step: impl FnOnce(&T) -> Outcome) -> Outcome {
        things.choose(rng).map_or(Outcome::Done, step)
    }
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
