//! What `linger top` reads of the server at one time. Does not know how it is shown.

use std::collections::HashMap;

use linger_client::{
    EventSummary, Request, Response, Stats, Timestamp, Topic, TopicSort, TopicsRequest, Version,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::cli::exit::{Exit, Failure};

/// Most topics that are read: the API returns no more of a sorted list.
pub(super) const MOST_TOPICS: usize = 1_000;
/// How many of the topics that are longest overdue are read beside another order.
const MOST_OVERDUE: usize = 100;

/// The answers of the server.
pub(super) struct Answers {
    sort: TopicSort,
    version: Response,
    /// None if the token is for some topics.
    stats: Option<Response>,
    topics: Response,
    /// The topics that are longest overdue, if the list does not know it of some: on Redis only this order does.
    overdue: Option<Response>,
}

/// A page of topics.
#[derive(Deserialize)]
struct Page {
    topics: Vec<Topic>,
}

/// The figures that are shown.
#[derive(Debug)]
pub(super) struct Reading {
    /// When it was: by the server's clock with `stats`, otherwise by this machine's.
    pub now: Timestamp,
    pub version: Version,
    /// None if the token is for some topics.
    pub stats: Option<Stats>,
    /// The first topics of the order.
    pub topics: Vec<Topic>,
    pub sort: TopicSort,
    /// Why the server is not ready.
    pub not_ready: Option<String>,
}

/// Reads the first topics of an order, with `call`.
pub(super) async fn read(
    call: impl AsyncFn(Request) -> Result<Response, Failure>,
    sort: TopicSort,
    prefix: Option<&str>,
) -> Result<Answers, Failure> {
    let version = call(Request::version()).await?;
    let stats = match call(Request::stats_by_topic()).await {
        Ok(stats) => Some(stats),
        // A token for some topics may list those all the same.
        Err(failure) if failure.exit == Exit::NotAllowed => None,
        Err(failure) => return Err(failure),
    };
    let request = TopicsRequest { prefix, sort, limit: MOST_TOPICS, cursor: None };
    let topics = call(Request::topics(&request)).await?;
    let is_unknown = |topic: &Topic| topic.counts.ready > 0 && topic.oldest_overdue_at.is_none();
    let is_needed = sort != TopicSort::Overdue && object::<Page>(&topics)?.topics.iter().any(is_unknown);
    let request = TopicsRequest { sort: TopicSort::Overdue, limit: MOST_OVERDUE, ..request };
    // All else is shown without it.
    let overdue = if is_needed { call(Request::topics(&request)).await.ok() } else { None };
    Ok(Answers { sort, version, stats, topics, overdue })
}

impl Reading {
    /// What happened to the jobs of a topic in the last minute; none if nothing did, or if it is not known.
    pub fn minute_of(&self, topic: &str) -> Option<&EventSummary> {
        let stats = self.stats.as_ref()?;
        let at = stats.topics.binary_search_by(|events| events.topic.as_str().cmp(topic)).ok()?;
        Some(&stats.topics[at].minute)
    }
}

impl Answers {
    /// The figures in the answers. `now` is the time by this machine's clock.
    pub fn reading(&self, now: Timestamp) -> Result<Reading, Failure> {
        let stats: Option<Stats> = self.stats.as_ref().map(object).transpose()?;
        let mut topics = object::<Page>(&self.topics)?.topics;
        let overdue = self.overdue.as_ref().map(object::<Page>).transpose()?;
        let overdue = overdue.into_iter().flat_map(|page| page.topics);
        let oldest: HashMap<_, _> = overdue.map(|topic| (topic.topic, topic.oldest_overdue_at)).collect();
        for topic in topics.iter_mut().filter(|topic| topic.counts.ready > 0) {
            topic.oldest_overdue_at =
                topic.oldest_overdue_at.or_else(|| oldest.get(&topic.topic).copied().flatten());
        }
        Ok(Reading {
            now: stats.as_ref().map_or(now, |stats| stats.now),
            version: object(&self.version)?,
            topics,
            sort: self.sort,
            stats,
            not_ready: None,
        })
    }

    /// The objects of the API as members of one.
    pub fn json(&self) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Page {
            topics: Box<RawValue>,
        }
        let stats = self.stats.as_ref().map_or(Ok("null"), Response::text)?;
        let (version, topics) = (self.version.text()?, object::<Page>(&self.topics)?.topics);
        Ok(format!(
            r#"{{"version":{},"stats":{},"topics":{topics}}}"#,
            version.trim_ascii(),
            stats.trim_ascii()
        ))
    }
}

fn object<T: DeserializeOwned>(response: &Response) -> Result<T, Failure> {
    Ok(response.read()?)
}
