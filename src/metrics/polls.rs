//! How often each topic was polled in the last minute, in spans of ten seconds. It has no labels: a poll of a topic without jobs
//! must take none from a topic that has some.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

const SPAN_US: i64 = 10_000_000;
/// The spans of a minute, and the one that has just begun.
const SPANS: usize = 7;
const MINUTE_US: i64 = 6 * SPAN_US;
/// Most topics whose polls are counted, in about 2 MB.
const MOST_TOPICS: usize = 10_000;
/// How often topics without recent polls make room for others.
const CLEAN_EVERY_US: i64 = 1_000_000;

/// The polls of this process. Times are in microseconds of one clock.
#[derive(Debug)]
pub struct RecentPolls(Mutex<Counted>);

/// A poll that has not ended: of the topic with this name, or of one that is not counted.
#[derive(Debug)]
pub struct OpenPoll(Option<Arc<str>>);

/// Polls by topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PollsByTopic {
    /// Polls that have not ended, or that ended in the last minute.
    pub topics: BTreeMap<Arc<str>, u64>,
    /// Whether topics that are missing have none.
    pub is_complete: bool,
}

#[derive(Debug)]
struct Counted {
    topics: HashMap<Arc<str>, TopicPolls>,
    cleaned_us: i64,
    /// How many polls are open and not counted, and when the last of them ended.
    uncounted: u64,
    uncounted_us: i64,
}

#[derive(Debug, Default)]
struct TopicPolls {
    open: u64,
    /// The numbers of the latest spans, each with the polls that ended in it.
    ended: [(i64, u64); SPANS],
}

impl Default for RecentPolls {
    fn default() -> Self {
        let never = i64::MIN / 2;
        let (topics, uncounted) = (HashMap::new(), 0);
        Self(Mutex::new(Counted { topics, cleaned_us: never, uncounted, uncounted_us: never }))
    }
}

impl RecentPolls {
    /// Counts a poll until a minute after [`ended`](Self::ended).
    pub fn began(&self, topic: &str, now_us: i64) -> OpenPoll {
        let counted = &mut *self.lock();
        if let Some((name, _)) = counted.topics.get_key_value(topic) {
            let name = name.clone();
            counted.topics.entry(name.clone()).or_default().open += 1;
            return OpenPoll(Some(name));
        }
        if counted.topics.len() >= MOST_TOPICS && now_us >= counted.cleaned_us + CLEAN_EVERY_US {
            counted.cleaned_us = now_us;
            counted.topics.retain(|_, polls| polls.sum(now_us) > 0);
        }
        if counted.topics.len() >= MOST_TOPICS {
            counted.uncounted += 1;
            return OpenPoll(None);
        }
        let name: Arc<str> = topic.into();
        counted.topics.insert(name.clone(), TopicPolls { open: 1, ..TopicPolls::default() });
        OpenPoll(Some(name))
    }

    /// The poll has ended, with or without a job.
    pub fn ended(&self, poll: &OpenPoll, now_us: i64) {
        let counted = &mut *self.lock();
        match &poll.0 {
            // A topic stays while it has an open poll.
            Some(name) => {
                if let Some(polls) = counted.topics.get_mut(name) {
                    polls.end(now_us);
                }
            }
            None => {
                counted.uncounted -= 1;
                counted.uncounted_us = now_us;
            }
        }
    }

    /// The polls that are open, or that ended in the last minute, in whole spans.
    #[must_use]
    pub fn by_topic(&self, now_us: i64) -> PollsByTopic {
        let counted = self.lock();
        let polls = counted.topics.iter().map(|(name, polls)| (name.clone(), polls.sum(now_us)));
        let is_complete = counted.uncounted == 0 && now_us - counted.uncounted_us > MINUTE_US;
        PollsByTopic { topics: polls.filter(|(_, polls)| *polls > 0).collect(), is_complete }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().expect("no code panics while it counts")
    }
}

impl TopicPolls {
    fn end(&mut self, now_us: i64) {
        let number = now_us.div_euclid(SPAN_US);
        let span = &mut self.ended[usize::try_from(number).unwrap_or(0) % SPANS];
        if span.0 != number {
            *span = (number, 0);
        }
        span.1 += 1;
        self.open -= 1;
    }

    fn sum(&self, now_us: i64) -> u64 {
        let now = now_us.div_euclid(SPAN_US);
        let latest = self.ended.iter().filter(|(number, _)| (now - 6..=now).contains(number));
        self.open + latest.map(|(_, polls)| polls).sum::<u64>()
    }
}

impl PollsByTopic {
    /// The polls of a topic; `None` if they are not known.
    #[must_use]
    pub fn count(&self, topic: &str) -> Option<u64> {
        self.topics.get(topic).copied().or(self.is_complete.then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_poll_counts_until_a_minute_after_its_end() {
        let polls = RecentPolls::default();
        let count = |now| polls.by_topic(now).count("t");
        let (one, two) = (polls.began("t", 5 * SECOND), polls.began("t", 5 * SECOND));
        assert_eq!((count(5 * SECOND), polls.by_topic(5 * SECOND).count("u")), (Some(2), Some(0)));
        let hour = 3_600 * SECOND;
        assert_eq!(count(hour), Some(2), "they wait");
        polls.ended(&one, hour);
        polls.ended(&two, hour + 59 * SECOND);
        assert_eq!(count(hour + 59 * SECOND), Some(2));
        assert_eq!(count(hour + 71 * SECOND), Some(1));
        assert_eq!(count(hour + 131 * SECOND), Some(0));
    }

    #[test]
    fn topics_beyond_the_limit_are_not_said_to_have_none() {
        let polls = RecentPolls::default();
        for n in 0..MOST_TOPICS {
            polls.ended(&polls.began(&n.to_string(), 0), 0);
        }
        let other = polls.began("other", SECOND);
        let known = polls.by_topic(SECOND);
        assert_eq!((known.count("0"), known.count("other"), known.count("none")), (Some(1), None, None));
        polls.ended(&other, 2 * SECOND);
        assert_eq!(polls.by_topic(62 * SECOND).count("other"), None);
        assert_eq!(polls.by_topic(63 * SECOND).count("other"), Some(0));
        // Those that have gone make room.
        let other = polls.began("other", 100 * SECOND);
        assert_eq!(polls.by_topic(100 * SECOND).count("other"), Some(1));
        polls.ended(&other, 100 * SECOND);
    }
}
