//! The table of topics as lines of text: which columns fit, and how wide each is.

use linger_client::{Cause, EventSummary, Timestamp, Topic};

use super::reading::Reading;
use crate::{
    cli::text::{grouped, paused, per_second, shortened, span},
    messages::printable::escape_line,
};

/// Columns that the names of topics have at least, unless even one figure beside them leaves less.
const SHORTEST_NAME: usize = 12;
/// Columns that longer names get before there is room for what ranks below the pauses.
const READABLE_NAME: usize = 24;
/// Columns that the names have at most: the API allows no longer ones.
const LONGEST_NAME: usize = 128;
const GAP: &str = "  ";
/// The mark, and the blank before it.
const MARK: usize = 2;
/// Columns that a pause and the gap before it take.
const PAUSES: usize = GAP.len() + "delivery".len();
/// The rank of the pauses among the columns, when a topic is paused.
const PAUSE_RANK: u8 = 5;

/// A topic as the cells show it.
struct ShownTopic<'a> {
    topic: &'a Topic,
    /// What happened in the last minute.
    minute: Option<&'a EventSummary>,
    now: Timestamp,
}

/// A column beside the names.
struct Column {
    heading: &'static str,
    cell: fn(&ShownTopic<'_>) -> String,
    /// Which columns stay in a narrow terminal: those with the lowest numbers.
    rank: u8,
}

const COLUMNS: &[Column] = &[
    Column { heading: "DELAYED", cell: |shown| grouped(shown.topic.counts.delayed), rank: 4 },
    Column { heading: "READY", cell: |shown| grouped(shown.topic.counts.ready), rank: 0 },
    Column { heading: "RESERVED", cell: |shown| grouped(shown.topic.counts.reserved), rank: 9 },
    Column { heading: "DEAD", cell: |shown| grouped(shown.topic.counts.dead), rank: 3 },
    Column { heading: "IN/s", cell: |shown| rate(shown, |minute| minute.added), rank: 7 },
    Column { heading: "OUT/s", cell: |shown| rate(shown, |minute| minute.finished), rank: 6 },
    Column { heading: "LATE p99", cell: late, rank: 8 },
    Column { heading: "OLDEST", cell: oldest, rank: 1 },
    Column { heading: "POLLS", cell: |shown| shown.topic.polls.map_or(String::new(), grouped), rank: 2 },
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
    /// Whether the topic has ready jobs and no worker polls for them, or its callback fails.
    pub has_mark: bool,
}

/// The table, in lines of at most `width` columns; the heading comes first.
pub(super) fn rows(reading: &Reading, width: usize) -> Vec<Row> {
    let topics = &reading.topics;
    let names: Vec<_> = topics.iter().map(|topic| escape_line(&topic.topic)).collect();
    let Fitting { columns, shows_pauses } = fitting(reading, longest(&names, SHORTEST_NAME), width);
    let pauses = if shows_pauses { PAUSES } else { 0 };
    let others = width_of(&columns) + pauses;
    let name_width = longest(&names, SHORTEST_NAME).min(LONGEST_NAME).min(width.saturating_sub(others));
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
        let has_mark = needs_attention(topic);
        let mark = if has_mark { "!" } else { "" };
        let text = line(&names[at], &|filled: &Filled| filled.cells[at].clone(), mark, paused(topic.paused));
        rows.push(Row { text, has_mark });
    }
    rows
}

/// What fits beside the names.
struct Fitting {
    /// At least one.
    columns: Vec<Filled>,
    shows_pauses: bool,
}

/// Finds what fits beside names of at most `longest_name` characters.
fn fitting(reading: &Reading, longest_name: usize, width: usize) -> Fitting {
    let show = |topic| ShownTopic { topic, minute: reading.minute_of(&topic.topic), now: reading.now };
    let topics: Vec<_> = reading.topics.iter().map(show).collect();
    let fill = |column: &'static Column| {
        let cells: Vec<_> = topics.iter().map(column.cell).collect();
        let width = longest(&cells, column.heading.len());
        Filled { column, cells, width }
    };
    let mut columns: Vec<_> = COLUMNS.iter().map(fill).collect();
    let mut shows_pauses = reading.topics.iter().any(|topic| !paused(topic.paused).is_empty());
    while columns.len() > 1
        && let Some(last) = (0..columns.len()).max_by_key(|at| columns[*at].column.rank)
    {
        let rank = columns[last].column.rank;
        let name = if rank > PAUSE_RANK { longest_name.min(READABLE_NAME) } else { SHORTEST_NAME };
        if name + width_of(&columns) + if shows_pauses { PAUSES } else { 0 } <= width {
            break;
        }
        if shows_pauses && rank < PAUSE_RANK {
            shows_pauses = false;
        } else {
            columns.remove(last);
        }
    }
    Fitting { columns, shows_pauses }
}

/// How much the columns and the mark take.
fn width_of(columns: &[Filled]) -> usize {
    columns.iter().map(|filled| GAP.len() + filled.width).sum::<usize>() + MARK
}

fn longest(cells: &[impl AsRef<str>], at_least: usize) -> usize {
    cells.iter().map(|cell| cell.as_ref().chars().count()).fold(at_least, usize::max)
}

/// Whether ready jobs wait for workers that do not come, or for a callback that fails.
fn needs_attention(topic: &Topic) -> bool {
    use Cause::{CallbackFails, NoWorker, WorkersBusy, WorkersSilent};
    matches!(topic.cause, Some(CallbackFails { .. } | NoWorker | WorkersBusy { .. } | WorkersSilent { .. }))
}

/// How often something happened each second; blank if nothing did in the last minute.
fn rate(shown: &ShownTopic<'_>, count: fn(&EventSummary) -> u64) -> String {
    shown.minute.map_or(String::new(), |minute| per_second(count(minute)))
}

fn late(shown: &ShownTopic<'_>) -> String {
    shown.minute.and_then(|minute| minute.delivered_late_p99).map_or(String::new(), span)
}

fn oldest(shown: &ShownTopic<'_>) -> String {
    let age = shown.topic.oldest_overdue_at.map(|due_at| shown.now.duration_since(due_at));
    // The figures may have been read a little before the list.
    age.map_or(String::new(), |age| span(age.try_into().unwrap_or_default()))
}
