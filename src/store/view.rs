//! What a reader sees of a whole queue: spans of time with their counts of delayed jobs, and totals by state.

use crate::job::{State, Timestamp};

const MINUTE_MS: i64 = 60_000;

/// A whole minute since the epoch. [`Timestamp::MAX`] and any span behind it fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Minute(pub u32);

impl Minute {
    /// The minute that contains `moment`.
    #[must_use]
    pub fn containing(moment: Timestamp) -> Self {
        Self(u32::try_from(moment.as_millis() / MINUTE_MS).expect("the latest time is 4,223,370,119 minutes"))
    }

    /// When the minute begins.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp::from_millis(i64::from(self.0) * MINUTE_MS)
    }
}

/// A part of time, in equal steps of whole minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    from: Minute,
    step: u32,
    steps: u32,
}

impl Span {
    /// Steps of a picture, in minutes: whole parts of an hour, a day or four weeks.
    pub const STEPS: [u32; 10] = [1, 5, 15, 60, 180, 360, 720, 24 * 60, 7 * 24 * 60, 28 * 24 * 60];
    /// Most steps: enough for a picture, and each is a number in memory.
    pub const MAX_STEPS: u32 = 400;
    /// Most minutes of all steps: eleven years, and a last step that is as long.
    pub const MAX_MINUTES: u32 = 2 * 11 * 366 * 24 * 60;

    /// `steps` steps of `step` minutes each; `None` when one of them is 0 or they are too many.
    #[must_use]
    pub fn new(from: Minute, step: u32, steps: u32) -> Option<Self> {
        let sound = step > 0 && (1..=Self::MAX_STEPS).contains(&steps);
        (sound && step.checked_mul(steps)? <= Self::MAX_MINUTES).then_some(Self { from, step, steps })
    }

    /// The first minute.
    #[must_use]
    pub fn from(&self) -> Minute {
        self.from
    }

    /// Minutes of a step.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.step
    }

    /// How many steps there are.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps as usize
    }

    /// The span moved by `ms`, which may be negative, rounded to a minute.
    #[must_use]
    pub fn shifted(self, ms: i64) -> Self {
        let minutes = (ms + MINUTE_MS / 2).div_euclid(MINUTE_MS);
        let from = i64::from(self.from.0).saturating_add(minutes).clamp(0, u32::MAX.into());
        Self { from: Minute(u32::try_from(from).expect("is clamped")), ..self }
    }

    /// The first minute of each step and the first minute behind it.
    pub fn step_bounds(&self) -> impl Iterator<Item = (Minute, Minute)> {
        let edge = |n: u32| Minute(self.from.0.saturating_add(n * self.step));
        (0..self.steps).map(move |n| (edge(n), edge(n + 1)))
    }
}

/// Delayed jobs by due time, and jobs by state, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The delayed jobs due in each step of the span.
    pub counts: Vec<u64>,
    /// All jobs of the same topics.
    pub totals: Totals,
}

impl Timeline {
    /// The delayed jobs that are due before or after the span.
    #[must_use]
    pub fn outside(&self) -> u64 {
        self.totals.delayed.saturating_sub(self.counts.iter().sum())
    }
}

/// Jobs by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Jobs that wait for their due time.
    pub delayed: u64,
    /// Jobs that wait for a worker.
    pub ready: u64,
    /// Jobs that a worker has.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
}

impl Totals {
    /// The number of jobs in `state`.
    #[must_use]
    pub fn count(&self, state: State) -> u64 {
        let Self { delayed, ready, reserved, dead } = *self;
        match state {
            State::Delayed => delayed,
            State::Ready => ready,
            State::Reserved => reserved,
            State::Dead => dead,
        }
    }

    /// The same to change.
    pub fn count_mut(&mut self, state: State) -> &mut u64 {
        match state {
            State::Delayed => &mut self.delayed,
            State::Ready => &mut self.ready,
            State::Reserved => &mut self.reserved,
            State::Dead => &mut self.dead,
        }
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.reserved += other.reserved;
        self.dead += other.dead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_minute() {
        assert_eq!(Minute::containing(Timestamp::from_millis(59_999)), Minute(0));
        assert_eq!(Minute::containing(Timestamp::from_millis(60_000)), Minute(1));
        let last = Minute::containing(Timestamp::MAX);
        assert!(last.start() <= Timestamp::MAX);
        let span = Span::new(last, Span::MAX_MINUTES / 400, 400).expect("fits");
        assert_eq!(
            span.step_bounds().last().expect("has steps").1.0,
            last.0 + 400 * (Span::MAX_MINUTES / 400)
        );
    }

    #[test]
    fn a_span_is_bounded() {
        assert!(Span::new(Minute(0), 1, 400).is_some());
        for (step, steps) in [(0, 1), (1, 0), (1, 401), (Span::MAX_MINUTES, 2), (u32::MAX, 400)] {
            assert_eq!(Span::new(Minute(0), step, steps), None, "{steps} of {step} minutes");
        }
    }
}
