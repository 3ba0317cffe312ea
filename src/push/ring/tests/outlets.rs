//! What the ring does with one outlet: when its topic changes, when it rests, what is shown of it, when it is forgotten.

use super::*;
use crate::job::{CallbackUrl, Origin, Timestamp};

fn plain() -> Outlet {
    Outlet::plain(outlet(1, 1).topic)
}

/// The topic's URL goes to this host.
fn topic_to(host: u8) -> impl Fn(&Outlet) -> Destination {
    move |_| Destination::Callback { host: HostNumber(host), concurrency: None, called_at: None }
}

/// A ring in which the outlet of a topic's URL has answered once and has its turn, with the calls that it began.
fn called(host: u8) -> (Ring, Vec<CallTicket>) {
    let mut ring = Ring::new(512, 64);
    ring.announce(&plain());
    let turn = ring.next(0, topic_to(host)).expect("its turn");
    let first = reserve(&mut ring, turn, 1, 1).remove(0);
    ring.ended(first, Signal::Alive, 0);
    let turn = ring.next(0, topic_to(host)).expect("its turn");
    let calls = reserve(&mut ring, turn, 8, 8);
    (ring, calls)
}

#[test]
fn a_new_url_is_called_while_all_calls_to_the_old_one_hang() {
    let (mut ring, calls) = called(1);
    assert_eq!(ring.next(0, topic_to(1)), None);
    ring.topic_changed(&plain().topic);
    let turn = ring.next(0, topic_to(2)).expect("another host is called");
    assert_eq!(turn.calls, 1);
    let mut new = reserve(&mut ring, turn, 1, 1);
    for call in calls {
        assert_eq!(ring.ended(call, OVERLOAD, 0), None);
    }
    let state = &ring.outlets[&plain()];
    assert_eq!((state.window.size(), state.in_window), (1, 1), "the old host says nothing of the new one");
    ring.ended(new.remove(0), Signal::Alive, 0);
    assert_eq!(ring.busy, 0);
}

#[test]
fn a_new_url_is_called_while_the_old_one_rests() {
    let (mut ring, mut calls) = called(1);
    ring.ended(calls.remove(0), Signal::Overload { rest: Some(Duration::from_secs(60)) }, 0);
    assert_eq!(ring.next(0, topic_to(1)), None);
    ring.topic_changed(&plain().topic);
    assert_eq!(ring.next(0, topic_to(1)), None, "the same host still rests");
    ring.topic_changed(&plain().topic);
    assert!(ring.next(0, topic_to(2)).is_some());
    assert_eq!(ring.next_wake_us(), None);
}

#[test]
fn an_endpoint_that_rests_is_probed_once_for_each_moment_when_it_was_to_be_called() {
    let (mut ring, mut calls) = called(1);
    let rest = Signal::Overload { rest: Some(Duration::from_secs(60)) };
    let to_be_called = |ms: i64| {
        let called_at = Some(Timestamp::from_millis(ms));
        move |_: &Outlet| Destination::Callback { host: HostNumber(1), concurrency: None, called_at }
    };
    for call in calls.drain(..) {
        ring.ended(call, rest, 0);
    }
    ring.topic_changed(&plain().topic);
    let turn = ring.next(0, to_be_called(1)).expect("is probed");
    assert_eq!(turn.calls, 1);
    let probe = reserve(&mut ring, turn, 1, 1).remove(0);
    ring.ended(probe, rest, 0);
    ring.topic_changed(&plain().topic);
    assert_eq!(ring.next(0, to_be_called(1)), None, "that was this moment already");
    ring.topic_changed(&plain().topic);
    assert!(ring.next(0, to_be_called(2)).is_some());
}

#[test]
fn new_limits_reach_outlets_that_wait() {
    let mut world = World::new(512, 64, Some(1));
    world.add(outlet(1, 1), 1);
    world.add(outlet(1, 2), 1);
    world.run();
    assert_eq!(world.calls.len(), 1, "the other waits for the topic");
    world.concurrency = None;
    world.ring.topic_changed(&plain().topic);
    world.run();
    assert_eq!(world.calls.len(), 2);

    for changes_during_turn in [true, false] {
        let mut ring = Ring::new(512, 64);
        ring.announce(&plain());
        let turn = ring.next(0, topic_to(1)).expect("its turn");
        let refused_by_rate = |ring: &mut Ring| ring.postpone(turn, 500);
        if changes_during_turn {
            ring.topic_changed(&plain().topic);
            refused_by_rate(&mut ring);
        } else {
            refused_by_rate(&mut ring);
            assert_eq!(ring.next(0, topic_to(1)), None);
            ring.topic_changed(&plain().topic);
        }
        let turn = ring.next(0, topic_to(1)).expect("another turn");
        ring.postpone(turn, 500);
        assert_eq!((ring.next(0, topic_to(1)), ring.busy), (None, 0), "one change, one turn");
    }
}

#[test]
fn an_outlet_that_moves_to_another_host_no_longer_waits_for_the_first() {
    let mut ring = Ring::new(512, 1);
    ring.announce(&outlet(2, 1));
    let turn = ring.next(0, to_host(None)).expect("its turn");
    let call = reserve(&mut ring, turn, 1, 1).remove(0);
    ring.announce(&plain());
    assert_eq!(ring.next(0, topic_to(1)), None);
    ring.topic_changed(&plain().topic);
    let turn = ring.next(0, topic_to(2)).expect("the other host has room");
    reserve(&mut ring, turn, 1, 0);
    ring.ended(call, Signal::Alive, 0);
    assert!(ring.hosts.is_empty() && ring.topics.is_empty());
}

#[test]
fn rests_are_reported_when_they_begin_and_when_the_endpoint_is_back() {
    let (mut ring, calls) = called(1);
    let mut changes: Vec<_> = calls.into_iter().map(|call| ring.ended(call, OVERLOAD, 0)).collect();
    let mut now_us = 0;
    while changes.len() < 12 {
        let turn = ring.next(now_us, topic_to(1)).expect("its turn");
        let call = reserve(&mut ring, turn, 1, 1).remove(0);
        let signal = if changes.len() == 11 { Signal::Alive } else { OVERLOAD };
        changes.push(ring.ended(call, signal, now_us));
        now_us = ring.outlets[&plain()].window.resting_until(now_us).unwrap_or(now_us);
    }
    let mut expected = vec![None; 9];
    let second = Duration::from_secs(1);
    // The second rest follows the first one within a minute.
    expected.extend([Some(RestChange::Began(1_000_000)), None, Some(RestChange::Ended(3 * second))]);
    assert_eq!(changes, expected);
}

#[test]
fn a_failure_is_shown_for_the_endpoint_that_failed() {
    let origin = |n: u32| {
        let url = CallbackUrl::parse(&format!("http://h{n:03}.example/")).expect("valid");
        Origin::clone(url.origin())
    };
    let (mut ring, calls) = called(1);
    ring.calling(&calls[0], &origin(0));
    ring.calling(&calls[1], &origin(1));
    ring.failed(&calls[0], &origin(0), "connect", 5);
    let shown = |ring: &Ring| -> Vec<_> {
        let figures = ring.called_endpoints(0).into_iter();
        let shown = |(topic, figures): (Topic, OutletFigures)| {
            assert_eq!(topic, plain().topic);
            (figures.endpoint.origin, figures.endpoint.last_failure)
        };
        let mut endpoints: Vec<_> = figures.map(shown).collect();
        endpoints.sort_by(|(one, _), (other, _)| one.cmp(other));
        endpoints
    };
    assert_eq!(shown(&ring), [(origin(0), Some((5, "connect".to_owned()))), (origin(1), None)]);
    (2..9).for_each(|n| ring.calling(&calls[2], &origin(n)));
    ring.calling(&calls[2], &origin(2));
    ring.calling(&calls[2], &origin(9));
    let origins: Vec<_> = shown(&ring).into_iter().map(|(origin, _)| origin).collect();
    assert_eq!(origins, (2..10).map(origin).collect::<Vec<_>>(), "the eight that were called last");
    ring.failed(&calls[0], &origin(0), "connect", 6);
    assert!(shown(&ring).iter().all(|(_, failure)| failure.is_none()), "it is forgotten");
}

#[test]
fn the_calls_of_the_last_minute_are_those_to_the_endpoint() {
    let origin = |url: &str| Origin::clone(CallbackUrl::parse(url).expect("valid").origin());
    let [one, two] = ["http://one.example/", "http://two.example/"].map(origin);
    let (mut ring, calls) = called(1);
    ring.calling(&calls[0], &one);
    ring.calling(&calls[1], &two);
    ring.succeeded(&calls[0], &one, 0);
    ring.failed(&calls[0], &one, "connect", 50_000_000);
    ring.succeeded(&calls[1], &two, 50_000_000);
    let shown = |now_us| {
        let figures = ring.called_endpoints(now_us).into_iter();
        figures.map(|(_, figures)| (figures.minute.calls, figures.minute.succeeded)).collect::<Vec<_>>()
    };
    assert_eq!(shown(69_999_999), [(2, 1), (1, 1)]);
    assert_eq!(shown(70_000_000), [(1, 0), (1, 1)]);
    assert_eq!(shown(120_000_000), [(0, 0), (0, 0)]);
}

#[test]
fn an_outlet_is_forgotten_ten_minutes_after_its_last_call() {
    let (mut ring, calls) = called(1);
    for call in calls {
        ring.ended(call, Signal::Overload { rest: Some(Duration::from_secs(60)) }, 0);
    }
    ring.announce(&outlet(2, 2));
    let turn = ring.next(0, topic_to(1)).expect("its turn");
    assert_eq!(turn.outlet, outlet(2, 2), "the other one rests");
    reserve(&mut ring, turn, 1, 0);
    let turn = ring.next(60_000_000, topic_to(1)).expect("its rest is over");
    reserve(&mut ring, turn, 1, 0);
    assert_eq!(ring.next(REMEMBERED_US - 1, topic_to(1)), None);
    assert!(ring.outlets.contains_key(&plain()), "it may be called again soon");
    assert_eq!(ring.next(REMEMBERED_US, topic_to(1)), None);
    assert!(ring.outlets.is_empty(), "{:?}", ring.outlets);
}
