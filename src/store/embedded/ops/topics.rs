//! Looking at jobs and topics, and setting what holds for a topic as a whole.

use std::sync::Arc;

use super::write_txn::Work;
use crate::{
    job::{Job, JobId, Topic, TopicFilter},
    store::{
        Result, TopicConfig, TopicStats,
        embedded::{disk::disk_space::Need, rows::records::Sql},
    },
};

/// See [`crate::store::Store::get`].
pub(in crate::store::embedded) fn get(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
) -> Sql<Option<Job>> {
    let found = work.find(scope, id)?;
    Ok(found.map(|found| work.to_job(found.at, &found.content)))
}

/// See [`crate::store::Store::topic`].
pub(in crate::store::embedded) fn topic(work: &Work<'_>, name: &Topic) -> Option<TopicStats> {
    let topics = work.state.topics();
    let topic = topics.find(name.as_str()).map(|ix| topics.get(ix))?;
    (!topic.is_forgettable()).then(|| topic.stats())
}

/// See [`crate::store::Store::topics`].
pub(in crate::store::embedded) fn topics(
    work: &Work<'_>,
    after: Option<&Topic>,
    limit: usize,
) -> Vec<(Topic, TopicStats)> {
    let known = work.state.topics().by_name(after).filter(|topic| !topic.is_forgettable());
    known.take(limit).map(|topic| (topic.name.clone(), topic.stats())).collect()
}

/// Changes what is set for a topic, and returns what is set then. Resuming delivery tells the listener. Where
/// there is no room, only what takes settings and pauses away is done.
pub(in crate::store::embedded) fn put_config(
    work: &mut Work<'_>,
    name: &Topic,
    change: impl FnOnce(&mut TopicConfig),
) -> Sql<Result<Arc<TopicConfig>>> {
    let topic = work.state.topic(name);
    let before = work.state.topics().get(topic).config.clone();
    let mut config = (*before).clone();
    change(&mut config);
    if config == *before {
        return Ok(Ok(before));
    }
    if sets_something(&before, &config)
        && let Some(full) = work.no_room_for(Need::Growth)
    {
        return Ok(Err(full));
    }
    work.db.put_topic(name, &config)?;
    if before.pause.delivery && !config.pause.delivery {
        work.news.ready.insert(name.clone());
    }
    let config = Arc::new(config);
    work.state.set_config(topic, config.clone());
    work.news.configs.push((name.clone(), config.clone()));
    Ok(Ok(config))
}

/// Whether anything is set that was not set like this before.
fn sets_something(before: &TopicConfig, after: &TopicConfig) -> bool {
    let (old, new) = (&before.settings, &after.settings);
    new.ttr.is_some() && new.ttr != old.ttr
        || new.max_attempts.is_some() && new.max_attempts != old.max_attempts
        || new.retry.is_some() && new.retry != old.retry
        || new.require_receipt && !old.require_receipt
        || after.pause.delivery && !before.pause.delivery
        || after.pause.intake && !before.pause.intake
}
