//! The jobs that producers add, and the answers to adds.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

use super::run::{REMEMBERING, Run, TOPIC};
use crate::{
    checker::{Action, Add, Outcome},
    harness::client::Response,
};

/// The retry schedule of some jobs.
const RETRY: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(1_500)];

/// How long after their due times some jobs expire.
const EXPIRE: Duration = Duration::from_secs(1);
/// How their ids end.
const EXPIRES: &str = "-expires";

/// A job to add. If its revision is above 0, the next revision may replace it.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: String,
    topic: &'static str,
    add: Add,
}

impl Job {
    pub fn new(name: &str, run: &Run, random: &mut StdRng) -> Self {
        let mut chance = |probability| run.plan.mixed && random.random_bool(probability);
        let is_remembered = chance(0.5);
        let topic = if is_remembered { REMEMBERING } else { TOPIC };
        let add = Add {
            max_attempts: if chance(0.3) { 3 } else { run.plan.most_attempts },
            retry: if chance(0.3) { &RETRY } else { &[] },
            expire: chance(0.1).then_some(EXPIRE),
            revision: u64::from(run.plan.changes && chance(0.3)),
            is_remembered,
            delay: run.random_delay(random),
        };
        let mark = if add.expire.is_some() { EXPIRES } else { "" };
        Self { id: format!("{topic}-{name}{mark}"), topic, add }
    }

    fn may_be_replaced(&self) -> bool {
        self.add.revision > 0
    }

    /// Whether a further add replaces the job or is recognised, in whatever state it is, and after it has ended.
    pub fn may_be_added_again(&self) -> bool {
        self.may_be_replaced() || self.add.is_remembered
    }

    /// The same add, or one of the next version of the job with another due time.
    pub fn again(&self, run: &Run, random: &mut StdRng) -> Self {
        if !self.may_be_replaced() || self.add.is_remembered && random.random_bool(0.5) {
            return self.clone();
        }
        let add =
            Add { delay: run.random_delay(random), revision: self.add.revision + 1, ..self.add.clone() };
        Self { add, ..self.clone() }
    }

    pub fn json(&self, run: &Run) -> Value {
        let retry: Vec<String> = self.add.retry.iter().map(|step| milliseconds(*step)).collect();
        let mut json = json!({
            "topic": self.topic, "id": self.id, "delay": milliseconds(self.add.delay), "ttr": run.plan.ttr,
            "max_attempts": self.add.max_attempts, "retry": retry,
            "body": { "of": self.id, "revision": self.add.revision, "tries": self.add.max_attempts },
        });
        if let Some(expire) = self.add.expire {
            json["expire"] = milliseconds(expire).into();
        }
        if self.may_be_replaced() {
            json["if_exists"] = "replace".into();
            json["revision"] = self.add.revision.into();
        }
        json
    }

    pub fn action(&self) -> Action {
        Action::Add(self.add.clone())
    }
}

/// Whether the job with this id expires.
pub fn expires(id: &str) -> bool {
    id.ends_with(EXPIRES)
}

/// A time as requests have it.
pub fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// The outcome of the add of job `index` of `count`.
pub fn add_outcome(answer: Option<&Response>, index: usize, count: usize) -> Outcome {
    let Some(answer) = answer else { return Outcome::Unknown };
    let json = answer.json();
    let (status, item, problem) = match count {
        1 => (u64::from(answer.status), &json, &json),
        _ => {
            let item = &json["results"][index];
            (item["status"].as_u64().expect("a status"), item, &item["problem"])
        }
    };
    match status {
        200 if item.get("ended").is_some() => Outcome::Gone,
        200 | 201 => Outcome::Done,
        409 if problem["code"] == "job_deleted" => Outcome::Gone,
        500.. => Outcome::Unknown,
        _ => panic!("{answer:?}"),
    }
}
