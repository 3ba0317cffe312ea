//! Lists of jobs by state, topic, time, the beginnings of ids and reasons, and worker; the same filters choose the jobs of bulk
//! operations.

use std::fmt::Write;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    client::Client,
    durations::some_moment,
    error::Error,
    request::{Request, segment},
};

/// Which jobs. A field that is left out chooses nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JobsFilter {
    /// `delayed`, `ready`, `reserved` or `dead`. If left out: delayed, and for a requeue dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Those of this topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Those whose moment, which depends on the state, is at or after this one: when they are due, when the reservation ends, or
    /// when they died.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub from: Option<Timestamp>,
    /// Those whose moment is before this one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub to: Option<Timestamp>,
    /// Those whose ids begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// Dead letters whose reasons begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_prefix: Option<String>,
    /// Reserved jobs that this worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<String>,
}

/// A job in a list: without its body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JobSummary {
    /// The id.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// `delayed`, `ready`, `reserved` or `dead`; later servers may have more.
    pub state: String,
    /// When it is due, or was.
    pub due_at: Timestamp,
    /// When its reservation ends.
    pub reserved_until: Option<Timestamp>,
    /// Who has it.
    pub reserved_by: Option<String>,
    /// When it became a dead letter.
    pub dead_at: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
    /// Reservations so far.
    pub attempts: u64,
}

/// A page of a list of jobs.
#[derive(Debug, Clone, Deserialize)]
pub struct JobsPage {
    /// The jobs. A page may be short or empty, and is the last one only without a cursor.
    pub jobs: Vec<JobSummary>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

impl Request {
    /// Lists up to 200 jobs, those with the earliest moment first, or with the latest.
    #[must_use]
    pub fn jobs(filter: &JobsFilter, latest_first: bool, limit: usize, cursor: Option<&str>) -> Self {
        let mut path = format!("/jobs?limit={}", limit.clamp(1, 200));
        let moment = |moment: Option<Timestamp>| moment.map(|moment| format!("{moment:.3}"));
        for (name, value) in [
            ("state", filter.state.clone()),
            ("topic", filter.topic.clone()),
            ("from", moment(filter.from)),
            ("to", moment(filter.to)),
            ("id_prefix", filter.id_prefix.clone()),
            ("reason_prefix", filter.reason_prefix.clone()),
            ("reserved_by", filter.reserved_by.clone()),
            ("order", latest_first.then(|| "desc".to_owned())),
            ("cursor", cursor.map(str::to_owned)),
        ] {
            if let Some(value) = value {
                write!(path, "&{name}={}", segment(&value)).expect("memory takes it");
            }
        }
        Self::get("jobs", path)
    }
}

/// Every call fails with [`Error`]; all of them are safe to repeat.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// A page of up to 200 jobs.
    pub async fn jobs(
        &self,
        filter: &JobsFilter,
        latest_first: bool,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<JobsPage, Error> {
        self.send(&Request::jobs(filter, latest_first, limit, cursor)).await?.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{TestServer, answer};

    const PAGE: &str = r#"{"jobs":[{"id":"a","topic":"t","state":"dead","due_at":"2026-11-26T08:30:00.000Z",
        "dead_at":"2026-11-26T08:31:00.000Z","reason":"http_503","attempts":3,"body_bytes":2,"new":1}],"examined":9}"#;

    #[tokio::test]
    async fn a_filter_is_a_query_and_a_part_of_a_bulk_operation() {
        let server = TestServer::start(vec![answer(200, "", PAGE)]).await;
        let filter = JobsFilter {
            state: Some("dead".to_owned()),
            from: Some("2026-11-26T08:30:00.25+01:00".parse().expect("is a moment")),
            reason_prefix: Some("http 503 &".to_owned()),
            reserved_by: Some("w 1".to_owned()),
            ..JobsFilter::default()
        };
        let page = server.client().jobs(&filter, true, 500, None).await.expect("is answered");
        assert_eq!((page.jobs[0].reason.as_deref(), page.next_cursor), (Some("http_503"), None));
        let line = "GET /jobs?limit=200&state=dead&from=2026-11-26T07:30:00.250Z&reason_prefix=http%20503%20%26&reserved_by=w%201&order=desc HTTP/1.1";
        assert_eq!(server.lines(), [line]);
        assert_eq!(
            serde_json::to_string(&filter).expect("is JSON"),
            r#"{"state":"dead","from":"2026-11-26T07:30:00.250Z","reason_prefix":"http 503 &","reserved_by":"w 1"}"#
        );
    }
}
