//! The processes that share the store, and the counts of the events of all of them. Each process publishes its counts
//! for the others while a client reads `Queue::stats` at one of them; otherwise nothing is written or read.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    job::Timestamp,
    messages::failure_log::FailureLog,
    metrics::{EventSummary, EventsByTopic, RecentEvents},
    queue::error::Result,
    store::{self, Notice, NoticeContent, NoticeKind, Store},
};

/// How often a process that answers `Queue::stats` renews the watch notice.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// How often a process publishes its figures while it is watched.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
/// How long a process publishes its figures after the last call of `watched`.
const PUBLISH_FOR: Duration = Duration::from_secs(3);
/// A process whose notice is older has ended.
const ENDED_AFTER: Duration = Duration::from_secs(8);
/// How long callers share one reading of the figures of other processes.
const FRESH: Duration = Duration::from_secs(1);
/// How many bytes the topics take in the notice of a process: some 500 topics with names of usual length.
const TOPICS_LEN: usize = 48 << 10;

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
}

/// The events of all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct EventsOfAll {
    pub minute: EventSummary,
    pub hour: EventSummary,
    /// Those of the minute.
    pub by_topic: EventsByTopic,
    /// Those that count, this one first.
    pub processes: Vec<ProcessView>,
}

/// This process among those of the store.
#[derive(Debug)]
pub(in crate::queue) struct Processes {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    recent: Arc<RecentEvents>,
    tasks: TaskTracker,
    runtime: tokio::runtime::Handle,
    shutdown: CancellationToken,
    /// Its name in notices.
    id: String,
    name: String,
    started_at: Timestamp,
    publishing: Mutex<Publishing>,
    failures: FailureLog,
    /// Locked while the others are read, so that concurrent callers share the reading.
    others: tokio::sync::Mutex<Others>,
}

#[derive(Debug, Default)]
struct Publishing {
    until: Option<Timestamp>,
    has_task: bool,
}

/// What was last read of the other processes.
#[derive(Debug, Default)]
struct Others {
    watched_at: Option<Timestamp>,
    read: Option<(Timestamp, Result<Vec<OtherProcess>>)>,
}

#[derive(Debug, Clone)]
struct OtherProcess {
    view: ProcessView,
    minute: EventSummary,
    hour: EventSummary,
    by_topic: EventsByTopic,
}

impl Processes {
    /// Must be called within a tokio runtime.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        recent: Arc<RecentEvents>,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let started_at = clock.wall_now();
        Arc::new(Self {
            store,
            clock,
            recent,
            tasks,
            runtime: tokio::runtime::Handle::current(),
            shutdown: CancellationToken::new(),
            id: format!("{:032x}", rand::random::<u128>()),
            name: format!("{host}/{}", std::process::id()),
            started_at,
            publishing: Mutex::default(),
            failures: FailureLog::default(),
            others: tokio::sync::Mutex::default(),
        })
    }

    /// The events of all processes. Asks the others to publish theirs: those that have not heard of it yet are missing.
    pub async fn events(&self) -> Result<EventsOfAll> {
        let others = self.others().await?;
        let now = self.clock.wall_now();
        let view = ProcessView {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            seen_at: now,
        };
        let (minute, hour) = (self.recent.sum(60), self.recent.sum(3_600));
        let by_topic = self.recent.minute_by_topic();
        let mut events = EventsOfAll { minute, hour, by_topic, processes: vec![view] };
        for other in others {
            events.minute.add(&other.minute);
            events.hour.add(&other.hour);
            events.by_topic.add(other.by_topic);
            events.processes.push(other.view);
        }
        Ok(events)
    }

    async fn others(&self) -> Result<Vec<OtherProcess>> {
        let mut others = self.others.lock().await;
        let is_over = |since: Timestamp, time: Duration| self.clock.now() >= since.after(time);
        if let Some((read_at, read)) = &others.read
            && !is_over(*read_at, FRESH)
        {
            return read.clone();
        }
        let must_watch = others.watched_at.is_none_or(|at| is_over(at, WATCH_INTERVAL));
        let read = self.read_others(must_watch).await;
        if must_watch && read.is_ok() {
            others.watched_at = Some(self.clock.now());
        }
        let read = read.map_err(Into::into);
        others.read = Some((self.clock.now(), read.clone()));
        read
    }

    async fn read_others(&self, must_watch: bool) -> store::Result<Vec<OtherProcess>> {
        if must_watch {
            let nothing = NoticeContent::new("").expect("is short");
            // A store that takes no writes still shows the figures that it has.
            let written = self.store.notices().put(NoticeKind::Watch, "", nothing).await;
            self.log_result(written.err().as_ref());
        }
        let notices = self.store.notices().list(NoticeKind::Process).await?;
        let is_other = |notice: &&Notice| notice.id != self.id && notice.age < ENDED_AFTER;
        let now = self.clock.wall_now();
        let mut others: Vec<OtherProcess> =
            notices.iter().filter(is_other).filter_map(|notice| read_notice(notice, now)).collect();
        others.sort_by(|one, other| one.view.name.cmp(&other.view.name));
        Ok(others)
    }

    /// A client reads the figures of all processes, so this one publishes its own for a while. Returns at once.
    pub fn watched(self: &Arc<Self>) {
        if self.shutdown.is_cancelled() {
            return;
        }
        let mut publishing = self.lock();
        publishing.until = Some(self.clock.now().after(PUBLISH_FOR));
        if !std::mem::replace(&mut publishing.has_task, true) {
            let process = self.clone();
            self.tasks.spawn_on(async move { process.publish_while_watched().await }, &self.runtime);
        }
    }

    /// Publishes nothing more, and withdraws what was published.
    pub fn stop(&self) {
        self.shutdown.cancel();
    }

    async fn publish_while_watched(&self) {
        while !self.shutdown.is_cancelled() {
            let published = self.store.notices().put(NoticeKind::Process, &self.id, self.content()).await;
            self.log_result(published.err().as_ref());
            tokio::select! {
                () = self.clock.sleep(PUBLISH_INTERVAL) => {}
                () = self.shutdown.cancelled() => {}
            }
            let mut publishing = self.lock();
            if !self.shutdown.is_cancelled() && publishing.until.is_none_or(|until| until <= self.clock.now())
            {
                publishing.has_task = false;
                return;
            }
        }
        // Otherwise the process would be seen until its notice is old.
        let _ = self.store.notices().delete(NoticeKind::Process, &self.id).await;
    }

    fn content(&self) -> NoticeContent {
        let by_topic = self.recent.minute_by_topic();
        let topics = StoredTopic::busiest(&by_topic);
        let stored = StoredProcess {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: self.started_at.as_millis(),
            minute: StoredSummary::new(&self.recent.sum(60)),
            hour: StoredSummary::new(&self.recent.sum(3_600)),
            has_all_topics: by_topic.is_complete && topics.len() == by_topic.topics.len(),
            topics,
        };
        let text = serde_json::to_vec(&stored).expect("every value is a text or a number, or several");
        NoticeContent::new(text).expect("the topics leave 16 KiB for the rest")
    }

    fn log_result(&self, error: Option<&store::Error>) {
        let now_us = self.clock.now_micros();
        match error {
            None => drop(self.failures.succeeded(now_us)),
            Some(error) => {
                if self.failures.failed(now_us) {
                    tracing::warn!(%error, "other processes cannot show the figures of this one");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Publishing> {
        self.publishing.lock().expect("no code panics while it holds the lock")
    }
}

/// A process in its notice: JSON, of which unknown fields and events are ignored.
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
    /// Jobs that became ready, by steps of lateness.
    late: Vec<u64>,
}

impl StoredSummary {
    fn new(summary: &EventSummary) -> Self {
        let happened = summary.named_counts().filter(|(_, count)| *count > 0);
        let events = happened.map(|(name, count)| (name.to_owned(), count)).collect();
        let was_late = summary.late_steps().iter().any(|count| *count > 0);
        Self { events, late: if was_late { summary.late_steps().to_vec() } else { Vec::new() } }
    }

    fn read(&self) -> EventSummary {
        EventSummary::from_parts(|name| self.events.get(name).copied().unwrap_or(0), &self.late)
    }
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

/// Reads a notice at `now`. `None` when another version wrote something that this one cannot read.
fn read_notice(notice: &Notice, now: Timestamp) -> Option<OtherProcess> {
    let stored: StoredProcess = serde_json::from_slice(&notice.content).ok()?;
    let age_ms = i64::try_from(notice.age.as_millis()).ok()?;
    let view = ProcessView {
        name: stored.name,
        version: stored.version,
        started_at: Timestamp::from_millis(stored.started_ms),
        seen_at: Timestamp::from_millis(now.as_millis().saturating_sub(age_ms)),
    };
    let topics = stored.topics.into_iter().map(|topic| (topic.topic.into(), topic.minute.read()));
    let by_topic = EventsByTopic { topics: topics.collect(), is_complete: stored.has_all_topics };
    Some(OtherProcess { view, minute: stored.minute.read(), hour: stored.hour.read(), by_topic })
}
