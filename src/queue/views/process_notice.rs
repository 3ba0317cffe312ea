//! What a process publishes for the others: its notice, which is JSON of which unknown fields and events are ignored.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    job::Timestamp,
    metrics::{EventSummary, EventsByTopic, Lateness, PastHour, PollsByTopic, SignsByTopic},
    store::{Notice, NoticeContent},
};

/// How many bytes the topics with polls take in the notice of a process: some 400 topics with names of usual length.
const POLLS_LEN: usize = 12 << 10;
/// The same for the topics with signs of workers.
const SIGNS_LEN: usize = 12 << 10;
/// How many bytes the events of topics take in the notice of a process: those of some 140 busy topics with names of usual length.
const TOPICS_LEN: usize = 30 << 10;

/// A server process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessView {
    /// The name of its host and its process id.
    pub name: String,
    /// The version of Linger.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
    /// When it last published its figures.
    pub seen_at: Timestamp,
    /// What it has, and what it does.
    pub load: ProcessLoad,
}

/// What a process has and does. Earlier versions do not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// Memory in use.
    pub resident_bytes: Option<u64>,
    /// Bulk operations that it runs, without dry runs.
    pub operations: Option<u64>,
    /// Topics of whose callbacks its last call failed.
    pub failing_topics: Option<u64>,
}

/// What a process has published.
#[derive(Debug, Clone)]
pub struct OtherProcess {
    pub view: ProcessView,
    pub minute: EventSummary,
    pub hour: EventSummary,
    pub by_topic: EventsByTopic,
    pub past: PastHour,
    /// `None` if its version does not count them.
    pub polls: Option<PollsByTopic>,
    /// `None` if its version does not know them.
    pub signs: Option<SignsByTopic>,
}

/// A process in its notice.
#[derive(Serialize, Deserialize)]
struct StoredProcess {
    name: String,
    version: String,
    started_ms: i64,
    minute: StoredSummary,
    hour: StoredSummary,
    /// The events of the minute by topic, of those with most events.
    topics: Vec<StoredTopic>,
    has_all_topics: bool,
    /// Earlier versions have none, no signs and no past.
    polls: Option<StoredNumbers<u64>>,
    signs: Option<StoredNumbers<i64>>,
    past: Option<StoredHour>,
    /// Earlier versions have none.
    #[serde(default)]
    load: ProcessLoad,
}

/// The minutes of an hour: some 6 KB if the counts have 20 digits.
#[derive(Serialize, Deserialize)]
struct StoredHour {
    last: i64,
    /// By the names of the metrics. Events that did not happen are left out.
    events: BTreeMap<String, Vec<u64>>,
}

impl StoredHour {
    fn new(hour: &PastHour) -> Self {
        let counts = PastHour::EVENTS.map(|event| (event.name().to_owned(), hour.counts(event).to_vec()));
        let happened = counts.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        Self { last: hour.last(), events: happened.collect() }
    }

    fn read(&self) -> PastHour {
        PastHour::from_parts(self.last, |event| self.events.get(event.name()).map(Vec::as_slice))
    }
}

/// A number for each topic.
#[derive(Serialize, Deserialize)]
struct StoredNumbers<N> {
    topics: BTreeMap<String, N>,
    has_all_topics: bool,
}

impl<N: Copy> StoredNumbers<N> {
    /// As many topics as have room in so many bytes.
    fn new(numbers: &BTreeMap<Arc<str>, N>, is_complete: bool, bytes: usize) -> Self {
        // A number has at most 20 digits; the quotes, the colon and the comma take four bytes.
        let mut left = bytes;
        let fitting = numbers.iter().map_while(|(topic, number)| {
            left = left.checked_sub(topic.len() + 24)?;
            Some((topic.to_string(), *number))
        });
        let topics: BTreeMap<String, N> = fitting.collect();
        let has_all_topics = is_complete && topics.len() == numbers.len();
        Self { topics, has_all_topics }
    }

    fn read(self) -> (BTreeMap<Arc<str>, N>, bool) {
        let topics = self.topics.into_iter().map(|(topic, number)| (topic.into(), number)).collect();
        (topics, self.has_all_topics)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredTopic {
    topic: String,
    minute: StoredSummary,
}

/// Events that did not happen are left out.
#[derive(Serialize, Deserialize)]
struct StoredSummary {
    /// By the names of the metrics.
    events: BTreeMap<String, u64>,
    /// Jobs that became ready, by steps of lateness. Earlier versions read either all steps or none.
    late: Vec<u64>,
    /// Jobs that were delivered, by the first steps of lateness. Earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delivered_late: Vec<u64>,
}

impl StoredSummary {
    fn new(summary: &EventSummary) -> Self {
        let happened = summary.named_counts().filter(|(_, count)| *count > 0);
        let events = happened.map(|(name, count)| (name.to_owned(), count)).collect();
        let late = summary.ready_late.steps();
        let late = if last_used(late) == 0 { Vec::new() } else { late.to_vec() };
        let delivered_late = summary.delivered_late.steps();
        let delivered_late = delivered_late[..last_used(delivered_late)].to_vec();
        Self { events, late, delivered_late }
    }

    fn read(&self) -> EventSummary {
        let count = |name: &str| self.events.get(name).copied().unwrap_or(0);
        EventSummary::new(count, Lateness::from_steps(&self.late), Lateness::from_steps(&self.delivered_late))
    }
}

/// How many steps there are up to the last one that has jobs.
fn last_used(steps: &[u64]) -> usize {
    steps.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1)
}

impl StoredTopic {
    /// The topics with most events, as many as a notice has room for.
    fn busiest(by_topic: &EventsByTopic) -> Vec<Self> {
        let mut topics: Vec<_> = by_topic.topics.iter().collect();
        topics
            .sort_by_key(|(_, summary)| Reverse(summary.named_counts().map(|(_, count)| count).sum::<u64>()));
        let mut left = TOPICS_LEN;
        let stored = topics.into_iter().map_while(|(topic, summary)| {
            let stored = Self { topic: topic.to_string(), minute: StoredSummary::new(summary) };
            let text = serde_json::to_vec(&stored).expect("every value is a text or a number, or several");
            left = left.checked_sub(text.len() + 1)?;
            Some(stored)
        });
        stored.collect()
    }
}

/// The notice of a process.
pub fn content(process: &OtherProcess) -> NoticeContent {
    let topics = StoredTopic::busiest(&process.by_topic);
    let (polls, signs) = (process.polls.as_ref(), process.signs.as_ref());
    let stored = StoredProcess {
        name: process.view.name.clone(),
        version: process.view.version.clone(),
        started_ms: process.view.started_at.as_millis(),
        minute: StoredSummary::new(&process.minute),
        hour: StoredSummary::new(&process.hour),
        has_all_topics: process.by_topic.is_complete && topics.len() == process.by_topic.topics.len(),
        topics,
        polls: polls.map(|polls| StoredNumbers::new(&polls.topics, polls.is_complete, POLLS_LEN)),
        signs: signs.map(|signs| StoredNumbers::new(&signs.topics, signs.is_complete, SIGNS_LEN)),
        past: Some(StoredHour::new(&process.past)),
        load: process.view.load,
    };
    let text = serde_json::to_vec(&stored).expect("every value is a text or a number, or several");
    NoticeContent::new(text).expect("events and polls by topic leave 10 KiB for the rest")
}

/// Reads a notice at `now`. `None` when another version wrote something that this one cannot read.
pub fn read(notice: &Notice, now: Timestamp) -> Option<OtherProcess> {
    let stored: StoredProcess = serde_json::from_slice(&notice.content).ok()?;
    let age_ms = i64::try_from(notice.age.as_millis()).ok()?;
    let view = ProcessView {
        name: stored.name,
        version: stored.version,
        started_at: Timestamp::from_millis(stored.started_ms),
        seen_at: Timestamp::from_millis(now.as_millis().saturating_sub(age_ms)),
        load: stored.load,
    };
    let topics = stored.topics.into_iter().map(|topic| (topic.topic.into(), topic.minute.read()));
    let by_topic = EventsByTopic { topics: topics.collect(), is_complete: stored.has_all_topics };
    let (minute, hour) = (stored.minute.read(), stored.hour.read());
    let polls = stored.polls.map(StoredNumbers::read);
    let polls = polls.map(|(topics, is_complete)| PollsByTopic { topics, is_complete });
    let signs = stored.signs.map(StoredNumbers::read);
    let signs = signs.map(|(topics, is_complete)| SignsByTopic { topics, is_complete });
    let past = stored.past.map_or_else(|| PastHour::new(0), |past| past.read());
    Some(OtherProcess { view, minute, hour, by_topic, past, polls, signs })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Names and counts as long as they can be, of more topics than a notice has room for.
    #[test]
    fn the_largest_process_has_room_in_its_notice() {
        // The sum of all is a number, too.
        const MOST: u64 = u64::MAX / 16;
        let late = Lateness::from_steps(&[MOST; 16]);
        assert_eq!(late.steps(), [MOST; 16]);
        let events = EventSummary::new(|_| MOST, late, late);
        let topics = || (0..1_000).map(|n| Arc::<str>::from(format!("{n:0>128}")));
        let mut past = PastHour::new(i64::MAX / 60_000);
        (past.first()..=past.last()).for_each(|minute| past.add(minute, |_| MOST));
        let largest = OtherProcess {
            view: ProcessView {
                name: format!("{}/{}", "h".repeat(255), u32::MAX),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_at: Timestamp::MAX,
                seen_at: Timestamp::MAX,
                load: ProcessLoad {
                    resident_bytes: Some(u64::MAX),
                    operations: Some(u64::MAX),
                    failing_topics: Some(u64::MAX),
                },
            },
            minute: events,
            hour: events,
            by_topic: EventsByTopic {
                topics: topics().map(|topic| (topic, events)).collect(),
                is_complete: true,
            },
            past,
            polls: Some(PollsByTopic {
                topics: topics().map(|topic| (topic, u64::MAX)).collect(),
                is_complete: true,
            }),
            signs: Some(SignsByTopic {
                topics: topics().map(|topic| (topic, i64::MIN)).collect(),
                is_complete: true,
            }),
        };
        let content = bytes::Bytes::copy_from_slice(content(&largest).as_bytes());
        let notice = Notice { id: "1".to_owned(), content, age: Duration::ZERO };
        let read = read(&notice, Timestamp::MAX).expect("is a notice");
        assert_eq!((read.view, read.minute, &read.past), (largest.view, largest.minute, &largest.past));
        assert!(!read.by_topic.is_complete && !read.by_topic.topics.is_empty());
    }

    #[test]
    fn an_earlier_version_says_nothing_of_its_load() {
        let summary = r#"{"events":{},"late":[]}"#;
        let text = format!(
            r#"{{"name":"web-1/1","version":"0.0.9","started_ms":5,"minute":{summary},"hour":{summary},"topics":[],"has_all_topics":true}}"#
        );
        let notice = Notice { id: "1".to_owned(), content: text.into_bytes().into(), age: Duration::ZERO };
        let view = read(&notice, Timestamp::from_millis(9)).expect("is a notice").view;
        assert_eq!((view.started_at, view.load), (Timestamp::from_millis(5), ProcessLoad::default()));
    }
}
