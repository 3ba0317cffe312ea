//! The state of `linger top`, and what a key changes of it. Does not know how it is drawn.

use std::time::Duration;

use linger_client::TopicSort;

use super::{args::SORTS, reading::Reading};
use crate::cli::exit::{Exit, Failure};

/// Data that is older than two readings and this is shown as old.
const OLD_MS: i64 = 3_000;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Read with the next order.
    NextSort,
    ReadNow,
    Help,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What is left to do after an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Draw,
    Read,
    Quit,
}

/// Why the last reading failed.
#[derive(Debug)]
pub(super) struct Trouble {
    /// In a word or two.
    pub kind: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct State {
    /// Address of the server.
    pub server: String,
    pub sort: TopicSort,
    pub prefix: Option<String>,
    pub every: Duration,
    pub reading: Reading,
    /// When the reading came, by the clock of this machine.
    pub read_at_us: i64,
    pub trouble: Option<Trouble>,
    /// How many topics are above the first line of the table.
    pub offset: usize,
    pub shows_help: bool,
}

impl State {
    /// Applies an action to a table that shows `rows` topics at a time.
    pub fn apply(&mut self, action: Action, rows: usize) -> Effect {
        let last = self.last_offset(rows);
        let page = rows.max(1);
        let from = self.offset.min(last);
        self.offset = match action {
            Action::Quit => return Effect::Quit,
            Action::ReadNow => return Effect::Read,
            Action::NextSort => {
                let at = SORTS.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = SORTS[(at + 1) % SORTS.len()];
                self.offset = 0;
                return Effect::Read;
            }
            Action::Help => {
                self.shows_help = !self.shows_help;
                return Effect::Draw;
            }
            Action::Up => from.saturating_sub(1),
            Action::Down => from + 1,
            Action::PageUp => from.saturating_sub(page),
            Action::PageDown => from + page,
            Action::Home => 0,
            Action::End => last,
        }
        .min(last);
        Effect::Draw
    }

    /// The largest offset that leaves no line empty.
    pub fn last_offset(&self, rows: usize) -> usize {
        self.reading.topics.len().saturating_sub(rows)
    }

    /// Takes what a reading that came at `now_us` returned.
    pub fn receive(&mut self, read: Result<Reading, Failure>, now_us: i64) {
        match read {
            Ok(reading) => {
                self.reading = reading;
                self.read_at_us = now_us;
                self.trouble = None;
            }
            Err(failure) => {
                let kind = if failure.has_answer() {
                    "refused"
                } else if failure.exit == Exit::NoAnswer {
                    "no answer"
                } else {
                    "failed"
                };
                self.trouble = Some(Trouble { kind, message: failure.message });
            }
        }
    }

    /// How old the data is, in milliseconds.
    pub fn age_ms(&self, now_us: i64) -> i64 {
        (now_us - self.read_at_us).max(0) / 1_000
    }

    /// Whether the data is no longer true.
    pub fn is_old(&self, now_us: i64) -> bool {
        let every_ms = i64::try_from(self.every.as_millis()).unwrap_or(i64::MAX);
        self.trouble.is_some() || self.age_ms(now_us) > every_ms.saturating_mul(2).saturating_add(OLD_MS)
    }
}
