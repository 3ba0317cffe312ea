//! Tests of schedules, and what they share.

mod changes;
mod clocks;
mod days;
mod oracle;
mod patterns;
mod plans;
mod recurrences;
mod rules;
mod simulation;
mod stored;
mod zones;

use std::time::Duration;

use super::*;
use crate::job::{ScheduleName, Timestamp, Topic};

fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a moment")
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn hours(count: u64) -> Duration {
    minutes(60 * count)
}

fn name() -> ScheduleName {
    ScheduleName::parse("daily-report").expect("valid")
}

fn cron(pattern: &str, zone: &str) -> RecurrenceFields {
    RecurrenceFields {
        cron: Some(pattern.to_owned()),
        time_zone: Some(zone.to_owned()),
        ..RecurrenceFields::default()
    }
}

fn every(every: Duration) -> RecurrenceFields {
    RecurrenceFields { every: Some(every), ..RecurrenceFields::default() }
}

fn recurrence(fields: &RecurrenceFields) -> Recurrence {
    let recurrence = Recurrence::parse(fields).expect("valid");
    recurrence.check().expect("has occurrences");
    recurrence
}

fn fields(recurrence: RecurrenceFields) -> ScheduleFields {
    ScheduleFields {
        recurrence,
        jitter: None,
        overlap: None,
        missed: None,
        missed_within: None,
        topic: Topic::parse("report").expect("valid"),
        template: r#"{"topic":"report","body":{"kind":"daily"}}"#.to_owned(),
    }
}

fn spec(fields: &ScheduleFields) -> ScheduleSpec {
    ScheduleSpec::new(fields).expect("valid")
}

/// The occurrences between two moments, both included, as text.
fn texts(recurrence: &Recurrence, from: &str, to: &str) -> Vec<String> {
    let found = recurrence.occurrences(moment(from).shifted(-1), moment(to));
    found.map(|occurrence| occurrence.to_string().replace(":00.000Z", "Z")).collect()
}
