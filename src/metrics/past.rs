//! How often events happened in each minute of the last hour. `recent.rs` counts them.

use super::event::Event;

/// How many minutes are counted; the last of them has just begun.
const MINUTES: usize = 60;

/// How often some events happened in each of the last 60 minutes of the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastHour {
    /// The number of the last minute since the Unix epoch.
    last: i64,
    counts: [[u64; MINUTES]; PastHour::EVENTS.len()],
}

impl PastHour {
    /// The events that are counted by the minute.
    pub const EVENTS: [Event; 5] =
        [Event::Added, Event::Due, Event::Delivered, Event::Finished, Event::Buried];

    /// An hour without events that ends with the minute of this number.
    #[must_use]
    pub fn new(last: i64) -> Self {
        Self { last, counts: [[0; MINUTES]; Self::EVENTS.len()] }
    }

    /// An hour of these counts, of which there are 60 for each event. Others count as none.
    #[must_use]
    pub fn from_parts<'a>(last: i64, counts: impl Fn(Event) -> Option<&'a [u64]>) -> Self {
        let counts = Self::EVENTS.map(|event| counts(event).and_then(|counts| counts.try_into().ok()));
        Self { last, counts: counts.map(|counts| counts.unwrap_or([0; MINUTES])) }
    }

    /// The number of the first minute since the Unix epoch.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.last - (MINUTES as i64 - 1)
    }

    /// The number of the last minute.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.last
    }

    /// How often an event of [`EVENTS`](Self::EVENTS) happened in each minute, the oldest first.
    #[must_use]
    pub fn counts(&self, event: Event) -> &[u64] {
        let place = Self::EVENTS.iter().position(|counted| *counted == event);
        place.map_or(&[], |place| &self.counts[place])
    }

    /// Adds how often each event happened within a minute, unless it is of another hour.
    pub fn add(&mut self, minute: i64, count: impl Fn(Event) -> u64) {
        self.change(minute, |place| count(Self::EVENTS[place]));
    }

    /// Adds what happened elsewhere in the same hour. The clock there may be another one.
    pub fn add_all(&mut self, other: &Self) {
        for (n, minute) in (other.first()..=other.last).enumerate() {
            self.change(minute, |place| other.counts[place][n]);
        }
    }

    fn change(&mut self, minute: i64, count: impl Fn(usize) -> u64) {
        let n = usize::try_from(minute - self.first()).ok().filter(|n| *n < MINUTES);
        let Some(n) = n else { return };
        for (place, counts) in self.counts.iter_mut().enumerate() {
            counts[n] = counts[n].saturating_add(count(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(added: u64, died: u64) -> impl Fn(Event) -> u64 {
        move |event| match event {
            Event::Added => added,
            Event::Buried => died,
            _ => 0,
        }
    }

    #[test]
    fn hours_of_two_clocks_are_added_minute_by_minute() {
        let (mut one, mut other) = (PastHour::new(1_000), PastHour::new(1_001));
        one.add(1_000, count(1, 0));
        one.add(941, count(2, 7));
        one.add(940, count(100, 0));
        other.add(1_001, count(100, 0));
        other.add(1_000, count(3, 0));
        other.add(942, count(4, 0));
        one.add_all(&other);
        let counts = one.counts(Event::Added);
        assert_eq!((one.first(), counts.len()), (941, 60));
        assert_eq!((counts[0], counts[1], counts[59], counts.iter().sum::<u64>()), (2, 4, 4, 10));
        assert_eq!(one.counts(Event::Buried)[0], 7);
        assert_eq!(one.counts(Event::Expired), [0; 0], "is not counted by the minute");
        let again = PastHour::from_parts(one.last(), |event| Some(one.counts(event)));
        assert_eq!(again, one);
        let short = PastHour::from_parts(1, |_| Some(&[1]));
        assert_eq!(short, PastHour::new(1), "not of this version");
    }
}
