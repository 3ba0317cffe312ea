//! One client: sends a call, reads the answer, and records both in the ledger. It has its own jobs and its own
//! topic. Delays and reservations are long, so that no job changes by itself.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
};

use rand::{RngExt, rngs::SmallRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::ledger::{Doubt, Ledger, Place};
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
    Cut,
}

/// Most jobs of one client: with this many it deletes instead of adding.
const ENOUGH: usize = 60;

pub struct Worker<'a> {
    topic: String,
    /// Part of its jobs' names, new for each run on one ledger.
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

    /// Sends a call that may do `doubt` to `ids`. Returns a 2xx answer. The ledger records 503 and 507; any other
    /// answer is wrong, because only calls that should work are sent.
    fn send(&self, ids: &[String], doubt: Doubt, method: &str, path: &str, body: &Value) -> (Outcome, Value) {
        {
            let mut ledger = self.ledger();
            ids.iter().for_each(|id| ledger.begin(&self.topic, id, doubt));
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
            (Some(Outcome::Unavailable | Outcome::Cut | Outcome::Done), _) => {
                ids.iter().for_each(|id| ledger.unclear(id));
            }
            (None, answer) => {
                ids.iter().for_each(|id| ledger.unclear(id));
                ledger.untrue.push(format!("{method} {path}: {answer:?}"));
            }
        }
        (outcome.unwrap_or(Outcome::Unavailable), Value::Null)
    }

    /// Adds jobs with bodies of these lengths, delayed by an hour or ready at once.
    pub fn add(&mut self, body_bytes: &[usize], delayed: bool) -> Outcome {
        let ids: Vec<String> = body_bytes.iter().map(|_| self.name()).collect();
        let jobs = ids.iter().zip(body_bytes).map(|(id, len)| {
            json!({ "topic": self.topic, "id": id, "delay": if delayed { "1h" } else { "0s" }, "body": "x".repeat(*len) })
        });
        let jobs: Vec<Value> = jobs.collect();
        let (outcome, answer) =
            self.send(&ids, Doubt::Anything, "POST", "/batch/jobs", &json!({ "jobs": jobs }));
        if outcome == Outcome::Done {
            let mut ledger = self.ledger();
            let results = answer["results"].as_array().into_iter().flatten();
            for ((id, len), result) in ids.iter().zip(body_bytes).zip(results) {
                if result["status"] == 201 {
                    ledger.settle(id, if delayed { Place::Delayed } else { Place::Ready });
                    ledger.set_body(id, &"x".repeat(*len).into());
                } else {
                    ledger.unclear(id);
                    ledger.untrue.push(format!("adding {id}: {result}"));
                }
            }
        }
        outcome
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("{}-{}-{}", self.topic, self.run, self.next)
    }

    /// Pops up to `max` jobs, which it holds for an hour.
    pub fn pop(&self, max: usize) -> Outcome {
        let ready = self.ids(|place| *place == Place::Ready);
        let pop = json!({ "topics": [self.topic], "max": max, "ttr": "1h" });
        let (outcome, answer) = self.send(&ready, Doubt::Moved, "POST", "/batch/pop", &pop);
        if outcome == Outcome::Done {
            let mut ledger = self.ledger();
            ready.iter().for_each(|id| ledger.unchanged(id));
            for job in answer["jobs"].as_array().into_iter().flatten() {
                let (id, receipt) = (text(job, "id"), text(job, "receipt"));
                if matches!(ledger.place(&id), Some(place) if *place != Place::Ready) {
                    let known = ledger.place(&id).cloned();
                    ledger.untrue.push(format!("{id} was handed out and is {known:?}"));
                }
                ledger.settle(&id, Place::Reserved(Some(receipt)));
            }
        }
        outcome
    }

    pub fn finish(&self, id: &str, receipt: &str) -> Outcome {
        let path = format!("/jobs/{id}/finish?receipt={receipt}");
        self.change(id, Doubt::Anything, "POST", &path, &json!({}))
    }

    pub fn delete(&self, id: &str) -> Outcome {
        self.change(id, Doubt::Anything, "DELETE", &format!("/jobs/{id}"), &Value::Null)
    }

    pub fn release(&self, id: &str, receipt: &str, delayed: bool) -> Outcome {
        let body = json!({ "receipt": receipt, "delay": if delayed { "1h" } else { "0s" } });
        self.change(id, Doubt::Moved, "POST", &format!("/jobs/{id}/release"), &body)
    }

    pub fn bury(&self, id: &str, receipt: &str) -> Outcome {
        self.change(id, Doubt::Moved, "POST", &format!("/jobs/{id}/bury"), &json!({ "receipt": receipt }))
    }

    pub fn requeue(&self, id: &str) -> Outcome {
        self.change(id, Doubt::Moved, "POST", &format!("/jobs/{id}/requeue"), &json!({ "delay": "1h" }))
    }

    /// Extends a reservation to an hour from now.
    pub fn touch(&self, id: &str, receipt: &str) -> Outcome {
        let body = json!({ "receipt": receipt, "ttr": "1h" });
        let (outcome, _) =
            self.send(&[id.to_owned()], Doubt::None, "POST", &format!("/jobs/{id}/touch"), &body);
        outcome
    }

    /// Gives a waiting job a body of this length.
    pub fn patch(&self, id: &str, body_bytes: usize) -> Outcome {
        let body = Value::from("y".repeat(body_bytes));
        let before = self.ledger().forget_body(id);
        let path = format!("/jobs/{id}");
        let (outcome, answer) =
            self.send(&[id.to_owned()], Doubt::None, "PATCH", &path, &json!({ "body": body }));
        let mut ledger = self.ledger();
        match outcome {
            Outcome::Done => {
                ledger.set_body(id, &body);
                if answer["body"] != body {
                    ledger.untrue.push(format!("PATCH of {id} answers with another body"));
                }
            }
            Outcome::Full => ledger.keep_body(id, before),
            Outcome::Unavailable | Outcome::Cut => {}
        }
        outcome
    }

    /// Deletes every job of its topic.
    pub fn purge(&self) -> Outcome {
        let living = self.ids(|place| *place != Place::Gone);
        let path = format!("/topics/{0}?confirm={0}", self.topic);
        let (outcome, _) = self.send(&living, Doubt::Anything, "DELETE", &path, &Value::Null);
        if outcome == Outcome::Done {
            living.iter().for_each(|id| self.ledger().settle(id, Place::Gone));
        }
        outcome
    }

    /// Sets the TTR of a topic without jobs to so many seconds, and nothing else.
    pub fn set(&self, ttr_s: u64) -> Outcome {
        self.change_topic("PUT", "", &json!({ "ttr": ttr_s }))
    }

    /// Pauses all of that topic, or resumes it: `step` is the call's name.
    pub fn pause(&self, step: &str) -> Outcome {
        self.change_topic("POST", &format!("/{step}"), &json!({}))
    }

    fn change_topic(&self, method: &str, step: &str, body: &Value) -> Outcome {
        let topic = format!("{}-settings", self.topic);
        let before = self.ledger().forget_topic(&topic);
        let (outcome, answer) = self.send(&[], Doubt::None, method, &format!("/topics/{topic}{step}"), body);
        match outcome {
            Outcome::Done => self.ledger().set_topic(&topic, &answer),
            Outcome::Full => self.ledger().keep_topic(&topic, before),
            Outcome::Unavailable | Outcome::Cut => {}
        }
        outcome
    }

    /// A call that concerns one job; what it answers says where the job is, nothing that it is gone.
    fn change(&self, id: &str, doubt: Doubt, method: &str, path: &str, body: &Value) -> Outcome {
        let (outcome, answer) = self.send(&[id.to_owned()], doubt, method, path, body);
        if outcome == Outcome::Done {
            let place = answer["state"].as_str().map_or(Place::Gone, Place::of);
            self.ledger().settle(id, place);
        }
        outcome
    }

    /// Its jobs that are certainly in a state for which `wanted` is true.
    pub fn ids(&self, wanted: impl Fn(&Place) -> bool) -> Vec<String> {
        self.ledger().certain(&self.topic, wanted).into_iter().map(|(id, _)| id).collect()
    }

    /// Jobs that it holds, with their receipts.
    pub fn held(&self) -> Vec<(String, String)> {
        let held = self.ledger().certain(&self.topic, |place| matches!(place, Place::Reserved(Some(_))));
        let receipt = |(id, place)| match place {
            Place::Reserved(Some(receipt)) => Some((id, receipt)),
            Place::Reserved(None) | Place::Delayed | Place::Ready | Place::Dead | Place::Gone => None,
        };
        held.into_iter().filter_map(receipt).collect()
    }

    /// A fixed script of every kind of call, each step whatever the result of those before.
    pub fn script(&mut self) -> Vec<Outcome> {
        let mut outcomes = vec![
            self.add(&[20, 20, 20, 20], false),
            self.add(&[50_000], false),
            self.add(&[10, 10, 10], true),
            self.pop(4),
        ];
        let held = self.held();
        let ended = held.iter().enumerate().take(3).map(|(n, (id, receipt))| match n {
            0 => self.finish(id, receipt),
            1 => self.bury(id, receipt),
            _ => self.release(id, receipt, true),
        });
        outcomes.extend(ended);
        outcomes.extend(self.ids(|place| *place == Place::Delayed).first().map(|id| self.delete(id)));
        outcomes.extend(self.ids(|place| *place == Place::Dead).first().map(|id| self.requeue(id)));
        outcomes.extend(self.held().first().map(|(id, receipt)| self.touch(id, receipt)));
        outcomes.extend(self.ids(|place| *place == Place::Ready).first().map(|id| self.patch(id, 9_000)));
        outcomes.push(self.set(90));
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
                let living = self.ids(|place| *place != Place::Gone);
                if living.len() > ENOUGH {
                    return self.one_of(rng, &living, |id| self.delete(id));
                }
                let largest = if rng.random_bool(0.75) { largest } else { 200 };
                let jobs = rng.random_range(1..=8);
                let bodies: Vec<usize> = (0..jobs).map(|_| rng.random_range(0..largest)).collect();
                let delayed = rng.random_bool(0.3);
                self.add(&bodies, delayed)
            }
            40..62 => self.pop(rng.random_range(1..=4)),
            62..65 => self.one_of(rng, &self.ids(|place| *place == Place::Dead), |id| self.requeue(id)),
            65..69 => {
                let waiting = self.ids(|place| matches!(place, Place::Ready | Place::Delayed));
                let body_bytes = rng.random_range(0..largest);
                self.one_of(rng, &waiting, |id| self.patch(id, body_bytes))
            }
            69 => self.set(rng.random_range(60..600)),
            70 => self.pause("pause"),
            71 => self.pause("resume"),
            kind => self.one_of(rng, &self.held(), |(id, receipt)| match kind {
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
        Err(_) => Some(Outcome::Cut),
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
