//! `linger callbacks` and `linger workers`: which URLs the server calls, and which workers poll for jobs and hold them.

use std::process::ExitCode;

use clap::Args;
use linger_client::{Request, Timestamp};
use serde::Deserialize;

use super::{
    exit::Exit,
    session::ReadArgs,
    text::{Wording, counted, grouped, table},
};
use crate::messages::printable::escape_line;

/// Arguments of `linger callbacks`.
#[derive(Debug, Args)]
pub(super) struct CallbacksArgs {
    /// Name of the topic [default: all topics]
    topic: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger workers`.
#[derive(Debug, Args)]
pub(super) struct WorkersArgs {
    /// Name of the topic [default: all topics]
    topic: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
}

/// A host that is called.
#[derive(Deserialize)]
struct CalledHost {
    /// Not said if a topic was asked for.
    topic: Option<String>,
    host: String,
    in_flight: u64,
    window: u64,
    resting_until: Option<Timestamp>,
    last_failure: Option<LastFailure>,
}

#[derive(Deserialize)]
struct LastFailure {
    at: Timestamp,
    reason: String,
}

/// Runs `linger callbacks`.
pub(super) fn callbacks(CallbacksArgs { topic, read }: &CallbacksArgs) -> ExitCode {
    #[derive(Deserialize)]
    struct CalledHosts {
        endpoints: Vec<CalledHost>,
        #[serde(default = "is_complete")]
        complete: bool,
    }
    read.run("callbacks", async |session| {
        let request = topic.as_deref().map_or_else(Request::all_callbacks, Request::callbacks);
        let response = session.call(&request).await?;
        session.print(&response, |CalledHosts { endpoints, complete }| {
            if endpoints.is_empty() {
                return "no URL was called lately".to_owned();
            }
            let wording = session.wording();
            let lines = endpoints.iter().map(|endpoint| endpoint.line(&wording));
            lines.chain(missing(complete)).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    })
}

impl CalledHost {
    /// `https://shop.example:443  0 of at most 1 call in progress  next call in 30s (06:11:00)  connect 1m ago`.
    fn line(&self, wording: &Wording) -> String {
        let calls =
            format!("{} of at most {} in progress", grouped(self.in_flight), counted(self.window, "call"));
        let next = self.resting_until.map(|until| format!("next call {}", wording.relative(until)));
        let failure = self.last_failure.as_ref().map(|failure| {
            format!("last failure {} {}", escape_line(&failure.reason), wording.distance(failure.at))
        });
        let host = escape_line(&self.host).into_owned();
        let topic = self.topic.as_deref().map(|topic| escape_line(topic).into_owned());
        [topic, Some(host), Some(calls), next, failure].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}

/// A worker and a topic.
#[derive(Deserialize)]
struct WorkerRow {
    topic: String,
    worker: Option<String>,
    waiting: u64,
    polled_at: Option<Timestamp>,
    reserved: u64,
    oldest_reserved_at: Option<Timestamp>,
    /// For callers with the scope admin only.
    #[serde(default)]
    addresses: Vec<String>,
}

impl WorkerRow {
    fn row(&self, wording: &Wording) -> Vec<String> {
        let when = |at: Option<Timestamp>| at.map_or(String::new(), |at| wording.distance(at));
        let worker = self.worker.as_deref().unwrap_or_default();
        [
            escape_line(&self.topic).into_owned(),
            escape_line(worker).into_owned(),
            grouped(self.waiting),
            when(self.polled_at),
            grouped(self.reserved),
            when(self.oldest_reserved_at),
            self.addresses.join(", "),
        ]
        .to_vec()
    }
}

/// Runs `linger workers`.
pub(super) fn workers(WorkersArgs { topic, read }: &WorkersArgs) -> ExitCode {
    #[derive(Deserialize)]
    struct Workers {
        workers: Vec<WorkerRow>,
        complete: bool,
    }
    read.run("workers", async |session| {
        let response = session.call(&Request::workers(topic.as_deref())).await?;
        session.print(&response, |Workers { workers, complete }| {
            if workers.is_empty() {
                return "no worker has polled in the last minute or holds a job".to_owned();
            }
            let wording = session.wording();
            let names =
                ["TOPIC", "WORKER", "WAITING", "POLLED", "RESERVED", "OLDEST", "FROM"].map(str::to_owned);
            let rows = workers.iter().map(|worker| worker.row(&wording));
            let rows: Vec<Vec<String>> = [names.to_vec()].into_iter().chain(rows).collect();
            [table(&rows)].into_iter().chain(missing(complete)).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    })
}

/// What to say if not all rows are known.
fn missing(complete: bool) -> Option<String> {
    (!complete).then(|| "Some may be missing.".to_owned())
}

/// What servers that do not say it mean.
fn is_complete() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn an_endpoint_says_when_it_is_called_next_and_what_failed() {
        let wording = Wording::in_zone("2026-11-21T06:10:30Z".parse().expect("is a moment"), TimeZone::UTC);
        let line =
            |json: &str| serde_json::from_str::<CalledHost>(json).expect("is an endpoint").line(&wording);
        assert_eq!(
            line(
                r#"{"host":"https://shop.example:443","in_flight":0,"window":1,"resting_until":"2026-11-21T06:11:00.000Z",
                "last_failure":{"at":"2026-11-21T06:10:00.000Z","reason":"connect"}}"#
            ),
            "https://shop.example:443  0 of at most 1 call in progress  next call in 30s (06:11:00)  last failure connect 30s ago"
        );
        let well = line(r#"{"topic":"pay","host":"http://h:1","in_flight":3,"window":16}"#);
        assert_eq!(well, "pay  http://h:1  3 of at most 16 calls in progress");
    }

    #[test]
    fn a_worker_is_a_row_with_what_it_holds() {
        let wording = Wording::in_zone("2026-11-21T06:10:30Z".parse().expect("is a moment"), TimeZone::UTC);
        let row = |json: &str| serde_json::from_str::<WorkerRow>(json).expect("is a worker").row(&wording);
        let row = row(
            r#"{"topic":"mail","worker":"w-1","waiting":1,"polled_at":"2026-11-21T06:10:20.000Z","reserved":12,
            "oldest_reserved_at":"2026-11-21T06:08:30.000Z","addresses":["10.0.0.7"]}"#,
        );
        assert_eq!(row, ["mail", "w-1", "1", "10s ago", "12", "2m ago", "10.0.0.7"]);
    }
}
