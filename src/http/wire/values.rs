//! Parsers of single values, from JSON and from the text of a parameter. Each error says how to correct the value.
//!
//! `null` is refused like any other wrong type: `fields` has read the fields that are left out so.

use std::{borrow::Cow, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::job::{
    Actor, DedupWindow, Delay, Due, DurationError, Expire, JobId, JobSpec, MAX_ATTEMPTS_LIMIT, NoteText,
    OnExpiry, Reason, Receipt, RetrySchedule, TimeError, Timestamp, Topic, Ttr, ValueError, format_seconds,
    parse_duration,
};

/// What the ids of the jobs of schedules begin with: by the clock, and by a client.
const RESERVED_PREFIXES: [&str; 2] = ["cron:", "run:"];

/// The value, or how to correct it.
pub type ParseResult<T> = Result<T, String>;

/// A JSON string.
pub fn text(raw: &RawValue) -> ParseResult<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    if !raw.get().starts_with('"') {
        return Err("must be a string".to_owned());
    }
    let text: Text<'_> = serde_json::from_str(raw.get())
        .map_err(|_| "must be a string of whole Unicode characters".to_owned())?;
    Ok(text.0)
}

/// `true` or `false`.
pub fn flag(raw: &RawValue) -> ParseResult<bool> {
    flag_text(raw.get())
}

pub fn flag_text(text: &str) -> ParseResult<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A JSON list whose elements are not parsed.
pub struct RawList<'a> {
    /// The first elements, up to the limit.
    pub items: Vec<&'a RawValue>,
    /// The number of all elements.
    pub len: usize,
}

/// A JSON list of which at most `limit` elements are kept.
pub fn list(raw: &RawValue, limit: usize) -> ParseResult<RawList<'_>> {
    if !raw.get().starts_with('[') {
        return Err("must be a list".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    ListVisitor { limit }.deserialize(&mut deserializer).map_err(|error| format!("must be a list: {error}"))
}

/// Keeps the first elements of a list and counts the others, which then use no memory.
struct ListVisitor {
    limit: usize,
}

impl<'de> DeserializeSeed<'de> for ListVisitor {
    type Value = RawList<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ListVisitor {
    type Value = RawList<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.limit
            && let Some(item) = seq.next_element::<&'de RawValue>()?
        {
            items.push(item);
        }
        let mut len = items.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            len += 1;
        }
        Ok(RawList { items, len })
    }
}

/// A duration: a number of seconds, or a string.
fn parsed_duration(raw: &RawValue) -> ParseResult<Result<Duration, DurationError>> {
    let json = raw.get();
    match json.as_bytes().first() {
        Some(b'"') => text(raw).map(|text| parse_duration(&text)),
        Some(b'-' | b'0'..=b'9') => Ok(parse_duration(json)),
        _ => Err("must be a number of seconds or a string such as \"15s\"".to_owned()),
    }
}

pub fn duration(raw: &RawValue) -> ParseResult<Duration> {
    parsed_duration(raw)?.map_err(|error| error.to_string())
}

/// A delay of at most `max`, which is `queue.max_delay`.
pub fn delay(raw: &RawValue, max: Delay) -> ParseResult<Delay> {
    let duration = match parsed_duration(raw)? {
        Err(DurationError::TooLarge) => return Err(too_long(max)),
        parsed => parsed.map_err(|error| error.to_string())?,
    };
    Delay::new(duration).ok().filter(|delay| *delay <= max).ok_or_else(|| too_long(max))
}

/// Names the limit of delays, and the usual mistake behind a delay beyond a configured limit.
fn too_long(max: Delay) -> String {
    if max == Delay::LONGEST {
        return ValueError::DelayTooLong.to_string();
    }
    let seconds = format_seconds(max.as_duration());
    format!("must be at most {seconds} s (queue.max_delay); a number counts seconds, not milliseconds")
}

/// One step of a retry schedule, which is a delay.
pub fn retry_step(raw: &RawValue, max: Delay) -> ParseResult<Duration> {
    delay(raw, max).map(Delay::as_duration)
}

pub fn ttr(raw: &RawValue) -> ParseResult<Ttr> {
    checked_ttr(parsed_duration(raw)?)
}

/// For how long a topic remembers ids.
pub fn dedup(raw: &RawValue) -> ParseResult<DedupWindow> {
    let duration = match parsed_duration(raw)? {
        Err(DurationError::TooLarge) => Duration::MAX,
        parsed => parsed.map_err(|error| error.to_string())?,
    };
    DedupWindow::new(duration).map_err(|error| error.to_string())
}

pub fn ttr_text(text: &str) -> ParseResult<Ttr> {
    checked_ttr(parse_duration(text))
}

fn checked_ttr(parsed: Result<Duration, DurationError>) -> ParseResult<Ttr> {
    let duration = match parsed {
        Err(DurationError::TooLarge) => Duration::MAX,
        parsed => parsed.map_err(|error| error.to_string())?,
    };
    Ttr::new(duration).map_err(|error| error.to_string())
}

pub fn duration_text(text: &str) -> ParseResult<Duration> {
    parse_duration(text).map_err(|error| error.to_string())
}

pub fn timestamp(raw: &RawValue) -> ParseResult<Timestamp> {
    if !raw.get().starts_with('"') {
        return Err(not_a_timestamp(raw.get()));
    }
    timestamp_text(&text(raw)?)
}

pub fn timestamp_text(text: &str) -> ParseResult<Timestamp> {
    Timestamp::parse(text).map_err(|error| error.to_string())
}

/// Many clients send a number of seconds or milliseconds since 1970. The error shows them the same time as RFC 3339.
fn not_a_timestamp(json: &str) -> String {
    // Seconds until the year 5138, and milliseconds from 1973 on.
    let unix_ms = match json.parse::<f64>() {
        Ok(number) if (0.0..1e11).contains(&number) => number * 1e3,
        Ok(number) if (1e11..1e15).contains(&number) => number,
        _ => return TimeError::NotRfc3339.to_string(),
    };
    let timestamp = Timestamp::from_millis(unix_ms as i64);
    format!("must be an RFC 3339 string, not a number; this moment is \"{timestamp}\"")
}

/// A duration of at most ten years after the due time, or a moment.
pub fn expire(raw: &RawValue) -> ParseResult<Expire> {
    Ok(match delay_or_moment(raw)? {
        Due::After(delay) => Expire::After(delay),
        Due::At(moment) => Expire::At(moment),
    })
}

/// A duration of at most ten years, or a moment.
pub fn delay_or_moment(raw: &RawValue) -> ParseResult<Due> {
    // A date has a dash behind its year.
    let is_date = |text: &str| {
        text.find(|c: char| !c.is_ascii_digit()).is_some_and(|at| at > 0 && text[at..].starts_with('-'))
    };
    match raw.get().strip_prefix('"').is_some_and(is_date) {
        true => timestamp(raw).map(Due::At),
        false => delay(raw, Delay::LONGEST).map(Due::After),
    }
}

pub fn on_expiry(raw: &RawValue) -> ParseResult<OnExpiry> {
    let text = text(raw)?;
    let named = OnExpiry::ALL.into_iter().find(|named| named.as_str() == text);
    named.ok_or_else(|| "must be \"dead\" or \"delete\"".to_owned())
}

pub fn job_id(raw: &RawValue) -> ParseResult<JobId> {
    job_id_text(&text(raw)?)
}

pub fn job_id_text(text: &str) -> ParseResult<JobId> {
    JobId::parse(text).map_err(|error| error.to_string())
}

/// The id of a job to add.
pub fn new_job_id(raw: &RawValue) -> ParseResult<JobId> {
    let id = job_id(raw)?;
    let reserved = RESERVED_PREFIXES.into_iter().find(|prefix| id.as_str().starts_with(prefix));
    reserved
        .map_or(Ok(id), |prefix| Err(format!("must not begin with \"{prefix}\": the jobs of schedules do")))
}

pub fn topic(raw: &RawValue) -> ParseResult<Topic> {
    topic_text(&text(raw)?)
}

pub fn topic_text(text: &str) -> ParseResult<Topic> {
    Topic::parse(text).map_err(|error| error.to_string())
}

pub fn receipt(raw: &RawValue) -> ParseResult<Receipt> {
    receipt_text(&text(raw)?)
}

pub fn receipt_text(text: &str) -> ParseResult<Receipt> {
    // The parser's error shows one character of the text, never the whole receipt.
    Receipt::parse(text).map_err(|error| error.to_string())
}

pub fn reason(raw: &RawValue) -> ParseResult<Reason> {
    Reason::new(&text(raw)?).ok_or_else(|| format!("must be at most {} bytes long", Reason::MAX_LEN))
}

pub fn note_text(raw: &RawValue) -> ParseResult<NoteText> {
    NoteText::new(&text(raw)?).ok_or_else(|| format!("must be 1 to {} bytes long", NoteText::MAX_LEN))
}

pub fn actor(raw: &RawValue) -> ParseResult<Actor> {
    actor_text(&text(raw)?)
}

pub fn actor_text(text: &str) -> ParseResult<Actor> {
    Actor::parse(text).map_err(|error| error.to_string())
}

pub fn max_attempts(raw: &RawValue) -> ParseResult<u32> {
    whole_number(raw, 0, MAX_ATTEMPTS_LIMIT as usize)
        .map(|n| u32::try_from(n).expect("at most MAX_ATTEMPTS_LIMIT, which is a u32"))
}

/// The number of an attempt, from 1.
pub fn attempt(raw: &RawValue) -> ParseResult<u32> {
    whole_number(raw, 1, u32::MAX as usize).map(|n| u32::try_from(n).expect("at most u32::MAX"))
}

pub fn revision(raw: &RawValue) -> ParseResult<u64> {
    let most = usize::try_from(JobSpec::MAX_REVISION).unwrap_or(usize::MAX);
    whole_number(raw, 0, most).map(|n| n as u64)
}

/// Whether an add replaces the job that has its id.
pub fn if_exists(raw: &RawValue) -> ParseResult<bool> {
    match text(raw)?.as_ref() {
        "keep" => Ok(false),
        "replace" => Ok(true),
        _ => Err("must be \"keep\" or \"replace\"".to_owned()),
    }
}

pub fn retry_schedule(steps: Vec<Duration>) -> ParseResult<RetrySchedule> {
    RetrySchedule::new(steps).map_err(|error| error.to_string())
}

/// A whole JSON number within bounds, in plain digits. Accepts `5.0`, as some languages write it.
pub fn whole_number(raw: &RawValue, min: usize, max: usize) -> ParseResult<usize> {
    let text = raw.get();
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if zeros.bytes().all(|zero| zero == b'0') => digits,
        Some(_) | None => text,
    };
    whole_number_text(digits, min, max)
}

/// A whole number within bounds, in plain digits.
pub fn whole_number_text(text: &str, min: usize, max: usize) -> ParseResult<usize> {
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
    fn durations_are_numbers_or_strings() {
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
        assert_eq!(whole_number_text("+5", 1, 10), Err("must be a whole number from 1 to 10".to_owned()));
    }

    #[test]
    fn lists_are_kept_up_to_their_limit_and_counted_to_their_end() {
        for (limit, kept) in [(0, 0), (2, 2), (3, 3), (9, 3)] {
            let list = list(raw("[1,\"a\",[2]]"), limit).expect("a list");
            assert_eq!((list.items.len(), list.len), (kept, 3), "{limit}");
        }
    }

    #[test]
    fn null_is_neither_a_string_nor_a_flag_nor_a_list() {
        assert!(text(raw("null")).is_err());
        assert!(flag(raw("null")).is_err());
        assert!(list(raw("null"), 1).is_err());
    }
}
