//! Calls for one job.

use hyper::Method;
use serde::Serialize;

use crate::{
    client::Client,
    durations::duration_text,
    error::Error,
    model::{Added, Job, PopRequest, ReleaseRequest, ReservedJob, TouchRequest},
    new_job::{JobPatch, NewJob, Requeue},
    request::{Repeat, Request, Response, segment},
};

/// What the holder of a reservation sends.
#[derive(Serialize)]
struct Holding<'a, T> {
    receipt: &'a str,
    #[serde(flatten)]
    more: T,
}

#[derive(Serialize)]
pub(crate) struct Reason<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

/// The calls as data, for callers that send them with [`Client::send`] and read the response themselves.
impl Request {
    /// Adds a job. Is repeated only when that is [safe](NewJob::is_repeatable).
    #[must_use]
    pub fn add(job: &NewJob) -> Self {
        let repeat = if job.is_repeatable() { Repeat::Safe } else { Repeat::IfNotSent };
        Self::post("add", "/jobs").json(job).repeat(repeat)
    }

    /// Reserves the next ready job of a topic.
    #[must_use]
    pub fn pop(topic: &str, request: &PopRequest) -> Self {
        let mut path = format!("/topics/{}/pop?wait={}", segment(topic), duration_text(request.wait));
        if let Some(ttr) = request.ttr {
            path += &format!("&ttr={}", duration_text(ttr));
        }
        if let Some(worker) = &request.worker {
            path += &format!("&worker={}", segment(worker));
        }
        Self::get("pop", path).wait(request.wait).repeat(Repeat::IfNotSent)
    }

    /// Finishes a job.
    #[must_use]
    pub fn finish(id: &str, receipt: Option<&str>) -> Self {
        let query = receipt.map_or(String::new(), |receipt| format!("?receipt={}", segment(receipt)));
        Self::post("finish", format!("/jobs/{}/finish{query}", segment(id))).repeat(Repeat::SafeUntilGone)
    }

    /// Gives a reserved job back.
    #[must_use]
    pub fn release(id: &str, receipt: &str, release: &ReleaseRequest) -> Self {
        Self::hold("release", id, receipt, release)
    }

    /// Extends a reservation.
    #[must_use]
    pub fn touch(id: &str, receipt: &str, touch: impl Into<TouchRequest>) -> Self {
        Self::hold("touch", id, receipt, touch.into())
    }

    /// Makes a reserved job a dead letter.
    #[must_use]
    pub fn bury(id: &str, receipt: &str, reason: Option<&str>) -> Self {
        Self::hold("bury", id, receipt, Reason { reason })
    }

    /// Takes a reserved job back from its worker. With the number of an attempt, only if that is the present one, so that the call
    /// may be repeated.
    #[must_use]
    pub fn revoke(id: &str, attempt: Option<u32>, release: &ReleaseRequest) -> Self {
        #[derive(Serialize)]
        struct Revoke<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            attempt: Option<u32>,
            #[serde(flatten)]
            release: &'a ReleaseRequest,
        }
        let repeat = if attempt.is_some() { Repeat::Safe } else { Repeat::IfNotSent };
        Self::post("revoke", format!("/jobs/{}/revoke", segment(id)))
            .json(&Revoke { attempt, release })
            .repeat(repeat)
    }

    /// Requeues a dead letter.
    #[must_use]
    pub fn requeue(id: &str, requeue: impl Into<Requeue>) -> Self {
        Self::post("requeue", format!("/jobs/{}/requeue", segment(id))).json(&requeue.into())
    }

    /// Changes a delayed or ready job in place.
    #[must_use]
    pub fn patch(id: &str, patch: &JobPatch) -> Self {
        Self::new("patch", Method::PATCH, format!("/jobs/{}", segment(id))).json(patch)
    }

    /// Reads a job.
    #[must_use]
    pub fn job(id: &str) -> Self {
        Self::get("get", format!("/jobs/{}", segment(id)))
    }

    /// Deletes a job in any state.
    #[must_use]
    pub fn delete(id: &str) -> Self {
        Self::new("delete", Method::DELETE, format!("/jobs/{}", segment(id))).repeat(Repeat::SafeUntilGone)
    }

    /// Deletes a job unless a worker holds it, which is refused with the code `job_reserved`.
    #[must_use]
    pub fn delete_unless_reserved(id: &str) -> Self {
        let path = format!("/jobs/{}?unless_reserved=true", segment(id));
        Self::new("delete", Method::DELETE, path).repeat(Repeat::SafeUntilGone)
    }

    /// A call by the holder of a reservation.
    fn hold(step: &'static str, id: &str, receipt: &str, more: impl Serialize) -> Self {
        Self::post(step, format!("/jobs/{}/{step}", segment(id))).json(&Holding { receipt, more })
    }
}

/// Every call fails with [`Error`]; [`Repeat`] says which failures lead to another attempt.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// Adds a job. Is repeated only when that is [safe](NewJob::is_repeatable).
    pub async fn add(&self, job: &NewJob) -> Result<Added, Error> {
        Added::read(&self.send(&Request::add(job)).await?)
    }

    /// Reserves the next ready job of a topic. Is not repeated once it was sent: a job that an attempt without
    /// an answer reserved comes back after its TTR.
    pub async fn pop(&self, topic: &str, request: &PopRequest) -> Result<Option<ReservedJob>, Error> {
        let response = self.send(&Request::pop(topic, request)).await?;
        if response.status == 204 { Ok(None) } else { response.read().map(Some) }
    }

    /// Finishes a job: it is done and gone. Without a receipt, whichever client holds it.
    pub async fn finish(&self, id: &str, receipt: Option<&str>) -> Result<(), Error> {
        self.send(&Request::finish(id, receipt)).await?.done().map(drop)
    }

    /// Gives a reserved job back. A repeat may be refused with 409 for what the first attempt did.
    pub async fn release(&self, id: &str, receipt: &str, release: &ReleaseRequest) -> Result<Job, Error> {
        self.send(&Request::release(id, receipt, release)).await?.read()
    }

    /// Extends a reservation to `ttr` from now, or to the job's own TTR from now, and sets the job's note if there is one.
    pub async fn touch(&self, id: &str, receipt: &str, touch: impl Into<TouchRequest>) -> Result<Job, Error> {
        self.send(&Request::touch(id, receipt, touch)).await?.read()
    }

    /// Makes a reserved job a dead letter. A repeat may be refused with 409 for what the first attempt did.
    pub async fn bury(&self, id: &str, receipt: &str, reason: Option<&str>) -> Result<Job, Error> {
        self.send(&Request::bury(id, receipt, reason)).await?.read()
    }

    /// Takes a reserved job back from its worker, at once unless `due` says otherwise. With the number of an attempt, only if that is
    /// the present one, and a repeat may be refused with 409 for what the first call did; without it, the call is not repeated.
    pub async fn revoke(
        &self,
        id: &str,
        attempt: Option<u32>,
        release: &ReleaseRequest,
    ) -> Result<Job, Error> {
        self.send(&Request::revoke(id, attempt, release)).await?.read()
    }

    /// Requeues a dead letter, ready now unless `due` says otherwise. A repeat may be refused with 409 for what the first
    /// attempt did.
    pub async fn requeue(&self, id: &str, requeue: impl Into<Requeue>) -> Result<Job, Error> {
        self.send(&Request::requeue(id, requeue)).await?.read()
    }

    /// Changes a delayed or ready job in place. A repeat counts a delay anew.
    pub async fn patch(&self, id: &str, patch: &JobPatch) -> Result<Job, Error> {
        self.send(&Request::patch(id, patch)).await?.read()
    }

    /// The job as it is now; none when there is no such job.
    pub async fn get(&self, id: &str) -> Result<Option<Job>, Error> {
        let answer = self.send(&Request::job(id)).await;
        absent(answer, "job_not_found")?.map(|response| response.read()).transpose()
    }

    /// Deletes a job in any state; whether there was one. After a lost answer a missing job counts as deleted.
    pub async fn delete(&self, id: &str) -> Result<bool, Error> {
        was_there(self.send(&Request::delete(id)).await)
    }

    /// The same unless a worker holds the job, which is refused with the code `job_reserved`. After a lost answer a worker may have
    /// finished the missing job instead.
    pub async fn delete_unless_reserved(&self, id: &str) -> Result<bool, Error> {
        was_there(self.send(&Request::delete_unless_reserved(id)).await)
    }
}

/// Whether a delete found its job.
fn was_there(answer: Result<Response, Error>) -> Result<bool, Error> {
    let deleted = absent(answer, "job_not_found")?;
    Ok(deleted.map(Response::done).transpose()?.is_some())
}

/// None for a refusal with this code, which says that there is no such thing.
pub(crate) fn absent<T>(answer: Result<T, Error>, code: &str) -> Result<Option<T>, Error> {
    match answer {
        Err(failure) if failure.refusal().is_some_and(|refusal| refusal.code == code) => Ok(None),
        Err(failure) => Err(failure),
        Ok(found) => Ok(Some(found)),
    }
}
