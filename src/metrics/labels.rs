//! Which topics have a label of their own in the metrics. At most [`MAX_TOPICS`] have one; the others share `other`, so
//! that clients that invent topics cannot exhaust the memory of the scraper.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use prometheus_client::encoding::EncodeLabelSet;

/// Most topics with a label of their own.
pub const MAX_TOPICS: usize = 1_000;

/// How long a topic without jobs and settings keeps its label, in microseconds: its counters must not restart at zero
/// whenever its last job is finished.
const KEEP_US: i64 = 3_600_000_000;

/// How much a topic is used, for `TopicLabels::assign`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicUsage<'a> {
    /// Its name.
    pub topic: &'a str,
    /// Its jobs in all states.
    pub jobs: u64,
    /// Whether it has settings or is paused.
    pub has_settings: bool,
}

/// A topic as a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TopicLabel {
    pub topic: Arc<str>,
}

/// The label of all topics without one of their own.
pub(super) fn shared_label() -> Arc<str> {
    "other".into()
}

/// The topics with a label of their own.
#[derive(Debug, Default)]
pub(super) struct TopicLabels(HashMap<Arc<str>, LabelUse>);

#[derive(Debug, Default)]
struct LabelUse {
    /// Whether its jobs changed since the last assignment.
    active: bool,
    /// When it was last seen with jobs, settings or activity.
    seen_us: i64,
}

impl TopicLabels {
    /// The label of a topic whose jobs change. A new topic gets one while labels are available.
    pub fn find_or_add(&mut self, topic: &str) -> Option<Arc<str>> {
        if let Some((label, usage)) = self.0.get_key_value(topic).map(|(label, usage)| (label.clone(), usage))
        {
            if !usage.active {
                self.0.insert(label.clone(), LabelUse { active: true, ..LabelUse::default() });
            }
            return Some(label);
        }
        if self.0.len() >= MAX_TOPICS {
            return None;
        }
        let label: Arc<str> = topic.into();
        self.0.insert(label.clone(), LabelUse { active: true, seen_us: i64::MIN });
        Some(label)
    }

    /// The label of a topic, if it has one.
    pub fn find(&self, topic: &str) -> Option<Arc<str>> {
        self.0.get_key_value(topic).map(|(label, _)| label.clone())
    }

    /// Assigns labels to the topics that need them most: those with settings, then those with the most jobs. Removes the
    /// labels of topics that have been gone for an hour, and of others if there are too few labels. Returns the removed
    /// labels.
    pub fn assign(&mut self, mut topics: Vec<TopicUsage<'_>>, now_us: i64) -> Vec<Arc<str>> {
        let mut present = HashSet::new();
        for TopicUsage { topic, .. } in &topics {
            if let Some((label, _)) = self.0.get_key_value(*topic) {
                present.insert(label.clone());
            }
        }
        for (label, usage) in &mut self.0 {
            if std::mem::take(&mut usage.active) || present.contains(label) || usage.seen_us == i64::MIN {
                usage.seen_us = now_us;
            }
        }
        let mut removed: Vec<Arc<str>> = Vec::new();
        removed
            .extend(self.0.extract_if(|_, usage| now_us - usage.seen_us >= KEEP_US).map(|(label, _)| label));
        if topics.len() > MAX_TOPICS {
            // A topic keeps its label against topics up to twice as large, so that labels do not alternate between topics.
            let weight = |topic: &TopicUsage<'_>| topic.jobs << u32::from(self.0.contains_key(topic.topic));
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
            removed.extend(others);
        }
        self.0
            .extend(new.into_iter().map(|topic| (topic.into(), LabelUse { active: false, seen_us: now_us })));
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(topic: &str, jobs: u64) -> TopicUsage<'_> {
        TopicUsage { topic, jobs, has_settings: false }
    }

    fn names(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|n| format!("a-{n}")).collect()
    }

    fn all(names: &[String], jobs: u64) -> Vec<TopicUsage<'_>> {
        names.iter().map(|name| topic(name, jobs)).collect()
    }

    #[test]
    fn topics_with_settings_come_first_then_the_largest() {
        let (mut labels, flood) = (TopicLabels::default(), names(0, 5 * MAX_TOPICS));
        let mut topics = all(&flood, 1);
        topics.push(topic("payments", 2));
        topics.push(TopicUsage { has_settings: true, ..topic("refunds", 0) });
        assert_eq!(labels.assign(topics, 0), []);
        assert!(labels.find("payments").is_some() && labels.find("refunds").is_some());
        assert_eq!(labels.0.len(), MAX_TOPICS);
    }

    #[test]
    fn topics_of_a_flood_lose_labels_to_topics_that_need_them_more() {
        let (mut labels, flood) = (TopicLabels::default(), names(0, MAX_TOPICS));
        assert!(flood.iter().all(|name| labels.find_or_add(name).is_some()));
        assert_eq!(labels.find_or_add("payments"), None, "none is available");
        let mut topics = all(&flood, 1);
        topics.push(topic("small", 2));
        topics.push(topic("payments", 3));
        topics.push(TopicUsage { has_settings: true, ..topic("refunds", 0) });
        assert_eq!(labels.assign(topics, 0).len(), 2);
        assert!(labels.find("payments").is_some() && labels.find("refunds").is_some());
        assert_eq!(labels.find("small"), None, "it is not large enough to take one from another topic");
    }

    #[test]
    fn topics_without_jobs_lose_their_labels_when_others_need_them_or_after_an_hour() {
        let (mut labels, gone) = (TopicLabels::default(), names(0, MAX_TOPICS));
        assert_eq!(labels.assign(all(&gone, 1), 0), []);
        assert_eq!(labels.assign(vec![], 1), [], "no other topic needs them yet");
        let new = names(MAX_TOPICS, MAX_TOPICS + 10);
        assert_eq!(labels.assign(all(&new, 1), 2).len(), 10);
        assert!(new.iter().all(|name| labels.find(name).is_some()));
        let left = gone.iter().find(|name| labels.find(name).is_some()).expect("most are left");
        assert!(labels.find_or_add(left).is_some());
        let removed = labels.assign(all(&new, 1), KEEP_US);
        assert_eq!(removed.len(), MAX_TOPICS - 11, "all topics that are gone and idle");
        assert!(labels.find(left).is_some(), "its jobs changed");
        assert_eq!(labels.assign(all(&new, 1), 2 * KEEP_US), [Arc::from(left.as_str())]);
    }
}
