//! Which topics have a label of their own in the figures. There are at most [`MAX_TOPICS`]; the rest share `other`, so
//! that clients who invent topics cannot fill the memory of whoever scrapes.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Topics that get a label of their own.
pub const MAX_TOPICS: usize = 1_000;

/// How long a topic without jobs and settings keeps its label, in microseconds: its counters must not start again
/// each time when its last job is done.
const KEEP_US: i64 = 3_600_000_000;

/// A topic that there is, for `Labels::assign`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its name.
    pub topic: &'a str,
    /// Its jobs in all states.
    pub jobs: u64,
    /// Whether somebody has given it settings or a pause.
    pub has_settings: bool,
}

/// The topics with a label of their own.
#[derive(Debug, Default)]
pub(super) struct Labels(HashMap<Arc<str>, Use>);

#[derive(Debug, Default)]
struct Use {
    /// Whether something happened to its jobs since the last assignment.
    active: bool,
    /// When it was last seen with jobs, settings or activity.
    seen_us: i64,
}

impl Labels {
    /// The label of a topic to whose jobs something happens. A new topic gets one while there are any left.
    pub fn of_active(&mut self, topic: &str) -> Option<Arc<str>> {
        if let Some((label, usage)) = self.0.get_key_value(topic).map(|(label, usage)| (label.clone(), usage))
        {
            if !usage.active {
                self.0.insert(label.clone(), Use { active: true, ..Use::default() });
            }
            return Some(label);
        }
        if self.0.len() >= MAX_TOPICS {
            return None;
        }
        let label: Arc<str> = topic.into();
        self.0.insert(label.clone(), Use { active: true, seen_us: i64::MIN });
        Some(label)
    }

    /// The label of a topic, if it has one.
    pub fn find(&self, topic: &str) -> Option<Arc<str>> {
        self.0.get_key_value(topic).map(|(label, _)| label.clone())
    }

    /// Gives labels to the topics that need them most, of all that there are: those with settings, then those with the
    /// most jobs. Takes labels back from topics that are gone for an hour, and from others where there are too few.
    /// Returns the labels taken back.
    pub fn assign(&mut self, mut topics: Vec<Candidate<'_>>, now_us: i64) -> Vec<Arc<str>> {
        let mut present = HashSet::new();
        for Candidate { topic, .. } in &topics {
            if let Some((label, _)) = self.0.get_key_value(*topic) {
                present.insert(label.clone());
            }
        }
        for (label, usage) in &mut self.0 {
            if std::mem::take(&mut usage.active) || present.contains(label) || usage.seen_us == i64::MIN {
                usage.seen_us = now_us;
            }
        }
        let mut taken: Vec<Arc<str>> = Vec::new();
        taken.extend(self.0.extract_if(|_, usage| now_us - usage.seen_us >= KEEP_US).map(|(label, _)| label));
        if topics.len() > MAX_TOPICS {
            // Who has a label keeps it against topics up to twice as large, so that labels do not change hands all the time.
            let weight = |topic: &Candidate<'_>| topic.jobs << u32::from(self.0.contains_key(topic.topic));
            topics.sort_by_cached_key(|topic| (Reverse((topic.has_settings, weight(topic))), topic.topic));
            topics.truncate(MAX_TOPICS);
        }
        let wanted: HashSet<&str> = topics.iter().map(|topic| topic.topic).collect();
        let new: Vec<&str> = wanted.iter().copied().filter(|topic| !self.0.contains_key(*topic)).collect();
        let excess = (self.0.len() + new.len()).saturating_sub(MAX_TOPICS);
        if excess > 0 {
            let mut others: Vec<_> = self.0.iter().filter(|(label, _)| !wanted.contains(&***label)).collect();
            others.sort_by_key(|(label, usage)| (present.contains(*label), usage.seen_us, (*label).clone()));
            let others: Vec<Arc<str>> =
                others.into_iter().map(|(label, _)| label.clone()).take(excess).collect();
            for label in &others {
                self.0.remove(label);
            }
            taken.extend(others);
        }
        self.0.extend(new.into_iter().map(|topic| (topic.into(), Use { active: false, seen_us: now_us })));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(topic: &str, jobs: u64) -> Candidate<'_> {
        Candidate { topic, jobs, has_settings: false }
    }

    fn names(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|n| format!("a-{n}")).collect()
    }

    fn all(names: &[String], jobs: u64) -> Vec<Candidate<'_>> {
        names.iter().map(|name| topic(name, jobs)).collect()
    }

    #[test]
    fn topics_with_settings_come_first_then_the_largest() {
        let (mut labels, flood) = (Labels::default(), names(0, 5 * MAX_TOPICS));
        let mut topics = all(&flood, 1);
        topics.push(topic("payments", 2));
        topics.push(Candidate { has_settings: true, ..topic("refunds", 0) });
        assert_eq!(labels.assign(topics, 0), []);
        assert!(labels.find("payments").is_some() && labels.find("refunds").is_some());
        assert_eq!(labels.0.len(), MAX_TOPICS);
    }

    #[test]
    fn a_flood_that_came_first_gives_labels_back_to_those_who_need_them_more() {
        let (mut labels, flood) = (Labels::default(), names(0, MAX_TOPICS));
        assert!(flood.iter().all(|name| labels.of_active(name).is_some()));
        assert_eq!(labels.of_active("payments"), None, "there is none left");
        let mut topics = all(&flood, 1);
        topics.push(topic("small", 2));
        topics.push(topic("payments", 3));
        topics.push(Candidate { has_settings: true, ..topic("refunds", 0) });
        assert_eq!(labels.assign(topics, 0).len(), 2);
        assert!(labels.find("payments").is_some() && labels.find("refunds").is_some());
        assert_eq!(labels.find("small"), None, "it is not large enough to take one from another topic");
    }

    #[test]
    fn topics_without_jobs_give_their_labels_back_when_others_need_them_or_after_an_hour() {
        let (mut labels, gone) = (Labels::default(), names(0, MAX_TOPICS));
        assert_eq!(labels.assign(all(&gone, 1), 0), []);
        assert_eq!(labels.assign(vec![], 1), [], "nobody needs them yet");
        let new = names(MAX_TOPICS, MAX_TOPICS + 10);
        assert_eq!(labels.assign(all(&new, 1), 2).len(), 10);
        assert!(new.iter().all(|name| labels.find(name).is_some()));
        let left = gone.iter().find(|name| labels.find(name).is_some()).expect("most are left");
        assert!(labels.of_active(left).is_some());
        let taken = labels.assign(all(&new, 1), KEEP_US);
        assert_eq!(taken.len(), MAX_TOPICS - 11, "all that are gone and idle");
        assert!(labels.find(left).is_some(), "something happened to its jobs");
        assert_eq!(labels.assign(all(&new, 1), 2 * KEEP_US), [Arc::from(left.as_str())]);
    }
}
