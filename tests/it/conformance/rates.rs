//! Rates of calls: evenly spaced, with bursts of a tenth of a second.

use std::time::Duration;

use linger::{job::CallRate, store::Allowed};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_pause_allows_a_tenth_of_a_second_at_once,
    a_slow_rate_allows_one_call_at_a_time,
    a_rate_holds_in_the_long_run,
    a_new_rate_counts_at_once,
    topics_have_rates_of_their_own,
    calls_that_were_not_made_are_given_back,
    calls_that_are_given_back_too_late_are_lost,
}

async fn allow(fixture: &StoreFixture, name: &str, a_second: f64, want: usize) -> (usize, Duration) {
    let allowed = take(fixture, name, a_second, want).await;
    (allowed.granted, allowed.next_in)
}

async fn take(fixture: &StoreFixture, name: &str, a_second: f64, want: usize) -> Allowed {
    let rate = CallRate::new(a_second).expect("a valid rate");
    fixture.store.allow(&topic(name), rate, want).await.expect("answers")
}

async fn give_back(fixture: &StoreFixture, allowed: Allowed, unused: usize) {
    fixture.store.give_back_calls(&topic("t"), allowed, unused).await.expect("answers");
}

async fn a_pause_allows_a_tenth_of_a_second_at_once(fixture: StoreFixture) {
    assert_eq!(allow(&fixture, "t", 50.0, 0).await, (0, Duration::ZERO));
    assert_eq!(allow(&fixture, "t", 50.0, 3).await, (3, Duration::ZERO), "two are left");
    assert_eq!(allow(&fixture, "t", 50.0, 100).await, (2, millis(20)));
    fixture.clock.advance(millis(19));
    assert_eq!(allow(&fixture, "t", 50.0, 100).await, (0, millis(1)));
    fixture.clock.advance(millis(1));
    assert_eq!(allow(&fixture, "t", 50.0, 100).await, (1, millis(20)));
    fixture.clock.advance(millis(60));
    assert_eq!(allow(&fixture, "t", 50.0, 100).await, (3, millis(20)));
    fixture.clock.advance(seconds(3_600));
    assert_eq!(allow(&fixture, "t", 50.0, 100).await, (5, millis(20)), "an hour saves up no more");
    assert_eq!(allow(&fixture, "fast", 10_000.0, 5_000).await, (1_000, Duration::from_micros(100)));
}

async fn a_slow_rate_allows_one_call_at_a_time(fixture: StoreFixture) {
    for _ in 0..3 {
        assert_eq!(allow(&fixture, "t", 0.5, 7).await, (1, seconds(2)));
        fixture.clock.advance(millis(1_999));
        assert_eq!(allow(&fixture, "t", 0.5, 7).await, (0, millis(1)));
        fixture.clock.advance(millis(1));
    }
    assert_eq!(allow(&fixture, "rare", 0.01, 7).await, (1, seconds(100)));
}

async fn a_rate_holds_in_the_long_run(fixture: StoreFixture) {
    let (mut granted, mut waits) = (0, 0);
    // Ten seconds of 333.3 calls a second, asked for at the moments that the store names.
    let until = fixture.now().after(seconds(10));
    while fixture.now() < until {
        let (now, next_in) = allow(&fixture, "t", 333.3, 2).await;
        granted += now;
        waits += usize::from(next_in > Duration::ZERO);
        fixture.clock.advance(next_in);
    }
    assert!((3_333..=3_333 + 33).contains(&granted), "{granted}");
    assert!(waits > 3_000, "evenly spaced: {waits}");
}

async fn a_new_rate_counts_at_once(fixture: StoreFixture) {
    assert_eq!(allow(&fixture, "t", 0.01, 1).await, (1, seconds(100)));
    assert_eq!(allow(&fixture, "t", 100.0, 1).await, (0, millis(10)), "not in a hundred seconds");
    fixture.clock.advance(millis(10));
    assert_eq!(allow(&fixture, "t", 100.0, 9).await, (1, millis(10)));
    fixture.clock.advance(seconds(1));
    assert_eq!(allow(&fixture, "t", 100.0, 20).await, (10, millis(10)));
}

async fn topics_have_rates_of_their_own(fixture: StoreFixture) {
    assert_eq!(allow(&fixture, "t", 1.0, 1).await.0, 1);
    assert_eq!(allow(&fixture, "u", 1.0, 1).await.0, 1);
    assert_eq!(allow(&fixture, "t", 1.0, 1).await.0, 0);
}

async fn calls_that_were_not_made_are_given_back(fixture: StoreFixture) {
    for a_second in [0.01, 0.333, 3.0, 50.0, 333.3, 10_000.0] {
        let all = take(&fixture, "t", a_second, usize::MAX).await;
        give_back(&fixture, all, all.granted).await;
        let again = take(&fixture, "t", a_second, usize::MAX).await;
        assert_eq!(again, all, "as if they had not been taken, {a_second} a second");
        fixture.clock.advance(seconds(100));
    }
    let all = take(&fixture, "t", 50.0, 5).await;
    give_back(&fixture, all, 3).await;
    assert_eq!(allow(&fixture, "t", 50.0, 9).await, (3, millis(20)), "two of five were made");
}

async fn calls_that_are_given_back_too_late_are_lost(fixture: StoreFixture) {
    let lost = take(&fixture, "t", 1.0, 1).await;
    fixture.clock.advance(seconds(1));
    assert_eq!(allow(&fixture, "t", 1.0, 1).await, (1, seconds(1)));
    give_back(&fixture, lost, 1).await;
    assert_eq!(allow(&fixture, "t", 1.0, 1).await, (0, seconds(1)), "two calls at a time");
    fixture.clock.advance(seconds(10));
    let late = take(&fixture, "t", 1.0, 1).await;
    fixture.clock.advance(seconds(10));
    give_back(&fixture, late, 1).await;
    assert_eq!(allow(&fixture, "t", 1.0, 9).await, (1, seconds(1)), "a long time saves up no more");
    fixture.clock.advance(seconds(10));
    let some = take(&fixture, "t", 50.0, 2).await;
    let others = take(&fixture, "t", 50.0, 2).await;
    give_back(&fixture, some, 2).await;
    assert_eq!(allow(&fixture, "t", 50.0, 0).await, (0, Duration::ZERO), "one is left");
    give_back(&fixture, others, 1).await;
    give_back(&fixture, others, 1).await;
    assert_eq!(allow(&fixture, "t", 50.0, 9).await, (2, millis(20)), "once");
}
