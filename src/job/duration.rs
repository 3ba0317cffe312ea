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
        "must be a number of seconds or a string such as \"250ms\", \"1.5s\", \"3m\", \"1h30m\", \"7d\", \"2w\" or \"PT15M\""
    )]
    Malformed,
}

/// Longest text, in bytes, as in the API's contract.
const MAX_TEXT: usize = 64;

/// Longest duration (100 years), which keeps all arithmetic far from overflow.
const CEILING: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A unit: its name, and its length in nanoseconds.
type Unit = (&'static str, u128);

const SECOND: u128 = 1_000_000_000;

/// The largest first. The last three are how Go prints durations below a millisecond; micro is written with either of two
/// letters.
const UNITS: [Unit; 10] = [
    ("w", 604_800 * SECOND),
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("us", 1_000),
    ("ns", 1),
];

const ISO_DATE_UNITS: [Unit; 2] = [("W", 604_800 * SECOND), ("D", 86_400 * SECOND)];
const ISO_TIME_UNITS: [Unit; 3] = [("H", 3_600 * SECOND), ("M", 60 * SECOND), ("S", SECOND)];

/// Most digits of a fraction.
const MAX_FRACTION: usize = 18;

/// Parses a duration. A plain number is a number of seconds, so that query parameters (`wait=20`) and JSON numbers mean
/// the same. A text with units is rounded up to whole milliseconds.
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

/// `1h30m`: numbers with units, each unit once, largest first.
fn units(text: &str) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    from_nanos(sum_parts(text, &UNITS, &['.'])?)
}

/// What follows the `P` of ISO 8601: weeks and days, then `T`, hours, minutes and seconds.
fn iso_8601(text: &str) -> Result<Duration, DurationError> {
    const POINTS: &[char] = &['.', ','];
    match text.split_once('T') {
        Some((_, "")) => Err(DurationError::Malformed),
        // The standard allows a fraction in the last part of all only.
        Some((date, time)) => {
            let date = sum_parts(date, &ISO_DATE_UNITS, &[])?;
            from_nanos(date + sum_parts(time, &ISO_TIME_UNITS, POINTS)?)
        }
        None if text.is_empty() => Err(DurationError::Malformed),
        None => from_nanos(sum_parts(text, &ISO_DATE_UNITS, POINTS)?),
    }
}

/// The nanoseconds of numbers with units, each unit once, largest first. The last number may have a fraction behind one of
/// `points`.
fn sum_parts(text: &str, units: &[Unit], points: &[char]) -> Result<u128, DurationError> {
    let (mut total, mut rest, mut allowed) = (0, text, units);
    while !rest.is_empty() {
        let (count, after) = whole_number(rest)?;
        let (fraction, after) = split_fraction(after, points)?;
        let name_len = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (name, next) = after.split_at(name_len);
        let at = allowed.iter().position(|unit| unit.0 == name).ok_or(DurationError::Malformed)?;
        let nanos = allowed[at].1;
        if fraction.is_some() && !next.is_empty() {
            return Err(DurationError::Malformed);
        }
        total += u128::from(count) * nanos + fraction.map_or(0, |digits| fraction_of(digits, nanos));
        allowed = &allowed[at + 1..];
        rest = next;
    }
    Ok(total)
}

/// The digits behind a point, if the text begins with one of `points`, and the rest.
fn split_fraction<'a>(text: &'a str, points: &[char]) -> Result<(Option<&'a str>, &'a str), DurationError> {
    let Some(after) = text.strip_prefix(points) else { return Ok((None, text)) };
    let (digits, rest) = after.split_at(leading_digits(after));
    if digits.is_empty() || digits.len() > MAX_FRACTION {
        return Err(DurationError::Malformed);
    }
    Ok((Some(digits), rest))
}

/// The fraction of a unit, rounded up to a nanosecond.
fn fraction_of(digits: &str, nanos: u128) -> u128 {
    let (mut numerator, mut denominator) = (0, 1);
    for digit in digits.bytes() {
        numerator = numerator * 10 + u128::from(digit - b'0');
        denominator *= 10;
    }
    (numerator * nanos).div_ceil(denominator)
}

fn leading_digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

fn whole_number(text: &str) -> Result<(u64, &str), DurationError> {
    let (digits, rest) = text.split_at(leading_digits(text));
    if digits.is_empty() {
        return Err(DurationError::Malformed);
    }
    Ok((digits.parse().map_err(|_| DurationError::TooLarge)?, rest))
}

/// Rounds up to whole milliseconds, so that nothing fires early.
fn from_nanos(nanos: u128) -> Result<Duration, DurationError> {
    let ms = nanos.div_ceil(1_000_000);
    if ms > CEILING.as_millis() {
        return Err(DurationError::TooLarge);
    }
    Ok(Duration::from_millis(u64::try_from(ms).expect("at most 100 years")))
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
            ("PT1.5H", 5_400_000),
            ("P0,5D", 43_200_000),
            ("P1DT0,25M", 86_415_000),
            ("1.5s", 1_500),
            ("0.5s", 500),
            ("1.5h", 5_400_000),
            ("1h0.1m", 3_606_000),
            ("0.0001s", 1),
            ("0.333333333333333333w", 201_600_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_nonsense_and_says_why() {
        for text in [
            "",
            "s",
            "1M",
            "1y",
            "5 s",
            "m5",
            "1s1h",
            "1s1s",
            "P",
            "PT",
            "P1M",
            "P1Y",
            "PT5",
            "nan",
            "NaN",
            "inf",
            "Infinity",
            "0x10",
            "1..5",
            "PT.5S",
            "PT1.S",
            "10sec",
            "½s",
            "-",
            "1.5h30m",
            ".5s",
            "1.s",
            "1,5s",
            "1.5.5s",
            "0.0000000000000000001s",
            "PT1.5H30M",
            "P1.5DT1H",
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

    /// What `time.Duration.String()` of Go prints.
    #[test]
    fn reads_what_go_prints() {
        for (text, ms) in [
            ("0s", 0),
            ("1ns", 1),
            ("1.5µs", 1),
            ("1.5\u{3bc}s", 1),
            ("500us", 1),
            ("1.5ms", 2),
            ("999.999999ms", 1_000),
            ("1.5s", 1_500),
            ("1m0.5s", 60_500),
            ("2h0m0.000000001s", 7_200_001),
            ("720h0m0s", 2_592_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_duration("-1.5s"), Err(DurationError::Negative));
        assert_eq!(parse_duration("2562047h47m16.854775807s"), Err(DurationError::TooLarge), "its longest");
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
        fn any_text_is_parsed_or_refused_without_panic(text in "\\PC*", digits in "[0-9PTWDHMSmshdwnuµ.,eE+-]{0,12}") {
            let _ = (parse_duration(&text), parse_duration(&digits));
        }
    }
}
