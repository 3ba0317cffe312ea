//! A remembered id in an export.

use serde::{Deserialize, Serialize};

use super::job_line::{fingerprint_text, parse_fingerprint};
use crate::job::{IdEnd, JobId, RememberedId, Topic, json::Moment};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedLine {
    id: String,
    topic: String,
    ended: String,
    ended_at: Moment,
    until: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    fingerprint: String,
}

impl RememberedLine {
    /// The line of an id.
    pub fn new(remembered: &RememberedId) -> Self {
        let RememberedId { id, topic, end, ended_at, until, fingerprint, revision } = remembered;
        Self {
            id: id.as_str().to_owned(),
            topic: topic.as_str().to_owned(),
            ended: end.as_str().to_owned(),
            ended_at: Moment(*ended_at),
            until: Moment(*until),
            revision: *revision,
            fingerprint: fingerprint_text(*fingerprint),
        }
    }

    /// The id in the line; what is wrong with it.
    pub fn into_remembered(self) -> Result<RememberedId, String> {
        let id = JobId::parse(&self.id).map_err(|error| format!("a remembered id {error}"))?;
        let end = IdEnd::ALL.into_iter().find(|end| end.as_str() == self.ended);
        Ok(RememberedId {
            topic: Topic::parse(&self.topic).map_err(|error| format!("the topic of id {id} {error}"))?,
            end: end.ok_or_else(|| format!("id {id}: how its job ended is unknown"))?,
            ended_at: self.ended_at.0,
            until: self.until.0,
            fingerprint: parse_fingerprint(&self.fingerprint).map_err(|why| format!("id {id}: {why}"))?,
            revision: self.revision,
            id,
        })
    }
}
