//! What `linger top` shows, as lines for a terminal of any size. Does not know the terminal.

use linger_client::Stats;

use super::{
    reading::{MOST_TOPICS, Reading},
    state::State,
    table,
};
use crate::{
    cli::text::{grouped, per_second, shortened, span},
    messages::printable::escape_line,
};

const HELP: &[&str] = &[
    "q, Ctrl-C        quit",
    "s                next order: ready, overdue, delayed, dead, name",
    "r                read now",
    "Up, Down, j, k   scroll a line; PageUp, PageDown a page; Home, End",
    "h, ?             show or leave this help",
    "",
    "IN/s, OUT/s  Jobs added and finished each second, in the last minute.",
    "LATE p99     How long after its due time a worker got a job: 99 of 100 in",
    "             that minute at most. Above, also how long until it was ready.",
    "OLDEST       How long the oldest ready job has been due.",
    "POLLS        Polls of all server processes that wait, or that ended in the",
    "             last minute. Blank while it is not known.",
    "!            The callback fails, or there are ready jobs and no worker polls:",
    "             none runs, or all are busy. `linger topic show` says which.",
];

const KEYS: &str = "q quit  s sort  h help";
/// Lines of the heading of the table, and lines below it.
const HEADING: u16 = 1;
const FOOTER: u16 = 1;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// Data that is no longer true.
    Faint,
    /// The heading of a table.
    Heading,
    Good,
    Doubtful,
    Bad,
    /// One of several lines that needs a look.
    Warning,
}

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StyledLine {
    pub text: String,
    pub style: Style,
}

impl StyledLine {
    /// A line of at most `width` characters, none of which a terminal would execute.
    fn new(text: &str, style: Style, width: usize) -> Self {
        Self { text: shortened(&escape_line(text), width), style }
    }
}

/// How many topics a terminal of this height shows.
pub(super) fn rows(state: &State, height: u16) -> usize {
    usize::from(height.saturating_sub(header_lines(state, height) + HEADING + FOOTER))
}

/// The header has at most a third of the lines.
fn header_lines(state: &State, height: u16) -> u16 {
    let all = if state.trouble.is_some() || state.reading.not_ready.is_some() { 5 } else { 4 };
    (height / 3).clamp(1, all)
}

/// One line for each line of the terminal.
pub(super) fn lines(state: &State, now_us: i64, (width, height): (u16, u16)) -> Vec<StyledLine> {
    let (columns, shown) = (usize::from(width), rows(state, height));
    let header = header(state, now_us, columns);
    let header = header.into_iter().take(header_lines(state, height).into());
    let body = if state.shows_help { help(shown + 1, columns) } else { table(state, now_us, columns, shown) };
    let mut lines: Vec<_> = header.chain(body).collect();
    let has_footer = height > FOOTER;
    let above = if has_footer { height - FOOTER } else { height };
    lines.resize(above.into(), StyledLine::new("", Style::Plain, columns));
    if has_footer {
        lines.push(StyledLine::new(&footer(state, shown, columns), Style::Faint, columns));
    }
    lines
}

/// The header, the most important line first.
fn header(state: &State, now_us: i64, width: usize) -> Vec<StyledLine> {
    let reading = &state.reading;
    let (health, style) = match (&state.trouble, &reading.not_ready) {
        (Some(trouble), _) => (trouble.kind, Style::Bad),
        (None, Some(_)) => ("not ready", Style::Doubtful),
        (None, None) => ("ready", Style::Good),
    };
    let status = format!("{health}, data {}s old", state.age_ms(now_us) / 1_000);
    let room = width.saturating_sub(status.len() + 2);
    let title = shortened(&escape_line(&format!("linger top  {}", state.server)), room);
    let mut lines = vec![StyledLine::new(&format!("{title:<room$}  {status}"), style, width)];
    let trouble = state.trouble.as_ref().map(|trouble| &trouble.message).or(reading.not_ready.as_ref());
    lines.extend(trouble.map(|message| StyledLine::new(message, style, width)));
    let style = if state.is_old(now_us) { Style::Faint } else { Style::Plain };
    lines.extend(summary(reading).iter().map(|line| StyledLine::new(line, style, width)));
    lines
}

fn summary(reading: &Reading) -> Vec<String> {
    let version = &reading.version;
    let server = format!("linger {}, {} {}", version.version, version.engine, version.engine_version);
    let Some(stats) = &reading.stats else {
        return vec!["no totals: the token is for some topics only".to_owned(), server];
    };
    let [jobs, minute] = totals(stats);
    let processes = match stats.processes.len() {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    vec![jobs, minute, format!("{server}, {processes}")]
}

fn totals(stats: &Stats) -> [String; 2] {
    let (counts, minute) = (stats.counts, stats.minute);
    let late = match (minute.delivered_late_p99.map(span), minute.late_p99.map(span)) {
        (Some(late), Some(ready)) => format!(", late p99 {late} (ready {ready})"),
        (Some(late), None) => format!(", late p99 {late}"),
        (None, Some(ready)) => format!(", ready p99 {ready}"),
        (None, None) => String::new(),
    };
    let incomplete = if stats.topics_complete == Some(false) { ", topics incomplete" } else { "" };
    let [added, finished] = [minute.added, minute.finished].map(per_second);
    [
        format!(
            "all topics: {} delayed, {} ready, {} reserved, {} dead",
            grouped(counts.delayed),
            grouped(counts.ready),
            grouped(counts.reserved),
            grouped(counts.dead)
        ),
        format!(
            "last minute: in {added}/s, out {finished}/s, {} died{incomplete}{late}",
            grouped(minute.died)
        ),
    ]
}

fn help(lines: usize, width: usize) -> Vec<StyledLine> {
    HELP.iter().take(lines).map(|line| StyledLine::new(line, Style::Plain, width)).collect()
}

/// The heading, and the topics from the offset on.
fn table(state: &State, now_us: i64, width: usize, shown: usize) -> Vec<StyledLine> {
    let is_old = state.is_old(now_us);
    let mut rows = table::rows(&state.reading, width).into_iter();
    let heading = rows.next().map(|row| format!("{:<width$}", row.text));
    let heading = heading.map(|text| StyledLine::new(&text, Style::Heading, width));
    let offset = state.offset.min(state.last_offset(shown));
    let topics = rows.skip(offset).take(shown).map(|row| {
        let style = match (is_old, row.has_mark) {
            (true, _) => Style::Faint,
            (false, true) => Style::Warning,
            (false, false) => Style::Plain,
        };
        StyledLine::new(&row.text, style, width)
    });
    heading.into_iter().chain(topics).collect()
}

fn footer(state: &State, shown: usize, width: usize) -> String {
    let count = state.reading.topics.len();
    let offset = state.offset.min(state.last_offset(shown));
    let all = match count {
        0 => "no topics".to_owned(),
        1 => "1 topic".to_owned(),
        MOST_TOPICS => format!("the first {} topics", grouped(count as u64)),
        _ => format!("{} topics", grouped(count as u64)),
    };
    let which = if count <= shown || shown == 0 {
        all
    } else {
        let [first, last] = [offset + 1, (offset + shown).min(count)].map(|at| grouped(at as u64));
        format!("{first}-{last} of {all}")
    };
    let prefix = state.prefix.as_ref().map_or(String::new(), |prefix| format!(" with prefix {prefix}"));
    let order = if count > 1 { format!(" by {}", state.reading.sort.as_str()) } else { String::new() };
    let which = format!("{which}{prefix}{order}");
    let room = width.saturating_sub(KEYS.len() + 2);
    if room < which.len() { which } else { format!("{which:<room$}  {KEYS}") }
}
