//! How jobs, moments and durations look as text. Workers choose reasons and their names, so these have no line breaks here;
//! the function that prints a text escapes the rest.

use std::{borrow::Cow, time::Duration};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use linger_client::{HistoryEntry, Job, Paused};

use crate::messages::printable::escape_line;

/// Where the values of [`Wording::details`] begin.
const VALUES: usize = 12;

/// Turns moments into text, as seen at one of them.
pub(super) struct Wording {
    now: Timestamp,
    zone: TimeZone,
}

impl Wording {
    /// As seen at `now_us`, in microseconds since the Unix epoch, in the time zone of this machine.
    pub fn at_micros(now_us: i64) -> Self {
        Self::new(Timestamp::from_microsecond(now_us).unwrap_or_default())
    }

    pub fn new(now: Timestamp) -> Self {
        Self::in_zone(now, TimeZone::system())
    }

    pub fn in_zone(now: Timestamp, zone: TimeZone) -> Self {
        Self { now, zone }
    }

    /// A moment as a time of day, with the date if it is another day, and with its offset from UTC if that is not the present one:
    /// an hour comes twice when clocks are set back.
    pub fn moment(&self, moment: Timestamp) -> String {
        let is_today = self.zoned(moment).date() == self.zoned(self.now).date();
        self.worded(moment, if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" })
    }

    /// A moment as a date and a time of day, to the minute, and its offset as in [`moment`](Self::moment).
    pub fn minute(&self, moment: Timestamp) -> String {
        self.worded(moment, "%Y-%m-%d %H:%M")
    }

    /// When this day began, by the clock of this machine.
    pub fn midnight(&self) -> Timestamp {
        self.zoned(self.now).start_of_day().map_or(self.now, |day| day.timestamp())
    }

    fn worded(&self, moment: Timestamp, form: &str) -> String {
        let zoned = self.zoned(moment);
        let has_present_offset = zoned.offset() == self.zoned(self.now).offset();
        let offset = if has_present_offset { "" } else { " %:z" };
        zoned.strftime(&format!("{form}{offset}")).to_string()
    }

    fn zoned(&self, moment: Timestamp) -> Zoned {
        moment.to_zoned(self.zone.clone())
    }

    pub fn since(&self, moment: Timestamp) -> String {
        span(self.time_since(moment))
    }

    pub fn time_since(&self, moment: Timestamp) -> Duration {
        self.now.duration_since(moment).try_into().unwrap_or_default()
    }

    /// `in 30m`, or `2h ago`.
    pub fn distance(&self, moment: Timestamp) -> String {
        match Duration::try_from(moment.duration_since(self.now)) {
            Ok(ahead) if !ahead.is_zero() => format!("in {}", span(ahead)),
            _ => format!("{} ago", self.since(moment)),
        }
    }

    /// `in 30m (06:40:00)`, or `2h ago`.
    pub fn relative(&self, moment: Timestamp) -> String {
        let distance = self.distance(moment);
        if moment > self.now { format!("{distance} ({})", self.moment(moment)) } else { distance }
    }

    /// `due in 30m (06:40:00)`, or `due 2h ago`.
    pub fn due(&self, due_at: Timestamp) -> String {
        format!("due {}", self.relative(due_at))
    }

    /// A job in a line, beginning with its id and its state.
    pub fn job(&self, job: &Job) -> String {
        let mut parts = vec![job.id.clone(), job.state.clone()];
        match (job.state.as_str(), job.reserved_until, job.dead_at) {
            ("reserved", Some(until), _) => {
                parts.push(format!("until {}", self.moment(until)));
                parts.extend(job.reserved_by.as_deref().map(by));
                if job.attempts == 0 {
                    parts.push("(its worker has an older version)".to_owned());
                }
            }
            ("dead", _, Some(_)) => return self.dead(job),
            _ => parts.push(self.due(job.due_at)),
        }
        parts.join("  ")
    }

    /// `pay:77:ok  died 2h ago  9 attempts  exit 1: psp answered 503`.
    pub fn dead(&self, job: &Job) -> String {
        let died = job.dead_at.map(|dead_at| format!("died {} ago", self.since(dead_at)));
        let attempts = match job.attempts {
            1 => "1 attempt".to_owned(),
            attempts => format!("{attempts} attempts"),
        };
        let reason = job.reason.as_deref().map(escape_line).map(Cow::into_owned);
        let parts = [Some(job.id.clone()), died, Some(attempts), reason];
        parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }

    /// A job with everything that is known of it.
    pub fn details(&self, job: &Job) -> String {
        let mut lines = vec![self.job(job)];
        let attempts = match job.max_attempts {
            0 => format!("{}, no limit", job.attempts),
            most => format!("{} of {most}", job.attempts),
        };
        let mut row = |name: &str, value: String| lines.push(format!("  {name:<10}{value}"));
        // Line breaks between the values of a body stay, but none begins a row.
        let body = job.body.get().replace('\n', &format!("\n{:VALUES$}", ""));
        row("topic", job.topic.clone());
        row("created", self.moment(job.created_at));
        row("due", self.moment(job.due_at));
        if let Some(expires_at) = job.expires_at {
            row("expires", self.moment(expires_at));
        }
        if let Some(revision) = job.revision {
            row("revision", revision.to_string());
        }
        row("ttr", span(job.ttr));
        row("attempts", attempts);
        if let Some(reason) = &job.reason {
            row("reason", escape_line(reason).into_owned());
        }
        let note = job.note.iter().zip(job.noted_at);
        note.for_each(|(note, at)| row("note", format!("{}  {}", self.moment(at), escape_line(note))));
        for entry in &job.history {
            row("history", self.entry(entry));
        }
        if let Some(traceparent) = &job.traceparent {
            row("trace", escape_line(traceparent).into_owned());
        }
        row("body", body);
        lines.join("\n")
    }

    fn entry(&self, entry: &HistoryEntry) -> String {
        let number = entry.n.map_or(String::new(), |n| format!(" {n}"));
        let mut parts = vec![self.moment(entry.at), format!("{}{number}", entry.kind)];
        let ended =
            |took| entry.ended.as_ref().map(|ended| format!("{} after {took}", ended.replace('_', " ")));
        parts.extend(entry.took.map(span).and_then(ended));
        if let (Some(from), Some(to)) = (entry.from, entry.to) {
            parts.push(format!("from {} to {}", self.moment(from), self.moment(to)));
        }
        parts.extend(entry.by.as_deref().map(by));
        parts.extend(entry.reason.as_deref().map(escape_line).map(Cow::into_owned));
        parts.join("  ")
    }
}

/// Who did something, in words.
fn by(name: &str) -> String {
    format!("by {}", escape_line(name))
}

/// A duration in its two largest units: `30m`, `1h5m`, `2d4h`, `250ms`.
pub(super) fn span(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{}ms", duration.as_millis());
    }
    let seconds = duration.as_secs() + u64::from(duration.subsec_millis() >= 500);
    let units =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let from = units.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let two = units.iter().skip(from).take(2).filter(|(count, _)| *count > 0);
    two.map(|(count, unit)| format!("{count}{unit}")).collect()
}

/// What is paused in a topic, in a word.
pub(super) fn paused(paused: Paused) -> &'static str {
    match (paused.delivery, paused.intake) {
        (true, true) => "both",
        (true, false) => "delivery",
        (false, true) => "intake",
        (false, false) => "",
    }
}

/// A number with a comma between thousands: `1,411`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 job`, `1,411 jobs`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// How often something happened each second of a minute, with one decimal.
pub(super) fn per_second(per_minute: u64) -> String {
    let tenths = per_minute.saturating_add(3) / 6;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

/// Text in at most `width` characters; what is cut off shows as `…`.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain("…".chars().take(width)).collect()
}

/// Rows with aligned columns, numbers to the right; the first row is the heading.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let is_number = |cell: &String| cell.chars().all(|c| c.is_ascii_digit());
    let has_numbers = |column| cells(column).skip(1).all(|cell| is_number(cell) && !cell.is_empty());
    let forms: Vec<_> = (0..columns).map(|column| (width(column), has_numbers(column))).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&forms).map(|(cell, &(width, is_number))| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wording() -> Wording {
        let now = "2026-11-22T06:10:00Z".parse().expect("is a moment");
        Wording::in_zone(now, TimeZone::UTC)
    }

    fn job(more: &str) -> Job {
        let text = format!(
            r#"{{"id":"pay:77:ok","topic":"t","created_at":"2026-11-21T05:40:00.000Z","ttr":60,"max_attempts":16,
                "body":{{"n":  1}},{more}}}"#
        );
        serde_json::from_str(&text).expect("is a job")
    }

    #[test]
    fn durations_have_their_two_largest_units() {
        for (ms, text) in [
            (0, "0ms"),
            (250, "250ms"),
            (15_000, "15s"),
            (1_799_990, "30m"),
            (3_900_000, "1h5m"),
            (3_605_000, "1h"),
            (187_200_000, "2d4h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text, "{ms}");
        }
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_411, "1,411"), (100_000, "100,000"), (9_876_543_210, "9,876,543,210")]
        {
            assert_eq!(grouped(number), text);
        }
        assert_eq!([0, 1, 2_000].map(|count| counted(count, "job")), ["0 jobs", "1 job", "2,000 jobs"]);
    }

    #[test]
    fn a_job_is_worded_by_its_state() {
        for (more, text) in [
            (
                r#""state":"delayed","due_at":"2026-11-22T06:40:00.000Z","attempts":0"#,
                "pay:77:ok  delayed  due in 30m (06:40:00)",
            ),
            (
                r#""state":"delayed","due_at":"2026-11-29T06:10:00.000Z","attempts":0"#,
                "pay:77:ok  delayed  due in 7d (2026-11-29 06:10:00)",
            ),
            (
                r#""state":"ready","due_at":"2026-11-22T06:09:59.998Z","attempts":0"#,
                "pay:77:ok  ready  due 2ms ago",
            ),
            (
                r#""state":"reserved","due_at":"2026-11-22T06:09:59.998Z","attempts":1,"reserved_by":"w1",
                   "reserved_until":"2026-11-22T06:11:00.000Z""#,
                "pay:77:ok  reserved  until 06:11:00  by w1",
            ),
            (
                r#""state":"dead","due_at":"2026-11-22T04:00:00.000Z","attempts":9,
                   "dead_at":"2026-11-22T04:10:00.000Z","reason":"exit 1: psp answered 503""#,
                "pay:77:ok  died 2h ago  9 attempts  exit 1: psp answered 503",
            ),
        ] {
            assert_eq!(wording().job(&job(more)), text);
        }
    }

    #[test]
    fn moments_an_hour_apart_differ_when_clocks_are_set_back() {
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").expect("is a zone");
        let [summer, winter] = ["2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z"];
        for (now, texts) in [
            ("2026-11-26T12:00:00Z", ["2027-11-07 01:30:00 -04:00", "2027-11-07 01:30:00"]),
            ("2027-07-01T12:00:00Z", ["2027-11-07 01:30:00", "2027-11-07 01:30:00 -05:00"]),
            ("2027-11-07T12:00:00Z", ["01:30:00 -04:00", "01:30:00"]),
        ] {
            let wording = Wording::in_zone(now.parse().expect("is a moment"), zone.clone());
            let worded = [summer, winter].map(|at| wording.moment(at.parse().expect("is a moment")));
            assert_eq!(worded, texts, "at {now}");
        }
    }

    #[test]
    fn details_have_the_history_and_the_body_as_it_was_sent() {
        let job = job(r#""state":"ready","due_at":"2026-11-22T06:09:00.000Z","attempts":1,"history":[
                {"kind":"attempt","at":"2026-11-22T06:08:00.000Z","n":1,"took":0.08,"ended":"released","by":"w1",
                 "reason":"exit 1"},
                {"kind":"attempt","at":"2026-11-22T06:08:30.000Z","n":2,"took":20,"ended":"timed_out"},
                {"kind":"rescheduled","at":"2026-11-22T06:09:00.000Z","from":"2026-11-22T06:08:50.000Z",
                 "to":"2026-11-22T06:09:00.000Z","by":"ann"}]"#);
        let text = wording().details(&job);
        let expected = [
            "pay:77:ok  ready  due 1m ago",
            "  topic     t",
            "  created   2026-11-21 05:40:00",
            "  due       06:09:00",
            "  ttr       1m",
            "  attempts  1 of 16",
            "  history   06:08:00  attempt 1  released after 80ms  by w1  exit 1",
            "  history   06:08:30  attempt 2  timed out after 20s",
            "  history   06:09:00  rescheduled  from 06:08:50 to 06:09:00  by ann",
            "  body      {\"n\":  1}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    /// A worker chooses its name and its reasons, and a producer the bytes between the values of a body.
    #[test]
    fn free_text_makes_no_row_of_its_own() {
        let forged = r"boom\n  history   06:09:00  finished\r\nother  died 1s ago\u2028\u001b[2J";
        let worded = |state: &str| {
            let job = job(&format!(
                r#""state":"{state}","due_at":"2026-11-22T04:00:00.000Z","attempts":9,"reason":"{forged}",
                    "note":"{forged}","noted_at":"2026-11-22T06:08:00.000Z","reserved_by":"{forged}","reserved_until":"2026-11-22T06:11:00.000Z",
                    "dead_at":"2026-11-22T04:10:00.000Z","history":[{{"kind":"attempt","by":"{forged}",
                    "at":"2026-11-22T06:08:00.000Z","n":1,"took":0.08,"ended":"buried","reason":"{forged}"}}]"#
            ));
            (wording().job(&job), wording().details(&job))
        };
        for state in ["dead", "reserved"] {
            let (row, details) = worded(state);
            assert!(!row.contains(char::is_control) && !row.contains('\u{2028}'), "{row:?}");
            let names =
                details.lines().skip(1).map(|line| line.split_whitespace().next().unwrap_or_default());
            let expected =
                ["topic", "created", "due", "ttr", "attempts", "reason", "note", "history", "body"];
            assert_eq!(names.collect::<Vec<_>>(), expected);
        }
        let spread = r#"{"state":"ready","due_at":"2026-11-22T04:00:00.000Z","attempts":0,"id":"a","topic":"t","ttr":60,
            "created_at":"2026-11-21T05:40:00.000Z","max_attempts":16,"body":[
true]}"#;
        let details = wording().details(&serde_json::from_str(spread).expect("is a job"));
        assert!(details.ends_with("  body      [\n            true]"), "{details}");
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(["abc", "abcd", ""].map(|text| shortened(text, 3)), ["abc", "ab…", ""]);
        assert_eq!(shortened("abc", 0), "");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["TOPIC", "READY", "PAUSED"], ["mail", "1", ""], ["orders", "1000", "delivery"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let expected = ["TOPIC   READY  PAUSED", "mail        1", "orders   1000  delivery"];
        assert_eq!(table(&rows).lines().collect::<Vec<_>>(), expected);
    }
}
