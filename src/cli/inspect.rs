//! `linger stats` and `linger whoami`: what the server says of the queue and of the caller.

use std::process::ExitCode;

use clap::Args;
use linger_client::{EventSummary, Request, Stats};
use serde::Deserialize;

use super::{
    exit::Exit,
    session::ReadArgs,
    text::{span, table},
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
        ["IN THE LAST", "ADDED", "DELIVERED", "FINISHED", "DIED", "READY WITHIN", "DELIVERED WITHIN"]
            .map(str::to_owned)
            .to_vec(),
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

/// What happened in a time. Its last columns are the times within which 99 % of jobs were ready and delivered.
fn events_row(name: &str, events: &EventSummary) -> Vec<String> {
    let late = [events.late_p99, events.delivered_late_p99].map(|late| late.map_or(String::new(), span));
    let numbers =
        [events.added, events.delivered, events.finished, events.died].map(|number| number.to_string());
    [name.to_owned()].into_iter().chain(numbers).chain(late).collect()
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
