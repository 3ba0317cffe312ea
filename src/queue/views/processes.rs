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
    metrics::{
        EventSummary, EventsByTopic, PastHour, PollsByTopic, QueueMetrics, RecentEvents, SIGNS_KEPT,
        SignsByTopic,
    },
    queue::{
        error::Result,
        views::{
            cause::LastSign,
            process_notice::{self, OtherProcess, ProcessView},
        },
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
    /// Those of the hour by the minute.
    pub past: PastHour,
    /// Those that count, this one first.
    pub processes: Vec<ProcessView>,
}

/// What workers do at all processes.
#[derive(Debug)]
pub(in crate::queue) struct WorkersOfAll {
    own_polls: PollsByTopic,
    own_signs: SignsByTopic,
    own_start: Timestamp,
    others: Vec<OtherProcess>,
    /// Whether there can be no process beside these.
    are_all: bool,
}

impl WorkersOfAll {
    /// The polls of a topic; `None` if those of some process are not known.
    pub fn polls(&self, topic: &Topic) -> Option<u64> {
        let own = self.own_polls.count(topic.as_str()).filter(|_| self.are_all)?;
        self.others
            .iter()
            .try_fold(own, |sum, other| Some(sum + other.polls.as_ref()?.count(topic.as_str())?))
    }

    /// When a worker last took a job of a topic, or said something of one. A process knows nothing of before its start.
    pub fn last_sign(&self, topic: &Topic, now: Timestamp) -> LastSign {
        let signs = self.others.iter().map(|other| other.signs.as_ref()).chain([Some(&self.own_signs)]);
        let starts = self.others.iter().map(|other| other.view.started_at).chain([self.own_start]);
        let (mut last, mut is_known) = (None, self.are_all);
        for signs in signs {
            let sign = signs.and_then(|signs| signs.topics.get(topic.as_str()).copied());
            is_known &= sign.is_some() || signs.is_some_and(|signs| signs.is_complete);
            last = last.max(sign);
        }
        match last {
            _ if !is_known => LastSign::Unknown,
            Some(at_us) => LastSign::At(Timestamp::from_millis(at_us / 1_000)),
            None if starts.min().is_some_and(|first| now >= first.after(SIGNS_KEPT)) => LastSign::Never,
            None => LastSign::Unknown,
        }
    }

    /// What happened to the jobs of a topic in the last minute at the other processes; `None` if that is not known of some.
    pub fn minute_elsewhere(&self, topic: &Topic) -> Option<EventSummary> {
        let mut sum = self.are_all.then(EventSummary::default)?;
        for EventsByTopic { topics, is_complete } in self.others.iter().map(|other| &other.by_topic) {
            match topics.get(topic.as_str()) {
                Some(minute) => sum.add(minute),
                None if *is_complete => {}
                None => return None,
            }
        }
        Some(sum)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn signs(at_us: Option<i64>, is_complete: bool) -> SignsByTopic {
        let topics = at_us.map(|at_us| (Arc::from("t"), at_us));
        SignsByTopic { topics: topics.into_iter().collect(), is_complete }
    }

    /// Another process, as its notice says.
    fn other(signs: Option<SignsByTopic>) -> OtherProcess {
        let process = OtherProcess {
            view: ProcessView {
                name: "web-1/1".to_owned(),
                version: "0.1.0".to_owned(),
                started_at: Timestamp::from_millis(0),
                seen_at: Timestamp::from_millis(0),
            },
            minute: EventSummary::default(),
            hour: EventSummary::default(),
            by_topic: EventsByTopic { topics: BTreeMap::new(), is_complete: true },
            past: PastHour::new(0),
            polls: Some(PollsByTopic::default()),
            signs,
        };
        let content = process_notice::content(&process).as_bytes().to_vec().into();
        let notice = Notice { id: "1".to_owned(), content, age: Duration::ZERO };
        process_notice::read(&notice, Timestamp::from_millis(0)).expect("is a notice")
    }

    #[test]
    fn the_last_sign_is_the_latest_of_all_processes_that_say_it() {
        let at_moment = |own: SignsByTopic, others: Vec<OtherProcess>, are_all, now_ms| {
            let (own_polls, own_start) = (PollsByTopic::default(), Timestamp::from_millis(0));
            let workers = WorkersOfAll { own_polls, own_signs: own, own_start, others, are_all };
            workers.last_sign(&Topic::parse("t").expect("valid"), Timestamp::from_millis(now_ms))
        };
        let a_day_on = 86_400_000;
        let last = |own, others, are_all| at_moment(own, others, are_all, a_day_on);
        let at = |ms| LastSign::At(Timestamp::from_millis(ms));
        let (early, late) = (signs(Some(5_000), true), signs(Some(9_000), false));
        assert_eq!(last(early.clone(), vec![other(Some(late.clone()))], true), at(9));
        assert_eq!(last(late, vec![other(Some(early.clone()))], true), at(9));
        assert_eq!(last(signs(None, true), vec![other(Some(signs(None, true)))], true), LastSign::Never);
        for others in [vec![other(None)], vec![other(Some(signs(None, false)))]] {
            assert_eq!(last(early.clone(), others, true), LastSign::Unknown, "a later one may be missing");
        }
        assert_eq!(last(early, Vec::new(), false), LastSign::Unknown);
        assert_eq!(
            at_moment(signs(None, true), Vec::new(), true, a_day_on - 1),
            LastSign::Unknown,
            "before the start"
        );
    }
}
