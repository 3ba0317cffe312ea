//! What `linger work` prints: what happens to jobs and what their commands print, as lines of text or of JSON. A thread
//! of its own writes them, so that a reader that is slow or gone holds up no heartbeat.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{Timestamp, tz::TimeZone};
use linger_client::ReservedJob;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::{
    clock::{Clock, SystemClock},
    messages::printable,
};

/// Most pieces of output that wait to be written; a piece has up to about 8 KiB.
const MAX_WAITING: usize = 1_024;

/// How long the last lines may take when the worker ends.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The stream that a command prints to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Something to print.
pub(super) struct Entry<'a> {
    pub job: Option<&'a ReservedJob>,
    /// One word for what happens.
    pub event: &'static str,
    /// The rest of the line in text.
    pub text: String,
    /// The rest of the object in JSON.
    pub fields: Value,
}

/// Prints lines.
#[derive(Debug)]
pub(super) struct Printer {
    is_text: bool,
    clock: SystemClock,
    zone: TimeZone,
    sink: mpsc::Sender<Vec<u8>>,
    /// Lines for which there was no room.
    lost: AtomicU64,
}

/// The thread that writes.
pub(super) struct Writer(std::sync::mpsc::Receiver<()>);

impl Printer {
    /// Starts the thread that writes to stdout.
    pub fn start(is_text: bool) -> std::io::Result<(Arc<Self>, Writer)> {
        let (sink, mut lines) = mpsc::channel::<Vec<u8>>(MAX_WAITING);
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            // Write errors are ignored: jobs go on after the reader of stdout has gone.
            while let Some(bytes) = lines.blocking_recv() {
                let mut stdout = std::io::stdout().lock();
                let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
            }
            let _ = done.send(());
        })?;
        let (clock, zone, lost) = (SystemClock::new(), TimeZone::system(), AtomicU64::new(0));
        Ok((Arc::new(Self { is_text, clock, zone, sink, lost }), Writer(ended)))
    }

    /// Takes lines that are ready to be written.
    pub fn sink(&self) -> mpsc::Sender<Vec<u8>> {
        self.sink.clone()
    }

    /// Prints an entry, or counts it if there is no room.
    pub fn print(&self, entry: &Entry<'_>) {
        let mut lines = Vec::new();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!("{lost} lines were not printed, because the reader of stdout was too slow");
            let lost = Entry { job: None, event: "gap", text, fields: json!({ "lines": lost }) };
            lines.extend(self.line(&lost));
        }
        lines.extend(self.line(entry));
        if self.sink.try_send(lines).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }

    /// Makes the lines of what a command prints.
    pub fn line_form(
        self: &Arc<Self>,
        job: Arc<ReservedJob>,
        stream: Stream,
    ) -> impl Fn(&str) -> Vec<u8> + use<> {
        let printer = self.clone();
        move |line| {
            let fields = if printer.is_text { Value::Null } else { json!({ "line": line }) };
            let text = if printer.is_text { line.to_owned() } else { String::new() };
            printer.line(&Entry { job: Some(&job), event: stream.name(), text, fields })
        }
    }

    fn line(&self, entry: &Entry<'_>) -> Vec<u8> {
        let now = Timestamp::from_microsecond(self.clock.now_micros()).unwrap_or_default();
        let mut line = if self.is_text { text_line(entry, now, &self.zone) } else { json_line(entry, now) };
        line.push('\n');
        line.into_bytes()
    }
}

impl Writer {
    /// Waits until everything is written, once every sink is gone.
    pub fn flush(self) {
        let _ = self.0.recv_timeout(FLUSH_TIME);
    }
}

/// `06:10:03.118  orders:1001:close  release  exit 1 after 80 ms`.
fn text_line(entry: &Entry<'_>, now: Timestamp, zone: &TimeZone) -> String {
    let time = now.to_zoned(zone.clone()).strftime("%H:%M:%S%.3f").to_string();
    let text = printable::escape_line(&entry.text);
    match entry.job {
        Some(job) => format!("{time}  {}  {:<7}  {text}", job.id, entry.event).trim_end().to_owned(),
        None => format!("{time}  {text}"),
    }
}

fn json_line(entry: &Entry<'_>, now: Timestamp) -> String {
    let mut object = Map::new();
    object.insert("at".to_owned(), format!("{now:.3}").into());
    object.insert("event".to_owned(), entry.event.into());
    if let Some(job) = entry.job {
        object.insert("id".to_owned(), job.id.clone().into());
        object.insert("topic".to_owned(), job.topic.clone().into());
        object.insert("attempt".to_owned(), job.attempt.into());
    }
    if let Value::Object(fields) = &entry.fields {
        object.extend(fields.clone());
    }
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> ReservedJob {
        let text = r#"{"id":"orders:1001:close","topic":"order-close","created_at":"2026-11-21T05:40:00.000Z","ttr":60,
            "due_at":"2026-11-21T06:10:00.000Z","attempt":1,"max_attempts":16,"receipt":"9f","late":0.004,
            "reserved_until":"2026-11-21T06:11:00.004Z","body":null}"#;
        serde_json::from_str(text).expect("is a reserved job")
    }

    #[test]
    fn a_line_has_the_time_the_job_and_what_happened() {
        let now = "2026-11-21T06:10:03.118Z".parse().expect("is a moment");
        let (job, fields) = (job(), json!({ "exit": 1 }));
        let entry = Entry { job: Some(&job), event: "release", text: "exit 1\u{1b}[2J".to_owned(), fields };
        let text = text_line(&entry, now, &TimeZone::UTC);
        assert_eq!(text, "06:10:03.118  orders:1001:close  release  exit 1\\u{1b}[2J");
        let object: Value = serde_json::from_str(&json_line(&entry, now)).expect("is JSON");
        let expected = json!({ "at": "2026-11-21T06:10:03.118Z", "event": "release", "id": "orders:1001:close",
            "topic": "order-close", "attempt": 1, "exit": 1 });
        assert_eq!(object, expected);
        let (text, fields) = ("draining".to_owned(), Value::Null);
        let entry = Entry { job: None, event: "draining", text, fields };
        assert_eq!(text_line(&entry, now, &TimeZone::UTC), "06:10:03.118  draining");
        assert_eq!(json_line(&entry, now), r#"{"at":"2026-11-21T06:10:03.118Z","event":"draining"}"#);
    }
}
