//! Reading jobs and topics, and changing the configuration of a topic.

use std::sync::Arc;

use super::write_txn::WriteTxn;
use crate::{
    job::{
        Callback, Job, JobId, Outlet, SecretId, SigningKey, SigningSecret, Topic, TopicFilter, TopicSettings,
    },
    store::{
        AddedSecret, Result, Span, Timeline, TopicConfig, TopicStats, Totals,
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

/// Changes the configuration of a topic, and returns the new one. Resuming delivery and changing the callback notify the
/// listener. Without disk space, only removing is allowed.
pub(crate) fn put_config(
    txn: &mut WriteTxn<'_>,
    name: &Topic,
    change: impl FnOnce(&mut TopicConfig),
) -> SqlResult<Result<Arc<TopicConfig>>> {
    let topic = txn.memory.outlet(&Outlet::plain(name.clone()));
    let before = txn.memory.topics().get(topic).config.clone();
    let mut config = (*before).clone();
    change(&mut config);
    if config == *before {
        return Ok(Ok(before));
    }
    if sets_something(&before, &config)
        && let Some(full) = txn.space_refusal(SpaceNeed::Growth)
    {
        return Ok(Err(full));
    }
    txn.db.put_topic_config(name, &config)?;
    let config = Arc::new(config);
    publish_config(txn, topic, config.clone());
    Ok(Ok(config))
}

/// Puts the stored configuration of a topic into memory, and notifies the listener if jobs may go somewhere since.
pub(super) fn publish_config(txn: &mut WriteTxn<'_>, topic: OutletNumber, config: Arc<TopicConfig>) {
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

/// See [`crate::store::Store::put_settings_if`].
pub(crate) fn put_settings(
    txn: &mut WriteTxn<'_>,
    name: &Topic,
    settings: &TopicSettings,
    was: Option<&Callback>,
) -> SqlResult<Result<bool>> {
    let topics = txn.memory.topics();
    let stored = topics.find_topic(name.as_str()).map(|topic| topics.get(topic).config.clone());
    let stored = stored.as_ref().and_then(|config| config.settings.callback.target.as_ref());
    if was.is_some_and(|was| stored.is_none_or(|stored| !stored.has_url_and_headers_of(was))) {
        return Ok(Ok(false));
    }
    let stored = put_config(txn, name, |config| config.settings = settings.clone())?;
    Ok(stored.map(|_| true))
}

/// See [`crate::store::Store::add_secret`].
pub(crate) fn add_secret(
    txn: &mut WriteTxn<'_>,
    name: &Topic,
    id: SecretId,
    key: &SigningKey,
) -> SqlResult<Result<AddedSecret>> {
    let secrets = secrets(txn, name);
    if let Some(known) = secrets.iter().find(|known| known.key == *key) {
        return Ok(Ok(AddedSecret::Exists(known.clone())));
    }
    if secrets.len() >= SigningSecret::MAX_COUNT {
        return Ok(Ok(AddedSecret::TooMany));
    }
    let secret = SigningSecret { id, created_at: txn.now.rounded_down, key: key.clone() };
    let stored = put_config(txn, name, |config| config.secrets.push(secret.clone()))?;
    Ok(stored.map(|_| AddedSecret::Created(secret)))
}

/// See [`crate::store::Store::delete_secret`].
pub(crate) fn delete_secret(txn: &mut WriteTxn<'_>, name: &Topic, id: SecretId) -> SqlResult<Result<bool>> {
    if secrets(txn, name).iter().all(|secret| secret.id != id) {
        return Ok(Ok(false));
    }
    let stored = put_config(txn, name, |config| config.secrets.retain(|secret| secret.id != id))?;
    Ok(stored.map(|_| true))
}

fn secrets(txn: &WriteTxn<'_>, name: &Topic) -> Vec<SigningSecret> {
    let topics = txn.memory.topics();
    topics.find_topic(name.as_str()).map(|topic| topics.get(topic).config.secrets.clone()).unwrap_or_default()
}

/// Whether a setting or pause was added or changed, not only removed.
fn sets_something(before: &TopicConfig, after: &TopicConfig) -> bool {
    let (old, new) = (&before.settings, &after.settings);
    new.ttr.is_some() && new.ttr != old.ttr
        || new.max_attempts.is_some() && new.max_attempts != old.max_attempts
        || new.retry.is_some() && new.retry != old.retry
        || new.require_receipt && !old.require_receipt
        || new.callback.target.is_some() && new.callback.target != old.callback.target
        || new.callback.rate.is_some() && new.callback.rate != old.callback.rate
        || new.callback.concurrency.is_some() && new.callback.concurrency != old.callback.concurrency
        || after.secrets.iter().any(|secret| !before.secrets.contains(secret))
        || after.pause.delivery && !before.pause.delivery
        || after.pause.intake && !before.pause.intake
}
