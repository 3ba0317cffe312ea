//! The table of topics as lines of text: which columns fit, and how wide each is.

use linger_client::{Timestamp, Topic};

use super::reading::Reading;
use crate::{
    cli::text::{grouped, paused, span},
    printable::escape_line,
};

/// Columns that the names of topics have at least, unless even one figure beside them leaves less.
const SHORTEST_NAME: usize = 12;
/// Columns that the names have at most: the API allows no longer ones.
const LONGEST_NAME: usize = 128;
const GAP: &str = "  ";
/// The mark, and the blank before it.
const MARK: usize = 2;
/// Columns that a pause takes.
const LONGEST_PAUSE: usize = "delivery".len();

/// A column beside the names.
struct Column {
    heading: &'static str,
    cell: fn(&Topic, Timestamp) -> String,
    /// Which columns stay in a narrow terminal: those with the lowest numbers.
    rank: u8,
}

const COLUMNS: &[Column] = &[
    Column { heading: "DELAYED", cell: |topic, _| grouped(topic.counts.delayed), rank: 4 },
    Column { heading: "READY", cell: |topic, _| grouped(topic.counts.ready), rank: 0 },
    Column { heading: "RESERVED", cell: |topic, _| grouped(topic.counts.reserved), rank: 5 },
    Column { heading: "DEAD", cell: |topic, _| grouped(topic.counts.dead), rank: 3 },
    Column { heading: "OLDEST", cell: oldest, rank: 1 },
    Column { heading: "POLLS", cell: |topic, _| grouped(topic.waiting as u64), rank: 2 },
];

/// A column with its cells.
struct Filled {
    column: &'static Column,
    cells: Vec<String>,
    width: usize,
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub text: String,
    /// Whether the topic has ready jobs that nobody polls for.
    pub has_mark: bool,
}

/// The table, in lines of at most `width` columns; the heading comes first.
pub(super) fn rows(reading: &Reading, width: usize) -> Vec<Row> {
    let topics = &reading.topics;
    let names: Vec<_> = topics.iter().map(|topic| escape_line(&topic.topic)).collect();
    let columns = fitting(topics, reading.now, width);
    let others = width_of(&columns);
    let name_width = longest(&names, SHORTEST_NAME).min(LONGEST_NAME).min(width.saturating_sub(others));
    let shows_pauses = name_width + others + GAP.len() + LONGEST_PAUSE <= width;
    let line = |name: &str, cell: &dyn Fn(&Filled) -> String, mark: &str, paused: &str| {
        let mut line = format!("{:<name_width$}", shortened(name, name_width));
        for column in &columns {
            line.push_str(&format!("{GAP}{:>width$}", cell(column), width = column.width));
        }
        line.push_str(&format!(" {mark:<1}"));
        if shows_pauses {
            line.push_str(&format!("{GAP}{paused}"));
        }
        shortened(line.trim_end(), width)
    };
    let heading = line("TOPIC", &|filled: &Filled| filled.column.heading.to_owned(), "", "PAUSED");
    let mut rows = vec![Row { text: heading, has_mark: false }];
    for (at, topic) in topics.iter().enumerate() {
        let has_mark = reading.knows_all_polls() && is_unattended(topic);
        let mark = if has_mark { "!" } else { "" };
        let text = line(&names[at], &|filled: &Filled| filled.cells[at].clone(), mark, paused(topic.paused));
        rows.push(Row { text, has_mark });
    }
    rows
}

/// The columns that fit beside the names, at least one.
fn fitting(topics: &[Topic], now: Timestamp, width: usize) -> Vec<Filled> {
    let fill = |column: &'static Column| {
        let cells: Vec<_> = topics.iter().map(|topic| (column.cell)(topic, now)).collect();
        let width = longest(&cells, column.heading.len());
        Filled { column, cells, width }
    };
    let mut columns: Vec<_> = COLUMNS.iter().map(fill).collect();
    while columns.len() > 1
        && SHORTEST_NAME + width_of(&columns) > width
        && let Some(last) = (0..columns.len()).max_by_key(|at| columns[*at].column.rank)
    {
        columns.remove(last);
    }
    columns
}

/// How much the columns and the mark take.
fn width_of(columns: &[Filled]) -> usize {
    columns.iter().map(|filled| GAP.len() + filled.width).sum::<usize>() + MARK
}

fn longest(cells: &[impl AsRef<str>], at_least: usize) -> usize {
    cells.iter().map(|cell| cell.as_ref().chars().count()).fold(at_least, usize::max)
}

/// Whether ready jobs wait for a poll that nobody makes.
fn is_unattended(topic: &Topic) -> bool {
    topic.counts.ready > 0 && topic.waiting == 0 && !topic.settings.has_callback && !topic.paused.delivery
}

fn oldest(topic: &Topic, now: Timestamp) -> String {
    let age = topic.oldest_overdue_at.map(|due_at| now.duration_since(due_at));
    // The figures may have been read a little before the list.
    age.map_or(String::new(), |age| span(age.try_into().unwrap_or_default()))
}

/// Text in at most `width` characters; what is cut off shows as `…`.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain("…".chars().take(width)).collect()
}
