//! Calls for many jobs at once. A batch succeeds as a call even when items of it fail.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    client::Client,
    durations::{duration, some_duration},
    error::{Error, Refusal},
    jobs::Reason,
    model::{BatchItem, Ended, PopRequest, ReleaseRequest, ReservedJob, TouchRequest},
    new_job::NewJob,
    request::{Repeat, Request},
};

#[derive(Serialize)]
struct Jobs<T> {
    jobs: T,
}

#[derive(Serialize)]
struct Pop<'a> {
    topics: &'a [&'a str],
    max: usize,
    #[serde(serialize_with = "duration")]
    wait: Duration,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    ttr: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
}

#[derive(Serialize)]
struct Finish<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a str>,
}

/// What the holder of a job asks for.
#[derive(Serialize)]
struct Holding<'a, T> {
    id: &'a str,
    receipt: &'a str,
    #[serde(flatten)]
    more: T,
}

/// The calls as data, for callers that send them with [`Client::send`] and read the response themselves.
impl Request {
    /// Adds up to 1,000 jobs, each of which has an id: [`NewJob`], or JSON that says the same.
    #[must_use]
    pub fn add_batch(jobs: &[impl Serialize]) -> Self {
        Self::post("batch add", "/batch/jobs").json(&Jobs { jobs })
    }

    /// Reserves ready jobs of several topics.
    #[must_use]
    pub fn pop_batch(topics: &[&str], request: &PopRequest) -> Self {
        let PopRequest { wait, ttr, max, ref worker } = *request;
        let pop = Pop { topics, max: max.max(1), wait, ttr, worker: worker.as_deref() };
        Self::post("batch pop", "/batch/pop").wait(wait).repeat(Repeat::IfNotSent).json(&pop)
    }
}

/// Every call fails with [`Error`]; [`Repeat`] says which failures lead to another attempt.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// Adds up to 1,000 jobs. Is repeated only when that is safe for [each of them](NewJob::is_repeatable).
    pub async fn add_batch(&self, jobs: &[NewJob]) -> Result<Vec<BatchItem>, Error> {
        let is_repeatable = jobs.iter().all(NewJob::is_repeatable);
        let repeat = if is_repeatable { Repeat::Safe } else { Repeat::IfNotSent };
        self.items(Request::add_batch(jobs).repeat(repeat), jobs.len()).await
    }

    /// Reserves up to `request.max` ready jobs of several topics, the most urgent topic first. Is not repeated
    /// once it was sent.
    pub async fn pop_batch(&self, topics: &[&str], request: &PopRequest) -> Result<Vec<ReservedJob>, Error> {
        #[derive(Deserialize)]
        struct Reserved {
            jobs: Vec<ReservedJob>,
        }
        let answer = self.send(&Request::pop_batch(topics, request)).await?;
        Ok(answer.read::<Reserved>()?.jobs)
    }

    /// Finishes up to 1,000 jobs, each with its receipt. A repeat may say 404 of what the first attempt finished.
    pub async fn finish_batch(&self, jobs: &[(&str, Option<&str>)]) -> Result<Vec<BatchItem>, Error> {
        let finished: Vec<_> = jobs.iter().map(|&(id, receipt)| Finish { id, receipt }).collect();
        let call = Request::post("batch finish", "/batch/finish").json(&Jobs { jobs: finished });
        self.items(call, jobs.len()).await
    }

    /// Returns up to 1,000 reserved jobs to the queue, each with its receipt. A repeat may say 409 of what the first attempt
    /// released.
    pub async fn release_batch(
        &self,
        jobs: &[(&str, &str)],
        release: &ReleaseRequest,
    ) -> Result<Vec<BatchItem>, Error> {
        self.hold_batch(Request::post("batch release", "/batch/release"), jobs, release).await
    }

    /// Extends up to 1,000 reservations to now plus `ttr`, or plus each job's own TTR. A note is set for all of them.
    pub async fn touch_batch(
        &self,
        jobs: &[(&str, &str)],
        touch: impl Into<TouchRequest>,
    ) -> Result<Vec<BatchItem>, Error> {
        self.hold_batch(Request::post("batch touch", "/batch/touch"), jobs, &touch.into()).await
    }

    /// Makes up to 1,000 reserved jobs dead letters. A repeat may say 409 of what the first attempt buried.
    pub async fn bury_batch(
        &self,
        jobs: &[(&str, &str)],
        reason: Option<&str>,
    ) -> Result<Vec<BatchItem>, Error> {
        self.hold_batch(Request::post("batch bury", "/batch/bury"), jobs, &Reason { reason }).await
    }

    async fn hold_batch(
        &self,
        call: Request,
        jobs: &[(&str, &str)],
        more: &impl Serialize,
    ) -> Result<Vec<BatchItem>, Error> {
        let held: Vec<_> = jobs.iter().map(|&(id, receipt)| Holding { id, receipt, more }).collect();
        self.items(call.json(&Jobs { jobs: held }), jobs.len()).await
    }

    /// Deletes up to 1,000 jobs in any state. A repeat may say 404 of what the first attempt deleted.
    pub async fn delete_batch(&self, ids: &[&str]) -> Result<Vec<BatchItem>, Error> {
        #[derive(Serialize)]
        struct Ids<'a> {
            ids: &'a [&'a str],
        }
        self.items(Request::post("batch delete", "/batch/delete").json(&Ids { ids }), ids.len()).await
    }

    /// Sends a batch; there is one result for each of `count` items.
    async fn items(&self, call: Request, count: usize) -> Result<Vec<BatchItem>, Error> {
        #[derive(Deserialize)]
        struct Item {
            status: u16,
            id: Option<String>,
            #[serde(default)]
            replaced: bool,
            ended: Option<Ended>,
            problem: Option<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Results {
            results: Vec<Item>,
        }
        let response = self.send(&call).await?;
        let results = response.read::<Results>()?.results;
        if results.len() != count {
            return Err(response.unreadable(&format_args!("{} results for {count} items", results.len())));
        }
        let refusal = |status, problem: Box<RawValue>| {
            Refusal::new(status, None, String::from(Box::<str>::from(problem)).into())
        };
        let item = |Item { status, id, replaced, ended, problem }| BatchItem {
            status,
            id,
            replaced,
            ended,
            refusal: problem.map(|problem| refusal(status, problem)),
        };
        Ok(results.into_iter().map(item).collect())
    }
}
