//! The processes that share the store, and the counts of the events and polls of all of them. Each process publishes its counts
//! for the others while a client reads `Queue::stats` or topics at one of them; otherwise nothing is written or read.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    job::Timestamp,
    messages::failure_log::FailureLog,
    metrics::{EventSummary, EventsByTopic, PastHour, QueueMetrics, RecentEvents},
    queue::{
        error::Result,
        views::{
            activity_notice,
            process_activity::{Activity, OwnActivity},
            process_notice::{self, OtherProcess, ProcessView},
            workers_of_all::WorkersOfAll,
        },
    },
    store::{self, MAX_NOTICES, Notice, NoticeContent, NoticeKind, Store, WATCHED_FOR},
};

/// How often a process that answers such a client renews the watch notice.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// The id of the notice that asks for activities, too.
const ACTIVITY: &str = "activity";
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
    /// Those of the hour by the minute.
    pub past: PastHour,
    /// Those that count, this one first.
    pub processes: Vec<ProcessView>,
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
    activity: OwnActivity,
    /// Locked while the activities of others are read.
    activities: tokio::sync::Mutex<Option<(Timestamp, ReadActivities)>>,
    publishing: Mutex<Publishing>,
    failures: FailureLog,
    /// Locked while the others are read, so that concurrent callers share the reading.
    others: tokio::sync::Mutex<Others>,
}

/// The activities of processes, and whether these are of all.
type ReadActivities = (Arc<[Activity]>, bool);

#[derive(Debug, Default)]
struct Publishing {
    until: Option<Timestamp>,
    has_task: bool,
    /// Whether a notice of the activity may be in the store.
    has_activity: bool,
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
        activity: OwnActivity,
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
            activity,
            activities: tokio::sync::Mutex::default(),
            publishing: Mutex::default(),
            failures: FailureLog::default(),
            others: tokio::sync::Mutex::default(),
        })
    }

    /// The events of all processes. Asks the others to publish theirs: those that have not heard of it yet are missing.
    pub async fn events(&self) -> Result<EventsOfAll> {
        let others = self.others().await?.processes;
        let (minute, hour) = (self.recent().sum(60), self.recent().sum(3_600));
        let (by_topic, past) = (self.recent().minute_by_topic(), self.recent().past_hour());
        let mut events = EventsOfAll { minute, hour, by_topic, past, processes: vec![self.view()] };
        for other in others {
            events.minute.add(&other.minute);
            events.hour.add(&other.hour);
            events.by_topic.add(other.by_topic);
            events.past.add_all(&other.past);
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
            load: self.activity.load(),
        }
    }

    fn recent(&self) -> &RecentEvents {
        &self.metrics.recent
    }

    /// What workers do at all processes. That at other processes is not known if it cannot be read soon, or while these may not
    /// know yet that they are asked.
    pub async fn workers(&self) -> WorkersOfAll {
        let own_polls = self.metrics.polls.by_topic(self.clock.now_micros());
        let (own_signs, own_start) = (self.recent().signs_by_topic(), self.started_at);
        if !self.store.info().is_shared {
            return WorkersOfAll { own_polls, own_signs, own_start, others: Vec::new(), are_all: true };
        }
        let read = tokio::select! {
            biased;
            read = self.settled_others() => read,
            () = self.clock.sleep(POLLS_WAIT) => None,
        };
        let (others, are_all) = read.map_or((Vec::new(), false), |read| (read.processes, read.are_all));
        WorkersOfAll { own_polls, own_signs, own_start, others, are_all }
    }

    /// The workers and endpoints of this process.
    pub fn own_activity(&self) -> Activity {
        self.activity.read()
    }

    /// Those of each other process, and whether these are all. Asks the others to publish theirs. Callers share a reading for a
    /// second.
    pub async fn other_activities(&self) -> Result<ReadActivities> {
        if !self.store.info().is_shared {
            return Ok((Arc::new([]), true));
        }
        let mut shared = self.activities.lock().await;
        if let Some((read_at, read)) = &*shared
            && self.clock.now() < read_at.after(FRESH)
        {
            return Ok(read.clone());
        }
        let read = self.read_activities().await?;
        *shared = Some((self.clock.now(), read.clone()));
        Ok(read)
    }

    async fn read_activities(&self) -> Result<ReadActivities> {
        let nothing = NoticeContent::new("").expect("is short");
        let asked = self.store.notices().put(NoticeKind::Watch, ACTIVITY, nothing).await;
        self.log_result(asked.as_ref().err());
        let settled = self.settled_others().await;
        let notices = self.store.notices().list(NoticeKind::Activity).await?;
        let of_others = notices.iter().filter(|notice| self.is_of_other(notice));
        let activities: Arc<[Activity]> = of_others.filter_map(activity_notice::read).collect();
        let are_all = settled.is_some_and(|read| read.are_all && read.processes.len() == activities.len());
        Ok((activities, are_all))
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
        let (now, has_room) = (self.clock.wall_now(), notices.len() < MAX_NOTICES);
        let of_others: Vec<&Notice> = notices.iter().filter(|notice| self.is_of_other(notice)).collect();
        let mut processes: Vec<OtherProcess> =
            of_others.iter().filter_map(|notice| process_notice::read(notice, now)).collect();
        processes.sort_by(|one, other| one.view.name.cmp(&other.view.name));
        let are_all = has_room && processes.len() == of_others.len();
        Ok(ReadOthers { processes, are_all })
    }

    fn is_of_other(&self, notice: &Notice) -> bool {
        notice.id != self.id && notice.age < ENDED_AFTER
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
            self.log_result(self.publish().await.err().as_ref());
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
        for kind in [NoticeKind::Process, NoticeKind::Activity] {
            let _ = self.store.notices().delete(kind, &self.id).await;
        }
    }

    async fn publish(&self) -> store::Result<()> {
        let notices = self.store.notices();
        // A notice of this kind may be long, and each reading of notices passes over it.
        let asked = notices.get(NoticeKind::Watch, ACTIVITY).await?;
        let is_asked = asked.is_some_and(|asked| asked.age < WATCHED_FOR);
        let was_published = std::mem::replace(&mut self.lock().has_activity, is_asked);
        if is_asked {
            let activity = activity_notice::content(self.activity.read());
            notices.put(NoticeKind::Activity, &self.id, activity).await?;
        } else if was_published {
            notices.delete(NoticeKind::Activity, &self.id).await?;
        }
        notices.put(NoticeKind::Process, &self.id, self.content()).await
    }

    fn content(&self) -> NoticeContent {
        let recent = self.recent();
        process_notice::content(&OtherProcess {
            view: self.view(),
            minute: recent.sum(60),
            hour: recent.sum(3_600),
            by_topic: recent.minute_by_topic(),
            past: recent.past_hour(),
            polls: Some(self.metrics.polls.by_topic(self.clock.now_micros())),
            signs: Some(recent.signs_by_topic()),
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
