//! The audit list: who asked for which change, when, and what came of it. A record is written before the call is carried
//! out, and again with its status: so no change that was made lacks one, also if this process is killed between. While
//! the store takes no record in time, for example because it is full, calls go on, and the gap is counted.

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{error::Result, service::Queue};
use crate::{
    job::{JobId, OperationId, ScheduleName, Timestamp, Topic, TopicFilter},
    store::{ArchiveContent, ArchiveKind, ArchivedRecord},
};

/// How many records are read in one call of the store.
const SLICE: usize = 200;
/// How long a call waits for its note, and for what the note says of it: clients give up a call after some seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A call as it is noted, in the form in which the archive keeps it, as JSON. A process ignores fields that a later version
/// added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AuditedCall {
    /// The name of the caller's token, or else its address.
    pub by: String,
    /// The client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Whether a page in a browser sent it: the dashboard.
    #[serde(default)]
    pub from_browser: bool,
    /// The HTTP method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The topic that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// What was asked for, as JSON, without bodies of jobs and without what is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RawValue>>,
    /// The status of the answer. Without one it is not known whether the call was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// A call of the audit list.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// Its number, which rises from one call to the next.
    pub number: u64,
    /// When it was about to be carried out, by the clock of the store.
    pub at: Timestamp,
    /// What was called.
    pub call: AuditedCall,
}

/// Which calls a list shows.
#[derive(Debug, Clone)]
pub struct AuditFilter {
    /// Those about topics that it allows. Those about no topic in particular only if it allows all, or if they are of `own`.
    pub scope: TopicFilter,
    /// The name of the token, if there is one.
    pub own: String,
    /// Only those about this topic.
    pub topic: Option<Topic>,
    /// Only those by this caller.
    pub by: Option<String>,
}

impl AuditFilter {
    fn shows(&self, call: &AuditedCall) -> bool {
        let is_allowed = match &call.topic {
            Some(topic) => Topic::parse(topic).is_ok_and(|topic| self.scope.allows(&topic)),
            None => self.scope.is_all() || (!self.own.is_empty() && call.by == self.own),
        };
        is_allowed
            && self.topic.as_ref().is_none_or(|topic| call.topic.as_deref() == Some(topic.as_str()))
            && self.by.as_ref().is_none_or(|by| call.by == *by)
    }
}

/// A page of the audit list.
#[derive(Debug, Clone)]
pub struct AuditPage {
    /// The calls, the newest first.
    pub entries: Vec<AuditEntry>,
    /// There may be more with lower numbers than this.
    pub next: Option<u64>,
}

impl Queue {
    /// Notes a call under `id`, in place of what was noted of it before. If the store does not take the note in time, that is
    /// logged, and counted if nothing was noted of the call before.
    pub async fn note_call(&self, id: &str, call: &AuditedCall) {
        let text = serde_json::to_vec(call).expect("every value is a text, a number or JSON");
        let content = ArchiveContent::new(text).expect("the edge bounds each part of a call");
        let written = self.in_time(self.store.archive().put(ArchiveKind::Call, id, content)).await;
        let now_us = self.clock.now_micros();
        match written {
            Some(Ok(())) => {
                if self.audit_failures.succeeded(now_us).is_some() {
                    tracing::info!("calls are noted in the audit list again");
                }
            }
            Some(Err(_)) | None => {
                if call.status.is_none() {
                    self.metrics.audit_gaps.inc();
                }
                if self.audit_failures.failed(now_us) {
                    let why = written
                        .and_then(|written| written.err())
                        .map_or("no answer in time".into(), |error| error.to_string());
                    tracing::warn!(
                        error = why,
                        by = call.by,
                        method = call.method,
                        path = call.path,
                        "a call, or its status, is missing in the audit list"
                    );
                }
            }
        }
    }

    /// What `outcome` becomes; nothing if that takes too long.
    async fn in_time<T>(&self, outcome: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            outcome = outcome => Some(outcome),
            () = self.clock.sleep(LONGEST_WAIT) => None,
        }
    }

    /// The topic of a job, if there is one and its topic may be seen.
    pub async fn topic_of_job(&self, scope: &TopicFilter, id: &JobId) -> Option<Topic> {
        self.in_time(self.store.get(scope, id)).await?.ok()?.map(|job| job.topic.clone())
    }

    /// The topic that the jobs of a schedule go to, if there is one and its topic may be seen.
    pub async fn topic_of_schedule(&self, scope: &TopicFilter, name: &ScheduleName) -> Option<Topic> {
        Some(self.in_time(self.schedule(scope, name)).await?.ok()?.spec.topic.clone())
    }

    /// The topic of a bulk operation, if there is one and it is about one.
    pub async fn topic_of_operation(&self, id: &OperationId) -> Option<Topic> {
        self.in_time(self.operation(id)).await?.ok()?.request.filter.topic
    }

    /// Calls of the audit list with lower numbers than `before`: `limit` of them, unless there are no more.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::queue::Error::Busy), or the store's.
    pub async fn audit(&self, filter: &AuditFilter, before: Option<u64>, limit: usize) -> Result<AuditPage> {
        let _permit = self.read_permits.acquire().await?;
        let (mut entries, mut next) = (Vec::new(), before);
        loop {
            let records = self.store.archive().page(ArchiveKind::Call, next, SLICE).await?;
            // A page may lack records that are damaged.
            let is_last = records.is_empty();
            for record in records {
                if entries.len() == limit {
                    return Ok(AuditPage { entries, next });
                }
                next = Some(record.number);
                entries.extend(read(&record).filter(|entry| filter.shows(&entry.call)));
            }
            if is_last {
                return Ok(AuditPage { entries, next: None });
            }
        }
    }
}

/// `None` when another version wrote something that this one cannot read.
fn read(record: &ArchivedRecord) -> Option<AuditEntry> {
    let call = serde_json::from_slice(&record.content).ok()?;
    Some(AuditEntry { number: record.number, at: record.at, call })
}
