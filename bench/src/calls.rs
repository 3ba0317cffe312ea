//! The calls of a bench over one connection, by the client library. Owns which answers count as failures.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use hyper::Method;
use linger_client::{
    BatchItem, Client, Counts, Error, NewJob, Options, PopRequest, ReservedJob, ServerUrl, Timestamp, Version,
};
use serde_json::json;
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
/// never sends a call again: a bench that repeats calls measures something else.
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

    /// Adds one job, which nobody has added before; when the server made it, by the server's clock.
    pub async fn add_one(&self, job: &NewJob) -> Result<Timestamp, Failure> {
        let added = self.0.add(job).await?;
        if added.is_repeat {
            return Err(Failure::Unfit(format!("add: the server has had job {} before", added.job.id)));
        }
        Ok(added.job.created_at)
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

    /// Sets whom the server calls for the jobs of a topic; with no URL, nobody. Resets the other settings.
    pub async fn set_callback(&self, topic: &str, url: Option<&str>) -> Result<(), Failure> {
        let settings = url.map_or_else(|| json!({}), |url| json!({"callback": {"url": url}}));
        Ok(self.0.put_settings(topic, &settings).await?)
    }

    /// The metrics of the server, as text.
    pub async fn metrics(&self) -> Result<String, Failure> {
        let response = self.0.call(Method::GET, "/metrics", Bytes::new()).await?;
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    pub async fn version(&self) -> Result<Version, Failure> {
        Ok(self.0.version().await?)
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
