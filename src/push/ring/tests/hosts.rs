//! Several hosts that share an outlet: one that fails holds up no other one.

use super::*;
use crate::job::{CallbackUrl, Origin};

const SECOND_US: i64 = 1_000_000;
/// How long a call to a host that hangs takes, and one to another host.
const HANGS_US: i64 = 30 * SECOND_US;
const ANSWERS_US: i64 = 10_000;

fn origin(name: &str) -> Origin {
    let url = CallbackUrl::parse(&format!("http://{name}.example/")).expect("valid");
    Origin::clone(url.origin())
}

/// The jobs of one outlet and its calls, as the store and the network drive them.
struct SharedOutlet {
    ring: Ring,
    hangs: fn(&Origin) -> bool,
    ready: VecDeque<Origin>,
    set_aside: BTreeMap<(i64, usize), Origin>,
    calls: Vec<(i64, CallTicket)>,
    /// When each call began, and to which host.
    begun: Vec<(i64, Origin)>,
    moves: usize,
    now_us: i64,
}

impl SharedOutlet {
    fn new(hangs: fn(&Origin) -> bool) -> Self {
        let ring = Ring::new(512, 64);
        Self {
            ring,
            hangs,
            ready: VecDeque::new(),
            set_aside: BTreeMap::new(),
            calls: Vec::new(),
            begun: Vec::new(),
            moves: 0,
            now_us: 0,
        }
    }

    fn add(&mut self, host: &Origin, jobs: usize) {
        self.ready.extend(std::iter::repeat_n(host.clone(), jobs));
        self.ring.announce(&outlet(1, 1));
    }

    fn run_until(&mut self, end_us: i64) {
        while self.now_us < end_us {
            self.end_calls();
            while let Some(turn) = self.ring.next(self.now_us, to_host(None)) {
                self.serve(turn);
            }
            let ends = self.calls.iter().map(|(end_us, _)| *end_us);
            let due = self.set_aside.keys().map(|(due_us, _)| *due_us);
            let next_us = ends.chain(due).chain(self.ring.next_wake_us()).min();
            self.now_us = next_us.unwrap_or(end_us).min(end_us);
        }
    }

    fn end_calls(&mut self) {
        let later = self.set_aside.split_off(&(self.now_us + 1, 0));
        for (_, host) in std::mem::replace(&mut self.set_aside, later) {
            self.add(&host, 1);
        }
        let (ended, calls) =
            std::mem::take(&mut self.calls).into_iter().partition(|(end_us, _)| *end_us <= self.now_us);
        self.calls = calls;
        let ended: Vec<_> = ended;
        for (_, ticket) in ended {
            let hangs = ticket.origin.as_ref().is_some_and(self.hangs);
            self.ring.ended(ticket, if hangs { Signal::Silent } else { Signal::Alive }, self.now_us);
        }
    }

    fn serve(&mut self, turn: Turn) {
        let (asked, outlet) = (turn.jobs, turn.outlet.clone());
        let hosts: Vec<_> = self.ready.drain(..self.ready.len().min(asked as usize)).collect();
        let jobs: Vec<_> =
            hosts.iter().map(|host| ReservedJob { host: Some(host.clone()), bytes: 100 }).collect();
        let admissions = self.ring.reserved(turn, asked, &jobs, self.now_us);
        let sets_aside = admissions.iter().any(|one| matches!(one, Admission::After(_)));
        for (host, admission) in hosts.into_iter().zip(admissions).rev() {
            match admission {
                Admission::Call(ticket) => {
                    let takes_us = if (self.hangs)(&host) { HANGS_US } else { ANSWERS_US };
                    self.calls.push((self.now_us + takes_us, ticket));
                    self.begun.push((self.now_us, host));
                }
                Admission::Later => {
                    self.ready.push_front(host);
                    self.ring.announce(&outlet);
                }
                Admission::After(wait) => {
                    self.moves += 1;
                    let wait_us = i64::try_from(wait.as_micros()).expect("is short");
                    self.set_aside.insert((self.now_us + wait_us, self.moves), host);
                }
            }
        }
        if sets_aside {
            self.ring.end_turn(&outlet);
        }
    }

    fn calls_to(&self, host: &Origin, from_us: i64) -> usize {
        self.begun.iter().filter(|(at_us, called)| called == host && *at_us >= from_us).count()
    }
}

#[test]
fn a_host_that_hangs_with_any_number_of_jobs_holds_up_no_other_one_of_its_outlet() {
    for jobs in [100, 2_000] {
        let (bad, good) = (origin("bad"), origin("good"));
        let mut world = SharedOutlet::new(|host| *host == origin("bad"));
        world.add(&bad, jobs);
        world.add(&good, 18);
        world.run_until(120 * SECOND_US);
        assert_eq!(world.calls_to(&good, 0), 18, "behind {jobs} jobs");
        // Later ones do not even wait for the first failures.
        world.run_until(300 * SECOND_US);
        for n in 0..100 {
            world.add(&good, 1);
            world.run_until((301 + n) * SECOND_US);
        }
        world.run_until(430 * SECOND_US);
        let late = world.set_aside.len() + world.ready.len() + world.calls.len();
        assert!(world.calls_to(&good, 300 * SECOND_US) == 100, "{late} jobs wait");
        // The bad one is tried again and again, one call at a time, and its jobs are moved at the pace that is set.
        assert!((9..=20).contains(&world.calls_to(&bad, 0)), "{} calls", world.calls_to(&bad, 0));
        let most = 64 + 500 * usize::try_from(world.now_us / SECOND_US).expect("is positive");
        assert!(world.moves <= most, "{} moves", world.moves);
    }
}

#[test]
fn each_of_several_hosts_that_hang_is_tried_in_turn() {
    let mut world = SharedOutlet::new(|host| host.host.to_string().starts_with("bad"));
    let bad: Vec<Origin> = (0..10).map(|n| origin(&format!("bad{n}"))).collect();
    for _ in 0..20 {
        bad.iter().for_each(|host| world.add(host, 1));
    }
    world.add(&origin("good"), 18);
    world.run_until(600 * SECOND_US);
    assert_eq!(world.calls_to(&origin("good"), 0), 18);
    let calls: Vec<usize> = bad.iter().map(|host| world.calls_to(host, 0)).collect();
    assert!(calls.iter().all(|calls| (5..=20).contains(calls)), "{calls:?}");
}

#[test]
fn a_host_that_is_back_is_called_as_the_others_again() {
    let mut world = SharedOutlet::new(|host| *host == origin("bad"));
    world.add(&origin("bad"), 100);
    world.run_until(200 * SECOND_US);
    world.hangs = |_| false;
    world.run_until(300 * SECOND_US);
    assert!(world.ready.is_empty() && world.set_aside.is_empty(), "all were called within 100 s");
    assert_eq!(world.ring.counts(world.now_us).1, HashMap::new(), "none rests");
    assert_eq!((world.ring.busy, world.ring.trials), (0, 0));
}

#[test]
fn the_jobs_of_a_host_that_asks_for_a_rest_are_set_aside_until_then() {
    let mut ring = Ring::new(512, 64);
    let job = |name: &str| ReservedJob { host: Some(origin(name)), bytes: 0 };
    ring.announce(&outlet(1, 1));
    let turn = ring.next(0, to_host(None)).expect("its turn");
    let mut admissions = ring.reserved(turn, 1, &[job("busy")], 0);
    let Admission::Call(call) = admissions.remove(0) else { panic!("it is called") };
    ring.ended(call, Signal::Overload { rest: Some(Duration::from_secs(7)) }, 0);
    ring.announce(&outlet(1, 1));
    let turn = ring.next(0, to_host(None)).expect("others may be called");
    assert_eq!((turn.jobs, turn.calls), (4, 4));
    let admissions = ring.reserved(turn, 4, &[job("busy"), job("other")], 0);
    assert_eq!(admissions[0], Admission::After(Duration::from_secs(7)));
    assert!(matches!(admissions[1], Admission::Call(_)), "{admissions:?}");
    // The next turn comes when the store has back what was set aside, however long that takes.
    ring.announce(&outlet(1, 1));
    assert_eq!((ring.next(SECOND_US, to_host(None)), ring.next_wake_us()), (None, None));
    ring.end_turn(&outlet(1, 1));
    // While jobs are set aside, a turn finds out about more of them than it calls for.
    let turn = ring.next(SECOND_US, to_host(None)).expect("the pause is over");
    assert_eq!((turn.jobs, turn.calls), (MAX_TURN, 3));
    let admissions = ring.reserved(turn, 64, &std::array::from_fn::<_, 5, _>(|_| job("other")), SECOND_US);
    assert_eq!(admissions.iter().filter(|one| **one == Admission::Later).count(), 2);
    assert_eq!(ring.counts(0).1.into_values().sum::<usize>(), 1, "one endpoint rests");
}

#[test]
fn large_bodies_are_set_aside_more_slowly() {
    let mut ring = Ring::new(512, 64);
    for (topic, bytes, next_us) in [(1, 0, 100_000), (2, 10 << 20, 1_200_000), (3, 0, 1_300_000)] {
        ring.announce(&outlet(topic, 1));
        ring.set_aside(&outlet(topic, 1), 50, bytes, 0);
        assert_eq!(ring.next(next_us - 1, to_host(None)), None);
        let turn = ring.next(next_us, to_host(None)).expect("its turn");
        reserve(&mut ring, turn, 1, 0);
    }
}
