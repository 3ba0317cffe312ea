//! What happened in the last hour, in spans of ten seconds: the events of jobs, and how late due jobs became ready. The
//! events themselves write it, without a timer. It takes 75 KB.

use std::{
    fmt,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use super::event::Event;

const SPAN_US: i64 = 10_000_000;
/// The spans of an hour, and the one that has just begun.
const SPANS: usize = 361;
/// Upper bounds of the steps of lateness, in milliseconds; the last step has none.
const LATENESS_MS: [u64; 15] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 120_000, 900_000, 7_200_000];

/// Reads the time in microseconds since the Unix epoch.
type ReadClock = Box<dyn Fn() -> i64 + Send + Sync>;

/// The events of the last hour. Nothing is recorded before a clock is set.
#[derive(Default)]
pub struct RecentEvents {
    now_us: OnceLock<ReadClock>,
    spans: Mutex<Vec<CountedSpan>>,
}

impl fmt::Debug for RecentEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentEvents").finish_non_exhaustive()
    }
}

/// The events of ten seconds.
#[derive(Debug, Clone, Copy)]
struct CountedSpan {
    /// Its number since the Unix epoch.
    number: i64,
    summary: EventSummary,
}

/// How often each event happened in some time, and how late jobs became ready in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventSummary {
    counts: [u64; Event::ALL.len()],
    late: [u64; LATENESS_MS.len() + 1],
}

impl EventSummary {
    /// How often `event` happened.
    #[must_use]
    pub fn count(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// The lateness that `permille` of a thousand jobs did not exceed, rounded up to 1, 2, 5, 10, 25, 50 ms and so on;
    /// `None` if no job became ready, or if it is more than two hours.
    #[must_use]
    pub fn lateness(&self, permille: u64) -> Option<Duration> {
        let all: u128 = self.late.iter().map(|count| u128::from(*count)).sum();
        let wanted = (all * u128::from(permille)).div_ceil(1_000).max(1);
        let mut seen = 0;
        let reaches = |(_, count): &(usize, &u64)| {
            seen += u128::from(**count);
            seen >= wanted
        };
        let (step, _) = self.late.iter().enumerate().find(reaches)?;
        LATENESS_MS.get(step).map(|ms| Duration::from_millis(*ms))
    }

    /// The events by the names of their metrics.
    pub fn named_counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Event::ALL.into_iter().map(|(event, name, _)| (name, self.count(event)))
    }

    /// How many jobs became ready with each step of lateness.
    #[must_use]
    pub fn late_steps(&self) -> &[u64] {
        &self.late
    }

    /// A summary of these counts. Lateness by other steps is left out.
    #[must_use]
    pub fn from_parts(count: impl Fn(&str) -> u64, late: &[u64]) -> Self {
        let counts = Event::ALL.map(|(_, name, _)| count(name));
        Self { counts, late: late.try_into().unwrap_or_default() }
    }

    /// Adds what happened elsewhere or at another time.
    pub fn add(&mut self, other: &Self) {
        let add = |(sum, count): (&mut u64, &u64)| *sum = sum.saturating_add(*count);
        self.counts.iter_mut().zip(&other.counts).for_each(add);
        self.late.iter_mut().zip(&other.late).for_each(add);
    }
}

impl RecentEvents {
    /// Records from now on, at the times that `now_us` returns, in microseconds since the Unix epoch. Later calls change
    /// nothing.
    pub fn set_clock(&self, now_us: impl Fn() -> i64 + Send + Sync + 'static) {
        let _ = self.now_us.set(Box::new(now_us));
    }

    pub(super) fn count(&self, event: Event, n: u64) {
        self.record(|summary| summary.counts[event as usize] += n);
    }

    pub(super) fn became_ready(&self, late: Duration) {
        let step = LATENESS_MS.partition_point(|bound| Duration::from_millis(*bound) < late);
        self.record(|summary| summary.late[step] += 1);
    }

    fn record(&self, change: impl FnOnce(&mut EventSummary)) {
        let Some(now_us) = self.now_us.get() else { return };
        let number = now_us() / SPAN_US;
        let mut spans = self.spans.lock().expect("no code panics while it records");
        let new = CountedSpan { number: -1, summary: EventSummary::default() };
        if spans.is_empty() {
            spans.resize(SPANS, new);
        }
        let span = &mut spans[usize::try_from(number).unwrap_or(0) % SPANS];
        if span.number != number {
            *span = CountedSpan { number, ..new };
        }
        change(&mut span.summary);
    }

    /// The sum of the last `seconds`, at most an hour, in whole spans of ten seconds, of which the last has just begun.
    #[must_use]
    pub fn sum(&self, seconds: i64) -> EventSummary {
        let mut sum = EventSummary::default();
        if let Some(now_us) = self.now_us.get() {
            let now = now_us() / SPAN_US;
            let first = now - (seconds / 10).clamp(0, SPANS as i64 - 1);
            let spans = self.spans.lock().expect("no code panics while it records");
            spans
                .iter()
                .filter(|span| (first..=now).contains(&span.number))
                .for_each(|span| sum.add(&span.summary));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };

    use super::*;

    #[test]
    fn events_are_forgotten_after_an_hour() {
        let (recent, clock) = (RecentEvents::default(), Arc::new(AtomicI64::new(5)));
        let advance = |seconds| clock.fetch_add(seconds, Ordering::Relaxed);
        recent.count(Event::Added, 1);
        assert_eq!(recent.sum(3_600), EventSummary::default(), "there is no clock yet");
        let seconds = clock.clone();
        recent.set_clock(move || seconds.load(Ordering::Relaxed) * 1_000_000);
        recent.count(Event::Added, 2);
        advance(59);
        recent.count(Event::Added, 3);
        recent.count(Event::Finished, 1);
        let counts = |seconds| {
            let sum = recent.sum(seconds);
            (sum.count(Event::Added), sum.count(Event::Finished))
        };
        assert_eq!((counts(60), counts(10), counts(3_600)), ((5, 1), (3, 1), (5, 1)));
        advance(3_545);
        assert_eq!((counts(60), counts(3_600)), ((0, 0), (5, 1)), "an hour and what has begun");
        advance(10);
        assert_eq!(counts(3_600), (3, 1));
        advance(100 * 86_400);
        assert_eq!(counts(3_600), (0, 0), "spans of another day are not counted");
    }

    #[test]
    fn lateness_is_rounded_up() {
        let recent = RecentEvents::default();
        recent.set_clock(|| 0);
        assert_eq!(recent.sum(60).lateness(500), None);
        for us in [0, 900, 1_000, 1_001, 30_000_000] {
            recent.became_ready(Duration::from_micros(us));
        }
        let late = |permille| recent.sum(60).lateness(permille).map(|late| late.as_millis());
        assert_eq!((late(0), late(600), late(601), late(990)), (Some(1), Some(1), Some(2), Some(30_000)));
        recent.became_ready(Duration::from_secs(86_400));
        assert_eq!(late(1_000), None, "more than two hours");
    }
}
