//! The calls of a bench over one connection, by the client library. Owns which answers count as failures.

use std::{fmt, net::SocketAddr, time::Duration};

use bytes::Bytes;
use hyper::Method;
use linger_client::{
    Added, BatchItem, Client, Counts, Error, FinishedJob, Job, NewJob, NewSchedule, Options, PopRequest,
    Repeat, Request, ReservedJob, ServerUrl, Timestamp, Version,
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};
use tokio::net::{TcpStream, lookup_host};

use crate::failure::Failure;

/// How long connecting may take while the server is looked for.
const CONNECT: Duration = Duration::from_secs(5);

/// Finds the server at `authority`, a host and a port. All connections go to the address that answered first:
/// a name that moves on would mix the figures of several servers.
pub(crate) async fn find_server(authority: &str, token: Option<&str>) -> Result<Client, Failure> {
    let unfit = |error: &dyn std::fmt::Display| Failure::Unfit(format!("{authority}: {error}"));
    let mut reached = Err(unfit(&"has no address"));
    for address in lookup_host(authority).await.map_err(|error| unfit(&error))? {
        reached = try_address(address).await.map_err(|error| unfit(&error));
        if reached.is_ok() {
            break;
        }
    }
    let address = Some(reached?);
    let options = Options { token: token.map(str::to_owned), address, ..Options::default() };
    Client::new(&ServerUrl::new(authority, false), options).map_err(|error| unfit(&error))
}

async fn try_address(address: SocketAddr) -> Result<SocketAddr, String> {
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let connected = connected.map_err(|_| format!("{address}: not connected within {CONNECT:?}"))?;
    connected.map(|_| address).map_err(|error| format!("{address}: {error}"))
}

/// One connection, made when it is first needed, and again when the server closed it between two calls. It
/// sends no call again, but one that the server has not begun because it was paused: a bench that repeats calls measures
/// something else, and the time of a pause counts as that of the call.
#[derive(Debug)]
pub(crate) struct Connection(Client);

impl Connection {
    pub fn new(server: &Client) -> Self {
        Self(server.single_connection())
    }

    /// Connects, so that the first call need not.
    pub async fn open(&self) -> Result<(), Failure> {
        Ok(self.0.connect().await?)
    }

    /// Adds jobs: one by itself, several as a batch.
    pub async fn add(&self, jobs: &[NewJob]) -> Result<(), Failure> {
        if let [job] = jobs {
            return self.add_one(job).await.map(drop);
        }
        expect_all(self.0.add_batch(jobs).await?, "batch add", 201)
    }

    /// Adds one job; fails if the server has it already. Returns when it was made, by the server's clock.
    pub async fn add_one(&self, job: &NewJob) -> Result<Timestamp, Failure> {
        match self.0.add(job).await? {
            Added::Created(job) => Ok(job.created_at),
            Added::Replaced(Job { id, .. })
            | Added::Repeated(Job { id, .. })
            | Added::Finished(FinishedJob { id, .. }) => {
                Err(Failure::Unfit(format!("add: the server has had job {id} before")))
            }
        }
    }

    /// Pops up to `max` jobs, of which the first may be waited for.
    pub async fn pop(&self, topic: &str, max: usize, wait: Duration) -> Result<Vec<ReservedJob>, Failure> {
        let request = PopRequest { wait, max, ..PopRequest::default() };
        if max > 1 {
            return Ok(self.0.pop_batch(&[topic], &request).await?);
        }
        Ok(self.0.pop(topic, &request).await?.into_iter().collect())
    }

    /// Finishes jobs: one by itself, several as a batch.
    pub async fn finish(&self, jobs: &[ReservedJob]) -> Result<(), Failure> {
        if let [job] = jobs {
            return Ok(self.0.finish(&job.id, Some(&job.receipt)).await?);
        }
        let jobs: Vec<_> = jobs.iter().map(|job| (job.id.as_str(), Some(job.receipt.as_str()))).collect();
        expect_all(self.0.finish_batch(&jobs).await?, "batch finish", 204)
    }

    /// Deletes every job of a topic; how many there were.
    pub async fn purge(&self, topic: &str) -> Result<u64, Failure> {
        Ok(self.0.purge(topic).await?)
    }

    /// A topic's counts and the number of polls that wait for it; zeros where the server knows no such topic.
    pub async fn topic(&self, topic: &str) -> Result<(Counts, usize), Failure> {
        let found = self.0.topic(topic).await?;
        Ok(found.map_or_else(Default::default, |topic| (topic.counts, topic.waiting)))
    }

    /// Sets the URL that the server calls for the jobs of a topic; `None` ends the calls. Resets the other settings.
    pub async fn set_callback(&self, topic: &str, url: Option<&str>) -> Result<(), Failure> {
        let settings = url.map_or_else(|| json!({}), |url| json!({"callback": {"url": url}}));
        Ok(self.0.put_settings(topic, &settings).await?)
    }

    /// Makes a schedule; fails if the server has it already.
    pub async fn put_schedule(&self, name: &str, schedule: &NewSchedule) -> Result<(), Failure> {
        let put = self.0.put_schedule(name, schedule, None).await?;
        put.is_new.then_some(()).ok_or_else(|| {
            Failure::Unfit(format!("put schedule: the server has had the schedule {name} before"))
        })
    }

    /// Deletes a schedule; whether there was one.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.0.delete_schedule(name).await?)
    }

    /// The delayed jobs of a topic, or of all, by due time: from a moment on, or from now.
    pub async fn timeline(
        &self,
        topic: Option<&str>,
        from: Option<Timestamp>,
        span: &str,
    ) -> Result<Timeline, Failure> {
        let topic = topic.map_or(String::new(), |topic| format!("&topic={topic}"));
        let from = from.map_or(String::new(), |from| format!("&from={from}"));
        self.read("timeline", Method::GET, format!("/timeline?span={span}{from}{topic}"), None).await
    }

    /// A page of jobs.
    pub async fn list(&self, query: &str) -> Result<JobPage, Failure> {
        self.read("list", Method::GET, format!("/jobs?{query}"), None).await
    }

    /// Starts an operation that has up to `limit` delayed jobs of a topic due a minute later.
    pub async fn start_shift(&self, id: &str, topic: &str, limit: u64) -> Result<Operation, Failure> {
        let filter = json!({"topic": topic, "state": "delayed"});
        let (action, shift) = ("reschedule", "1m");
        let asked = json!({"id": id, "action": action, "shift": shift, "filter": filter, "dry_run": false, "limit": limit});
        self.read("bulk change", Method::POST, "/bulk".to_owned(), Some(asked)).await
    }

    /// A bulk operation.
    pub async fn operation(&self, id: &str) -> Result<Operation, Failure> {
        self.read("bulk operation", Method::GET, format!("/bulk/{id}"), None).await
    }

    /// Stops a bulk operation, and waits until it has ended.
    pub async fn stop_operation(&self, id: &str) -> Result<Operation, Failure> {
        self.read("stop", Method::POST, format!("/bulk/{id}/stop"), None).await
    }

    /// Reads something that is JSON, and throws it away.
    pub async fn visit(&self, path: &str) -> Result<(), Failure> {
        self.read::<IgnoredAny>("view", Method::GET, path.to_owned(), None).await.map(drop)
    }

    /// Makes a call that the client library has no method for.
    async fn read<T: DeserializeOwned>(
        &self,
        name: &'static str,
        method: Method,
        path: String,
        body: Option<Value>,
    ) -> Result<T, Failure> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request {
            name,
            method,
            path,
            body,
            if_revision: None,
            wait: Duration::ZERO,
            repeat: Repeat::IfNotSent,
        };
        Ok(self.0.send(&request).await?.read()?)
    }

    /// The metrics of the server, as text; none when the token does not allow to read them.
    pub async fn metrics(&self) -> Result<Option<String>, Failure> {
        let response = self.0.call(Method::GET, "/metrics", Bytes::new()).await?;
        let is_allowed = !matches!(response.status, 401 | 403);
        let text = |body: &Bytes| String::from_utf8_lossy(body).into_owned();
        is_allowed.then(|| Ok(text(&response.success()?.body))).transpose()
    }

    pub async fn version(&self) -> Result<Version, Failure> {
        Ok(self.0.version().await?)
    }
}

/// What a bench reads of a timeline.
#[derive(Debug, Deserialize)]
pub(crate) struct Timeline {
    /// When it was read, by the server's clock.
    pub now: Timestamp,
    counts: Vec<u64>,
    outside: u64,
    ready: u64,
    reserved: u64,
}

impl Timeline {
    /// All jobs but the dead ones.
    pub fn jobs(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.outside + self.ready + self.reserved
    }
}

/// What a bench reads of a page of jobs.
#[derive(Debug, Deserialize)]
pub(crate) struct JobPage {
    pub jobs: Vec<ListedJob>,
    /// There may be more.
    pub next_cursor: Option<String>,
    pub examined: usize,
}

/// What a bench reads of a job on a page.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedJob {
    pub topic: String,
    pub due_at: Timestamp,
}

/// What a bench reads of a bulk operation.
#[derive(Debug, Deserialize)]
pub(crate) struct Operation {
    pub state: String,
    pub changed: u64,
    skipped: u64,
    error: Option<String>,
}

impl Operation {
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, changed, skipped, error } = self;
        write!(f, "{state} after {changed} changed and {skipped} skipped")?;
        error.iter().try_for_each(|error| write!(f, ": {error}"))
    }
}

/// Fails where an item of a batch has another status.
fn expect_all(items: Vec<BatchItem>, call: &'static str, status: u16) -> Result<(), Failure> {
    match items.into_iter().find(|item| item.status != status) {
        None => Ok(()),
        Some(BatchItem { refusal: Some(refusal), .. }) => {
            Err(Error::Refused { call, refusal: Box::new(refusal) }.into())
        }
        Some(BatchItem { status, .. }) => Err(Failure::Unfit(format!("{call}: the server answers {status}"))),
    }
}
