//! `linger stats` and `linger whoami`: what the server says of the queue and of the caller.

use std::process::ExitCode;

use clap::Args;
use linger_client::{EventSummary, Request, Stats};
use serde::Deserialize;

use super::{
    exit::Exit,
    session::ReadArgs,
    text::{Wording, span, table},
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
        session.print(&session.call(&request).await?, |stats| stats_text(&stats, &session.wording()))?;
        Ok(Exit::Done)
    })
}

fn stats_text(stats: &Stats, wording: &Wording) -> String {
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
    let processes = stats.processes.iter().map(|process| {
        let memory = process.resident_bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
        format!("{} ({}{memory})", escape_line(&process.name), escape_line(&process.version))
    });
    let mut parts = vec![table(&states), String::new(), table(&events)];
    parts.extend(is_part.then(|| "Topics, or events of some, may be missing.".to_owned()));
    parts.extend([String::new(), format!("processes: {}", processes.collect::<Vec<_>>().join(", "))]);
    parts.extend(stats.store.backup_at.map(|began_at| {
        let text = began_at.map_or("none known".to_owned(), |at| wording.distance(at));
        format!("last backup: {text}")
    }));
    parts.join("\n")
}

/// A number of bytes in the largest unit of which there is one: `84.3 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / 1_024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1_024, unit + 1);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_name_the_memory_of_processes_and_the_last_backup() {
        let now = "2026-11-21T06:10:00Z".parse().expect("is a moment");
        let end_of = |store: &str| {
            let summary = r#"{"added":0,"delivered":0,"finished":0,"died":0}"#;
            let text = format!(
                r#"{{"now":"2026-11-21T06:10:00Z","counts":{{"delayed":0,"ready":0,"reserved":0,"dead":0}},"minute":{summary},
                    "hour":{summary},"store":{store},"processes":[{{"name":"web-1/1","version":"0.1.0","resident_bytes":88395776}},
                    {{"name":"web-2/1","version":"0.0.9"}}]}}"#
            );
            let stats: Stats = serde_json::from_str(&text).expect("are figures");
            let text = stats_text(&stats, &Wording::new(now));
            text.split_once("processes: ").expect("names them").1.to_owned()
        };
        let processes = "web-1/1 (0.1.0, 84.3 MiB), web-2/1 (0.0.9)";
        assert_eq!(end_of("{}"), processes);
        assert_eq!(end_of(r#"{"backup_at":null}"#), format!("{processes}\nlast backup: none known"));
        let known = end_of(r#"{"backup_at":"2026-11-21T04:05:00Z"}"#);
        assert_eq!(known, format!("{processes}\nlast backup: 2h5m ago"));
    }

    #[test]
    fn sizes_have_the_largest_unit_of_which_there_is_one() {
        let texts = [0, 1_023, 1_024, 1_048_575, 1_048_576, 1 << 40, u64::MAX].map(size);
        let first = ["0.0 KiB", "0.9 KiB", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "1.0 TiB"];
        assert_eq!(texts[..6], first);
    }
}
