//! Durations as clients write them: seconds, `"1h30m"`, or ISO 8601 `"PT15M"`.
//!
//! Our own small parser, because the popular crates disagree with the contract: one reads `1M` as a
//! month, another refuses `7d`. Units are lower case and unambiguous; calendar units (months,
//! years) have no fixed length and are refused.

use std::time::Duration;

/// Why a text or number is not a valid duration; the message says what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Negative, infinite or not a number.
    #[error("must be zero or more seconds")]
    Negative,
    /// Larger than any duration the server handles.
    #[error("must be at most 100 years")]
    TooLarge,
    /// The text is longer than any reasonable duration.
    #[error("must be at most {MAX_TEXT} characters long")]
    TooLong,
    /// Not one of the accepted forms.
    #[error(
        "must be a number of seconds or a string such as \"250ms\", \"15s\", \"3m\", \"1h30m\", \"7d\", \"2w\" or \"PT15M\""
    )]
    Malformed,
}

/// Longest text, in bytes, as in the API's contract.
const MAX_TEXT: usize = 64;

/// Longest duration (100 years), which keeps all arithmetic far from overflow.
const CEILING: Duration = Duration::from_secs(100 * 366 * 86_400);

const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a duration. A plain number is a number of seconds, so that query parameters (`wait=20`) and JSON numbers mean
/// the same.
///
/// # Errors
/// [`DurationError`] for a negative, too large or malformed value.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    if text.len() > MAX_TEXT {
        return Err(DurationError::TooLong);
    }
    let text = text.trim_ascii();
    if text.starts_with('-') {
        return Err(if text.len() > 1 { DurationError::Negative } else { DurationError::Malformed });
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) && !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return plain_seconds(text);
    }
    match text.strip_prefix('P') {
        Some(rest) => iso_8601(rest),
        None => units(text),
    }
}

/// Seconds as a decimal number, perhaps with a fraction and an exponent, as in JSON.
fn plain_seconds(text: &str) -> Result<Duration, DurationError> {
    // f64 holds milliseconds exactly up to 285,000 years, and rejects nothing that JSON accepts.
    let seconds: f64 = text.parse().map_err(|_| DurationError::Malformed)?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(DurationError::Negative);
    }
    if seconds > CEILING.as_secs_f64() {
        return Err(DurationError::TooLarge);
    }
    // To the nearest microsecond first: 0.3 s must not become 301 ms because of its binary form.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// `1h30m`: whole numbers with units, each unit once, largest first.
fn units(text: &str) -> Result<Duration, DurationError> {
    let mut total_ms: u64 = 0;
    let mut rest = text;
    let mut allowed = &UNITS[..];
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    while !rest.is_empty() {
        let (count, after) = whole_number(rest)?;
        let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_len);
        let at = allowed.iter().position(|(name, _)| *name == unit).ok_or(DurationError::Malformed)?;
        total_ms = add(total_ms, count, allowed[at].1)?;
        allowed = &allowed[at + 1..];
        rest = next;
    }
    Ok(Duration::from_millis(total_ms))
}

/// What follows the `P` of ISO 8601: weeks and days, then `T`, hours, minutes and seconds; a
/// fraction is accepted on the seconds.
fn iso_8601(text: &str) -> Result<Duration, DurationError> {
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return Err(DurationError::Malformed),
        Some((date, time)) => (date, time),
        None if text.is_empty() => return Err(DurationError::Malformed),
        None => (text, ""),
    };
    let mut total_ms = iso_part(date, &[('W', 604_800_000), ('D', 86_400_000)], false)?;
    total_ms = add(total_ms, 1, iso_part(time, &[('H', 3_600_000), ('M', 60_000), ('S', 1_000)], true)?)?;
    Ok(Duration::from_millis(total_ms))
}

fn iso_part(text: &str, units: &[(char, u64)], fraction: bool) -> Result<u64, DurationError> {
    let mut total_ms = 0;
    let mut rest = text;
    let mut allowed = units;
    while !rest.is_empty() {
        let (count, mut after) = whole_number(rest)?;
        let mut extra_ms = 0;
        if fraction && after.starts_with(['.', ',']) {
            let digits_len = after[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len() - 1);
            let digits = &after[1..=digits_len];
            after = &after[digits_len + 1..];
            if digits.is_empty() || digits.len() > 9 || !after.starts_with('S') {
                return Err(DurationError::Malformed);
            }
            let nanos: u64 = format!("{digits:0<9}").parse().map_err(|_| DurationError::Malformed)?;
            extra_ms = nanos.div_ceil(1_000_000);
        }
        let unit = after.chars().next().ok_or(DurationError::Malformed)?;
        let at = allowed.iter().position(|(name, _)| *name == unit).ok_or(DurationError::Malformed)?;
        total_ms = add(add(total_ms, count, allowed[at].1)?, 1, extra_ms)?;
        allowed = &allowed[at + 1..];
        rest = &after[unit.len_utf8()..];
    }
    Ok(total_ms)
}

fn whole_number(text: &str) -> Result<(u64, &str), DurationError> {
    let len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if len == 0 {
        return Err(DurationError::Malformed);
    }
    let count = text[..len].parse().map_err(|_| DurationError::TooLarge)?;
    Ok((count, &text[len..]))
}

fn add(total_ms: u64, count: u64, unit_ms: u64) -> Result<u64, DurationError> {
    count
        .checked_mul(unit_ms)
        .and_then(|ms| ms.checked_add(total_ms))
        .filter(|ms| *ms <= CEILING.as_millis() as u64)
        .ok_or(DurationError::TooLarge)
}

/// A duration as the API writes it: seconds, with a fraction only when there is one.
#[must_use]
pub fn format_seconds(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (whole, fraction) = (ms / 1_000, ms % 1_000);
    if fraction == 0 {
        return whole.to_string();
    }
    format!("{whole}.{fraction:03}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_every_form_of_the_contract() {
        for (text, ms) in [
            ("0", 0),
            ("15", 15_000),
            ("0.25", 250),
            ("1e2", 100_000),
            ("0.3", 300),
            ("250ms", 250),
            ("15s", 15_000),
            ("3m", 180_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("2w", 1_209_600_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("PT15M", 900_000),
            ("PT0.5S", 500),
            ("P1DT12H", 129_600_000),
            ("P2W", 1_209_600_000),
            (" 5s ", 5_000),
            ("PT1.0001S", 1_001),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_nonsense_and_says_why() {
        for text in [
            "", "s", "1M", "1y", "5 s", "m5", "1s1h", "1s1s", "P", "PT", "P1M", "P1Y", "PT5", "1.5h", "nan",
            "NaN", "inf", "Infinity", "0x10", "1..5", "PT.5S", "PT1.S", "10sec", "½s", "-",
        ] {
            assert_eq!(parse_duration(text), Err(DurationError::Malformed), "{text}");
        }
        for text in ["-1", "-5s", "-PT5S", "-0.1"] {
            assert_eq!(parse_duration(text), Err(DurationError::Negative), "{text}");
        }
        for text in ["1e300", "99999999999w", "99999999999999999999999s", "P9999999D"] {
            assert_eq!(parse_duration(text), Err(DurationError::TooLarge), "{text}");
        }
    }

    #[test]
    fn writes_seconds_without_needless_digits() {
        for (ms, text) in [(0, "0"), (60_000, "60"), (1_500, "1.5"), (1, "0.001"), (86_400_010, "86400.01")] {
            assert_eq!(format_seconds(Duration::from_millis(ms)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0u64..3_000_000_000_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_seconds(duration)), Ok(duration));
            prop_assert_eq!(parse_duration(&format!("{ms}ms")), Ok(duration));
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "\\PC*", digits in "[0-9PTWDHMSmshdw.,eE+-]{0,12}") {
            let _ = (parse_duration(&text), parse_duration(&digits));
        }
    }
}
