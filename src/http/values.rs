//! Reading single values: from JSON, and from the text of a parameter. Each says how to mend what it refuses.
//!
//! `null` is refused like any other wrong type: what is meant to be left out is left out.

use std::{borrow::Cow, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::{
    Delay, JobId, MAX_ATTEMPTS_LIMIT, Reason, Receipt, RetrySchedule, Timestamp, Topic, Ttr, parse_duration,
};

/// What a reader answers: the value, or how to mend it.
pub(super) type Read<T> = Result<T, String>;

/// A JSON text.
pub(super) fn text(raw: &RawValue) -> Read<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    if !raw.get().starts_with('"') {
        return Err("must be a text".to_owned());
    }
    let text: Text<'_> = serde_json::from_str(raw.get())
        .map_err(|_| "must be a text of whole Unicode characters".to_owned())?;
    Ok(text.0)
}

/// `true` or `false`.
pub(super) fn flag(raw: &RawValue) -> Read<bool> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A JSON list, its elements unread.
pub(super) fn list(raw: &RawValue) -> Read<Vec<&RawValue>> {
    if !raw.get().starts_with('[') {
        return Err("must be a list".to_owned());
    }
    serde_json::from_str(raw.get()).map_err(|error| format!("must be a list: {error}"))
}

/// A duration: a number of seconds, or a text.
pub(super) fn duration(raw: &RawValue) -> Read<Duration> {
    let json = raw.get();
    let parsed = match json.as_bytes().first() {
        Some(b'"') => parse_duration(&text(raw)?),
        Some(b'-' | b'0'..=b'9') => parse_duration(json),
        _ => return Err("must be a number of seconds or a text such as \"15s\"".to_owned()),
    };
    parsed.map_err(|error| error.to_string())
}

pub(super) fn delay(raw: &RawValue) -> Read<Delay> {
    Delay::new(duration(raw)?).map_err(|error| error.to_string())
}

pub(super) fn ttr(raw: &RawValue) -> Read<Ttr> {
    Ttr::new(duration(raw)?).map_err(|error| error.to_string())
}

pub(super) fn ttr_text(text: &str) -> Read<Ttr> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    Ttr::new(duration).map_err(|error| error.to_string())
}

pub(super) fn duration_text(text: &str) -> Read<Duration> {
    parse_duration(text).map_err(|error| error.to_string())
}

pub(super) fn moment(raw: &RawValue) -> Read<Timestamp> {
    Timestamp::parse(&text(raw)?).map_err(|error| error.to_string())
}

pub(super) fn job_id(raw: &RawValue) -> Read<JobId> {
    job_id_text(&text(raw)?)
}

pub(super) fn job_id_text(text: &str) -> Read<JobId> {
    JobId::parse(text).map_err(|error| error.to_string())
}

pub(super) fn topic(raw: &RawValue) -> Read<Topic> {
    topic_text(&text(raw)?)
}

pub(super) fn topic_text(text: &str) -> Read<Topic> {
    Topic::parse(text).map_err(|error| error.to_string())
}

pub(super) fn receipt(raw: &RawValue) -> Read<Receipt> {
    receipt_text(&text(raw)?)
}

pub(super) fn receipt_text(text: &str) -> Read<Receipt> {
    // The error of the parser shows a character of what was sent, never the whole.
    Receipt::parse(text).map_err(|error| error.to_string())
}

pub(super) fn reason(raw: &RawValue) -> Read<Reason> {
    Reason::new(&text(raw)?).ok_or_else(|| format!("must be at most {} bytes long", Reason::MAX_LEN))
}

pub(super) fn max_attempts(raw: &RawValue) -> Read<u32> {
    whole(raw, 0, MAX_ATTEMPTS_LIMIT as usize).map(|n| u32::try_from(n).expect("at most the limit, a u32"))
}

pub(super) fn schedule(steps: Vec<Duration>) -> Read<RetrySchedule> {
    RetrySchedule::new(steps).map_err(|error| error.to_string())
}

/// A whole JSON number within bounds, in plain digits; `5.0` too, as some languages write it.
pub(super) fn whole(raw: &RawValue, min: usize, max: usize) -> Read<usize> {
    let text = raw.get();
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if zeros.bytes().all(|zero| zero == b'0') => digits,
        Some(_) | None => text,
    };
    whole_text(digits, min, max)
}

/// A whole number within bounds, in plain digits.
pub(super) fn whole_text(text: &str, min: usize, max: usize) -> Read<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|n| digits && (min..=max).contains(n));
    number.ok_or_else(|| format!("must be a whole number from {min} to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).expect("JSON")
    }

    #[test]
    fn durations_are_numbers_or_texts() {
        for (json, ms) in
            [("15", 15_000), ("0.25", 250), ("1e2", 100_000), ("\"15\"", 15_000), ("\"3m\"", 180_000)]
        {
            assert_eq!(duration(raw(json)), Ok(Duration::from_millis(ms)), "{json}");
        }
        for json in ["-1", "1e999", "null", "true", "[]", "{}", "\"NaN\"", "\"soon\"", "\"\"", "\"\\ud800\""]
        {
            assert!(duration(raw(json)).is_err(), "{json}");
        }
    }

    #[test]
    fn whole_numbers_are_plain_digits_within_bounds() {
        assert_eq!(max_attempts(raw("0")), Ok(0));
        assert_eq!(max_attempts(raw("1000000")), Ok(1_000_000));
        assert_eq!(max_attempts(raw("7.00")), Ok(7));
        for json in
            ["1000001", "-1", "1.5", "1.01", "-1.0", "1e2", "\"5\"", "null", "99999999999999999999999"]
        {
            assert!(max_attempts(raw(json)).is_err(), "{json}");
        }
        assert_eq!(whole_text("+5", 1, 10), Err("must be a whole number from 1 to 10".to_owned()));
    }

    #[test]
    fn null_is_no_text_no_flag_and_no_list() {
        assert!(text(raw("null")).is_err());
        assert!(flag(raw("null")).is_err());
        assert!(list(raw("null")).is_err());
    }
}
