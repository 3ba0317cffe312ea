//! The oldest ready jobs of topics, where the list of the topics leaves them out.

use futures_util::future::join_all;

use crate::{
    job::{Timestamp, Topic},
    store::{Result, Store},
};

/// Topics that are read at the same time.
const PARALLEL_READS: usize = 16;

/// The due time of the oldest ready job of each topic, which costs a call for each.
pub(in crate::queue) async fn oldest_ready(
    store: &dyn Store,
    topics: &[&Topic],
) -> Result<Vec<Option<Timestamp>>> {
    let mut oldest = Vec::with_capacity(topics.len());
    for topics in topics.chunks(PARALLEL_READS) {
        for stats in join_all(topics.iter().map(|topic| store.topic(topic))).await {
            oldest.push(stats?.and_then(|stats| stats.oldest_ready));
        }
    }
    Ok(oldest)
}
