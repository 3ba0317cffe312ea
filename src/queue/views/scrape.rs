//! The metrics of the store: the jobs of all topics, pauses, and space. Reading them costs the store a pass over its
//! topics, so scrapes share one reading.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::{
    clock::Clock,
    job::{State, Topic, TopicFilter, TopicPause},
    metrics::{QueueMetrics, StoreReading, TopicUsage},
    queue::{error::Result, health::StoreHealth, views::oldest_ready::oldest_ready},
    store::{self, Store, StoreSpace, TopicStats},
};

/// How long a reading is shared: by scrapes at the same time, and by those that follow soon.
const FRESH_US: i64 = 3_000_000;

/// Reads the topics and the space of the store into the metrics.
#[derive(Debug)]
pub(in crate::queue) struct StoreScrape {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    /// When the topics were last read, and with which result.
    last: Mutex<Option<(i64, Result<()>)>>,
}

impl StoreScrape {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, metrics: QueueMetrics) -> Self {
        Self { store, clock, metrics, last: Mutex::default() }
    }

    /// Reads the store, unless that was done a moment ago.
    pub async fn refresh(&self, health: &StoreHealth) -> Result<()> {
        // Locked while the store is read, so that concurrent scrapes share the reading.
        let mut last = self.last.lock().await;
        let now_us = self.clock.now_micros();
        if let Some((read_us, outcome)) = &*last
            && now_us.saturating_sub(*read_us) < FRESH_US
            && health.failure().is_none()
        {
            return outcome.clone();
        }
        let outcome = match health.while_available(self.read_store()).await {
            Ok(reading) => {
                self.metrics.set_store(reading);
                Ok(())
            }
            Err(error) => {
                self.metrics.set_store(StoreReading::default());
                Err(error.into())
            }
        };
        // Forget the outcome of an unavailable store, so that the store is read again as soon as it is back.
        let is_unavailable = health.failure().is_some();
        *last = (!is_unavailable).then(|| (self.clock.now_micros(), outcome.clone()));
        outcome
    }

    async fn read_store(&self) -> store::Result<StoreReading> {
        let topics = self.store.topics(&TopicFilter::ALL, None, usize::MAX).await?;
        let usage = topics.iter().map(|(topic, stats)| topic_usage(topic, stats)).collect();
        self.metrics.assign_labels(usage, self.clock.now_micros());
        let (mut reading, mut unknown) = (StoreReading::default(), Vec::<(_, &Topic)>::new());
        let (now, store_now) = (self.clock.wall_now(), self.store.now());
        for (topic, stats) in &topics {
            let label = self.metrics.own_label(topic.as_str());
            if let Some(label) = &label {
                reading.paused(label.clone(), paused(&stats.config.pause.active(store_now)));
            }
            reading.add(label.clone(), State::ALL.map(|state| (state.as_str(), stats.count(state))));
            match stats.oldest_ready {
                Some(due_at) => reading.overdue(label, now.since(due_at)),
                // Some stores leave it out of the list. Reading it costs a call for each topic, so only topics with a
                // label of their own are read.
                None if stats.ready > 0 && label.is_some() => unknown.push((label, topic)),
                None => {}
            }
        }
        let (labels, topics): (Vec<_>, Vec<&Topic>) = unknown.into_iter().unzip();
        for (label, oldest) in labels.into_iter().zip(oldest_ready(&*self.store, &topics).await?) {
            if let Some(due_at) = oldest {
                reading.overdue(label, self.clock.wall_now().since(due_at));
            }
        }
        let StoreSpace { used_bytes, free_bytes } = self.store.space().await?;
        reading.space(used_bytes, free_bytes);
        Ok(reading)
    }
}

/// What is paused, as the API names it.
fn paused(pause: &TopicPause) -> impl Iterator<Item = &'static str> {
    [("delivery", pause.delivery.is_some()), ("intake", pause.intake.is_some())]
        .into_iter()
        .filter_map(|(what, is_paused)| is_paused.then_some(what))
}

fn topic_usage<'a>(topic: &'a Topic, stats: &TopicStats) -> TopicUsage<'a> {
    let jobs = State::ALL.into_iter().map(|state| stats.count(state)).sum();
    TopicUsage { topic: topic.as_str(), jobs, has_settings: !stats.config.is_default() }
}
