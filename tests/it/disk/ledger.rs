//! The ledger: what clients know about each job from their answers, and how a reopened store differs from it. Each job
//! belongs to one client, which has one call in flight at a time. So acknowledged states are exact, and only a call
//! without a clear answer leaves a state uncertain.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Value, json};

use crate::harness::process::Server;

/// The state of a job as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Delayed,
    Ready,
    /// With the receipt, if the client knows it.
    Reserved(Option<String>),
    Dead,
    Gone,
}

impl JobState {
    /// From the name of a state in an answer.
    pub fn of(state: &str) -> Self {
        match state {
            "delayed" => Self::Delayed,
            "ready" => Self::Ready,
            "reserved" => Self::Reserved(None),
            "dead" => Self::Dead,
            other => panic!("no such state: {other}"),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What a call with an unknown result may have done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uncertainty {
    None,
    /// The job exists, in an unknown state.
    State,
    /// The job may exist or not.
    Existence,
}

#[derive(Debug, Clone)]
struct Entry {
    topic: String,
    state: JobState,
    /// After calls that ended without a clear answer.
    uncertainty: Uncertainty,
    /// During a call in flight.
    pending: Uncertainty,
    /// The highest of both since the last [`Ledger::begin_snapshot`].
    recent: Uncertainty,
    /// Digest of the body, if it is known.
    body: Option<u64>,
}

fn digest(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Every job of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    jobs: BTreeMap<String, Entry>,
    /// Jobs that were gone at the last check.
    gone: BTreeSet<String>,
    /// The configuration of each topic as answers show it; `None` while that is unknown.
    topics: BTreeMap<String, Option<Value>>,
    /// Acknowledgements so far.
    pub acks: usize,
    /// Answers that contradict what is known.
    pub contradictions: Vec<String>,
}

/// How a store differs from the ledger.
#[derive(Debug, Default)]
pub struct Findings {
    pub lost: Vec<String>,
    pub returned: Vec<String>,
    /// In another state than expected, or counted wrongly, or with a receipt that does not work.
    pub wrong: Vec<String>,
    /// Jobs for which the answer was 503.
    pub unanswered: Vec<String>,
    /// Jobs that exist.
    pub present: usize,
}

impl Findings {
    pub fn is_clean(&self) -> bool {
        [&self.lost, &self.returned, &self.wrong, &self.unanswered].iter().all(|list| list.is_empty())
    }
}

impl Ledger {
    /// Records that a call is about to be sent that may do this to `id`.
    pub fn begin(&mut self, topic: &str, id: &str, uncertainty: Uncertainty) {
        let new = || Entry {
            topic: topic.to_owned(),
            state: JobState::Gone,
            uncertainty: Uncertainty::None,
            pending: Uncertainty::None,
            recent: Uncertainty::None,
            body: None,
        };
        let entry = self.jobs.entry(id.to_owned()).or_insert_with(new);
        entry.pending = uncertainty;
        entry.recent = entry.recent.max(uncertainty);
    }

    /// Records the state of `id` from an answer.
    pub fn confirm(&mut self, id: &str, state: JobState) {
        let entry = self.jobs.get_mut(id).expect("its call was begun");
        (entry.state, entry.uncertainty, entry.pending) = (state, Uncertainty::None, Uncertainty::None);
        self.acks += 1;
    }

    /// Records that an answer reported no change to `id`.
    pub fn unchanged(&mut self, id: &str) {
        self.jobs.get_mut(id).expect("its call was begun").pending = Uncertainty::None;
    }

    /// Records that there was no answer, or one that leaves the result open.
    pub fn mark_uncertain(&mut self, id: &str) {
        let entry = self.jobs.get_mut(id).expect("its call was begun");
        entry.uncertainty = entry.uncertainty.max(entry.pending);
        entry.pending = Uncertainty::None;
    }

    /// Records the body of `id`.
    pub fn set_body(&mut self, id: &str, body: &Value) {
        self.jobs.get_mut(id).expect("its call was begun").body = Some(digest(body));
    }

    /// Records that the body of `id` may change. Returns the previous digest.
    pub fn forget_body(&mut self, id: &str) -> Option<u64> {
        self.jobs.get_mut(id).and_then(|entry| entry.body.take())
    }

    /// Records that the body of `id` is still the one with this digest.
    pub fn keep_body(&mut self, id: &str, body: Option<u64>) {
        self.jobs.get_mut(id).expect("its call was begun").body = body;
    }

    /// Records the configuration of a topic from an answer.
    pub fn set_topic(&mut self, topic: &str, shown: &Value) {
        self.topics.insert(topic.to_owned(), Some(topic_settings(shown)));
    }

    /// Records that the configuration of a topic may change. Returns the previous one.
    pub fn forget_topic(&mut self, topic: &str) -> Option<Value> {
        let unset = || Some(topic_settings(&Value::Null));
        std::mem::take(self.topics.entry(topic.to_owned()).or_insert_with(unset))
    }

    /// Records that the configuration of a topic has not changed.
    pub fn keep_topic(&mut self, topic: &str, set: Option<Value>) {
        self.topics.insert(topic.to_owned(), set);
    }

    /// Jobs of a topic that are certainly in a state for which `wanted` is true.
    pub fn known_jobs(&self, topic: &str, wanted: impl Fn(&JobState) -> bool) -> Vec<(String, JobState)> {
        let known = |entry: &&Entry| {
            entry.topic == topic
                && entry.uncertainty.max(entry.pending) == Uncertainty::None
                && wanted(&entry.state)
        };
        let jobs = self.jobs.iter().filter(|(_, entry)| known(entry));
        jobs.map(|(id, entry)| (id.clone(), entry.state.clone())).collect()
    }

    /// The known state of a job; `None` when the state is uncertain or the job is unknown.
    pub fn state(&self, id: &str) -> Option<&JobState> {
        self.jobs.get(id).filter(|entry| entry.uncertainty == Uncertainty::None).map(|entry| &entry.state)
    }

    /// The number of jobs that certainly exist.
    pub fn existing(&self) -> usize {
        let exists =
            |entry: &&Entry| entry.uncertainty < Uncertainty::Existence && entry.state != JobState::Gone;
        self.jobs.values().filter(exists).count()
    }

    /// The ledger at the beginning of a snapshot, which takes a while.
    pub fn begin_snapshot(&mut self) -> Self {
        for entry in self.jobs.values_mut() {
            entry.recent = entry.uncertainty.max(entry.pending);
        }
        self.clone()
    }

    /// The ledger of what the snapshot contains. `since` is the ledger at its end. The results of calls that began
    /// meanwhile are uncertain.
    pub fn end_snapshot(mut self, since: &Self) -> Self {
        for (id, entry) in &since.jobs {
            let new = || Entry { state: JobState::Gone, body: None, ..entry.clone() };
            let kept = self.jobs.entry(id.clone()).or_insert_with(new);
            kept.uncertainty = kept.uncertainty.max(entry.recent);
            kept.pending = Uncertainty::None;
            if kept.body != entry.body {
                kept.body = None;
            }
        }
        for (topic, set) in &since.topics {
            let before = self.topics.insert(topic.clone(), set.clone());
            if before.as_ref() != Some(set) {
                self.topics.insert(topic.clone(), None);
            }
        }
        self
    }

    /// Compares a server with the ledger, and records its answers. Jobs that are gone then are queried again only by
    /// [`returned_jobs`](Self::returned_jobs).
    pub fn check(&mut self, server: &Server) -> Findings {
        let mut findings = Findings::default();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (id, entry) in &mut self.jobs {
            let answer = server.call("GET", &format!("/jobs/{id}"), "");
            let found = match answer.status {
                200 => {
                    let job = answer.json();
                    if entry.body.is_some_and(|known| known != digest(&job["body"])) {
                        findings.wrong.push(format!("{id} has another body than it was given"));
                    }
                    JobState::of(job["state"].as_str().expect("a state"))
                }
                404 => JobState::Gone,
                503 => {
                    findings.unanswered.push(id.clone());
                    continue;
                }
                _ => panic!("{id}: {answer:?}"),
            };
            let here = found != JobState::Gone;
            findings.present += usize::from(here);
            *counts.entry(entry.topic.clone()).or_default() += u64::from(here);
            match (&entry.state, entry.uncertainty) {
                (_, Uncertainty::Existence) => {}
                (JobState::Gone, _) if here => findings.returned.push(id.clone()),
                (JobState::Gone, _) => {}
                (_, Uncertainty::State | Uncertainty::None) if !here => findings.lost.push(id.clone()),
                (state, Uncertainty::None) if !state.is_like(&found) => {
                    findings.wrong.push(format!("{id} was {state:?} and is {found:?}"));
                }
                (JobState::Reserved(Some(receipt)), Uncertainty::None) => {
                    let touch = format!(r#"{{"receipt":"{receipt}","ttr":"1h"}}"#);
                    let answer = server.call("POST", &format!("/jobs/{id}/touch"), &touch);
                    if answer.status != 200 {
                        findings.wrong.push(format!("{id} is no longer reserved by its holder: {answer:?}"));
                    }
                    continue;
                }
                (_, Uncertainty::State | Uncertainty::None) => {}
            }
            (entry.state, entry.uncertainty, entry.pending) = (found, Uncertainty::None, Uncertainty::None);
        }
        findings
            .wrong
            .extend(counts.into_iter().filter_map(|(topic, here)| count_difference(server, &topic, here)));
        let set = self.topics.iter().filter_map(|(topic, set)| Some((topic, set.as_ref()?)));
        findings.wrong.extend(set.filter_map(|(topic, set)| config_difference(server, topic, set)));
        self.archive_gone();
        findings
    }

    /// Jobs that exist again after they were gone.
    pub fn returned_jobs(&self, server: &Server) -> Vec<String> {
        let there = |id: &&String| server.call("GET", &format!("/jobs/{id}"), "").status != 404;
        self.gone.iter().filter(there).cloned().collect()
    }

    fn archive_gone(&mut self) {
        let gone = |_: &String, entry: &mut Entry| entry.state == JobState::Gone;
        self.gone.extend(self.jobs.extract_if(.., gone).map(|(id, _)| id));
    }
}

/// The configuration of a topic in an answer; nothing when there is no answer.
fn topic_settings(shown: &Value) -> Value {
    let is_paused = |flag: &str| shown["paused"][flag].as_bool().unwrap_or_default();
    json!({ "ttr": shown["settings"]["ttr"], "paused": [is_paused("delivery"), is_paused("intake")] })
}

/// How the configuration of a topic differs from the expected one.
fn config_difference(server: &Server, topic: &str, expected: &Value) -> Option<String> {
    let answer = server.call("GET", &format!("/topics/{topic}"), "");
    let found = match answer.status {
        200 => topic_settings(&answer.json()),
        // A topic without jobs and settings is not known.
        404 => topic_settings(&Value::Null),
        _ => return Some(format!("{topic}: {answer:?}")),
    };
    (found != *expected).then(|| format!("{topic} is set to {found} and should be {expected}"))
}

/// How the server's own count of a topic differs from the number of its jobs.
fn count_difference(server: &Server, topic: &str, here: u64) -> Option<String> {
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
