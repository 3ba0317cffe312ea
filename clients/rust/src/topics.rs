//! Calls for topics and for the server itself.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::{
    client::Client,
    error::Error,
    jobs::absent,
    model::{Topic, TopicPage},
    pauses::{NewPause, Paused},
    request::{Request, segment},
};

/// How long a purge may take beside other calls: a million jobs take their time.
const PURGE_WAIT: Duration = Duration::from_secs(120);

/// How long the server waits for a bulk operation of another process that is stopped, and some more.
const STOP_WAIT: Duration = Duration::from_secs(15);

/// Which topics to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicsRequest<'a> {
    /// What their names begin with; all of them when left out.
    pub prefix: Option<&'a str>,
    /// The order.
    pub sort: TopicSort,
    /// Most topics; at least one.
    pub limit: usize,
    /// The cursor of the page before. Only topics by name have pages.
    pub cursor: Option<&'a str>,
}

/// An order of topics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TopicSort {
    /// By name.
    #[default]
    Name,
    /// Most ready jobs first.
    Ready,
    /// Those whose oldest ready job has been due longest come first.
    Overdue,
    /// Most delayed jobs first.
    Delayed,
    /// Most dead letters first.
    Dead,
}

impl TopicSort {
    /// The word of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Ready => "ready",
            Self::Overdue => "overdue",
            Self::Delayed => "delayed",
            Self::Dead => "dead",
        }
    }
}

/// The calls as data, for callers that send them with [`Client::send`] and read the response themselves.
impl Request {
    /// Reads a topic.
    #[must_use]
    pub fn topic(topic: &str) -> Self {
        Self::get("topic", format!("/topics/{}", segment(topic)))
    }

    /// Lists topics.
    #[must_use]
    pub fn topics(request: &TopicsRequest<'_>) -> Self {
        let mut path = format!("/topics?limit={}", request.limit.max(1));
        if request.sort != TopicSort::Name {
            path.push_str(&format!("&sort={}", request.sort.as_str()));
        }
        for (name, value) in [("prefix", request.prefix), ("cursor", request.cursor)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", segment(value)));
            }
        }
        Self::get("topics", path)
    }

    /// Replaces the settings of a topic.
    #[must_use]
    pub fn put_settings(topic: &str, settings: &impl Serialize) -> Self {
        Self::new("put settings", Method::PUT, format!("/topics/{}", segment(topic))).json(settings)
    }

    /// Adds a secret that signs the callbacks of a topic: this one, or one that the server chooses.
    #[must_use]
    pub fn add_secret(topic: &str, secret: Option<&str>) -> Self {
        #[derive(Serialize)]
        struct NewSecret<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            secret: Option<&'a str>,
        }
        Self::post("add secret", format!("/topics/{}/secrets", segment(topic))).json(&NewSecret { secret })
    }

    /// Lists the secrets of a topic without their keys.
    #[must_use]
    pub fn secrets(topic: &str) -> Self {
        Self::get("secrets", format!("/topics/{}/secrets", segment(topic)))
    }

    /// Deletes a secret of a topic.
    #[must_use]
    pub fn delete_secret(topic: &str, id: &str) -> Self {
        let path = format!("/topics/{}/secrets/{}", segment(topic), segment(id));
        Self::new("delete secret", Method::DELETE, path)
    }

    /// Pauses what `pause` names.
    #[must_use]
    pub fn pause(topic: &str, pause: &NewPause) -> Self {
        Self::post("pause", format!("/topics/{}/pause", segment(topic))).json(pause)
    }

    /// Resumes what `what` names.
    #[must_use]
    pub fn resume(topic: &str, what: Paused) -> Self {
        Self::post("resume", format!("/topics/{}/resume", segment(topic))).json(&what)
    }

    /// Has the endpoints of a topic called at once, although they rest.
    #[must_use]
    pub fn call_now(topic: &str) -> Self {
        Self::post("call now", format!("/topics/{}/callbacks/call", segment(topic)))
    }

    /// Deletes every job of a topic in every state.
    #[must_use]
    pub fn purge(topic: &str) -> Self {
        let topic = segment(topic);
        Self::new("purge", Method::DELETE, format!("/topics/{topic}?confirm={topic}")).wait(PURGE_WAIT)
    }

    /// Lists up to 100 dead letters of a topic, the oldest first.
    #[must_use]
    pub fn dead(topic: &str, limit: usize, cursor: Option<&str>) -> Self {
        let cursor = cursor.map_or(String::new(), |cursor| format!("&cursor={}", segment(cursor)));
        Self::get("dead", format!("/topics/{}/dead?limit={}{cursor}", segment(topic), limit.clamp(1, 100)))
    }

    /// Starts a bulk operation. A repeat is recognised by its id.
    #[must_use]
    pub fn start_bulk(operation: &impl Serialize) -> Self {
        Self::post("bulk", "/bulk").json(operation)
    }

    /// Reads a bulk operation.
    #[must_use]
    pub fn bulk(id: &str) -> Self {
        Self::get("bulk", format!("/bulk/{}", segment(id)))
    }

    /// Lists the latest bulk operations.
    #[must_use]
    pub fn bulk_operations() -> Self {
        Self::get("bulk operations", "/bulk")
    }

    /// Stops a bulk operation, and waits for its end.
    #[must_use]
    pub fn stop_bulk(id: &str) -> Self {
        Self::post("stop bulk", format!("/bulk/{}/stop", segment(id))).wait(STOP_WAIT)
    }

    /// Reads the state of the callbacks of all topics.
    #[must_use]
    pub fn all_callbacks() -> Self {
        Self::get("callbacks", "/callbacks".to_owned())
    }

    /// Reads which workers poll for jobs of a topic, or of all, and hold them.
    #[must_use]
    pub fn workers(topic: Option<&str>) -> Self {
        let query = topic.map_or(String::new(), |topic| format!("?topic={}", segment(topic)));
        Self::get("workers", format!("/workers{query}"))
    }

    /// Reads calls of the audit list, the latest first: about a topic, and by a caller, if they are named.
    #[must_use]
    pub fn audit(topic: Option<&str>, by: Option<&str>, limit: u64, cursor: Option<&str>) -> Self {
        let part = |name: &str, value: Option<&str>| {
            value.map_or(String::new(), |value| format!("&{name}={}", segment(value)))
        };
        let parts = [part("topic", topic), part("by", by), part("cursor", cursor)].concat();
        Self::get("audit", format!("/audit?limit={limit}{parts}"))
    }

    /// Reads the state of the callbacks of a topic.
    #[must_use]
    pub fn callbacks(topic: &str) -> Self {
        Self::get("callbacks", format!("/topics/{}/callbacks", segment(topic)))
    }

    /// Asks what the token may do.
    #[must_use]
    pub fn whoami() -> Self {
        Self::get("whoami", "/whoami")
    }

    /// Asks what runs there.
    #[must_use]
    pub fn version() -> Self {
        Self::get("version", "/version")
    }

    /// Asks whether the server is ready for work.
    #[must_use]
    pub fn ready() -> Self {
        Self::get("ready", "/readyz")
    }
}

/// What `GET /version` answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// The version of the server.
    pub version: String,
    /// Where jobs are kept.
    pub engine: String,
    /// The version of the engine's library or server.
    pub engine_version: String,
    /// What an acknowledgement means.
    pub durability: String,
}

/// Every call fails with [`Error`]; all of them are safe to repeat.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// The topic as it is now; none when the server knows none of this name.
    pub async fn topic(&self, topic: &str) -> Result<Option<Topic>, Error> {
        let answer = self.send(&Request::topic(topic)).await;
        absent(answer, "topic_not_found")?.map(|response| response.read()).transpose()
    }

    /// A page of topics. Only those by name have more than one.
    pub async fn topics(&self, request: &TopicsRequest<'_>) -> Result<TopicPage, Error> {
        self.send(&Request::topics(request)).await?.read()
    }

    /// Replaces the settings of a topic. What `settings`, a JSON object, leaves out gets its default again.
    pub async fn put_settings(&self, topic: &str, settings: &impl Serialize) -> Result<(), Error> {
        self.send(&Request::put_settings(topic, settings)).await?.read::<Topic>().map(drop)
    }

    /// Deletes every job of a topic in every state; how many there were, after a repeat perhaps fewer. Jobs that
    /// are added meanwhile may stay.
    pub async fn purge(&self, topic: &str) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Deleted {
            deleted: u64,
        }
        Ok(self.send(&Request::purge(topic)).await?.read::<Deleted>()?.deleted)
    }

    /// What runs there.
    pub async fn version(&self) -> Result<Version, Error> {
        self.send(&Request::version()).await?.read()
    }

    /// Succeeds when the server is ready for work; one that is not refuses with 503.
    pub async fn ready(&self) -> Result<(), Error> {
        #[derive(Deserialize)]
        enum Status {
            #[serde(rename = "ok")]
            Ok,
        }
        #[derive(Deserialize)]
        struct Health {
            #[serde(rename = "status")]
            _status: Status,
        }
        self.send(&Request::ready()).await?.read::<Health>().map(drop)
    }
}
