//! The ledger: what clients know about each job from their answers, and how a reopened store differs from it. Each job
//! belongs to one client, which has one call in flight at a time. So acknowledged states are exact, and only a call
//! without a clear answer leaves a state uncertain.

mod topics;

use std::collections::{BTreeMap, BTreeSet};

pub use self::topics::topic_config;
use self::topics::{TopicEntry, count_difference};
use super::content::Content;
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

    /// Its name in a request.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved(_) => "reserved",
            Self::Dead => "dead",
            Self::Gone => panic!("jobs that are gone have no state"),
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

/// What a call does to a job.
#[derive(Debug, Clone, Copy)]
pub struct Effect {
    uncertainty: Uncertainty,
    /// The members of the job that it may change.
    members: &'static [&'static str],
}

impl Effect {
    /// It adds or removes the job.
    pub const EXISTENCE: Self = Self { uncertainty: Uncertainty::Existence, members: &[] };
    /// It moves the job to another state or due time.
    pub const MOVE: Self = Self {
        uncertainty: Uncertainty::State,
        members: &[
            "due_at",
            "attempts",
            "reserved_at",
            "reserved_by",
            "reserved_until",
            "dead_at",
            "reason",
            "note",
            "noted_at",
            "history",
        ],
    };
    pub const PATCH: Self = Self {
        uncertainty: Uncertainty::State,
        members: &["due_at", "ttr", "max_attempts", "retry", "history", "body"],
    };
    pub const TOUCH: Self =
        Self { uncertainty: Uncertainty::None, members: &["reserved_until", "note", "noted_at"] };
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
    /// What is certain, also while a call is in flight.
    content: Content,
    /// The content before the call in flight.
    before: Option<Content>,
    /// Members that a call may have changed since the last [`Ledger::begin_snapshot`].
    recent_members: BTreeSet<&'static str>,
}

/// Every job of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    jobs: BTreeMap<String, Entry>,
    /// Jobs that were gone at the last check.
    gone: BTreeSet<String>,
    topics: BTreeMap<String, TopicEntry>,
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
    /// In another state or with other content than expected, or counted wrongly, or with a receipt that does not work.
    pub wrong: Vec<String>,
    /// Jobs and topics for which the answer was 503.
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
    /// Records that a call with this effect on `id` is about to be sent.
    pub fn begin(&mut self, topic: &str, id: &str, effect: Effect) {
        let new = || Entry {
            topic: topic.to_owned(),
            state: JobState::Gone,
            uncertainty: Uncertainty::None,
            pending: Uncertainty::None,
            recent: Uncertainty::None,
            content: Content::default(),
            before: None,
            recent_members: BTreeSet::new(),
        };
        let entry = self.jobs.entry(id.to_owned()).or_insert_with(new);
        entry.pending = effect.uncertainty;
        entry.recent = entry.recent.max(effect.uncertainty);
        entry.before = Some(entry.content.clone());
        entry.content.forget(effect.members);
        entry.recent_members.extend(effect.members);
    }

    /// Records that a call is about to be sent that adds `id` with this content.
    pub fn begin_add(&mut self, topic: &str, id: &str, content: Content) {
        self.begin(topic, id, Effect::EXISTENCE);
        self.entry(id).content = content;
    }

    fn entry(&mut self, id: &str) -> &mut Entry {
        self.jobs.get_mut(id).expect("its call was begun")
    }

    /// Records the state of `id` from an answer, and the part of its content that the answer shows.
    pub fn confirm(&mut self, id: &str, state: JobState, shown: Content) {
        let entry = self.entry(id);
        (entry.state, entry.uncertainty, entry.pending) = (state, Uncertainty::None, Uncertainty::None);
        entry.before = None;
        let differences = entry.content.differences(&shown);
        entry.content.learn(shown);
        self.contradictions.extend(differences.into_iter().map(|difference| format!("{id}: {difference}")));
        self.acks += 1;
    }

    /// Records that an answer reported no change to `id`.
    pub fn unchanged(&mut self, id: &str) {
        let entry = self.entry(id);
        entry.pending = Uncertainty::None;
        if let Some(before) = entry.before.take() {
            entry.content = before;
        }
    }

    /// Records that there was no answer, or one that leaves the result open.
    pub fn mark_uncertain(&mut self, id: &str) {
        let entry = self.entry(id);
        entry.uncertainty = entry.uncertainty.max(entry.pending);
        (entry.pending, entry.before) = (Uncertainty::None, None);
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

    /// Jobs of a topic that are, or may be, in a state for which `wanted` is true.
    pub fn possible_jobs(&self, topic: &str, wanted: impl Fn(&JobState) -> bool) -> Vec<String> {
        let possible =
            |entry: &Entry| entry.uncertainty.max(entry.pending) > Uncertainty::None || wanted(&entry.state);
        let jobs = self.jobs.iter().filter(|(_, entry)| entry.topic == topic && possible(entry));
        jobs.map(|(id, _)| id.clone()).collect()
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
            entry.recent_members.clear();
        }
        self.clone()
    }

    /// The ledger of what the snapshot contains. `since` is the ledger at its end. The results of calls that began
    /// meanwhile are uncertain.
    pub fn end_snapshot(mut self, since: &Self) -> Self {
        for (id, entry) in &since.jobs {
            let kept = self
                .jobs
                .entry(id.clone())
                .or_insert_with(|| Entry { state: JobState::Gone, ..entry.clone() });
            kept.uncertainty = kept.uncertainty.max(entry.recent);
            (kept.pending, kept.before) = (Uncertainty::None, None);
            kept.content.forget(&entry.recent_members);
        }
        for (topic, entry) in &since.topics {
            let kept = self.topics.entry(topic.clone()).or_default();
            kept.forget_if_changed(entry);
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
            let (found, content) = match answer.status {
                200 => {
                    let job = answer.json();
                    (JobState::of(job["state"].as_str().expect("a state")), Content::shown(&job, &[]))
                }
                404 => (JobState::Gone, Content::default()),
                503 => {
                    findings.unanswered.push(id.clone());
                    continue;
                }
                _ => panic!("{id}: {answer:?}"),
            };
            let here = found != JobState::Gone;
            findings.present += usize::from(here);
            *counts.entry(entry.topic.clone()).or_default() += u64::from(here);
            let differences = entry.content.differences(&content);
            findings.wrong.extend(differences.into_iter().map(|difference| format!("{id}: {difference}")));
            entry.content = content;
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
                    if answer.status == 200 {
                        entry.content = Content::shown(&answer.json(), &[]);
                    } else {
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
        for (topic, entry) in &mut self.topics {
            entry.check(topic, server, &mut findings);
        }
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
