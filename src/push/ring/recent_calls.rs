//! How many calls to an endpoint ended in the last minute, in spans of ten seconds. Pure: it is given the time.

use crate::queue::CallsOfMinute;

const SPAN_US: i64 = 10_000_000;
/// The spans of a minute, and the one that has just begun.
const SPANS: usize = 7;

/// The calls of the latest spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RecentCalls([TenSeconds; SPANS]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TenSeconds {
    number: i64,
    calls: u32,
    succeeded: u32,
}

impl RecentCalls {
    /// A call has ended.
    pub fn ended(&mut self, has_succeeded: bool, now_us: i64) {
        let number = now_us.div_euclid(SPAN_US);
        let span = &mut self.0[usize::try_from(number).unwrap_or(0) % SPANS];
        if span.number != number {
            *span = TenSeconds { number, ..TenSeconds::default() };
        }
        span.calls = span.calls.saturating_add(1);
        span.succeeded = span.succeeded.saturating_add(u32::from(has_succeeded));
    }

    /// The calls of the last minute, in whole spans.
    pub fn minute(&self, now_us: i64) -> CallsOfMinute {
        let now = now_us.div_euclid(SPAN_US);
        let latest = self.0.iter().filter(|span| (now - 6..=now).contains(&span.number));
        latest.fold(CallsOfMinute::default(), |sum, span| {
            sum.plus(CallsOfMinute::new(span.calls, span.succeeded))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_for_a_minute_after_its_end() {
        let mut calls = RecentCalls::default();
        let second = 1_000_000;
        for (at_s, has_succeeded) in [(3_605, true), (3_606, false), (3_664, true)] {
            calls.ended(has_succeeded, at_s * second);
        }
        let seen = |at_s| {
            let CallsOfMinute { calls, succeeded } = calls.minute(at_s * second);
            (calls, succeeded)
        };
        assert_eq!([3_664, 3_669, 3_670, 3_729, 3_730].map(seen), [(3, 2), (3, 2), (1, 1), (1, 1), (0, 0)]);
        // The span takes the place of the one a minute and ten seconds before it.
        calls.ended(true, 3_675 * second);
        assert_eq!(calls.minute(3_675 * second), CallsOfMinute { calls: 2, succeeded: 2 });
    }
}
