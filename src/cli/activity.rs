//! `linger callbacks` and `linger workers`: the endpoints that are called, and the workers that poll for jobs or have reserved some.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use linger_client::{Request, Response, Timestamp};
use serde::Deserialize;

use super::{
    exit::{Exit, Failure},
    session::{ReadArgs, Session},
    text::{Wording, counted, grouped, table},
};
use crate::messages::printable::escape_line;

/// How long other processes take to publish their part once it is asked for.
const SETTLING: Duration = Duration::from_millis(3_500);

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
    topic: String,
    host: String,
    in_flight: u64,
    window: u64,
    resting_until: Option<Timestamp>,
    last_failure: Option<LastFailure>,
    minute: Option<EndedCalls>,
}

#[derive(Deserialize)]
struct EndedCalls {
    calls: u64,
    succeeded: u64,
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
        complete: bool,
    }
    read.run("callbacks", async |session| {
        let request = topic.as_deref().map_or_else(Request::all_callbacks, Request::callbacks);
        let response = settled(session, &request).await?;
        session.print(&response, |CalledHosts { endpoints, complete }| {
            let wording = session.wording();
            let lines = endpoints.iter().map(|endpoint| endpoint.line(&wording));
            let none = endpoints.is_empty().then(|| "no endpoint was called lately".to_owned());
            none.into_iter().chain(lines).chain(missing(complete)).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    })
}

impl CalledHost {
    /// `orders  https://shop.example:443  0 of at most 1 call in progress  12 calls in the last minute, 12 failed  next call in 30s (06:11:00)  connect 1m ago`.
    fn line(&self, wording: &Wording) -> String {
        let calls =
            format!("{} of at most {} in progress", grouped(self.in_flight), counted(self.window, "call"));
        let minute = self.minute.as_ref().map(|EndedCalls { calls, succeeded }| {
            let failed = calls.saturating_sub(*succeeded);
            let failed = if failed > 0 { format!(", {} failed", grouped(failed)) } else { String::new() };
            format!("{} in the last minute{failed}", counted(*calls, "call"))
        });
        let next = self.resting_until.map(|until| format!("next call {}", wording.relative(until)));
        let failure = self.last_failure.as_ref().map(|failure| {
            format!("last failure {} {}", escape_line(&failure.reason), wording.distance(failure.at))
        });
        let host = escape_line(&self.host).into_owned();
        let topic = escape_line(&self.topic).into_owned();
        [Some(topic), Some(host), Some(calls), minute, next, failure]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("  ")
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
        let response = settled(session, &Request::workers(topic.as_deref())).await?;
        session.print(&response, |Workers { workers, complete }| {
            if workers.is_empty() {
                let none = "no worker has polled in the last minute or has reserved a job".to_owned();
                return [none].into_iter().chain(missing(complete)).collect::<Vec<_>>().join("\n");
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

/// The answer to a call, once more if the first may lack other processes.
async fn settled(session: &Session, request: &Request) -> Result<Response, Failure> {
    #[derive(Deserialize)]
    struct Completeness {
        complete: bool,
    }
    let first = session.call(request).await?;
    if session.read::<Completeness>(&first)?.complete {
        return Ok(first);
    }
    session.clock.sleep(SETTLING).await;
    session.call(request).await
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
                r#"{"topic":"orders","host":"https://shop.example:443","in_flight":0,"window":1,"resting_until":"2026-11-21T06:11:00.000Z",
                "minute":{"calls":1200,"succeeded":1},"last_failure":{"at":"2026-11-21T06:10:00.000Z","reason":"connect"}}"#
            ),
            "orders  https://shop.example:443  0 of at most 1 call in progress  1,200 calls in the last minute, 1,199 failed  next call in 30s (06:11:00)  last failure connect 30s ago"
        );
        let well = line(
            r#"{"topic":"pay","host":"http://h:1","in_flight":3,"window":16,"minute":{"calls":1,"succeeded":1}}"#,
        );
        assert_eq!(well, "pay  http://h:1  3 of at most 16 calls in progress  1 call in the last minute");
        let of_older = line(r#"{"topic":"pay","host":"http://h:1","in_flight":3,"window":16}"#);
        assert_eq!(of_older, "pay  http://h:1  3 of at most 16 calls in progress");
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
