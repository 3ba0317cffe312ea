//! The ring by its invariants, and by what it promises to each host.

mod hosts;
mod newcomers;
mod outlets;

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const OVERLOAD: Signal = Signal::Overload { rest: None };

fn outlet(topic: u8, host: u8) -> Outlet {
    Outlet { topic: Topic::parse(&format!("t{topic}")).expect("valid"), host: Some(HostNumber(host)) }
}

/// Every outlet goes to its host, with this many calls of a topic at a time.
fn to_host(concurrency: Option<u32>) -> impl Fn(&Outlet) -> Destination {
    move |outlet| Destination::Callback {
        host: outlet.host.expect("set above"),
        concurrency,
        called_at: None,
    }
}

/// Tickets for `got` of `asked` jobs, each of the only host of its outlet.
fn reserve(ring: &mut Ring, turn: Turn, asked: u32, got: u32) -> Vec<CallTicket> {
    let jobs = vec![ReservedJob::default(); got as usize];
    let tickets = ring.reserved(turn, asked, &jobs, 0).into_iter().map(|admission| match admission {
        Admission::Call(ticket) => ticket,
        other => panic!("{other:?}"),
    });
    tickets.collect()
}

/// Jobs that are ready, and calls in progress, driven as the loop drives the ring.
struct World {
    ring: Ring,
    ready: BTreeMap<Outlet, u32>,
    calls: Vec<CallTicket>,
    concurrency: Option<u32>,
    now_us: i64,
}

impl World {
    fn new(max_calls: u32, per_host: u32, concurrency: Option<u32>) -> Self {
        let ring = Ring::new(max_calls, per_host);
        Self { ring, ready: BTreeMap::new(), calls: Vec::new(), concurrency, now_us: 0 }
    }

    fn add(&mut self, outlet: Outlet, jobs: u32) {
        self.ring.announce(&outlet);
        *self.ready.entry(outlet).or_default() += jobs;
    }

    /// Takes turns until no outlet has room.
    fn run(&mut self) {
        let destination = to_host(self.concurrency);
        while let Some(turn) = self.ring.next(self.now_us, &destination) {
            let ready = self.ready.entry(turn.outlet.clone()).or_default();
            let asked = turn.calls;
            let got = asked.min(*ready);
            *ready -= got;
            self.calls.extend(reserve(&mut self.ring, turn, asked, got));
        }
        self.check();
    }

    fn end(&mut self, index: usize, signal: Signal) {
        let ticket = self.calls.swap_remove(index);
        self.ring.ended(ticket, signal, self.now_us);
    }

    fn in_flight(&self, is_counted: impl Fn(&CallTicket) -> bool) -> u32 {
        u32::try_from(self.calls.iter().filter(|call| is_counted(call)).count()).expect("few")
    }

    fn check(&self) {
        assert_eq!(self.ring.busy, self.in_flight(|_| true), "no permit is lost or doubled");
        assert!(self.ring.busy <= self.ring.max_calls);
        assert_eq!(self.ring.trials, self.in_flight(|call| call.is_trial));
        assert!(self.ring.trials <= (self.ring.max_calls / 2).max(1));
        let (mut of_host, mut of_topic) = (BTreeMap::new(), BTreeMap::new());
        for call in &self.calls {
            *of_host.entry(call.host).or_insert(0) += 1;
            *of_topic.entry(&call.outlet.topic).or_insert(0) += 1;
        }
        for (outlet, state) in &self.ring.outlets {
            let has_room = state.position == Position::HostRoom && self.ring.host_room(state.host) > 0;
            assert!(!has_room, "{outlet} waits although its host may be called");
            // While no permit is free, another one that was woken may wait for its turn.
            let has_room = state.position == Position::TrialRoom
                && self.ring.busy < self.ring.max_calls
                && self.ring.trial_room(&outlet.topic) > 0;
            assert!(!has_room, "{outlet} waits although it may be tried");
        }
        assert!(of_host.into_values().all(|calls| calls <= self.ring.max_calls_per_host));
        assert!(of_topic.into_values().all(|calls| self.concurrency.is_none_or(|most| calls <= most)));
    }
}

#[test]
fn twenty_hosts_that_hang_leave_room_for_others() {
    let mut world = World::new(512, 64, None);
    // Their windows have grown to the limit before they began to hang.
    for host in 0..20 {
        world.add(outlet(host, host), 1 + 8 + 16 + 32);
        for _ in 0..4 {
            world.run();
            (0..world.calls.len()).for_each(|_| world.end(0, Signal::Alive));
        }
    }
    for host in 0..20 {
        world.add(outlet(host, host), 10_000);
    }
    // Calls end one after the other, say because they are cut off, and say nothing about their hosts.
    for _ in 0..2_000 {
        world.run();
        let ticket = world.calls.remove(0);
        world.ring.ended(ticket, Signal::None, 0);
    }
    world.run();
    let held: Vec<u32> = (0..20).map(|host| world.in_flight(|call| call.host == HostNumber(host))).collect();
    assert!(held.iter().all(|calls| (1..50).contains(calls)), "{held:?}");
    // Half of what is free is the most that a host may hold; on average 512 permits are shared by 20 hosts and two more.
    let free = 512 - world.ring.busy;
    assert!((32..=70).contains(&free), "{free} free beside {held:?}");
    world.add(outlet(99, 99), 10);
    world.run();
    assert_eq!(world.in_flight(|call| call.host == HostNumber(99)), 1, "a newcomer is called at once");
}

#[test]
fn a_host_gets_at_most_its_limit_over_all_topics() {
    let mut world = World::new(512, 64, None);
    for topic in 0..30 {
        world.add(outlet(topic, 1), 100);
    }
    world.run();
    (0..world.calls.len()).for_each(|_| world.end(0, Signal::Alive));
    world.run();
    assert_eq!(world.calls.len(), 64);
}

#[test]
fn a_host_is_called_again_when_calls_to_other_hosts_end() {
    let mut world = World::new(12, 12, None);
    for host in 1..=6 {
        world.add(outlet(host, host), 1);
        world.run();
        world.end(0, Signal::Alive);
    }
    for host in 1..=6 {
        world.add(outlet(host, host), if host == 1 { 1 } else { 8 });
        world.run();
    }
    world.add(outlet(1, 1), 3);
    world.run();
    assert_eq!(world.ring.outlets[&outlet(1, 1)].position, Position::HostRoom);
    // The call to the first host goes on for long.
    while world.calls.len() > 1 {
        world.end(1, Signal::None);
    }
    world.run();
    assert!(world.in_flight(|call| call.host == HostNumber(1)) > 1);
}

#[test]
fn a_topic_gets_at_most_its_concurrency_over_all_hosts() {
    let mut world = World::new(512, 64, Some(5));
    for host in 0..30 {
        world.add(outlet(1, host), 1);
    }
    let mut called = 0;
    while called < 30 {
        world.run();
        assert!((1..=5).contains(&world.calls.len()), "{called} called, {} in flight", world.calls.len());
        world.end(0, Signal::Alive);
        called += 1;
    }
}

#[test]
fn a_resting_outlet_is_probed_when_its_rest_ends_and_others_go_on() {
    let mut world = World::new(512, 64, None);
    world.add(outlet(1, 1), 1_000);
    for _ in 0..10 {
        world.run();
        world.end(0, OVERLOAD);
    }
    for call in std::mem::take(&mut world.calls) {
        world.ring.ended(call, OVERLOAD, 0);
    }
    world.run();
    assert_eq!(world.calls.len(), 0, "it rests");
    world.add(outlet(2, 2), 1);
    world.run();
    assert_eq!(world.calls.len(), 1);
    world.end(0, Signal::Alive);
    let wake_us = world.ring.next_wake_us().expect("the rest ends");
    world.now_us = wake_us - 1;
    world.run();
    assert_eq!(world.calls.len(), 0, "not a moment earlier");
    world.now_us = wake_us;
    world.run();
    assert_eq!(world.calls.len(), 1, "one call probes");
    world.end(0, Signal::Alive);
    world.run();
    assert_eq!(world.calls.len(), 2);
}

#[test]
fn a_late_answer_ends_a_rest_unless_that_was_asked_for() {
    for (rest, overloads) in [(None, 10), (Some(Duration::from_secs(60)), 1)] {
        let mut world = World::new(512, 64, None);
        world.add(outlet(1, 1), 1_000);
        world.run();
        world.end(0, Signal::Alive);
        world.run();
        for _ in 0..overloads {
            world.end(1, Signal::Overload { rest });
            world.run();
        }
        while world.calls.len() > 1 {
            world.end(1, Signal::None);
        }
        world.run();
        assert_eq!(world.calls.len(), 1, "it rests, and the first call is still in progress");
        world.end(0, Signal::Alive);
        world.run();
        assert_eq!(world.calls.is_empty(), rest.is_some());
        world.now_us = 60_000_000;
        world.run();
        assert!(!world.calls.is_empty());
    }
}

#[test]
fn an_outlet_that_uses_all_of_its_host_leaves_room_for_another_one() {
    let mut world = World::new(512, 64, None);
    world.add(outlet(1, 1), 10_000);
    for _ in 0..4 {
        world.run();
        (0..world.calls.len()).for_each(|_| world.end(0, Signal::Alive));
    }
    world.run();
    assert_eq!(world.calls.len(), 64);
    world.add(outlet(2, 1), 1);
    world.run();
    world.end(0, Signal::Alive);
    world.run();
    assert_eq!(world.in_flight(|call| call.outlet == outlet(2, 1)), 1, "it has waited for the host's limit");
    assert_eq!(world.calls.len(), 64);
}

#[test]
fn a_paused_outlet_waits_until_its_topic_is_announced() {
    let mut ring = Ring::new(512, 64);
    ring.announce(&outlet(1, 1));
    ring.announce(&outlet(1, 2));
    assert_eq!(ring.next(0, |_| Destination::Paused), None);
    assert_eq!(ring.next(0, to_host(None)), None);
    ring.announce(&Outlet::plain(outlet(1, 1).topic));
    let workers_or_host = |outlet: &Outlet| match outlet.host {
        Some(host) => Destination::Callback { host, concurrency: None, called_at: None },
        None => Destination::Workers,
    };
    let turns = std::iter::from_fn(|| ring.next(0, workers_or_host)).map(|turn| turn.outlet);
    assert_eq!(turns.collect::<Vec<_>>(), [outlet(1, 1), outlet(1, 2)]);
}

#[test]
fn an_announcement_during_a_turn_gives_another_one() {
    let mut ring = Ring::new(512, 64);
    ring.announce(&outlet(1, 1));
    let turn = ring.next(0, to_host(None)).expect("its turn");
    ring.announce(&outlet(1, 1));
    assert_eq!(reserve(&mut ring, turn, 1, 0), []);
    let turn = ring.next(0, to_host(None)).expect("jobs may have become ready since");
    assert_eq!(reserve(&mut ring, turn, 1, 0), []);
    assert_eq!(ring.next(0, to_host(None)), None);
    assert_eq!(ring.busy, 0);
}

#[test]
fn a_postponed_turn_comes_at_its_time_and_frees_its_permits() {
    let mut ring = Ring::new(2, 2);
    ring.announce(&outlet(1, 1));
    let turn = ring.next(0, to_host(None)).expect("its turn");
    ring.postpone(turn, 500);
    assert_eq!((ring.busy, ring.next_wake_us()), (0, Some(500)));
    assert_eq!(ring.next(499, to_host(None)), None);
    assert!(ring.next(500, to_host(None)).is_some());
}

#[test]
fn idle_outlets_are_forgotten() {
    let mut ring = Ring::new(512, 64);
    for n in 0..10_000_u32 {
        let topic = Topic::parse(&format!("t{n}")).expect("valid");
        ring.announce(&Outlet { topic, host: Some(HostNumber(1)) });
        let turn = ring.next(0, to_host(None)).expect("its turn");
        reserve(&mut ring, turn, 1, 0);
    }
    assert!(ring.outlets.len() <= FIRST_PRUNE, "{}", ring.outlets.len());
}

proptest! {
    /// Whatever happens, no limit is exceeded, and in the end every job is called.
    #[test]
    fn every_job_is_called_within_the_limits(
        max_calls in 1u32..40,
        per_host in 1u32..20,
        concurrency in prop::option::of(1u32..6),
        steps in prop::collection::vec((0u8..6, 0u8..4, 0u8..4, 1u32..9), 1..120),
    ) {
        let mut world = World::new(max_calls, per_host, concurrency);
        let mut added = 0;
        let mut ended = 0;
        for (kind, topic, host, amount) in steps {
            match kind {
                0..3 => {
                    world.add(outlet(topic, host), amount);
                    added += amount;
                }
                3 if !world.calls.is_empty() => {
                    world.end(amount as usize % world.calls.len(), OVERLOAD);
                    ended += 1;
                }
                4 if !world.calls.is_empty() => {
                    world.end(amount as usize % world.calls.len(), Signal::Alive);
                    ended += 1;
                }
                _ => world.now_us += i64::from(amount) * 300_000,
            }
            world.run();
        }
        for _ in 0..20_000 {
            if ended == added {
                break;
            }
            if world.calls.is_empty() {
                world.now_us = world.ring.next_wake_us().expect("with ready jobs an outlet waits for a moment");
            } else {
                world.end(0, Signal::Alive);
                ended += 1;
            }
            world.run();
        }
        prop_assert_eq!(ended, added);
        prop_assert_eq!(world.ring.busy, 0);
        prop_assert!(world.ring.hosts.is_empty() && world.ring.topics.is_empty());
    }
}
