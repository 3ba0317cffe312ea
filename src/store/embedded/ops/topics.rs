//! Reading jobs and topics, and changing the configuration of a topic.

use std::sync::Arc;

use super::write_txn::WriteTxn;
use crate::{
    job::{Job, JobId, Outlet, Topic, TopicFilter},
    store::{
        Error, Result, Span, Timeline, TopicConfig, TopicStats, TopicValues, Totals, Updated,
        embedded::{disk::disk_space::SpaceNeed, memory::topics::OutletNumber, rows::db::SqlResult},
    },
};

/// See [`crate::store::Store::get`].
pub(crate) fn get(txn: &mut WriteTxn<'_>, scope: &TopicFilter, id: &JobId) -> SqlResult<Option<Job>> {
    let found = txn.find(scope, id)?;
    Ok(found.map(|found| txn.to_job(found.job_ref, &found.content)))
}

/// See [`crate::store::Store::topic`].
pub(crate) fn topic(txn: &WriteTxn<'_>, name: &Topic) -> Option<TopicStats> {
    let topics = txn.memory.topics();
    let plain = topics.find_topic(name.as_str())?;
    (!topics.get(plain).is_forgettable()).then(|| topics.stats(plain, txn.wall_ahead_ms))
}

/// See [`crate::store::Store::timeline`].
pub(crate) fn timeline(txn: &WriteTxn<'_>, topic: Option<&Topic>, span: &Span) -> Timeline {
    let memory = &txn.memory;
    let Some(topic) = topic else {
        let counts = memory.delayed().due_counts().count(span, txn.wall_ahead_ms);
        return Timeline { counts, totals: memory.totals() };
    };
    let Some(plain) = memory.topics().find_topic(topic.as_str()) else {
        return Timeline { counts: vec![0; span.steps()], totals: Totals::default() };
    };
    let counts = memory.topics().get(plain).due_counts.count(span, txn.wall_ahead_ms);
    Timeline { counts, totals: memory.topics().stats(plain, txn.wall_ahead_ms).totals() }
}

/// Outlets whose figures are read in one step of the writer: some hundred microseconds. Tests cross many ends of steps.
const MAX_OUTLETS: usize = if cfg!(test) { 3 } else { 500 };

/// A part of the topics.
pub(crate) struct TopicsStep {
    pub topics: Vec<(Topic, TopicStats)>,
    /// The topic behind which the next step begins; `None` after the last one.
    pub next: Option<Topic>,
}

/// One step of [`crate::store::Store::topics`].
pub(crate) fn topics(
    txn: &WriteTxn<'_>,
    scope: &TopicFilter,
    after: Option<&Topic>,
    limit: usize,
) -> TopicsStep {
    let topics = txn.memory.topics();
    let patterns = scope.in_order();
    let found = patterns.iter().flat_map(|pattern| topics.matching(pattern, after));
    let mut step = TopicsStep { topics: Vec::new(), next: None };
    let (mut outlets, mut last) = (0, None);
    for (number, plain) in found {
        if outlets >= MAX_OUTLETS || step.topics.len() >= limit {
            step.next = last;
            break;
        }
        outlets += topics.outlets_of(number).count();
        last = Some(plain.outlet.topic.clone());
        if !plain.is_forgettable() {
            step.topics.push((plain.outlet.topic.clone(), topics.stats(number, txn.wall_ahead_ms)));
        }
    }
    step
}

/// See [`crate::store::TopicStore::topic_values`]. Of a row that was damaged since the start, what memory knows.
pub(crate) fn topic_values(txn: &mut WriteTxn<'_>, name: &Topic) -> SqlResult<TopicValues> {
    let stored = txn.db.topic_values(name.as_str())?;
    let topics = txn.memory.topics();
    let known = topics.find_topic(name.as_str()).map(|topic| topics.get(topic).config.clone());
    Ok(stored.with(&known.unwrap_or_default()))
}

/// See [`crate::store::TopicStore::update_topic`].
pub(crate) fn update_topic(
    txn: &mut WriteTxn<'_>,
    name: &Topic,
    expected: &TopicValues,
    values: &TopicValues,
) -> SqlResult<Result<Updated>> {
    let stored = topic_values(txn, name)?;
    if stored == *values {
        return Ok(Ok(Updated::Already));
    }
    if stored != *expected {
        return Ok(Ok(Updated::Differs(stored)));
    }
    let Some(config) = values.config() else {
        return Ok(Err(Error::Damaged(format!("what is to be set for topic {name} cannot be read"))));
    };
    if values.need_room(&stored)
        && let Err(full) = txn.check_space(SpaceNeed::Growth)
    {
        return Ok(Err(full));
    }
    txn.db.put_topic_values(name.as_str(), values.as_bytes())?;
    let topic = txn.memory.outlet(&Outlet::plain(name.clone()));
    publish_config(txn, topic, Arc::new(config));
    Ok(Ok(Updated::Done))
}

/// Puts the stored configuration of a topic into memory, and notifies the listener if jobs may go somewhere since.
fn publish_config(txn: &mut WriteTxn<'_>, topic: OutletNumber, config: Arc<TopicConfig>) {
    let state = txn.memory.topics().get(topic);
    let name = state.outlet.topic.clone();
    if config.restarts_delivery(&state.config) {
        let outlets = txn.memory.topics().outlets_of(topic).map(|(_, state)| state.outlet.clone());
        txn.effects.ready.extend(outlets);
        txn.effects.changed_topics.push(name.clone());
    }
    txn.memory.set_config(topic, config.clone());
    txn.effects.configs.push((name, config));
}
