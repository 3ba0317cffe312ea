//! The table of topics as lines of text: which columns fit, and how wide each is.

use linger_client::{Timestamp, Topic};

use crate::cli::text::{grouped, paused, span};

/// Columns that the names of topics have at least.
const SHORTEST_NAME: usize = 12;
/// Columns that the names have at most: the API allows no longer ones.
const LONGEST_NAME: usize = 128;
const GAP: &str = "  ";
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

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub text: String,
    /// Whether the topic has ready jobs that nobody polls for.
    pub has_mark: bool,
}

/// The table, in lines of at most `width` columns; the heading comes first.
pub(super) fn rows(topics: &[Topic], now: Timestamp, width: usize) -> Vec<Row> {
    let names = topics.iter().map(|topic| topic.topic.chars().count());
    let names = names.chain([SHORTEST_NAME]).max().unwrap_or(SHORTEST_NAME).min(LONGEST_NAME);
    let mut columns: Vec<(&Column, Vec<String>, usize)> = COLUMNS
        .iter()
        .map(|column| {
            let cells: Vec<_> = topics.iter().map(|topic| (column.cell)(topic, now)).collect();
            let lengths = cells.iter().map(|cell| cell.chars().count()).chain([column.heading.len()]);
            let length = lengths.max().unwrap_or(0);
            (column, cells, length)
        })
        .collect();
    // The mark takes two columns behind the others.
    let needed = |columns: &[(&Column, Vec<String>, usize)]| {
        columns.iter().map(|(.., length)| length + GAP.len()).sum::<usize>() + 2
    };
    while SHORTEST_NAME + needed(&columns) > width
        && let Some(last) = (0..columns.len()).max_by_key(|at| columns[*at].0.rank)
    {
        columns.remove(last);
    }
    let name_width = names.min(width.saturating_sub(needed(&columns)));
    let shows_pauses = name_width.saturating_add(needed(&columns) + GAP.len() + LONGEST_PAUSE) <= width;
    let line = |name: &str, cell: &dyn Fn(usize) -> String, mark: &str, paused: &str| {
        let mut line = format!("{:<name_width$}", shortened(name, name_width));
        for (at, (.., length)) in columns.iter().enumerate() {
            line.push_str(&format!("{GAP}{:>length$}", cell(at)));
        }
        line.push_str(&format!(" {mark:<1}"));
        if shows_pauses {
            line.push_str(&format!("{GAP}{paused}"));
        }
        shortened(line.trim_end(), width)
    };
    let heading = line("TOPIC", &|at| columns[at].0.heading.to_owned(), "", "PAUSED");
    let mut rows = vec![Row { text: heading, has_mark: false }];
    for (at, topic) in topics.iter().enumerate() {
        let has_mark = is_unattended(topic);
        let mark = if has_mark { "!" } else { "" };
        let text = line(&topic.topic, &|column| columns[column].1[at].clone(), mark, paused(topic.paused));
        rows.push(Row { text, has_mark });
    }
    rows
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

/// Text in at most `width` columns; what is cut off shows as `…`.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain("…".chars().take(width)).collect()
}
