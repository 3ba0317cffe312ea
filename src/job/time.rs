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
    /// A year outside of what a due time may be.
    #[error("must lie between the years 1970 and 9999")]
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
    /// [`TimeError`] if the text is something else or outside of 1970 to 9999.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        // jiff also accepts forms beyond RFC 3339 (bracketed zones, week dates); those are refused.
        let date_and_time = text.len() >= 20 && matches!(text.as_bytes()[10], b'T' | b't' | b' ');
        if !date_and_time || text.contains('[') {
            return Err(TimeError::NotRfc3339);
        }
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimeError::NotRfc3339)?;
        let up = i64::from(moment.subsec_nanosecond() % 1_000_000 > 0);
        let unix_ms = moment.as_millisecond() + up;
        if !(0..=Self::MAX.0).contains(&unix_ms) {
            return Err(TimeError::OutOfRange);
        }
        Ok(Self(unix_ms))
    }
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
            "2026-13-01T00:00:00Z",
            "2026-11-21T06:10:00+01:00[Europe/Berlin]",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
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
