//! How many calls an outlet may have in progress, learned from their outcomes. Pure: it is given the time.
//!
//! A window grows and shrinks as the congestion window of TCP does (RFC 5681): it doubles each round until the first sign of
//! overload, then grows by one call a round, and is halved at most once a round. After ten overloads in a row the outlet
//! rests, then one call probes whether it is back. Before all that, one call finds out whether the outlet answers: most of
//! those that hang are new, and each holds its calls until they time out.

use std::time::Duration;

/// Calls in progress to an outlet that has answered for the first time.
const INITIAL: u32 = 8;
/// Overloads in a row after which the outlet rests.
const OVERLOADS_BEFORE_REST: u32 = 10;
/// First and longest rest.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What a call says about its outlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The endpoint answered, even if it refused the job.
    Alive,
    /// It did not answer.
    Silent,
    /// It said that it is overloaded.
    Overload {
        /// How long it asks not to be called; shortened to 60 s.
        rest: Option<Duration>,
    },
    /// The call did not reach a result, so it says nothing.
    None,
}

/// Whether another call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// This many more.
    Calls(u32),
    /// None until one of those in progress ends.
    Full,
    /// None until this moment, in microseconds.
    Resting(i64),
}

/// The window of one outlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    size: u32,
    max: u32,
    /// Whether nothing is known yet. There is one call at a time until then.
    is_new: bool,
    /// Whether it still doubles each round.
    doubling: bool,
    /// Calls that ended well since the last growth by one.
    grown: u32,
    /// Calls begun so far.
    begun: u64,
    /// Overloads of calls that began before this one are of a round that was counted already.
    round_began: u64,
    overloads_in_row: u32,
    rest_until_us: Option<i64>,
    /// Calls begun when the endpoint last asked for a rest. Their answers do not end it.
    rest_asked_at: Option<u64>,
    next_rest: Duration,
}

impl Window {
    /// The window of an outlet that nothing is known of. It grows up to `max`.
    pub fn new(max: u32) -> Self {
        Self {
            size: INITIAL.min(max.max(1)),
            max: max.max(1),
            is_new: true,
            doubling: true,
            grown: 0,
            begun: 0,
            round_began: 0,
            overloads_in_row: 0,
            rest_until_us: None,
            rest_asked_at: None,
            next_rest: REST.0,
        }
    }

    /// Room for further calls while `in_flight` are in progress.
    pub fn capacity(&self, in_flight: u32, now_us: i64) -> Capacity {
        match self.rest_until_us {
            Some(until_us) if now_us < until_us => return Capacity::Resting(until_us),
            Some(_) | None => {}
        }
        let size = if self.is_probing() { 1 } else { self.size() };
        match size.saturating_sub(in_flight) {
            0 => Capacity::Full,
            room => Capacity::Calls(room),
        }
    }

    /// A call begins. Returns its number, which [`ended`](Self::ended) needs.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// The call `number` has ended.
    pub fn ended(&mut self, number: u64, signal: Signal, now_us: i64) {
        match signal {
            Signal::None => {}
            Signal::Alive => self.alive(number, now_us),
            Signal::Silent => self.overloaded(number, None, now_us),
            Signal::Overload { rest } => {
                self.is_new = false;
                self.overloaded(number, rest, now_us);
            }
        }
    }

    /// The call `number` has ended, of an outlet that several hosts share: it never rests as a whole, and a host that does not
    /// answer is called by itself from then on, so that the others need not wait for the next answer.
    pub fn ended_among_others(&mut self, number: u64, signal: Signal, now_us: i64) {
        match signal {
            Signal::Silent | Signal::Overload { .. } => {
                self.is_new = false;
                self.shrink(number);
            }
            Signal::Alive | Signal::None => self.ended(number, signal, now_us),
        }
    }

    /// Ends a rest: the next call probes whether the endpoint is back.
    pub fn end_rest(&mut self) {
        self.rest_until_us = self.rest_until_us.map(|_| i64::MIN);
    }

    /// What was learned before an outage says little about an endpoint that comes back.
    pub fn double_again(&mut self) {
        self.doubling = true;
    }

    /// Whether many of the last calls failed, so that others must not wait for it.
    pub fn is_failing(&self) -> bool {
        self.overloads_in_row >= OVERLOADS_BEFORE_REST / 2 || self.is_probing()
    }

    /// How many calls failed one after the other.
    pub fn overloads_in_row(&self) -> u32 {
        self.overloads_in_row
    }

    /// Calls that may be in progress.
    pub fn size(&self) -> u32 {
        if self.is_new { 1 } else { self.size }
    }

    /// Until when the outlet rests, in microseconds.
    pub fn resting_until(&self, now_us: i64) -> Option<i64> {
        self.rest_until_us.filter(|until_us| now_us < *until_us)
    }

    /// Whether nothing was learned that is worth remembering while the outlet has no jobs.
    pub fn is_forgettable(&self) -> bool {
        self.doubling && self.overloads_in_row == 0 && self.rest_until_us.is_none()
    }

    /// Whether a rest has begun and no call has shown since that the endpoint is back.
    pub fn is_probing(&self) -> bool {
        self.rest_until_us.is_some()
    }

    fn alive(&mut self, number: u64, now_us: i64) {
        let is_asked_to_rest = self.resting_until(now_us).is_some()
            && self.rest_asked_at.is_some_and(|asked_at| number <= asked_at);
        if self.is_probing() && !is_asked_to_rest {
            // What was learned before the outage says little about an endpoint that is coming back.
            (self.size, self.doubling, self.rest_until_us) = (1, true, None);
        }
        (self.overloads_in_row, self.next_rest) = (0, REST.0);
        if std::mem::take(&mut self.is_new) {
            return;
        }
        if self.doubling {
            self.size = (self.size + 1).min(self.max);
            return;
        }
        self.grown += 1;
        if self.grown >= self.size {
            (self.size, self.grown) = ((self.size + 1).min(self.max), 0);
        }
    }

    fn overloaded(&mut self, number: u64, rest: Option<Duration>, now_us: i64) {
        self.overloads_in_row = self.overloads_in_row.saturating_add(1);
        if !self.is_new {
            self.shrink(number);
        }
        if let Some(rest) = rest {
            self.rest(rest.min(REST.1), now_us);
            self.rest_asked_at = Some(self.begun);
        }
        // Calls that began before the rest do not prolong it.
        let may_rest = self.resting_until(now_us).is_none();
        if self.overloads_in_row >= OVERLOADS_BEFORE_REST && may_rest {
            self.rest(self.next_rest, now_us);
            self.next_rest = (self.next_rest * 2).min(REST.1);
        }
    }

    /// Halves the window, once a round.
    fn shrink(&mut self, number: u64) {
        if number > self.round_began {
            (self.size, self.doubling, self.grown) = ((self.size / 2).max(1), false, 0);
            self.round_began = self.begun;
        }
    }

    fn rest(&mut self, rest: Duration, now_us: i64) {
        let until_us = now_us.saturating_add(i64::try_from(rest.as_micros()).unwrap_or(i64::MAX));
        self.rest_until_us = Some(self.rest_until_us.map_or(until_us, |current| current.max(until_us)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_US: i64 = 1_000_000;
    const OVERLOAD: Signal = Signal::Overload { rest: None };

    fn call(window: &mut Window, signal: Signal, now_us: i64) {
        let number = window.begin();
        window.ended(number, signal, now_us);
    }

    /// A round of as many calls as fit, all with the same result.
    fn round(window: &mut Window, signal: Signal) {
        let numbers: Vec<u64> = (0..window.size()).map(|_| window.begin()).collect();
        numbers.into_iter().for_each(|number| window.ended(number, signal, 0));
    }

    #[test]
    fn it_doubles_until_the_first_overload_then_grows_by_one_a_round() {
        let mut window = Window::new(64);
        let mut sizes = vec![window.size()];
        for _ in 0..5 {
            round(&mut window, Signal::Alive);
            sizes.push(window.size());
        }
        assert_eq!(sizes, [1, 8, 16, 32, 64, 64]);
        call(&mut window, OVERLOAD, 0);
        sizes = vec![window.size()];
        for _ in 0..3 {
            round(&mut window, Signal::Alive);
            sizes.push(window.size());
        }
        assert_eq!(sizes, [32, 33, 34, 35]);
    }

    #[test]
    fn it_is_halved_once_a_round_however_many_calls_of_it_fail() {
        let mut window = Window::new(64);
        (0..2).for_each(|_| round(&mut window, Signal::Alive));
        let numbers: Vec<u64> = (0..9).map(|_| window.begin()).collect();
        numbers.iter().for_each(|number| window.ended(*number, OVERLOAD, 0));
        assert_eq!(window.size(), 8, "16 halved once");
        call(&mut window, OVERLOAD, 0);
        assert_eq!(window.size(), 4, "the next round counts again");
    }

    #[test]
    fn one_call_at_a_time_finds_out_whether_a_new_outlet_answers() {
        for (signal, is_shared, size) in [
            (Signal::None, false, 1),
            (Signal::Silent, false, 1),
            (OVERLOAD, false, 4),
            (Signal::Alive, false, 8),
            (Signal::Silent, true, 4),
            (Signal::None, true, 1),
        ] {
            let mut window = Window::new(64);
            assert_eq!((window.capacity(0, 0), window.capacity(1, 0)), (Capacity::Calls(1), Capacity::Full));
            let number = window.begin();
            if is_shared {
                window.ended_among_others(number, signal, 0);
            } else {
                window.ended(number, signal, 0);
            }
            assert_eq!(window.capacity(0, 0), Capacity::Calls(size), "{signal:?}");
        }
        // Calls that got no answer do not make the first window smaller.
        let mut window = Window::new(64);
        (0..9).for_each(|_| call(&mut window, Signal::Silent, 0));
        call(&mut window, Signal::Alive, 0);
        assert_eq!(window.size(), 8);
    }

    #[test]
    fn ten_overloads_in_a_row_rest_the_outlet_for_twice_as_long_each_time() {
        let mut window = Window::new(64);
        for _ in 0..9 {
            call(&mut window, OVERLOAD, 0);
        }
        assert!(matches!(window.capacity(0, 0), Capacity::Calls(_)), "nine do not");
        let (mut now_us, mut rests) = (0, Vec::new());
        for _ in 0..8 {
            call(&mut window, OVERLOAD, now_us);
            let Capacity::Resting(until_us) = window.capacity(0, now_us) else { panic!("it rests") };
            rests.push((until_us - now_us) / SECOND_US);
            now_us = until_us;
            assert_eq!(
                (window.capacity(0, now_us), window.capacity(1, now_us)),
                (Capacity::Calls(1), Capacity::Full),
                "one probes"
            );
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        call(&mut window, Signal::Alive, now_us);
        assert_eq!(window.capacity(0, now_us), Capacity::Calls(2), "it begins again, doubling");
        for _ in 0..10 {
            call(&mut window, OVERLOAD, now_us);
        }
        assert_eq!(
            window.capacity(0, now_us),
            Capacity::Resting(now_us + SECOND_US),
            "the next rest is short again"
        );
    }

    #[test]
    fn calls_that_began_before_a_rest_do_not_prolong_it() {
        let mut window = Window::new(64);
        (0..2).for_each(|_| round(&mut window, Signal::Alive));
        let numbers: Vec<u64> = (0..16).map(|_| window.begin()).collect();
        numbers.iter().for_each(|number| window.ended(*number, OVERLOAD, 0));
        assert_eq!(window.capacity(0, 0), Capacity::Resting(SECOND_US));
    }

    #[test]
    fn an_endpoint_that_asks_for_a_rest_gets_it_up_to_a_minute() {
        for (asked_s, granted_s) in [(5, 5), (3_600, 60)] {
            let mut window = Window::new(64);
            call(&mut window, Signal::Overload { rest: Some(Duration::from_secs(asked_s)) }, 0);
            assert_eq!(window.capacity(0, 0), Capacity::Resting(granted_s * SECOND_US));
        }
    }

    #[test]
    fn only_a_later_call_ends_a_rest_that_was_asked_for_and_any_answer_another_one() {
        for (rest, ends) in [(Some(Duration::from_secs(30)), false), (None, true)] {
            let mut window = Window::new(64);
            let early = window.begin();
            for _ in 0..10 {
                call(&mut window, Signal::Overload { rest }, 0);
            }
            assert!(matches!(window.capacity(0, 0), Capacity::Resting(_)));
            window.ended(early, Signal::Alive, 0);
            assert_eq!(matches!(window.capacity(0, 0), Capacity::Calls(_)), ends, "{rest:?}");
            let later_us = 30 * SECOND_US;
            assert!(matches!(window.capacity(0, later_us), Capacity::Calls(_)));
            call(&mut window, Signal::Alive, later_us);
            assert!(!window.is_probing());
        }
    }

    #[test]
    fn a_refused_job_shows_that_the_endpoint_lives() {
        let mut window = Window::new(64);
        for n in 0..100 {
            call(&mut window, if n % 5 == 0 { Signal::Alive } else { OVERLOAD }, 0);
        }
        assert!(matches!(window.capacity(0, 0), Capacity::Calls(_)), "never ten in a row");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_and_never_rests_for_good(
            max in 1u32..100,
            steps in prop::collection::vec((0u8..4, 0i64..100 * SECOND_US), 0..300),
        ) {
            let (mut window, mut now_us) = (Window::new(max), 0);
            for (kind, pause_us) in steps {
                let signal = match kind {
                    0 => Signal::Alive,
                    1 => Signal::None,
                    2 => OVERLOAD,
                    _ => Signal::Overload { rest: Some(Duration::from_secs(7)) },
                };
                call(&mut window, signal, now_us);
                now_us += pause_us;
                prop_assert!((1..=max).contains(&window.size()));
                if let Capacity::Resting(until_us) = window.capacity(0, now_us) {
                    prop_assert!(until_us - now_us <= 60 * SECOND_US);
                    now_us = until_us;
                }
                prop_assert!(matches!(window.capacity(0, now_us), Capacity::Calls(_)));
            }
        }
    }
}
