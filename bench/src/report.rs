//! What was measured, as a table for people and as one JSON document. Owns how figures are written; judges
//! none of them.

use linger_client::Version;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{ledger::Totals, times::Percentiles};

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    server: Option<MeasuredServer>,
    rows: Vec<Row>,
    totals: Totals,
}

/// The server that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct MeasuredServer {
    pub url: String,
    pub version: String,
    pub engine: String,
    pub engine_version: String,
    pub durability: String,
    /// Whether the bench started it.
    pub own: bool,
    /// Where the directory of the bench's own server was made.
    pub directory: Option<String>,
    pub connections: usize,
    pub body_bytes: usize,
}

/// One measured step. What could not be measured is `None`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub scenario: &'static str,
    pub step: String,
    /// The pattern of delays.
    pub delay: String,
    /// How many jobs, or polls.
    pub count: usize,
    pub per_second: Option<f64>,
    /// Of requests, or of the lateness of deliveries.
    pub latency_ms: Option<Percentiles>,
    pub cpu_us_per_job: Option<f64>,
    pub resident_bytes: Option<u64>,
    /// Figures of this step alone.
    #[serde(flatten)]
    pub more: Map<String, Value>,
    /// The same in words.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Row {
    /// Adds a figure of this step alone; `said` is it in words.
    pub fn annotate(&mut self, key: &str, value: Option<f64>, said: impl FnOnce(f64) -> String) {
        if let Some(value) = value {
            self.more.insert(key.to_owned(), json!(value));
            self.notes.push(said(value));
        }
    }

    /// Adds the processor time of the step, in percent of one processor.
    pub fn annotate_cpu(&mut self, percent: Option<f64>) {
        self.annotate("cpu_percent", percent, |percent| format!("{percent:.2} % of a processor"));
    }
}

impl Report {
    pub(crate) fn server(&mut self, url: String, version: Version) -> &mut MeasuredServer {
        let Version { version, engine, engine_version, durability } = version;
        self.server.insert(MeasuredServer {
            url,
            version,
            engine,
            engine_version,
            durability,
            own: false,
            directory: None,
            connections: 0,
            body_bytes: 0,
        })
    }

    /// Adds what was measured later. The report names the server that was measured first.
    pub(crate) fn merge(&mut self, later: Self) {
        let Self { server, rows, totals: Totals { jobs, lost, doubled, early } } = later;
        self.server = self.server.take().or(server);
        self.rows.extend(rows);
        self.totals.jobs += jobs;
        self.totals.lost += lost;
        self.totals.doubled += doubled;
        self.totals.early += early;
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn close(&mut self, totals: Totals) {
        self.totals = totals;
    }

    /// Whether no job was lost, doubled or early.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Totals { jobs: _, lost, doubled, early } = self.totals;
        lost == 0 && doubled == 0 && early == 0
    }

    /// One JSON document on a line; `failure` is why it is not all.
    #[must_use]
    pub fn json(&self, failure: Option<&str>) -> String {
        let mut document = json!(self);
        document["failure"] = json!(failure);
        format!("{document}\n")
    }

    /// The table; nothing when no server was reached.
    #[must_use]
    pub fn table(&self) -> String {
        let Some(server) = &self.server else { return String::new() };
        let MeasuredServer { url, version, engine, engine_version, durability, .. } = server;
        let mut text = format!("linger {version} at {url}");
        text += if server.own { ", started anew for each scenario" } else { "" };
        text += &server.directory.as_ref().map_or(String::new(), |directory| format!(" in {directory}"));
        text += &format!("\nengine {engine} ({engine_version}), durability {durability}\n");
        let (connections, bytes) = (server.connections, server.body_bytes);
        text += &format!("{connections} connections, bodies of {bytes} bytes, times in ms\n\n");
        text += &aligned(&self.rows.iter().map(cells).collect::<Vec<_>>());
        let Totals { jobs, lost, doubled, early } = self.totals;
        text + &format!("\nlost {lost}, doubled {doubled}, early {early} (of {jobs} jobs)\n")
    }
}

const HEADS: [&str; 12] = [
    "scenario",
    "step",
    "delay",
    "count",
    "rate/s",
    "p50",
    "p90",
    "p99",
    "max",
    "CPU us/job",
    "MiB",
    "notes",
];

/// Columns of words, which are aligned to the left.
const WORDS: [usize; 4] = [0, 1, 2, 11];

fn cells(row: &Row) -> [String; 12] {
    let figure = |value: Option<f64>, digits| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
    let time = |of: fn(&Percentiles) -> f64| figure(row.latency_ms.as_ref().map(of), 2);
    [
        row.scenario.to_owned(),
        row.step.clone(),
        row.delay.clone(),
        row.count.to_string(),
        figure(row.per_second, 0),
        time(|times| times.p50),
        time(|times| times.p90),
        time(|times| times.p99),
        time(|times| times.max),
        figure(row.cpu_us_per_job, 1),
        figure(row.resident_bytes.map(|bytes| bytes as f64 / 1_048_576.0), 1),
        row.notes.join(", "),
    ]
}

fn aligned(rows: &[[String; 12]]) -> String {
    let heads = HEADS.map(str::to_owned);
    let all = || std::iter::once(&heads).chain(rows);
    let widths: Vec<_> = (0..HEADS.len())
        .map(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 12]| {
        let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if WORDS.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_shows_a_dash_for_what_was_not_measured() {
        let mut report = Report::default();
        assert_eq!(report.table(), "");
        let [version, engine, engine_version, durability] =
            ["1", "embedded", "SQLite", "always"].map(String::from);
        report.server("http://x".to_owned(), Version { version, engine, engine_version, durability });
        let times = Percentiles { count: 1, p50: 1.0, p90: 2.0, p99: 3.0, max: 1234.5 };
        let mut row = Row { scenario: "burst", step: "pop".to_owned(), count: 7, ..Row::default() };
        row.annotate("memory_per_poll_bytes", Some(18.4), |bytes| format!("{bytes:.0} B per poll"));
        row.latency_ms = Some(times);
        report.push(row);
        report.push(Row { scenario: "throughput", delay: "constant 1s".to_owned(), ..Row::default() });
        report.close(Totals { jobs: 9, lost: 1, doubled: 2, early: 3 });
        let table = report.table();
        assert!(
            table.starts_with("linger 1 at http://x\nengine embedded (SQLite), durability always\n"),
            "{table}"
        );
        let lines: Vec<_> = table.lines().skip(4).collect();
        let right = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(right(lines[0], "max"), right(lines[1], "1234.50"), "{table}");
        assert!(lines[1].ends_with("-    -  18 B per poll"), "{table}");
        assert_eq!(lines[0].find("delay"), lines[2].find("constant"), "{table}");
        assert_eq!(lines[4], "lost 1, doubled 2, early 3 (of 9 jobs)");
        assert!(!report.is_sound());
        let json: Value = serde_json::from_str(&report.json(Some("why"))).expect("is JSON");
        assert_eq!(json["rows"][0]["memory_per_poll_bytes"], 18.4);
        assert_eq!(json["rows"][1]["latency_ms"], Value::Null);
        assert_eq!((&json["totals"]["doubled"], &json["failure"]), (&json!(2), &json!("why")));
    }
}
