//! Weeks of a schedule by [`plan`] alone: a process that stops and comes back with an older or newer zone database, a clock that
//! is wrong by hours and years and is set right again, stores without room, pauses, and runs that are not over.

use std::collections::BTreeSet;

use super::*;

/// A small generator of numbers (xorshift), so that a failure can be repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// How many are simulated.
const SEEDS: u64 = 25;

struct Simulation {
    random: Random,
    spec: ScheduleSpec,
    state: ScheduleState,
    /// What a right clock shows.
    time: Timestamp,
    /// How much the clock is ahead.
    error_ms: i64,
    is_full: bool,
    /// Those that ran, and those that gave way.
    handled: BTreeSet<Timestamp>,
    counts: RunCounts,
    /// The clock at the last visit, if nothing has disturbed the schedule since.
    undisturbed_since: Option<Timestamp>,
    checked: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let patterns = ["0 */2 * * *", "15,45 1-4 * * *", "30 2 * * *", "0 0,8,12,20 * * *"];
        let recurrence = match random.below(5) {
            4 => every(minutes(97)),
            at => cron(
                patterns[at as usize],
                ["Europe/Berlin", "Australia/Lord_Howe"][random.below(2) as usize],
            ),
        };
        let missed = Some(Missed::ALL[random.below(3) as usize]);
        let jitter = random.one_in(2).then_some(minutes(25));
        let spec =
            spec(&ScheduleFields { missed, jitter, overlap: Some(Overlap::Allow), ..fields(recurrence) });
        let time = moment("2026-03-10T00:00:00Z");
        let state = ScheduleState::new(&spec, time, "2026a");
        Self {
            random,
            spec,
            state,
            time,
            error_ms: 0,
            is_full: false,
            handled: BTreeSet::new(),
            counts: RunCounts::default(),
            undisturbed_since: Some(time),
            checked: 0,
        }
    }

    fn clock(&self) -> Timestamp {
        self.time.shifted(self.error_ms)
    }

    /// Something happens, or time passes until the process has something to do.
    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.disturb(|this| this.time = this.time.after(minutes(this.random.below(2_000)))),
            1 => self.disturb(|this| {
                let hour_ms = 3_600_000;
                let longest = if this.random.one_in(3) { 20_000 } else { 30 };
                this.error_ms =
                    hour_ms * (this.random.below(2 * longest).cast_signed() - longest.cast_signed());
            }),
            2..=4 if self.error_ms != 0 || self.is_full => {
                self.disturb(|this| (this.error_ms, this.is_full) = (0, false));
            }
            5 => self.disturb(|this| this.is_full = true),
            6 => self.disturb(|this| {
                let (now, zones) = (this.clock(), this.zone_database());
                let changed =
                    resume(&name(), &this.spec, &this.state, now, zones).or_else(|| pause(&this.state));
                this.state = changed.expect("is paused or not");
            }),
            _ => {}
        }
        let latest = self.clock().after(hours(12));
        let due = self.state.due_at(&name(), &self.spec).map_or(latest, |due| due.min(latest));
        self.time =
            self.time.after(due.since(self.clock())).after(Duration::from_millis(self.random.below(5_000)));
        self.visit();
    }

    fn disturb(&mut self, change: impl FnOnce(&mut Self)) {
        self.undisturbed_since = None;
        change(self);
    }

    fn zone_database(&mut self) -> &'static str {
        ["2026a", "2026b"][self.random.below(2) as usize]
    }

    /// Does what there is to do.
    fn visit(&mut self) {
        let now = self.clock();
        let zones = self.zone_database();
        for _ in 0..200 {
            // As if it came from a store.
            self.state = ScheduleState::decode(&self.state.encode()).expect("valid");
            match plan(&name(), &self.spec, &self.state, now, zones) {
                Plan::Wait(until) => {
                    assert!(until.is_none_or(|until| until > now));
                    return self.check(now);
                }
                Plan::Store(change) => self.state = change.state,
                Plan::Fire(_) if self.is_full => {
                    self.state = self.state.waiting(now, WaitReason::StoreFull);
                    return;
                }
                Plan::Fire(run) => self.fire(now, *run),
            }
        }
        panic!("has no end at {now}: {:?}", self.state);
    }

    fn fire(&mut self, now: Timestamp, run: PlannedRun) {
        assert!(run.occurrence <= run.due_at && run.due_at <= now, "before its moment");
        assert!(self.handled.insert(run.occurrence), "twice: {}", run.occurrence);
        let is_late = now.since(run.due_at) > MissedRule::LATE && self.state.waiting.is_none();
        let next = self.spec.recurrence.following(run.occurrence).expect("never ends");
        match self.spec.missed.missed() {
            Missed::One => assert!(!is_late || self.spec.due_at(&name(), next) > now, "is not the latest"),
            Missed::All => assert!(!is_late || now.since(run.due_at) <= hours(24), "after a day"),
            Missed::None => assert!(!is_late, "late"),
        }
        if self.random.one_in(4) {
            self.counts.overlapped += 1;
            self.state = run.overlapped;
        } else {
            self.counts.fired += 1;
            self.state = run.fired;
        }
    }

    /// Everything that fell due since the last visit is handled, if nothing was wrong.
    fn check(&mut self, now: Timestamp) {
        assert_eq!(
            (self.state.counts.fired, self.state.counts.overlapped),
            (self.counts.fired, self.counts.overlapped)
        );
        assert!(self.state.paused || self.state.after <= now.after(MissedRule::LATE), "ahead for good");
        let before =
            self.undisturbed_since.filter(|_| self.error_ms == 0 && !self.state.paused && !self.is_full);
        if let Some(before) = before {
            // A run may be due when the next occurrence is near.
            for occurrence in self.spec.recurrence.occurrences(before.shifted(-7_200_000 * 12), now) {
                let due_at = self.spec.due_at(&name(), occurrence);
                if before < due_at && due_at <= now {
                    assert!(
                        self.handled.contains(&occurrence),
                        "lost: {occurrence} between {before} and {now}"
                    );
                    self.checked += 1;
                }
            }
        }
        self.undisturbed_since = Some(now);
    }
}

#[test]
fn no_occurrence_runs_twice_and_none_is_lost() {
    let (mut checked, mut fired, mut missed) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let mut simulation = Simulation::new(seed);
        for _ in 0..120 {
            simulation.step();
        }
        checked += simulation.checked;
        fired += simulation.counts.fired;
        missed += simulation.state.counts.missed;
    }
    assert!(
        checked > 500 && fired > 1_000 && missed > 1_000,
        "{checked} checked, {fired} ran, {missed} missed"
    );
}
