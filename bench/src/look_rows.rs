//! What the parts of the scenario `look` share: when its jobs are due, its rows and its failures. Makes no calls.

use std::time::Duration;

use crate::{failure::Failure, plan::Due, report::Row};

pub(crate) const NAME: &str = "look";

/// How far ahead the first job is due, so that none is due before the bench has ended.
pub(crate) const LEAST: Duration = Duration::from_secs(6 * 3_600);

/// Over how long a time the jobs are spread.
const SPREAD: Duration = Duration::from_secs(30 * 86_400);

/// A topic and how many jobs it has.
pub(crate) type Filled = (String, usize);

/// When the jobs are due.
pub(crate) fn due() -> Due {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Due::After { least_ms: ms(LEAST), spread_ms: ms(SPREAD) }
}

/// A row of this scenario.
pub(crate) fn row(step: &str, count: usize) -> Row {
    Row { scenario: NAME, step: step.to_owned(), delay: due().pattern(), count, ..Row::default() }
}

pub(crate) fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// An answer that cannot be right.
pub(crate) fn wrong(step: &str, answer: &dyn std::fmt::Display) -> Failure {
    Failure::Unfit(format!("{step}: the server answers {answer}"))
}
