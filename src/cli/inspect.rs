//! `linger stats`, `linger whoami` and `linger callbacks`: what the server says of the queue, of the caller, and of the URLs that it
//! calls for a topic.

use std::process::ExitCode;

use clap::Args;
use linger_client::{EventSummary, Request, Stats, Timestamp};
use serde::Deserialize;

use super::{
    exit::Exit,
    session::ReadArgs,
    text::{Wording, counted, grouped, span, table},
};
use crate::messages::printable::escape_line;

/// Arguments of `linger stats`.
#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    /// Also what happened in the last minute to the jobs of each topic
    #[arg(long)]
    by_topic: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger whoami`.
#[derive(Debug, Args)]
pub(super) struct WhoamiArgs {
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger callbacks`.
#[derive(Debug, Args)]
pub(super) struct CallbacksArgs {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs `linger stats`.
pub(super) fn stats(StatsArgs { by_topic, read }: &StatsArgs) -> ExitCode {
    read.run("stats", async |session| {
        let request = if *by_topic { Request::stats_by_topic() } else { Request::stats() };
        session.print(&session.call(&request).await?, |stats| stats_text(&stats))?;
        Ok(Exit::Done)
    })
}

fn stats_text(stats: &Stats) -> String {
    let counts = stats.counts;
    let numbers =
        [counts.delayed, counts.ready, counts.reserved, counts.dead].map(|number| number.to_string());
    let states = [["DELAYED", "READY", "RESERVED", "DEAD"].map(str::to_owned).to_vec(), numbers.to_vec()];
    let mut events = vec![
        ["IN THE LAST", "ADDED", "DELIVERED", "FINISHED", "DIED", "READY WITHIN"].map(str::to_owned).to_vec(),
    ];
    events.push(events_row("minute", &stats.minute));
    events.push(events_row("hour", &stats.hour));
    events.extend(
        stats.topics.iter().map(|topic| events_row(&format!("minute, {}", topic.topic), &topic.minute)),
    );
    let is_part = stats.topics_complete == Some(false);
    let processes = stats
        .processes
        .iter()
        .map(|process| format!("{} ({})", escape_line(&process.name), escape_line(&process.version)));
    let mut parts = vec![table(&states), String::new(), table(&events)];
    parts.extend(is_part.then(|| "Topics, or events of some, may be missing.".to_owned()));
    parts.extend([String::new(), format!("processes: {}", processes.collect::<Vec<_>>().join(", "))]);
    parts.join("\n")
}

/// What happened in a time. Its last column is the time within which 99 % of jobs were ready.
fn events_row(name: &str, events: &EventSummary) -> Vec<String> {
    let late = events.late_p99.map_or(String::new(), span);
    let numbers =
        [events.added, events.delivered, events.finished, events.died].map(|number| number.to_string());
    [name.to_owned()].into_iter().chain(numbers).chain([late]).collect()
}

/// Runs `linger whoami`.
pub(super) fn whoami(WhoamiArgs { read }: &WhoamiArgs) -> ExitCode {
    #[derive(Deserialize)]
    struct Whoami {
        name: String,
        scopes: Vec<String>,
        topics: Option<Vec<String>>,
    }
    read.run("whoami", async |session| {
        let response = session.call(&Request::whoami()).await?;
        session.print(&response, |Whoami { name, scopes, topics }| {
            let topics =
                topics.map_or("all topics".to_owned(), |topics| format!("topics {}", topics.join(", ")));
            // A server without tokens lets every caller do everything.
            let name = if name.is_empty() { "no token".into() } else { escape_line(&name) };
            format!("{name}  {}  {topics}", scopes.join(", "))
        })?;
        Ok(Exit::Done)
    })
}

/// A host that is called.
#[derive(Deserialize)]
struct CalledHost {
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
    }
    read.run("callbacks", async |session| {
        let response = session.call(&Request::callbacks(topic)).await?;
        session.print(&response, |CalledHosts { endpoints }| {
            if endpoints.is_empty() {
                return "no URL was called lately".to_owned();
            }
            let wording = session.wording();
            endpoints.iter().map(|endpoint| endpoint.line(&wording)).collect::<Vec<_>>().join("\n")
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
        [Some(host), Some(calls), next, failure].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
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
        let well = line(r#"{"host":"http://h:1","in_flight":3,"window":16}"#);
        assert_eq!(well, "http://h:1  3 of at most 16 calls in progress");
    }
}
