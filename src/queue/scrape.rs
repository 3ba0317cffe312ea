//! The jobs of all topics for the figures. A reading costs the store a pass over its topics, so scrapes share one.

use futures_util::future::join_all;

use super::{Queue, Result, TopicStats};
use crate::{
    job::{State, Topic},
    metrics::{Candidate, JobsReading},
    store,
};

/// How long a reading is shared: by scrapes at the same time, and by those that follow soon.
const FRESH_US: i64 = 3_000_000;
/// Topics asked for at the same time for their oldest ready job.
const LOOKS: usize = 16;

/// When the topics were last read, and what came of it.
pub(super) type LastReading = tokio::sync::Mutex<Option<(i64, Result<()>)>>;

impl Queue {
    /// Reads the jobs by topic and state into the figures, unless that was done a moment ago.
    ///
    /// # Errors
    /// The store's, at once where it is known not to work; the figures of jobs are then missing rather than old.
    pub async fn refresh_metrics(&self) -> Result<()> {
        // Held while the store is read: whoever comes meanwhile shares the reading.
        let mut last = self.reading.lock().await;
        let now_us = self.clock.now_micros();
        if let Some((read_us, outcome)) = &*last
            && now_us.saturating_sub(*read_us) < FRESH_US
            && self.health.failure().is_none()
        {
            return outcome.clone();
        }
        let outcome = match self.health.while_it_works(self.read_jobs()).await {
            Ok(reading) => {
                self.metrics.show_jobs(reading);
                Ok(())
            }
            Err(error) => {
                self.metrics.show_jobs(JobsReading::default());
                Err(error.into())
            }
        };
        // A store that is back is read again at once.
        let is_known_away = self.health.failure().is_some();
        *last = (!is_known_away).then(|| (self.clock.now_micros(), outcome.clone()));
        outcome
    }

    async fn read_jobs(&self) -> store::Result<JobsReading> {
        let topics = self.store.topics(None, usize::MAX).await?;
        let candidates = topics.iter().map(|(topic, stats)| candidate(topic, stats)).collect();
        self.metrics.assign_labels(candidates, self.clock.now_micros());
        let (mut reading, mut unknown) = (JobsReading::default(), Vec::<(_, &Topic)>::new());
        let now = self.clock.now();
        for (topic, stats) in &topics {
            let label = self.metrics.own_label(topic.as_str());
            reading.add(label.clone(), State::ALL.map(|state| (state.as_str(), stats.count(state))));
            match stats.oldest_ready {
                Some(due_at) => reading.overdue(label, now.since(due_at)),
                // It costs a call each where the store leaves it out: only topics that are shown are worth it.
                None if stats.ready > 0 && label.is_some() => unknown.push((label, topic)),
                None => {}
            }
        }
        for topics in unknown.chunks(LOOKS) {
            let looks = join_all(topics.iter().map(|(_, topic)| self.store.topic(topic))).await;
            for ((label, _), stats) in topics.iter().zip(looks) {
                if let Some(due_at) = stats?.and_then(|stats| stats.oldest_ready) {
                    reading.overdue(label.clone(), self.clock.now().since(due_at));
                }
            }
        }
        Ok(reading)
    }
}

fn candidate<'a>(topic: &'a Topic, stats: &TopicStats) -> Candidate<'a> {
    let jobs = State::ALL.into_iter().map(|state| stats.count(state)).sum();
    Candidate { topic: topic.as_str(), jobs, has_settings: !stats.config.is_default() }
}
