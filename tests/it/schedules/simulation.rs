//! Weeks of schedules over a real engine, by an injected clock: processes are killed before and after their calls take effect,
//! freeze and wake late, and workers take their time. In every second run on the embedded engine the machine's clock is set wrong
//! and right again; on Redis the clock of the tests cannot be. Whatever happens, no occurrence is added twice, and none is missed
//! but by the rule of its schedule.
//!
//! A run depends on its seed alone, but for the order in which the processes' calls reach the store. The seeds are those of
//! `crate::simulation`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use linger::{
    http::read_template,
    job::{
        Timestamp,
        schedule::{Missed, Overlap, ScheduleFields, run_id},
    },
    queue::UpcomingRuns,
    store::{Error, Reservation},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinHandle;

use super::{Fleet, by_pattern, every, schedule_name, without_suffix};
use crate::{
    harness::{
        failing::{Failure, Fault, HungCalls},
        jobs::*,
        stores::Engine,
    },
    load::setting,
};

/// Seeds of each engine in the normal run.
const SEEDS: u64 = 3;
const NAMES: [&str; 5] = ["skip", "jitter", "all", "replace", "none"];
const STEPS: usize = 150;
const PROCESSES: usize = 4;

#[tokio::test]
async fn weeks_on_the_embedded_engine() {
    run_seeds(Engine::Embedded).await;
}

#[tokio::test]
async fn weeks_on_redis() {
    run_seeds(Engine::Redis).await;
}

async fn run_seeds(engine: Engine) {
    let first = setting("LINGER_SIMULATION_SEED", rand::random::<u32>().into());
    // `scripts/test --all` and `scripts/prove` run a hundredth of the seeds of the other simulation here.
    let seeds = (setting("LINGER_SIMULATION_SEEDS", 100 * SEEDS) / 100).max(1);
    println!("{seeds} seeds from LINGER_SIMULATION_SEED={first}");
    let (mut faults, mut jobs) = (0, 0);
    for seed in (first..).take(usize::try_from(seeds).expect("is small")) {
        println!("seed {seed}");
        let world = World::new(engine, seed).await.run().await;
        (faults, jobs) = (faults + world.faults.load(Ordering::Relaxed), jobs + world.seen.len());
    }
    let engine = format!("{engine:?}").to_lowercase();
    println!("proof: what=weeks_of_schedules_{engine} runs={seeds} faults={faults} jobs={jobs} seed={first}");
}

/// A process in a call that has not returned.
struct Frozen {
    /// The number of the process.
    number: usize,
    hung: Arc<HungCalls>,
    runs: JoinHandle<()>,
}

struct World {
    fleet: Fleet,
    rng: StdRng,
    frozen: Vec<Frozen>,
    held: Vec<Reservation>,
    /// What some processes have planned for the next moment.
    planned: Vec<Option<UpcomingRuns>>,
    /// The ids of the jobs that were delivered, without suffixes.
    seen: BTreeSet<String>,
    /// Whether the machine's clock is set during the run.
    sets_clock: bool,
    /// How far that clock is ahead.
    wall_ahead_ms: i64,
    /// Whether it was years ahead. After several such times there may be more runs than a schedule remembers.
    was_far_ahead: bool,
    /// How many calls were killed or froze, and how often the clock was set.
    faults: Arc<AtomicU64>,
}

impl World {
    async fn new(engine: Engine, seed: u64) -> Self {
        let fleet = Fleet::new(engine, PROCESSES).await;
        let rng = StdRng::seed_from_u64(seed);
        fleet.put("skip", by_pattern("*/20 * * * *")).await;
        fleet.put("jitter", ScheduleFields { jitter: Some(seconds(600)), ..every(seconds(3_600)) }).await;
        let allow = ScheduleFields {
            overlap: Some(Overlap::Allow),
            missed: Some(Missed::All),
            missed_within: Some(seconds(864_000)),
            ..every(seconds(1_260))
        };
        fleet.put("all", allow).await;
        fleet
            .put("replace", ScheduleFields { overlap: Some(Overlap::Replace), ..by_pattern("0 */3 * * *") })
            .await;
        fleet
            .put("none", ScheduleFields { missed: Some(Missed::None), ..by_pattern("30 9 * * MON-FRI") })
            .await;
        let sets_clock = engine == Engine::Embedded && seed % 2 == 1;
        let planned = (0..PROCESSES).map(|_| None).collect();
        let (frozen, held, seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self {
            fleet,
            rng,
            frozen,
            held,
            planned,
            seen,
            sets_clock,
            wall_ahead_ms: 0,
            was_far_ahead: false,
            faults: Arc::default(),
        }
    }

    async fn run(mut self) -> Self {
        let began = self.fleet.fixture.now();
        for _ in 0..STEPS {
            self.step().await;
        }
        self.settle().await;
        if self.sets_clock {
            self.check_after_steps().await;
        } else {
            self.check(began).await;
        }
        self
    }

    async fn step(&mut self) {
        // Most often minutes, or an outage of up to 20 hours. Several that follow each other are shorter than the ten days that
        // `missed: all` makes up for.
        let longest = if self.rng.random_bool(0.1) { 72_000 } else { 4_000 };
        if self.rng.random_bool(0.3) {
            self.plan().await;
        } else {
            self.fleet.fixture.clock.advance(seconds(self.rng.random_range(1..longest)));
        }
        if self.sets_clock && self.rng.random_bool(0.1) {
            let hours = [-2, -1, 1, 2, 8_760, 17_520][self.rng.random_range(0..6)];
            let is_far = hours > 2;
            if self.wall_ahead_ms != 0 {
                self.set_clock(0);
            } else if !(is_far && self.was_far_ahead) {
                self.was_far_ahead |= is_far;
                self.set_clock(hours * 3_600_000);
            }
        }
        for number in 0..PROCESSES {
            if self.rng.random_bool(0.6) {
                self.wake(number).await;
            }
        }
        if self.rng.random_bool(0.5) && !self.frozen.is_empty() {
            let frozen = self.frozen.swap_remove(self.rng.random_range(0..self.frozen.len()));
            self.thaw(frozen).await;
        }
        self.work().await;
    }

    /// Sets the machine's clock to be so far ahead. The workers lose what they hold.
    fn set_clock(&mut self, ahead_ms: i64) {
        self.fleet.fixture.clock.step_wall(ahead_ms - self.wall_ahead_ms);
        self.wall_ahead_ms = ahead_ms;
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.held.clear();
    }

    /// Has processes plan the runs of the next moment, and advances the clock to it, or a little further.
    async fn plan(&mut self) {
        let within = seconds(4_000);
        for (process, planned) in self.fleet.processes.iter().zip(&mut self.planned) {
            if self.rng.random_bool(0.7) {
                *planned = process.queue.plan_upcoming_runs(read_template, within).await.expect("reads");
            }
        }
        let page = self.fleet.fixture.store.due_schedules(within, 1_000).await.expect("reads");
        let moments = page.schedules.iter().filter_map(|schedule| schedule.content.next);
        let next = moments.filter(|moment| *moment > page.now).min();
        let late = millis(self.rng.random_range(0..1_500));
        self.fleet.fixture.clock.advance(next.map_or(late, |next| next.since(page.now) + late));
    }

    /// Has a process run what it has planned, and what is due. It may be killed around a call, or freeze before one.
    async fn wake(&mut self, number: usize) {
        let process = &self.fleet.processes[number];
        let (kind, at) = (self.rng.random_range(0..10), self.rng.random_range(1..4));
        let hung = HungCalls::new();
        let (holds, faults, mut calls) = (hung.clone(), self.faults.clone(), 0);
        process.store.choose_faults(Some(Box::new(move |called| {
            calls += usize::from(called == "change_schedules");
            if called != "change_schedules" || calls != at {
                return Fault::default();
            }
            faults.fetch_add(u64::from(kind < 3), Ordering::Relaxed);
            let killed = || Some(Failure::Error(Error::Unavailable("killed".to_owned())));
            match kind {
                0 => Fault { failure: killed(), ..Fault::default() },
                1 => Fault { takes_effect: true, failure: killed(), ..Fault::default() },
                2 => Fault { hung: Some(holds.clone()), ..Fault::default() },
                _ => Fault::default(),
            }
        })));
        let (queue, planned) = (process.queue.clone(), self.planned[number].take());
        let mut runs = tokio::spawn(async move {
            // A killed process has an error, and goes on with its next start.
            if let Some(planned) = planned {
                let _ = queue.run_upcoming(planned).await;
            }
            let _ = queue.run_due_schedules(read_template).await;
        });
        tokio::select! {
            ended = &mut runs => ended.expect("no process panics"),
            () = crate::harness::wait::until(|| hung.hung_calls() > 0) => {
                self.frozen.push(Frozen { number, hung, runs });
            }
        }
    }

    /// Lets a process go on to its end. A fault that was chosen since would hold it for ever.
    async fn thaw(&self, Frozen { number, hung, runs }: Frozen) {
        self.fleet.processes[number].store.choose_faults(None);
        hung.release();
        runs.await.expect("no process panics");
    }

    async fn work(&mut self) {
        let store = self.fleet.fixture.store.clone();
        promote(&*store).await;
        self.held
            .retain(|held| held.job.reserved_until().is_some_and(|until| until > self.fleet.fixture.now()));
        for held in std::mem::take(&mut self.held) {
            if self.rng.random_bool(0.5) {
                self.finish(&held).await;
            } else {
                self.held.push(held);
            }
        }
        while let Some(reserved) = reserve_any(&*store).await {
            if reserved.job.attempts == 1 {
                let id = without_suffix(&reserved.job.id);
                assert!(self.seen.insert(id.clone()), "{id} was added twice");
            }
            if self.rng.random_bool(0.7) {
                self.finish(&reserved).await;
            } else {
                self.held.push(reserved);
            }
        }
    }

    async fn finish(&self, held: &Reservation) {
        let ended = self.fleet.fixture.store.finish(ALL, finish(&held.job.id, &held.receipt)).await;
        let ended = one(ended.expect("works"));
        // While the clock is wrong, the worker does not know when its reservations end.
        assert!(self.sets_clock || ended.is_ok(), "is reserved: {ended:?}");
    }

    /// Ends all faults, and runs what is due.
    async fn settle(&mut self) {
        for frozen in std::mem::take(&mut self.frozen) {
            self.thaw(frozen).await;
        }
        for process in &self.fleet.processes {
            process.store.choose_faults(None);
        }
        self.fleet.run_due().await;
        self.work().await;
    }

    /// Once the clock is right for good, every occurrence has run.
    async fn check_after_steps(&mut self) {
        self.set_clock(0);
        self.fleet.run_due().await;
        // Longer than the reservations that the workers lost.
        self.fleet.advance(seconds(3_600)).await;
        self.fleet.work().await;
        let began = self.fleet.fixture.now();
        for _ in 0..50 {
            self.fleet.advance(seconds(600)).await;
            for id in self.fleet.work().await {
                assert!(self.seen.insert(id.clone()), "{id} was added twice");
            }
        }
        let ended = self.fleet.fixture.now();
        for name in NAMES {
            let next = self.fleet.get(name).await.state.next.expect("never ends");
            assert!(next < ended.after(seconds(4 * 86_400)), "{name} waits for the wrong clock: {next}");
        }
        // Of the others, some gave way while the clock was wrong.
        let (name, recurrence) = (schedule_name("all"), self.fleet.get("all").await.spec.recurrence);
        let following = |after: &Timestamp| recurrence.following(*after).filter(|at| *at <= ended);
        let occurrences = std::iter::successors(following(&began), following);
        let missing: Vec<_> =
            occurrences.filter(|at| !self.seen.contains(run_id(&name, *at).as_str())).collect();
        assert_eq!(missing, []);
    }

    async fn check(&self, began: Timestamp) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for id in &self.seen {
            let name = id.strip_prefix("cron:").and_then(|rest| rest.split_once(':')).expect("a run").0;
            *seen.entry(name).or_default() += 1;
        }
        for name in NAMES {
            let view = self.fleet.get(name).await;
            let following = |after: &Timestamp| view.spec.recurrence.following(*after);
            let is_decided = |at: &Timestamp| view.state.next.is_none_or(|next| *at < next);
            let occurrences: Vec<_> =
                std::iter::successors(following(&began), following).take_while(is_decided).collect();
            let counts = view.state.counts;
            let ends = counts.fired + counts.overlapped + counts.missed;
            assert_eq!(ends, occurrences.len() as u64, "{name}: each has one end: {counts:?}");
            let seen = seen.get(name).copied().unwrap_or_default() as u64;
            match name {
                "all" => {
                    assert_eq!((counts.overlapped, counts.missed), (0, 0));
                    let name = schedule_name(name);
                    let missing =
                        occurrences.iter().find(|at| !self.seen.contains(run_id(&name, **at).as_str()));
                    assert_eq!(missing, None, "each has run");
                }
                // A run that gave way was not seen.
                "replace" => assert!(seen <= counts.fired),
                _ => assert_eq!(seen, counts.fired, "{name}"),
            }
        }
    }
}
