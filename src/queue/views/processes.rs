//! The processes that share the store, and the counts of the events and polls of all of them. Each process publishes its counts
//! for the others while a client reads `Queue::stats` or topics at one of them; otherwise nothing is written or read.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    job::{Timestamp, Topic},
    messages::failure_log::FailureLog,
    metrics::{EventSummary, EventsByTopic, PollsByTopic, QueueMetrics, RecentEvents},
    queue::{
        error::Result,
        views::process_notice::{self, OtherProcess, ProcessView},
    },
    store::{self, MAX_NOTICES, Notice, NoticeContent, NoticeKind, Store, WATCHED_FOR},
};

/// How often a process that answers such a client renews the watch notice.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// How often a process publishes its figures while it is watched.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
/// How long a process publishes its figures after the last call of `watched`.
const PUBLISH_FOR: Duration = Duration::from_secs(3);
/// A process whose notice is older has ended.
const ENDED_AFTER: Duration = Duration::from_secs(8);
/// How long callers share one reading of the figures of other processes.
const FRESH: Duration = Duration::from_secs(1);
/// How long the other processes take to publish their figures once they are watched: one that lives has by then.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// How long a reading of topics waits for the polls of other processes.
const POLLS_WAIT: Duration = Duration::from_millis(300);

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

/// The polls of all processes.
#[derive(Debug)]
pub(in crate::queue) struct PollsOfAll {
    own: PollsByTopic,
    others: Vec<Option<PollsByTopic>>,
    /// Whether there can be no process beside these.
    are_all: bool,
}

impl PollsOfAll {
    /// The polls of a topic; `None` if those of some process are not known.
    pub fn count(&self, topic: &Topic) -> Option<u64> {
        let own = self.own.count(topic.as_str()).filter(|_| self.are_all)?;
        self.others.iter().try_fold(own, |sum, other| Some(sum + other.as_ref()?.count(topic.as_str())?))
    }
}

/// This process among those of the store.
#[derive(Debug)]
pub(in crate::queue) struct Processes {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
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
    /// When the watch notice was last renewed, and since when it has been there without a gap.
    watched_at: Option<Timestamp>,
    watched_since: Option<Timestamp>,
    read: Option<(Timestamp, Result<ReadOthers>)>,
}

#[derive(Debug, Clone)]
struct ReadOthers {
    processes: Vec<OtherProcess>,
    /// Whether there can be no further ones: each notice was read, and there is room for more.
    are_all: bool,
}

impl Processes {
    /// Must be called within a tokio runtime.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let started_at = clock.wall_now();
        Arc::new(Self {
            store,
            clock,
            metrics,
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
        let others = self.others().await?.processes;
        let (minute, hour) = (self.recent().sum(60), self.recent().sum(3_600));
        let by_topic = self.recent().minute_by_topic();
        let mut events = EventsOfAll { minute, hour, by_topic, processes: vec![self.view()] };
        for other in others {
            events.minute.add(&other.minute);
            events.hour.add(&other.hour);
            events.by_topic.add(other.by_topic);
            events.processes.push(other.view);
        }
        Ok(events)
    }

    /// This process, seen now.
    fn view(&self) -> ProcessView {
        ProcessView {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            seen_at: self.clock.wall_now(),
        }
    }

    fn recent(&self) -> &RecentEvents {
        &self.metrics.recent
    }

    /// The polls of all processes. Those of other processes are not known if they cannot be read soon, or while these may not know
    /// yet that they are asked.
    pub async fn polls(&self) -> PollsOfAll {
        let own = self.metrics.polls.by_topic(self.clock.now_micros());
        if !self.store.info().is_shared {
            return PollsOfAll { own, others: Vec::new(), are_all: true };
        }
        let read = tokio::select! {
            biased;
            read = self.settled_others() => read,
            () = self.clock.sleep(POLLS_WAIT) => None,
        };
        let (processes, are_all) = read.map_or((Vec::new(), false), |read| (read.processes, read.are_all));
        PollsOfAll { own, others: processes.into_iter().map(|other| other.polls).collect(), are_all }
    }

    /// The other processes; `None` before those that live have had the time to publish their figures.
    async fn settled_others(&self) -> Option<ReadOthers> {
        let read = self.others().await.ok()?;
        let since = self.others.lock().await.watched_since?;
        (self.clock.now() >= since.after(SETTLED_AFTER)).then_some(read)
    }

    async fn others(&self) -> Result<ReadOthers> {
        let mut others = self.others.lock().await;
        let is_over = |since: Timestamp, time: Duration| self.clock.now() >= since.after(time);
        if let Some((read_at, read)) = &others.read
            && !is_over(*read_at, FRESH)
        {
            return read.clone();
        }
        let must_watch = others.watched_at.is_none_or(|at| is_over(at, WATCH_INTERVAL));
        if must_watch && self.watch().await {
            let now = self.clock.now();
            if others.watched_at.is_none_or(|at| is_over(at, WATCHED_FOR)) {
                others.watched_since = Some(now);
            }
            others.watched_at = Some(now);
        }
        if others.watched_at.is_none_or(|at| is_over(at, WATCHED_FOR)) {
            others.watched_since = None;
        }
        let read = self.read_others().await;
        let read = read.map_err(Into::into);
        others.read = Some((self.clock.now(), read.clone()));
        read
    }

    /// Asks the other processes to publish their figures. Returns whether that is stored: a store that takes no writes still shows
    /// the figures that it has.
    async fn watch(&self) -> bool {
        let nothing = NoticeContent::new("").expect("is short");
        let written = self.store.notices().put(NoticeKind::Watch, "", nothing).await;
        self.log_result(written.as_ref().err());
        written.is_ok()
    }

    async fn read_others(&self) -> store::Result<ReadOthers> {
        let notices = self.store.notices().list(NoticeKind::Process).await?;
        let is_other = |notice: &&Notice| notice.id != self.id && notice.age < ENDED_AFTER;
        let (now, has_room) = (self.clock.wall_now(), notices.len() < MAX_NOTICES);
        let of_others: Vec<&Notice> = notices.iter().filter(is_other).collect();
        let mut processes: Vec<OtherProcess> =
            of_others.iter().filter_map(|notice| process_notice::read(notice, now)).collect();
        processes.sort_by(|one, other| one.view.name.cmp(&other.view.name));
        let are_all = has_room && processes.len() == of_others.len();
        Ok(ReadOthers { processes, are_all })
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
        let recent = self.recent();
        process_notice::content(&OtherProcess {
            view: self.view(),
            minute: recent.sum(60),
            hour: recent.sum(3_600),
            by_topic: recent.minute_by_topic(),
            polls: Some(self.metrics.polls.by_topic(self.clock.now_micros())),
        })
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
