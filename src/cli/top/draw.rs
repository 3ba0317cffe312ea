//! Draws what `linger top` shows. Changes nothing.

use linger_client::Stats;
use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Line,
};

use super::{
    reading::MOST_TOPICS,
    state::State,
    table::{self, shortened},
};
use crate::cli::text::{grouped, span};

const HELP: &[&str] = &[
    "q, Ctrl-C        quit",
    "s                next order: ready, overdue, delayed, dead, name",
    "r                read now",
    "Up, Down, j, k   scroll a line; PageUp, PageDown a page; Home, End",
    "h, ?             show or leave this help",
    "",
    "!       Ready jobs, and no poll waits: no worker runs, or all are busy.",
    "        Topics with a callback or with paused delivery have no mark.",
    "OLDEST  How long the oldest ready job has been due.",
    "POLLS   Polls that wait at the server process that answers.",
];

/// Lines below the table.
const FOOTER: u16 = 1;

fn old() -> Style {
    Style::new().fg(Color::DarkGray).add_modifier(Modifier::DIM)
}

/// How many topics a terminal of this height shows.
pub(super) fn rows(state: &State, height: u16) -> usize {
    let heading = 1;
    usize::from(height.saturating_sub(header_lines(state, height) + heading + FOOTER))
}

/// The header has at most a third of the lines.
fn header_lines(state: &State, height: u16) -> u16 {
    let all = if state.trouble.is_some() || state.reading.not_ready.is_some() { 5 } else { 4 };
    (height / 3).clamp(1, all)
}

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now_us: i64) {
    let area = frame.area();
    let header = header(state, now_us, area.width.into());
    let header = header.into_iter().take(header_lines(state, area.height).into());
    let shown = rows(state, area.height);
    let lines = if state.shows_help { help(shown + 1) } else { table(state, now_us, area.width, shown) };
    let lines: Vec<Line<'_>> = header.chain(lines).collect();
    let above_footer = area.height.saturating_sub(FOOTER);
    for (y, line) in (0..above_footer).zip(lines) {
        frame.render_widget(line, Rect::new(0, y, area.width, 1));
    }
    if area.height > FOOTER {
        let line = Line::styled(footer(state, shown, area.width.into()), Modifier::DIM);
        frame.render_widget(line, Rect::new(0, above_footer, area.width, FOOTER));
    }
}

/// The header, the most important line first.
fn header(state: &State, now_us: i64, width: usize) -> Vec<Line<'static>> {
    let reading = &state.reading;
    let age = state.age_ms(now_us) / 1_000;
    let (health, colour) = match (&state.trouble, &reading.not_ready) {
        (Some(trouble), _) => (trouble.kind, Color::Red),
        (None, Some(_)) => ("not ready", Color::Yellow),
        (None, None) => ("ready", Color::Green),
    };
    let status = format!("{health}, data {age}s old");
    let title = format!("linger top  {}", state.server);
    let room = width.saturating_sub(status.len() + 2);
    let first = format!("{:<room$}  {status}", shortened(&title, room));
    let mut lines = vec![Line::styled(first, Style::new().fg(colour).add_modifier(Modifier::BOLD))];
    let trouble = state.trouble.as_ref().map(|trouble| &trouble.message).or(reading.not_ready.as_ref());
    lines.extend(trouble.map(|message| Line::styled(shortened(message, width), colour)));
    let style = if state.is_old(now_us) { old() } else { Style::new() };
    let version = &reading.version;
    let server = format!("linger {}, {} {}", version.version, version.engine, version.engine_version);
    let figures = match &reading.stats {
        Some(stats) => {
            let [jobs, minute] = totals(stats);
            let processes = match stats.processes.len() {
                1 => "1 process".to_owned(),
                count => format!("{count} processes"),
            };
            vec![jobs, minute, format!("{server}, {processes}")]
        }
        None => vec!["the token is for some topics, so there are no totals".to_owned(), server],
    };
    lines.extend(figures.into_iter().map(|line| Line::styled(shortened(&line, width), style)));
    lines
}

fn totals(stats: &Stats) -> [String; 2] {
    let (counts, minute) = (stats.counts, stats.minute);
    let late = minute.late_p99.map_or(String::new(), |late| format!(", late p99 {}", span(late)));
    let [added, finished] = [minute.added, minute.finished].map(per_second);
    [
        format!(
            "all topics: {} delayed, {} ready, {} reserved, {} dead",
            grouped(counts.delayed),
            grouped(counts.ready),
            grouped(counts.reserved),
            grouped(counts.dead)
        ),
        format!("last minute: in {added}/s, out {finished}/s, {} died{late}", grouped(minute.died)),
    ]
}

/// How often something happened each second of a minute, with one decimal.
fn per_second(per_minute: u64) -> String {
    let tenths = (per_minute + 3) / 6;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

fn help(lines: usize) -> Vec<Line<'static>> {
    HELP.iter().take(lines).map(|line| Line::raw(*line)).collect()
}

/// The heading, and the topics from the offset on.
fn table(state: &State, now_us: i64, width: u16, shown: usize) -> Vec<Line<'static>> {
    let is_old = state.is_old(now_us);
    let mut rows = table::rows(&state.reading.topics, state.reading.now, width.into()).into_iter();
    let heading = rows.next().map(|row| Line::styled(row.text, Modifier::REVERSED));
    let offset = state.offset.min(state.last_offset(shown));
    let topics = rows.skip(offset).take(shown).map(|row| {
        let style = match (is_old, row.has_mark) {
            (true, _) => old(),
            (false, true) => Style::new().fg(Color::Yellow),
            (false, false) => Style::new(),
        };
        Line::styled(row.text, style)
    });
    heading.into_iter().chain(topics).collect()
}

fn footer(state: &State, shown: usize, width: usize) -> String {
    let count = state.reading.topics.len();
    let offset = state.offset.min(state.last_offset(shown));
    let which = match (offset, count) {
        (_, 0) => "no topics".to_owned(),
        (_, count) if count <= shown || shown == 0 => format!("{count} topics"),
        (offset, count) => format!("{}-{} of {count} topics", offset + 1, (offset + shown).min(count)),
    };
    let which = if count == MOST_TOPICS { format!("{which}, the first ones") } else { which };
    let prefix = state.prefix.as_ref().map_or(String::new(), |prefix| format!(" from {prefix}"));
    let shown = format!("{which}{prefix} by {}", state.sort.as_str());
    let keys = "q quit  s sort  h help";
    let room = width.saturating_sub(keys.len() + 2);
    if room < shown.len() { shortened(&shown, width) } else { format!("{shown:<room$}  {keys}") }
}
