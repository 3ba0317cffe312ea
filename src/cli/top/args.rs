//! The arguments of `linger top`.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use linger_client::TopicSort;

use crate::{cli::session::ReadArgs, job::parse_duration};

/// The orders, as a key goes through them.
pub(super) const SORTS: [TopicSort; 5] =
    [TopicSort::Ready, TopicSort::Overdue, TopicSort::Delayed, TopicSort::Dead, TopicSort::Name];

/// Shortest time between two readings.
const SHORTEST: Duration = Duration::from_millis(100);

/// Arguments of `linger top`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TopArgs {
    /// The order of the topics: most jobs in a state, the longest overdue, or by name
    #[arg(long, value_name = "ORDER", default_value = "ready", value_parser = sorts())]
    pub sort: TopicSort,
    /// Only topics whose names begin so
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How often to read the figures
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    pub every: Duration,
    #[command(flatten)]
    pub read: ReadArgs,
}

fn sorts() -> impl TypedValueParser<Value = TopicSort> {
    PossibleValuesParser::new(SORTS.map(TopicSort::as_str)).map(|word| {
        let sort = SORTS.into_iter().find(|sort| sort.as_str() == word);
        sort.expect("no other word is possible")
    })
}

fn every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text).map_err(|error| error.to_string())?;
    if every < SHORTEST { Err("must be at least 100ms".to_owned()) } else { Ok(every) }
}
