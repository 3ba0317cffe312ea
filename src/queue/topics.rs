//! Operations on whole topics: settings, pauses, purges and statistics.

use std::{collections::HashMap, sync::Arc};

use super::{
    error::{Error, Result},
    service::Queue,
    views::{
        StatsView, TimelineOf, TimelineView,
        cause::{CalledTopic, Cause, Known, cause},
        processes::EventsOfAll,
        sorted_topics::TopicSort,
        workers_of_all::WorkersOfAll,
    },
};
use crate::{
    job::{Actor, Due, Pause, PausedOperations, Reason, Topic, TopicFilter, TopicPause, TopicSettings},
    store::{Minute, Span, TopicStats, TopicUpdates},
};

/// What a caller says of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewPause {
    /// Who pauses.
    pub by: Option<Actor>,
    /// Why.
    pub reason: Option<Reason>,
    /// When the pause ends by itself.
    pub until: Option<Due>,
}

/// A topic as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicView {
    /// Its job counts, times and settings.
    pub stats: TopicStats,
    /// Number of polls of this process that wait for its jobs.
    pub waiting: usize,
    /// Number of polls of all processes that wait for its jobs, or that ended in the last minute. `None` if it is not known.
    pub polls: Option<u64>,
    /// Why its jobs wait; `None` if none does, and if it is not known.
    pub cause: Option<Cause>,
}

/// What a view needs to know beside the store.
struct Seen {
    workers: WorkersOfAll,
    called: HashMap<Topic, CalledTopic>,
}

impl Queue {
    /// Up to `limit` topics of `scope` after `after`, ordered by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicView)>> {
        Ok(self.views_of(self.store.topics(scope, after, limit).await?).await)
    }

    /// The first `limit` topics of `scope` in another order. They may be as old as two seconds.
    ///
    /// # Errors
    /// [`Error::Busy`] when others read for long, or the store's.
    pub async fn sorted_topics(
        &self,
        scope: &TopicFilter,
        sort: TopicSort,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicView)>> {
        Ok(self.views_of(self.sorted_topics.first(scope, sort, limit).await?).await)
    }

    async fn views_of(&self, topics: Vec<(Topic, TopicStats)>) -> Vec<(Topic, TopicView)> {
        let seen = self.seen_now().await;
        let view = |(topic, stats)| {
            let view = self.view(&topic, stats, &seen);
            (topic, view)
        };
        topics.into_iter().map(view).collect()
    }

    /// One topic.
    ///
    /// # Errors
    /// [`Error::TopicNotFound`] when it has neither jobs nor settings, or the store's.
    pub async fn topic(&self, topic: &Topic) -> Result<TopicView> {
        let stats = self.store.topic(topic).await?.ok_or(Error::TopicNotFound)?;
        Ok(self.view_now(topic, stats).await)
    }

    /// The delayed jobs by due time. It may be as old as two seconds, or 30 for a span of more than a day.
    ///
    /// # Errors
    /// [`Error::Busy`] when others read for long, or the store's.
    pub async fn timeline(&self, of: TimelineOf, span: Span) -> Result<Arc<TimelineView>> {
        self.timelines.timeline(of, span).await
    }

    /// All jobs by state, which may be as old as two seconds, the events of all processes, and the space that the store takes.
    ///
    /// # Errors
    /// [`Error::Busy`], or the store's.
    pub async fn stats(&self) -> Result<StatsView> {
        let minute = Span::new(Minute::containing(self.clock.now()), 1, 1).expect("a minute is a span");
        let view = self.timelines.timeline(TimelineOf::All, minute).await?;
        let EventsOfAll { minute, hour, by_topic, past, processes } = self.processes.events().await?;
        let totals = view.timeline.totals;
        let (space, last_backup) = (self.store.space().await?, self.store.last_backup().await?);
        Ok(StatsView { now: view.now, totals, minute, hour, by_topic, past, processes, space, last_backup })
    }

    async fn view_now(&self, topic: &Topic, stats: TopicStats) -> TopicView {
        self.view(topic, stats, &self.seen_now().await)
    }

    async fn seen_now(&self) -> Seen {
        let called = self.outlet_listener.get().map(|listener| listener.called_topics());
        Seen { workers: self.processes.workers().await, called: called.unwrap_or_default() }
    }

    fn view(&self, topic: &Topic, mut stats: TopicStats, seen: &Seen) -> TopicView {
        stats.config.pause = stats.config.pause.active(self.store.now());
        let polls = seen.workers.polls(topic);
        let own_minute = self.metrics.recent.minute_of(topic.as_str());
        let minute = own_minute.zip(seen.workers.minute_elsewhere(topic)).map(|(mut minute, elsewhere)| {
            minute.add(&elsewhere);
            minute
        });
        let cause = cause(Known {
            now: self.clock.now(),
            pause: &stats.config.pause,
            settings: &stats.config.settings,
            delayed: stats.delayed,
            ready: stats.ready,
            reserved: stats.reserved,
            called: seen.called.get(topic).cloned().unwrap_or_default(),
            polls,
            last_sign: seen.workers.last_sign(topic, self.clock.wall_now()),
            minute,
        });
        TopicView { stats, waiting: self.waiters.waiting_for(topic), polls, cause }
    }

    /// Replaces a topic's settings. Existing jobs keep the settings that they were added with.
    ///
    /// # Errors
    /// [`Error::CallbackNotAllowed`], or the store's.
    pub async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<TopicView> {
        if let Some(target) = &settings.callback.target {
            self.call_rules().check(target)?;
        }
        self.store.put_settings(topic, settings).await?;
        self.topic_or_default(topic).await
    }

    /// Pauses these operations, and leaves the others as they are. An operation that is paused already stays paused since then,
    /// by this caller, for this reason and until this moment.
    ///
    /// # Errors
    /// [`Error::PauseInPast`], or the store's.
    pub async fn pause(
        &self,
        topic: &Topic,
        operations: PausedOperations,
        pause: NewPause,
    ) -> Result<TopicView> {
        let now = self.store.now();
        let until = pause.until.map(|until| match until {
            Due::After(delay) => now.after(delay.as_duration()),
            Due::At(moment) => moment,
        });
        let pause = Pause { since: Some(now), by: pause.by, reason: pause.reason, until };
        if pause.is_over(now) {
            return Err(Error::PauseInPast);
        }
        let paused = self.store.pause(topic, operations, pause).await?;
        self.pauses.await_ends(topic, &paused);
        self.view_with_pause(topic, paused).await
    }

    /// Resumes these operations, and leaves the others as they are.
    ///
    /// # Errors
    /// The store's.
    pub async fn resume(&self, topic: &Topic, operations: PausedOperations) -> Result<TopicView> {
        let paused = self.store.resume(topic, operations).await?;
        self.view_with_pause(topic, paused).await
    }

    /// The topic with the pauses that a change has left, even if another call has changed them since.
    async fn view_with_pause(&self, topic: &Topic, pause: TopicPause) -> Result<TopicView> {
        let mut stats = self.store.topic(topic).await?.unwrap_or_default();
        stats.config.pause = pause;
        Ok(self.view_now(topic, stats).await)
    }

    /// The topic after a change of settings: an empty view if it has neither jobs nor settings now.
    pub(super) async fn topic_or_default(&self, topic: &Topic) -> Result<TopicView> {
        let stats = self.store.topic(topic).await?.unwrap_or_default();
        Ok(self.view_now(topic, stats).await)
    }

    /// Deletes every job of a topic, in slices, and returns how many. Goes on if the caller leaves. A call while the topic
    /// is being purged waits for that purge. Jobs added since its beginning may remain.
    ///
    /// # Errors
    /// [`Error::Draining`] when the shutdown ends the purge, or the store's; jobs deleted until then stay deleted.
    pub async fn purge(&self, topic: &Topic) -> Result<u64> {
        self.purges.purge(topic).await
    }
}
