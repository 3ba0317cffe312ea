//! Hosts that nothing is known of: many of them may hang.

use super::*;

#[test]
fn new_hosts_that_hang_leave_half_of_the_calls_to_those_that_answer() {
    let mut world = World::new(512, 64, None);
    let good = outlet(200, 200);
    world.add(good.clone(), 1);
    world.run();
    world.end(0, Signal::Alive);
    // Of one topic first, then each of its own.
    for host in 0..150 {
        world.add(outlet(1, host), 3);
    }
    world.run();
    let of_topic = world.calls.len();
    assert!((60..=90).contains(&of_topic), "a topic got {of_topic} calls");
    for host in 0..150 {
        world.add(outlet(2 + host, host), 3);
    }
    world.run();
    assert!((230..=256).contains(&world.calls.len()), "{} calls of hosts that hang", world.calls.len());
    world.add(good.clone(), 100);
    world.run();
    assert_eq!(world.in_flight(|call| call.outlet == good), 8, "its whole window");
    // They were cut off, and each that waited gets a trial.
    while !world.calls.is_empty() {
        world.end(0, Signal::Alive);
        world.run();
    }
    assert!(world.ready.values().all(|jobs| *jobs == 0), "{:?}", world.ready);
}

#[test]
fn new_hosts_that_hang_leave_room_for_new_ones_that_answer() {
    // A topic for each, and all in one topic.
    for (hanging, topic_of) in [(200_u8, (|host| host) as fn(u8) -> u8), (70, |_| 1)] {
        let mut world = World::new(512, 64, None);
        for host in 0..hanging {
            world.add(outlet(topic_of(host), host), 20);
        }
        world.run();
        let hangs = |call: &CallTicket| call.host.0 < hanging;
        assert_eq!(world.in_flight(hangs), u32::from(hanging), "one call each");
        // When these calls are given up, the next ones begin.
        for _ in 0..2 {
            (0..hanging).for_each(|_| world.end(0, Signal::Silent));
            world.run();
        }
        for host in hanging..hanging + 50 {
            world.add(outlet(topic_of(host), host), 20);
        }
        world.run();
        while let Some(index) = world.calls.iter().position(|call| !hangs(call)) {
            world.end(index, Signal::Alive);
            world.run();
        }
        let left: Vec<_> =
            world.ready.iter().filter(|(_, jobs)| **jobs > 0).map(|(outlet, _)| outlet.host).collect();
        assert!(left.iter().all(|host| host.is_some_and(|host| host.0 < hanging)), "{left:?}");
        assert_eq!(world.in_flight(hangs), u32::from(hanging));
    }
}
