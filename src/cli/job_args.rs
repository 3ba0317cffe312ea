//! The flags that say what a job gets: those of `linger add`, and of `linger schedule put` for the job of each run.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::{civil::DateTime, tz::TimeZone};
use linger_client::{Callback, Expire, NewJob, OnExpiry, Timestamp};

use crate::job::parse_duration;

/// What a job gets in place of what its topic gives it.
#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// How long a worker has the job [default: the topic's, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttr: Option<Duration>,
    /// Attempts until it is a dead letter; 0 for no limit [default: the topic's, else 16]
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Waits between attempts, such as 15s,3m
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = parse_duration)]
    retry: Vec<Duration>,
    /// URL that the server calls when it is due, so that no worker gets it [default: the topic's callback, if any]
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
}

impl JobArgs {
    /// The job with what the flags say.
    pub fn apply(&self, job: NewJob) -> NewJob {
        let Self { ttr, max_attempts, retry, callback } = self;
        let callback = callback.clone().map(|url| Callback { url, ..Callback::default() });
        NewJob { ttr: *ttr, max_attempts: *max_attempts, retry: retry.clone(), callback, ..job }
    }
}

/// What happens to jobs that expire.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum OnExpiryArg {
    /// They become dead letters
    Dead,
    /// They are deleted
    Delete,
}

impl From<OnExpiryArg> for OnExpiry {
    fn from(argument: OnExpiryArg) -> Self {
        match argument {
            OnExpiryArg::Dead => Self::Dead,
            OnExpiryArg::Delete => Self::Delete,
        }
    }
}

/// A moment such as `2027-01-01T08:00:00+01:00`; without an offset, `2027-01-01 08:00`, it is by the clock of this machine.
pub(super) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    moment_in(&TimeZone::system(), text)
}

fn moment_in(zone: &TimeZone, text: &str) -> Result<Timestamp, String> {
    if let Some(local) = local_time(text) {
        let moment = zone.to_ambiguous_timestamp(local).unambiguous();
        return moment.map_err(|_| {
            "is a time that the clock of this machine leaves out or shows twice; add the offset from UTC, such as +01:00".to_owned()
        });
    }
    // The server's reader of moments, so that both accept the same.
    let moment = crate::job::Timestamp::parse(text).map_err(|error| error.to_string())?;
    Timestamp::from_millisecond(moment.as_millis()).map_err(|error| error.to_string())
}

/// A date and a time of day without an offset.
fn local_time(text: &str) -> Option<DateTime> {
    let (_, time) = text.split_once(['T', ' '])?;
    let is_time =
        time.contains(':') && time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    is_time.then(|| text.parse().ok()).flatten()
}

/// A duration, or a moment, which has a dash behind its year.
pub(super) fn parse_expire(text: &str) -> Result<Expire, String> {
    match text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('-') {
        true => parse_moment(text).map(Expire::At),
        false => parse_duration(text).map(Expire::After).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_is_by_the_clock_of_the_machine() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("is a zone");
        let read = |text| moment_in(&zone, text).map(|moment| moment.to_string());
        for (text, moment) in [
            ("2026-12-01 09:00", "2026-12-01T08:00:00Z"),
            ("2026-12-01T09:00:30", "2026-12-01T08:00:30Z"),
            ("2026-07-01 09:00", "2026-07-01T07:00:00Z"),
            ("2026-12-01T09:00:00+08:00", "2026-12-01T01:00:00Z"),
            ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(moment), "{text}");
        }
        for text in ["2027-03-28 02:30", "2027-10-31 02:30"] {
            assert!(read(text).is_err_and(|detail| detail.contains("leaves out or shows twice")), "{text}");
        }
        for text in ["2026-12-01", "2026-12-01 9", "2026-13-01 09:00", "soon", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
