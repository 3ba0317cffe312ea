//! The heart on its own, without threads: random groups of operations on a store in memory, committed or
//! taken back, held against the disk after every one.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;

use super::fixture::*;
use crate::{
    clock::{Clock, ManualClock},
    job::{Delay, JobId, Receipt, State as JobState, Timestamp},
    store::{
        AddJob, FinishJob, Patch, Release, TopicConfig,
        embedded::{
            Options,
            disk::disk_space::Gauge,
            memory::{
                job_index::Ids,
                state::{
                    State,
                    snapshot::{assert_consistent, rows, snapshot},
                },
            },
            ops::{
                self,
                write_txn::{News, Work},
            },
            recovery::load::load,
            rows::{
                key::Key,
                records::{Db, Sql, Table},
                schema,
            },
        },
    },
};

struct Heart {
    db: Db,
    state: State,
    clock: Arc<ManualClock>,
    options: Options,
    receipts: Vec<(JobId, Receipt)>,
}

impl Heart {
    fn new(ids: Ids) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(START_MS));
        let mut options = Options::new("nowhere");
        options.look_ahead = Duration::from_secs(10);
        options.dead_retention = Some(Duration::from_secs(60));
        options.free_space = Arc::new(|_| Ok(u64::MAX));
        let frontier = Key::first_after(clock.now().after(options.look_ahead));
        let (db, state) = (Db::new(schema::in_memory()), State::new(ids, frontier));
        Self { db, state, clock, options, receipts: Vec::new() }
    }

    fn work<T>(&mut self, run: impl FnOnce(&mut Work<'_>) -> Sql<T>) -> T {
        let mut news = News::default();
        let mut work = Work {
            db: &mut self.db,
            state: &mut self.state,
            news: &mut news,
            now: self.clock.read(),
            clock: &*self.clock,
            options: &self.options,
            space: Gauge::new(&self.options),
        };
        run(&mut work).expect("the disk works")
    }

    fn commit(&mut self) {
        if self.db.is_changing() {
            self.db.commit(self.clock.read().up).expect("commits");
        }
        self.state.commit(|_, _| ());
    }

    fn rollback(&mut self) {
        self.db.rollback().expect("rolls back");
        self.state.rollback();
    }

    /// Does a step; what it answered, without the receipts, which are random.
    fn step(&mut self, step: &Step) -> String {
        let name = |n: usize| id(&format!("job-{n}"));
        let of = |n: usize| topic(["a", "b", "c"][n]);
        let wait = Duration::from_millis;
        match *step {
            Step::Add { job: n, wait_ms, attempts, topic: t } => {
                let job = delayed(&format!("job-{n}"), wait(wait_ms));
                let add = AddJob { topic: of(t), max_attempts: attempts, ..job };
                said(self.work(|work| ops::add(work, std::slice::from_ref(&add))))
            }
            Step::Reserve { topic: t, count } => {
                let granted = self.work(|work| ops::reserve(work, &of(t), &vec![None; count]));
                let receipts = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone()));
                self.receipts.extend(receipts);
                said(granted)
            }
            Step::Delete { job } => said(self.work(|work| ops::delete(work, ALL, &[name(job)]))),
            Step::Patch { job, wait_ms } => {
                let patch = Patch { due: Some(after(wait(wait_ms))), ..Patch::default() };
                said(self.work(|work| ops::patch(work, ALL, &name(job), &patch)))
            }
            Step::Requeue { job, wait_ms } => {
                let delay = Delay::new(wait(wait_ms)).expect("valid");
                said(self.work(|work| ops::requeue(work, ALL, &name(job), delay)))
            }
            Step::Held { pick, kind } => self.held(pick, kind),
            Step::Pass { ms } => {
                self.clock.advance(wait(ms));
                String::new()
            }
            Step::Promote { limit } => said(self.work(|work| ops::promote(work, limit))),
            Step::KeepAhead => said(self.work(|work| work.keep_ahead())),
            Step::Pause { topic: t, delivery } => {
                let pause = |config: &mut TopicConfig| config.pause.delivery = delivery;
                self.work(|work| ops::put_config(work, &of(t), pause)).expect("there is room");
                String::new()
            }
            Step::DeadOfTopic { topic: t, requeue } => {
                let bulk = if requeue { ops::requeue_dead } else { ops::delete_dead };
                said(self.work(|work| bulk(work, &of(t), 2)))
            }
            Step::Purge { topic: t } => {
                // In which order a purge goes is its own business.
                while self.work(|work| ops::purge(work, &of(t), None, 2)).next.is_some() {}
                String::new()
            }
        }
    }

    fn held(&mut self, pick: usize, kind: usize) -> String {
        if self.receipts.is_empty() {
            return String::new();
        }
        let (name, receipt) = self.receipts[pick % self.receipts.len()].clone();
        match kind {
            0 => {
                let finish = FinishJob { id: name, receipt: Some(receipt) };
                said(self.work(|work| ops::finish(work, ALL, &[finish])))
            }
            1 => said(self.work(|work| ops::release(work, ALL, &name, &receipt, &Release::default()))),
            2 => said(self.work(|work| ops::touch(work, ALL, &name, &receipt, None))),
            3 => said(self.work(|work| ops::bury(work, ALL, &name, &receipt, &None))),
            _ => {
                self.work(|work| ops::cancel(work, &[(name, receipt)]));
                String::new()
            }
        }
    }
}

fn said(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

#[derive(Debug, Clone)]
enum Step {
    Add { job: usize, wait_ms: u64, attempts: u32, topic: usize },
    Reserve { topic: usize, count: usize },
    Delete { job: usize },
    Patch { job: usize, wait_ms: u64 },
    Requeue { job: usize, wait_ms: u64 },
    Held { pick: usize, kind: usize },
    Pass { ms: u64 },
    Promote { limit: usize },
    KeepAhead,
    Pause { topic: usize, delivery: bool },
    DeadOfTopic { topic: usize, requeue: bool },
    Purge { topic: usize },
}

/// At once, almost at once, within the window, at its very end, and far beyond.
fn waits() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..4, 1u64..12_000, 9_998u64..10_003, 1u64..300_000]
}

fn steps() -> impl Strategy<Value = Step> {
    let add = (0..24usize, waits(), 0..3u32, 0..3usize);
    prop_oneof![
        6 => add.prop_map(|(job, wait_ms, attempts, topic)| Step::Add { job, wait_ms, attempts, topic }),
        3 => (0..3usize, 1..3usize).prop_map(|(topic, count)| Step::Reserve { topic, count }),
        2 => (0..24usize).prop_map(|job| Step::Delete { job }),
        2 => (0..24usize, waits()).prop_map(|(job, wait_ms)| Step::Patch { job, wait_ms }),
        1 => (0..24usize, waits()).prop_map(|(job, wait_ms)| Step::Requeue { job, wait_ms }),
        4 => (any::<usize>(), 0..5usize).prop_map(|(pick, kind)| Step::Held { pick, kind }),
        2 => prop_oneof![0u64..3, 0u64..2_000, 0u64..30_000, Just(120_000)].prop_map(|ms| Step::Pass { ms }),
        3 => (1..6usize).prop_map(|limit| Step::Promote { limit }),
        2 => Just(Step::KeepAhead),
        1 => (0..3usize, any::<bool>()).prop_map(|(topic, delivery)| Step::Pause { topic, delivery }),
        1 => (0..3usize, any::<bool>()).prop_map(|(topic, requeue)| Step::DeadOfTopic { topic, requeue }),
        1 => (0..3usize).prop_map(|topic| Step::Purge { topic }),
    ]
}

/// Groups of steps, each with whether it is committed.
fn groups() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    prop::collection::vec((prop::collection::vec(steps(), 1..8), prop::bool::weighted(0.7)), 1..16)
}

/// Does the groups; what every step answered.
fn run(heart: &mut Heart, groups: &[(Vec<Step>, bool)]) -> Vec<String> {
    let mut answers = Vec::new();
    for (steps, commits) in groups {
        let (memory, disk) = (snapshot(&heart.state), rows(&heart.db));
        answers.extend(steps.iter().map(|step| heart.step(step)));
        if *commits {
            heart.commit();
        } else {
            heart.rollback();
            assert_eq!(snapshot(&heart.state), memory, "memory is as it was");
            assert_eq!(rows(&heart.db), disk, "and so is the disk");
        }
        assert_consistent(&heart.state, &heart.db, heart.clock.read());
        let ready = heart.state.topics().by_name(None).flat_map(|topic| topic.ready.keys());
        assert!(ready.into_iter().all(|key| key.slot() <= heart.clock.now()), "nothing is early");
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn memory_and_disk_agree_after_every_group(groups in groups()) {
        run(&mut Heart::new(Ids::new()), &groups);
    }

    #[test]
    fn ids_with_equal_hashes_are_never_taken_for_each_other(groups in groups()) {
        let answers = run(&mut Heart::new(Ids::new()), &groups);
        prop_assert_eq!(run(&mut Heart::new(Ids::colliding()), &groups), answers);
    }

    #[test]
    fn what_is_loaded_is_what_was_there(groups in groups()) {
        let mut heart = Heart::new(Ids::new());
        run(&mut heart, &groups);
        let mark = heart.clock.read().up;
        // So that ready means the same before and after: everything due is promoted.
        while heart.work(|work| ops::promote(work, 100)).more {}
        heart.commit();
        let states = |heart: &mut Heart| -> Vec<_> {
            let jobs = rows(&heart.db).into_values().map(|(name, _)| name);
            let jobs: Vec<_> = jobs.collect();
            jobs.iter().map(|name| heart.work(|work| ops::get(work, ALL, &id(name)))).collect()
        };
        let before = states(&mut heart);
        heart.state = State::new(Ids::new(), Key::first_after(mark.after(heart.options.look_ahead)));
        heart.work(|work| load(work, mark));
        heart.commit();
        assert_consistent(&heart.state, &heart.db, heart.clock.read());
        prop_assert_eq!(states(&mut heart), before);
    }

    #[test]
    fn a_promotion_leaves_nothing_that_was_due(groups in groups(), limit in 1..4usize) {
        let mut heart = Heart::new(Ids::new());
        run(&mut heart, &groups);
        let mut calls = 0;
        while heart.work(|work| ops::promote(work, limit)).more {
            calls += 1;
            prop_assert!(calls < 1_000, "it comes to an end");
        }
        heart.commit();
        let now = heart.clock.now();
        for (name, _) in rows(&heart.db).into_values() {
            let job = heart.work(|work| ops::get(work, ALL, &id(&name))).expect("is there");
            match job.state {
                JobState::Delayed => prop_assert!(job.due_at > now, "{job:?}"),
                JobState::Reserved => prop_assert!(job.reserved_until > Some(now), "{job:?}"),
                JobState::Ready => prop_assert!(job.due_at <= now, "never early: {job:?}"),
                JobState::Dead => {
                    prop_assert!(job.dead_at.is_some_and(|at| at.after(Duration::from_secs(60)) > now));
                }
            }
        }
    }
}

#[test]
fn equal_due_times_keep_the_order_of_arrival_also_when_a_millisecond_is_full() {
    let mut db = Db::new(schema::in_memory());
    let due = Timestamp::from_millis(START_MS);
    let put = |db: &mut Db, key: Key, moment: Timestamp| {
        db.insert(Table::Live, key, &record(&format!("{key:?}"), moment)).expect("inserts");
    };
    let take = |db: &mut Db, moment: Timestamp| {
        let key = db.free_key(Table::Live, moment).expect("finds");
        put(db, key, moment);
        key
    };
    let first = Key::first_at(due);
    assert_eq!([take(&mut db, due), take(&mut db, due)], [first, first.next()]);
    // As if as many had come as one millisecond has places.
    let last_place = Key::from_bits(Key::first_after(due).to_bits() - 1);
    put(&mut db, last_place, due);
    let later = due.after(seconds(1));
    assert_eq!(take(&mut db, later), Key::first_at(later));
    let next = Key::first_after(due);
    let keys = [take(&mut db, due), take(&mut db, due), take(&mut db, due)];
    assert_eq!(keys, [next, next.next(), next.next().next()], "the next millisecond's places, in order");
    // A look at another moment in between changes nothing.
    assert_eq!(take(&mut db, later), Key::first_at(later).next());
    assert_eq!(take(&mut db, due), keys[2].next());
    // The last moment has no next, but room without end.
    let very_last = Key::from_bits(Key::first_after(Timestamp::MAX).to_bits() - 1);
    put(&mut db, very_last, Timestamp::MAX);
    let beyond = [take(&mut db, Timestamp::MAX), take(&mut db, Timestamp::MAX)];
    assert_eq!(beyond, [very_last.next(), very_last.next().next()]);
    assert_eq!(beyond[1].slot(), Timestamp::MAX);
}
