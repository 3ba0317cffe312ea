//! Timelines and figures of the whole queue. Few callers read at the same time, so that workers are not delayed.
//! Concurrent callers share one read, and its result is cached for a short time. Without viewers nothing is read.

mod activity_notice;
pub(super) mod cause;
pub(super) mod dead_reasons;
pub(super) mod lists;
pub(super) mod oldest_ready;
pub(super) mod process_activity;
pub(super) mod process_notice;
pub(super) mod processes;
pub(super) mod read_permits;
pub(super) mod scrape;
pub(super) mod shared_reading;
pub(super) mod sorted_topics;
pub(super) mod workers_of_all;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use self::{
    process_notice::ProcessView,
    read_permits::ReadPermits,
    shared_reading::SharedReading,
    sorted_topics::{SortedTopics, TopicSort},
};
use super::error::Result;
use crate::{
    clock::Clock,
    job::{State, Timestamp, Topic, TopicFilter},
    metrics::{EventSummary, EventsByTopic, PastHour},
    store::{LastBackup, Span, Store, StoreSpace, Timeline, Totals},
};

/// How many topics a timeline by topic has.
const TOPICS: usize = 8;
/// How long a timeline is kept, and one of more than a day.
const KEEP: Duration = Duration::from_secs(2);
const KEEP_LONG: Duration = Duration::from_secs(30);
const DAY_MINUTES: usize = 24 * 60;
/// Most timelines that are kept. Beyond that, each call reads its timeline anew.
const MAX_KEPT: usize = 256;

/// Which delayed jobs a timeline counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TimelineOf {
    /// Those of all topics.
    All,
    /// Those of one topic.
    Topic(Topic),
    /// Those of all topics, and apart from them those of the eight topics with most delayed jobs.
    ByTopic,
}

/// A timeline as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineView {
    /// When it was read, by the clock of this process.
    pub now: Timestamp,
    /// The delayed jobs that were asked for.
    pub timeline: Timeline,
    /// Those of the topics with most delayed jobs, for [`TimelineOf::ByTopic`].
    pub topics: Vec<(Topic, Timeline)>,
}

/// What the whole queue holds, and what happened to its jobs at all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsView {
    /// When the counts were read, by the clock of this process.
    pub now: Timestamp,
    /// All jobs by state.
    pub totals: Totals,
    /// The events of the last minute.
    pub minute: EventSummary,
    /// The events of the last hour.
    pub hour: EventSummary,
    /// The events of the last minute by topic.
    pub by_topic: EventsByTopic,
    /// The events of the last hour by the minute.
    pub past: PastHour,
    /// The processes whose events these are. One that has not seen the watch notice yet is missing.
    pub processes: Vec<ProcessView>,
    /// The space that the store takes.
    pub space: StoreSpace,
    /// What is known of its last backup.
    pub last_backup: LastBackup,
}

type Kept = Arc<SharedReading<TimelineView>>;

/// Timelines that were read a moment ago.
#[derive(Debug)]
pub(super) struct Timelines {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    read_permits: Arc<ReadPermits>,
    sorted_topics: Arc<SortedTopics>,
    timelines: KeptTimelines,
}

impl Timelines {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        read_permits: Arc<ReadPermits>,
        sorted_topics: Arc<SortedTopics>,
    ) -> Self {
        Self { store, clock, read_permits, sorted_topics, timelines: KeptTimelines::default() }
    }

    /// The timeline, unless it was read a moment ago.
    pub async fn timeline(&self, of: TimelineOf, span: Span) -> Result<Arc<TimelineView>> {
        let kept = self.timelines.find(&of, span, self.clock.wall_now());
        kept.get(|view| is_fresh(view, span, self.clock.wall_now()), self.read_in_turn(&of, span)).await
    }

    /// Reads a timeline as soon as few enough others are being read.
    async fn read_in_turn(&self, of: &TimelineOf, span: Span) -> Result<TimelineView> {
        // Before the permit is taken: their reading takes one, too.
        let most_delayed = if *of == TimelineOf::ByTopic { self.most_delayed().await? } else { Vec::new() };
        let _permit = self.read_permits.acquire().await?;
        let now = self.clock.wall_now();
        let topic = match of {
            TimelineOf::Topic(topic) => Some(topic),
            TimelineOf::All | TimelineOf::ByTopic => None,
        };
        let timeline = self.store.timeline(topic, span).await?;
        let mut topics = Vec::new();
        for topic in most_delayed {
            let timeline = self.store.timeline(Some(&topic), span).await?;
            topics.push((topic, timeline));
        }
        Ok(TimelineView { now, timeline, topics })
    }

    /// The topics with most delayed jobs, the first of which has most. All topics are read at most once in two seconds for
    /// all timelines and lists.
    async fn most_delayed(&self) -> Result<Vec<Topic>> {
        let most = TopicSort::Most(State::Delayed);
        let topics = self.sorted_topics.first(&TopicFilter::ALL, most, TOPICS).await?;
        Ok(topics.into_iter().filter(|(_, stats)| stats.delayed > 0).map(|(topic, _)| topic).collect())
    }
}

/// The timelines that were read a moment ago.
#[derive(Debug, Default)]
struct KeptTimelines(Mutex<HashMap<(TimelineOf, Span), Kept>>);

impl KeptTimelines {
    /// Where a timeline is kept, if there is still room after those that are no longer fresh were removed.
    fn find(&self, of: &TimelineOf, span: Span, now: Timestamp) -> Kept {
        let is_needed = |span: Span, kept: &Kept| {
            // A caller reads it, or it is fresh.
            Arc::strong_count(kept) > 1 || kept.has(|view| is_fresh(view, span, now))
        };
        let mut timelines = self.0.lock().expect("no code panics while it holds the timelines");
        if timelines.len() >= MAX_KEPT {
            timelines.retain(|(_, span), kept| is_needed(*span, kept));
            if timelines.len() >= MAX_KEPT && !timelines.contains_key(&(of.clone(), span)) {
                return Kept::default();
            }
        }
        timelines.entry((of.clone(), span)).or_default().clone()
    }
}

fn is_fresh(view: &TimelineView, span: Span, now: Timestamp) -> bool {
    let is_long = span.step() as usize * span.steps() > DAY_MINUTES;
    let keep = if is_long { KEEP_LONG } else { KEEP };
    view.now <= now && now.since(view.now) < keep
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::store::{Minute, Totals};

    #[test]
    fn few_timelines_are_kept_however_many_are_asked_for() {
        let (timelines, now) = (KeptTimelines::default(), Timestamp::from_millis(60_000));
        let span = |minute| Span::new(Minute(minute), 1, 1).expect("is short");
        let read = |minute, now| {
            let kept = timelines.find(&TimelineOf::All, span(minute), now);
            let timeline = Timeline { counts: vec![0], totals: Totals::default() };
            let view = TimelineView { now, timeline, topics: Vec::new() };
            let reading = kept.get(|_| false, std::future::ready(Ok(view)));
            reading.now_or_never().expect("no other caller reads it").expect("is read");
        };
        let len = || timelines.0.lock().expect("not poisoned").len();
        (0..1_000).for_each(|minute| read(minute, now));
        assert_eq!(len(), MAX_KEPT);
        assert!(timelines.find(&TimelineOf::All, span(0), now).has(|_| true));
        read(1_000, now.after(KEEP));
        assert_eq!(len(), 1, "the others are no longer fresh");
    }
}
