//! Ranges and times.

use super::*;

#[test]
fn ranges_are_those_of_the_contract() {
    assert!(Ttr::new(Duration::from_millis(999)).is_err());
    assert!(Ttr::new(Duration::from_secs(1)).is_ok());
    assert!(Ttr::new(Duration::from_secs(2_592_000)).is_ok());
    assert!(Ttr::new(Duration::from_millis(2_592_000_001)).is_err());
    assert!(Delay::new(Delay::MAX).is_ok());
    assert!(Delay::new(Delay::MAX + Duration::from_nanos(1)).is_err());
    assert!(Reason::new(&"x".repeat(1_024)).is_some());
    assert!(Reason::new(&"x".repeat(1_025)).is_none());
}

#[test]
fn the_reason_of_a_revoke_is_cut_off_where_it_is_too_long() {
    let ann = Actor::parse("ann").expect("valid");
    let revoked = |by, why: &str| Reason::revoked(by, Reason::new(why).as_ref()).as_str().to_owned();
    assert_eq!(revoked(None, "x"), "revoked: x");
    assert_eq!(Reason::revoked(Some(&ann), None).as_str(), "revoked by ann");
    let long = revoked(Some(&ann), &"é".repeat(512));
    assert_eq!((long.len(), long.ends_with('é')), (1_024, true));
}

#[test]
fn a_time_in_the_past_means_now() {
    let now = Now::from_micros(1_000_500);
    assert_eq!(Due::At(Timestamp::from_millis(5)).resolve(now), now.rounded_down);
    assert_eq!(Due::At(Timestamp::from_millis(1_005)).resolve(now).as_millis(), 1_005);
    assert_eq!(Due::default().resolve(now), now.rounded_down);
}
