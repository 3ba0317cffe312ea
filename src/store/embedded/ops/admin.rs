//! Looking at jobs and topics, and setting what holds for a topic as a whole.

use std::sync::Arc;

use super::super::{db::Sql, work::Work};
use crate::{
    job::{Job, JobId, Topic, TopicFilter},
    store::{TopicConfig, TopicStats},
};

/// See [`crate::store::Store::get`].
pub(in super::super) fn get(work: &mut Work<'_>, scope: &TopicFilter, id: &JobId) -> Sql<Option<Job>> {
    let found = work.find(scope, id)?;
    Ok(found.map(|found| work.to_job(found.at, &found.content)))
}

/// See [`crate::store::Store::topic`].
pub(in super::super) fn topic(work: &Work<'_>, name: &Topic) -> Option<TopicStats> {
    let topics = work.state.topics();
    let topic = topics.find(name.as_str()).map(|ix| topics.get(ix))?;
    (!topic.is_forgettable()).then(|| topic.stats())
}

/// See [`crate::store::Store::topics`].
pub(in super::super) fn topics(
    work: &Work<'_>,
    after: Option<&Topic>,
    limit: usize,
) -> Vec<(Topic, TopicStats)> {
    let known = work.state.topics().by_name(after).filter(|topic| !topic.is_forgettable());
    known.take(limit).map(|topic| (topic.name.clone(), topic.stats())).collect()
}

/// Changes what is set for a topic, and returns what is set then. Resuming delivery tells the listener.
pub(in super::super) fn put_config(
    work: &mut Work<'_>,
    name: &Topic,
    change: impl FnOnce(&mut TopicConfig),
) -> Sql<Arc<TopicConfig>> {
    let topic = work.state.topic(name);
    let before = work.state.topics().get(topic).config.clone();
    let mut config = (*before).clone();
    change(&mut config);
    if config == *before {
        return Ok(before);
    }
    work.db.put_topic(name, &config)?;
    if before.pause.delivery && !config.pause.delivery {
        work.news.ready.insert(name.clone());
    }
    let config = Arc::new(config);
    work.state.set_config(topic, config.clone());
    work.news.configs.push((name.clone(), config.clone()));
    Ok(config)
}
