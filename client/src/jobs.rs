//! Calls for one job.

use std::time::Duration;

use hyper::Method;
use serde::Serialize;

use crate::{
    client::Client,
    error::Error,
    model::{
        Added, Job, JobPatch, NewJob, PopRequest, ReleaseRequest, ReservedJob, duration_text, some_duration,
    },
    request::{Repeat, Request, segment},
};

/// What the holder of a reservation sends.
#[derive(Serialize)]
struct Holding<'a, T> {
    receipt: &'a str,
    #[serde(flatten)]
    more: T,
}

#[derive(Serialize)]
struct Ttr {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    ttr: Option<Duration>,
}

#[derive(Serialize)]
struct Reason<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Delay {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    delay: Option<Duration>,
}

/// Every call fails with [`Error`]; [`Repeat`] says which failures lead to another attempt.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// Adds a job. Is repeated only when the job has an id, by which the server recognises the repeat.
    pub async fn add(&self, job: &NewJob) -> Result<Added, Error> {
        let repeat = if job.id.is_some() { Repeat::Safe } else { Repeat::IfNotSent };
        let response = self.send(&Request::post("add", "/jobs").json(job).repeat(repeat)).await?;
        Ok(Added { job: response.read()?, is_repeat: response.status == 200 })
    }

    /// Reserves the next ready job of a topic. Is not repeated once it was sent: a job that an attempt without
    /// an answer reserved comes back after its TTR.
    pub async fn pop(&self, topic: &str, request: &PopRequest) -> Result<Option<ReservedJob>, Error> {
        let mut path = format!("/topics/{}/pop?wait={}", segment(topic), duration_text(request.wait));
        if let Some(ttr) = request.ttr {
            path += &format!("&ttr={}", duration_text(ttr));
        }
        if let Some(worker) = &request.worker {
            path += &format!("&worker={}", segment(worker));
        }
        let call = Request::get("pop", path).wait(request.wait).repeat(Repeat::IfNotSent);
        let response = self.send(&call).await?;
        if response.status == 204 { Ok(None) } else { response.read().map(Some) }
    }

    /// Finishes a job: it is done and gone. Without a receipt, whoever holds it.
    pub async fn finish(&self, id: &str, receipt: Option<&str>) -> Result<(), Error> {
        let query = receipt.map_or(String::new(), |receipt| format!("?receipt={}", segment(receipt)));
        let call = Request::post("finish", format!("/jobs/{}/finish{query}", segment(id)));
        self.send(&call.repeat(Repeat::SafeUntilGone)).await.map(drop)
    }

    /// Gives a reserved job back. A repeat may be refused with 409 for what the first attempt did.
    pub async fn release(&self, id: &str, receipt: &str, release: &ReleaseRequest) -> Result<Job, Error> {
        self.hold("release", id, receipt, release).await
    }

    /// Extends a reservation to `ttr` from now, or to the job's own TTR from now.
    pub async fn touch(&self, id: &str, receipt: &str, ttr: Option<Duration>) -> Result<Job, Error> {
        self.hold("touch", id, receipt, Ttr { ttr }).await
    }

    /// Makes a reserved job a dead letter. A repeat may be refused with 409 for what the first attempt did.
    pub async fn bury(&self, id: &str, receipt: &str, reason: Option<&str>) -> Result<Job, Error> {
        self.hold("bury", id, receipt, Reason { reason }).await
    }

    /// Requeues a dead letter, ready now or after `delay`. A repeat may be refused with 409 for what the first
    /// attempt did.
    pub async fn requeue(&self, id: &str, delay: Option<Duration>) -> Result<Job, Error> {
        let call = Request::post("requeue", format!("/jobs/{}/requeue", segment(id)));
        self.send(&call.json(&Delay { delay })).await?.read()
    }

    /// Changes a delayed or ready job in place. A repeat counts a delay anew.
    pub async fn patch(&self, id: &str, patch: &JobPatch) -> Result<Job, Error> {
        let call = Request::new("patch", Method::PATCH, format!("/jobs/{}", segment(id)));
        self.send(&call.json(patch)).await?.read()
    }

    /// The job as it is now; none when there is no such job.
    pub async fn get(&self, id: &str) -> Result<Option<Job>, Error> {
        let answer = self.send(&Request::get("get", format!("/jobs/{}", segment(id)))).await;
        absent(answer, "job_not_found")?.map(|response| response.read()).transpose()
    }

    /// Deletes a job in any state; whether there was one. After a lost answer a missing job counts as deleted.
    pub async fn delete(&self, id: &str) -> Result<bool, Error> {
        let call = Request::new("delete", Method::DELETE, format!("/jobs/{}", segment(id)));
        let answer = self.send(&call.repeat(Repeat::SafeUntilGone)).await;
        Ok(absent(answer, "job_not_found")?.is_some())
    }

    async fn hold(
        &self,
        step: &'static str,
        id: &str,
        receipt: &str,
        more: impl Serialize,
    ) -> Result<Job, Error> {
        let call = Request::post(step, format!("/jobs/{}/{step}", segment(id)));
        self.send(&call.json(&Holding { receipt, more })).await?.read()
    }
}

/// None for a refusal with this code, which says that there is no such thing.
pub(crate) fn absent<T>(answer: Result<T, Error>, code: &str) -> Result<Option<T>, Error> {
    match answer {
        Err(failure) if failure.refusal().is_some_and(|refusal| refusal.code == code) => Ok(None),
        Err(failure) => Err(failure),
        Ok(found) => Ok(Some(found)),
    }
}
