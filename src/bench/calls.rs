//! The calls that a bench makes, written and read with no more than they need. Owns the JSON; times nothing.

use std::{fmt::Write, time::Duration};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;

use super::{
    Failure,
    client::{Answer, Call, Connection},
};
use crate::job::{Timestamp, format_seconds};

/// A delivery.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Delivered {
    pub id: String,
    pub receipt: String,
}

/// What `GET /version` says.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Version {
    pub version: String,
    pub engine: String,
    pub engine_version: String,
    pub durability: String,
}

/// A topic's counts.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Counts {
    pub delayed: u64,
    pub ready: u64,
    pub reserved: u64,
    pub dead: u64,
}

/// A topic as the server sees it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TopicNow {
    pub counts: Counts,
    pub waiting: usize,
}

/// When a job is to be due, as a request says it.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    In(Duration),
    At(Timestamp),
}

/// A job as an add writes it. `body` is JSON; names hold nothing that JSON would escape.
pub(super) fn job_text(topic: &str, id: &str, ttr: Duration, when: When, body: &str) -> String {
    let mut text = format!(r#"{{"topic":"{topic}","id":"{id}","ttr":{}"#, format_seconds(ttr));
    let written = match when {
        When::In(delay) => write!(text, r#","delay":{}"#, format_seconds(delay)),
        When::At(moment) => write!(text, r#","at":"{moment}""#),
    };
    written.and_then(|()| write!(text, r#","body":{body}}}"#)).expect("a text takes everything");
    text
}

impl Connection {
    /// Adds jobs as [`job_text`] writes them: one by itself, several as a batch.
    pub async fn add(&mut self, jobs: &[String]) -> Result<(), Failure> {
        if let [job] = jobs {
            let answer = self.post("add", "/jobs".to_owned(), job.clone()).await?;
            return answer.expect(201).map(drop);
        }
        let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
        self.post("add of a batch", "/batch/jobs".to_owned(), body).await?.all(jobs.len(), 201)
    }

    /// Adds one job; the moment at which the server made it, by the server's clock.
    pub async fn add_and_see(&mut self, job: String) -> Result<Timestamp, Failure> {
        #[derive(Deserialize)]
        struct Job {
            created_at: String,
        }
        let answer = self.post("add", "/jobs".to_owned(), job).await?.expect(201)?;
        let created_at = answer.read::<Job>()?.created_at;
        Timestamp::parse(&created_at).map_err(|error| answer.unreadable(&error))
    }

    /// Pops up to `most` jobs, of which the first may be waited for.
    pub async fn pop(&mut self, topic: &str, most: usize, wait: Duration) -> Result<Vec<Delivered>, Failure> {
        if most > 1 {
            return self.pop_batch(topic, most, wait).await;
        }
        let path = format!("/topics/{topic}/pop?wait={}", format_seconds(wait));
        let call = Call { name: "pop", method: Method::GET, path, body: Bytes::new(), wait };
        let answer = self.call(call).await?;
        if answer.status == 204 { Ok(Vec::new()) } else { Ok(vec![answer.expect(200)?.read()?]) }
    }

    async fn pop_batch(
        &mut self,
        topic: &str,
        most: usize,
        wait: Duration,
    ) -> Result<Vec<Delivered>, Failure> {
        #[derive(Deserialize)]
        struct Jobs {
            jobs: Vec<Delivered>,
        }
        let body = format!(r#"{{"topics":["{topic}"],"max":{most},"wait":{}}}"#, format_seconds(wait));
        let (name, path) = ("pop of a batch", "/batch/pop".to_owned());
        let call = Call { name, method: Method::POST, path, body: body.into(), wait };
        Ok(self.call(call).await?.expect(200)?.read::<Jobs>()?.jobs)
    }

    /// Finishes jobs: one by itself, several as a batch.
    pub async fn finish(&mut self, jobs: &[Delivered]) -> Result<(), Failure> {
        if let [Delivered { id, receipt }] = jobs {
            let path = format!("/jobs/{id}/finish?receipt={receipt}");
            return self.post("finish", path, String::new()).await?.expect(204).map(drop);
        }
        let written = jobs
            .iter()
            .map(|Delivered { id, receipt }| format!(r#"{{"id":"{id}","receipt":"{receipt}"}}"#))
            .collect::<Vec<_>>()
            .join(",");
        let body = format!(r#"{{"jobs":[{written}]}}"#);
        self.post("finish of a batch", "/batch/finish".to_owned(), body).await?.all(jobs.len(), 204)
    }

    /// Deletes every job of a topic; how many there were.
    pub async fn purge(&mut self, topic: &str) -> Result<u64, Failure> {
        #[derive(Deserialize)]
        struct Deleted {
            deleted: u64,
        }
        let (name, path) = ("delete of a topic", format!("/topics/{topic}?confirm={topic}"));
        // A million jobs take their time.
        let wait = Duration::from_secs(120);
        let call = Call { name, method: Method::DELETE, path, body: Bytes::new(), wait };
        Ok(self.call(call).await?.expect(200)?.read::<Deleted>()?.deleted)
    }

    /// The topic now; an empty one where the server knows none.
    pub async fn topic(&mut self, topic: &str) -> Result<TopicNow, Failure> {
        let answer = self.get("look at a topic", format!("/topics/{topic}")).await?;
        if answer.status == 404 { Ok(TopicNow::default()) } else { answer.expect(200)?.read() }
    }

    /// What runs there.
    pub async fn version(&mut self) -> Result<Version, Failure> {
        self.get("version", "/version".to_owned()).await?.expect(200)?.read()
    }

    async fn get(&mut self, name: &'static str, path: String) -> Result<Answer, Failure> {
        let (method, body, wait) = (Method::GET, Bytes::new(), Duration::ZERO);
        self.call(Call { name, method, path, body, wait }).await
    }

    async fn post(&mut self, name: &'static str, path: String, body: String) -> Result<Answer, Failure> {
        let wait = Duration::ZERO;
        self.call(Call { name, method: Method::POST, path, body: body.into(), wait }).await
    }
}

impl Answer {
    fn expect(self, status: u16) -> Result<Self, Failure> {
        if self.status == status { Ok(self) } else { Err(self.refused(self.status, &self.body)) }
    }

    /// Refuses a batch of which not each of `jobs` items has this status.
    fn all(self, jobs: usize, status: u16) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Item {
            status: u16,
            #[serde(default)]
            problem: serde_json::Value,
        }
        #[derive(Deserialize)]
        struct Results {
            results: Vec<Item>,
        }
        let answer = self.expect(200)?;
        let results = answer.read::<Results>()?.results;
        if let Some(item) = results.iter().find(|item| item.status != status) {
            return Err(answer.refused(item.status, item.problem.to_string().as_bytes()));
        }
        if results.len() == jobs {
            return Ok(());
        }
        Err(answer.unreadable(&format_args!("{} results for {jobs} jobs", results.len())))
    }

    fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::Broken { call: self.call, error: format!("the answer is not as it should be: {why}") }
    }

    /// With the problem's own words, if it has any.
    fn refused(&self, status: u16, body: &[u8]) -> Failure {
        #[derive(Deserialize)]
        struct Problem {
            code: String,
            detail: String,
        }
        let detail = serde_json::from_slice(body).map_or_else(
            |_| String::from_utf8_lossy(body).chars().take(200).collect(),
            |Problem { code, detail }| format!("{code}, {detail}"),
        );
        Failure::Refused { call: self.call, status, detail }
    }
}
