//! Points in time: milliseconds since the Unix epoch, written as RFC 3339 in UTC.

use std::{fmt, time::Duration};

/// A point in time, in whole milliseconds since 1970-01-01T00:00:00Z. Fractions of a millisecond are rounded up, so that
/// nothing fires early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// Why a text is not a valid time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not RFC 3339, or without an offset.
    #[error("must be an RFC 3339 date and time with an offset, such as \"2026-11-21T06:10:00Z\"")]
    NotRfc3339,
    /// A month, a day or a time of day that does not exist.
    #[error("is not in the calendar: a month, a day or a time of day in it does not exist")]
    NotInCalendar,
    /// An offset beyond those of RFC 3339.
    #[error("must have an offset from -23:59 to +23:59")]
    OffsetOutOfRange,
    /// Before 1970, or after [`Timestamp::MAX`].
    #[error("must be from 1970-01-01T00:00:00Z to {}", Timestamp::MAX)]
    OutOfRange,
}

impl Timestamp {
    /// The latest time that can be written in every time zone: 9999-12-30T21:59:59.999Z.
    pub const MAX: Self = Self(253_402_207_199_999);

    /// From milliseconds since the epoch, clamped to the range of RFC 3339.
    #[must_use]
    pub fn from_millis(unix_ms: i64) -> Self {
        Self(unix_ms.clamp(0, Self::MAX.0))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `duration`, rounded up to a millisecond.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(ceil_millis(duration)))
    }

    /// The time elapsed since `earlier`; zero if this time is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// This time moved by `ms`, which may be negative, clamped to the range of RFC 3339.
    #[must_use]
    pub fn shifted(self, ms: i64) -> Self {
        Self::from_millis(self.0.saturating_add(ms))
    }

    /// Parses an RFC 3339 date and time with an offset. A fraction of a millisecond is rounded up.
    ///
    /// # Errors
    /// [`TimeError`] if the text is something else or out of range.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let (local, offset) = split_rfc_3339(text).ok_or(TimeError::NotRfc3339)?;
        // Years up to 9999, with any offset: a timestamp of jiff ends a day earlier.
        let local: jiff::civil::DateTime = local.parse().map_err(|_| TimeError::NotInCalendar)?;
        let offset_s = offset.seconds().ok_or(TimeError::OffsetOutOfRange)?;
        let local_ns = local.duration_since(jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0)).as_nanos();
        let unix_ns = local_ns - i128::from(offset_s) * 1_000_000_000;
        let unix_ms = i64::try_from(-(-unix_ns).div_euclid(1_000_000)).map_err(|_| TimeError::OutOfRange)?;
        if !(0..=Self::MAX.0).contains(&unix_ms) {
            return Err(TimeError::OutOfRange);
        }
        Ok(Self(unix_ms))
    }
}

/// The offset of a local time, as it is written.
struct Offset {
    is_negative: bool,
    hours: i64,
    minutes: i64,
}

impl Offset {
    /// `None` beyond the range of RFC 3339.
    fn seconds(&self) -> Option<i64> {
        let seconds = (self.hours * 60 + self.minutes) * 60;
        let is_valid = self.hours < 24 && self.minutes < 60;
        is_valid.then_some(if self.is_negative { -seconds } else { seconds })
    }
}

/// Splits a text of the form of RFC 3339 into date and time, and the offset. jiff accepts other forms, too (basic ones,
/// week dates, offsets without minutes, names of zones).
fn split_rfc_3339(text: &str) -> Option<(&str, Offset)> {
    let bytes = text.as_bytes();
    let has_form = |bytes: &[u8], form: &[u8]| {
        bytes.len() == form.len()
            && bytes.iter().zip(form).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                other => byte == other,
            })
    };
    if !has_form(bytes.get(..19)?, b"0000-00-00T00:00:00") {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction_len = match rest.strip_prefix('.') {
        Some(digits) => 1 + digits.find(|c: char| !c.is_ascii_digit())?,
        None => 0,
    };
    // At most nine digits, which is all that clocks print.
    if fraction_len == 1 || fraction_len > 10 {
        return None;
    }
    let (local, offset) = text.split_at(19 + fraction_len);
    if matches!(offset, "Z" | "z") {
        return Some((local, Offset { is_negative: false, hours: 0, minutes: 0 }));
    }
    let (sign, digits) = offset.split_at_checked(1)?;
    if !matches!(sign, "+" | "-") || !has_form(digits.as_bytes(), b"00:00") {
        return None;
    }
    let (hours, minutes) = (digits[..2].parse().ok()?, digits[3..].parse().ok()?);
    Some((local, Offset { is_negative: sign == "-", hours, minutes }))
}

/// One reading of a clock. Deadlines are compared with the reading rounded down, and delays begin at the reading rounded
/// up, so that nothing fires early. A job without a delay is due at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time rounded down: a deadline has passed if it is not later than this.
    pub rounded_down: Timestamp,
    /// The time rounded up, at which a delay begins.
    pub rounded_up: Timestamp,
}

impl Now {
    /// From microseconds since the Unix epoch.
    #[must_use]
    pub fn from_micros(unix_us: i64) -> Self {
        let rounded_up = Timestamp::from_millis(unix_us.saturating_add(999).div_euclid(1_000));
        Self { rounded_down: Timestamp::from_millis(unix_us.div_euclid(1_000)), rounded_up }
    }

    /// The reading of a clock that is ahead by `ms`, which may be negative.
    #[must_use]
    pub fn shifted(self, ms: i64) -> Self {
        Self { rounded_down: self.rounded_down.shifted(ms), rounded_up: self.rounded_up.shifted(ms) }
    }

    /// The due time of a delay of `duration`; now for zero.
    #[must_use]
    pub fn after(self, duration: Duration) -> Timestamp {
        if duration.is_zero() { self.rounded_down } else { self.rounded_up.after(duration) }
    }
}

/// Whole milliseconds of `duration`, rounded up.
pub(super) fn ceil_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0)
            .expect("the constructors keep it within the range of RFC 3339");
        write!(f, "{moment:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_rfc3339_and_writes_utc_milliseconds() {
        let moment = Timestamp::parse("2026-11-21T07:10:00.0001+01:00").expect("valid");
        assert_eq!(moment.to_string(), "2026-11-21T06:10:00.001Z", "rounded up, in UTC");
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T21:59:59.999Z");
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "now",
            "1700000000",
            "2026-11-21",
            "2026-11-21T06:10:00",
            "2026-11-21T06:10:00+01:00[Europe/Berlin]",
            "2026-11-21T06:10Z+01:00",
            "2026-11-21T06:10:00.Z",
            "2026-11-21T06:10:00+0100",
            "2026-11-21T06:10:00+01",
            "2026-11-21T06:10:00+01:00:30",
            "2026-11-21T06:10:00 Z",
            "20261121T061000.0000Z",
            "2026-W47-6T06:10:00Z",
            "+02026-11-21T06:10:00Z",
            "10000-01-01T00:00:00Z",
            "2026-11-21T06:10:0é+01:00",
            "é026-11-21T06:10:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimeError::NotRfc3339), "{text}");
        }
    }

    #[test]
    fn says_which_bound_a_time_misses() {
        for text in [
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T06:60:00Z",
            "2026-11-21T06:10:61Z",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimeError::NotInCalendar), "{text}");
        }
        for text in ["2026-11-21T06:10:00+24:00", "2026-11-21T06:10:00-01:60", "2026-11-21T06:10:00+99:99"] {
            assert_eq!(Timestamp::parse(text), Err(TimeError::OffsetOutOfRange), "{text}");
        }
        for text in [
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:59:59+01:00",
            "9999-12-30T22:00:00Z",
            "9999-12-30T21:59:59.9991Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999999-23:59",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimeError::OutOfRange), "{text}");
        }
        assert_eq!(
            TimeError::OutOfRange.to_string(),
            "must be from 1970-01-01T00:00:00Z to 9999-12-30T21:59:59.999Z"
        );
    }

    #[test]
    fn reads_the_edges_of_the_range() {
        for (text, same) in [
            ("9999-12-30T21:59:59.999Z", Timestamp::MAX),
            ("9999-12-31T21:58:59.999+23:59", Timestamp::MAX),
            ("9999-12-29T22:00:59.999-23:59", Timestamp::MAX),
            ("1970-01-01T00:00:00z", Timestamp::from_millis(0)),
            ("1969-12-31t00:01:00-23:59", Timestamp::from_millis(0)),
            ("2016-12-31T23:59:60Z", Timestamp::from_millis(1_483_228_799_000)),
            ("2026-11-21 06:10:00-00:00", Timestamp::from_millis(1_795_241_400_000)),
        ] {
            assert_eq!(Timestamp::parse(text), Ok(same), "{text}");
        }
    }

    #[test]
    fn durations_round_up_and_never_overflow() {
        let start = Timestamp::from_millis(5);
        assert_eq!(start.after(Duration::from_micros(1)).as_millis(), 6);
        assert_eq!(start.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(start.since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn a_delay_never_ends_early_and_no_delay_is_at_once() {
        let now = Now::from_micros(1_000_001);
        assert_eq!(now.after(Duration::ZERO), now.rounded_down);
        assert_eq!(now.after(Duration::from_millis(5)).as_millis(), 1_006, "5 ms after 1,000.001 ms");
        let whole = Now::from_micros(1_000_000);
        assert_eq!(whole.after(Duration::from_millis(5)).as_millis(), 1_005);
    }

    proptest! {
        #[test]
        fn round_trips(unix_ms in 0i64..=253_402_207_199_999) {
            let moment = Timestamp::from_millis(unix_ms);
            prop_assert_eq!(Timestamp::parse(&moment.to_string()), Ok(moment));
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "\\PC{0,40}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
