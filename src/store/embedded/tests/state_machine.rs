//! The operations on their own, without threads: random groups on a store in memory, committed or rolled back.
//! Memory is compared with the rows after each group.

mod lists;

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;

use super::fixture::*;
use crate::{
    clock::{Clock, ManualClock},
    job::{
        Callback, CallbackUrl, Due, DueKind, HostNumber, JobId, NoteText, Outlet, Receipt, State, Timestamp,
    },
    store::{
        self, AddJob, ChangeJob, Claim, FinishJob, JobChange, JobFilter, Order, Patch, Release, SeenJob,
        StepAction, Touch,
        embedded::{
            Options,
            disk::disk_space::SpaceGauge,
            memory::{job_index::JobIndex, state::Memory},
            ops::{
                self,
                write_txn::{CommitEffects, WriteTxn},
            },
            recovery::load::load,
            rows::{
                db::{Db, SqlResult, Table},
                key::RowKey,
                meta::{StoreHead, StoreId},
                schema,
            },
            tests::snapshot::{assert_consistent, rows, snapshot},
        },
    },
};

struct StateMachine {
    db: Db,
    memory: Memory,
    clock: Arc<ManualClock>,
    options: Options,
    receipts: Vec<(JobId, Receipt)>,
}

impl StateMachine {
    fn new(ids: JobIndex) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(START_MS));
        let mut options = Options::new("nowhere");
        options.dead_retention = Some(Duration::from_secs(60));
        options.free_space = Arc::new(|_| Ok(u64::MAX));
        options.promotes_by_itself = false;
        let (mut db, memory) = (Db::new(schema::in_memory()), Memory::new(ids));
        // The same host numbers in every run.
        db.set_store_head(StoreHead { store: StoreId([7; 16]), commits: 0, jobs: None });
        Self { db, memory, clock, options, receipts: Vec::new() }
    }

    fn txn<T>(&mut self, run: impl FnOnce(&mut WriteTxn<'_>) -> SqlResult<T>) -> T {
        let mut effects = CommitEffects::default();
        let mut txn = WriteTxn {
            db: &mut self.db,
            memory: &mut self.memory,
            effects: &mut effects,
            now: self.clock.read(),
            wall_ahead_ms: self.clock.wall_ahead_ms(),
            clock: &*self.clock,
            options: &self.options,
            space: SpaceGauge::new(&self.options),
        };
        run(&mut txn).expect("the disk works")
    }

    fn commit(&mut self) {
        if self.db.in_transaction() {
            self.db.commit(self.clock.read().rounded_up).expect("commits");
        }
        self.memory.commit(|_, _| ());
    }

    fn rollback(&mut self) {
        self.db.rollback().expect("rolls back");
        self.memory.rollback();
    }

    /// Runs a step; returns its answer without the receipts, which are random.
    fn step(&mut self, step: &Step) -> String {
        let name = |n: usize| id(&format!("job-{n}"));
        let of = |n: usize| topic(["a", "b", "c"][n]);
        let wait = Duration::from_millis;
        // Some jobs have a callback of their own, to one of two hosts.
        let host = |n: usize| CallbackUrl::parse(["http://a", "http://b", "", ""][n % 4]).ok();
        match *step {
            Step::Add { job: n, wait_ms, attempts, topic: t } => {
                let mut add = AddJob { topic: of(t), ..delayed(&format!("job-{n}"), wait(wait_ms)) };
                add.spec.max_attempts = attempts;
                add.spec.callback = host(n).map(|url| Arc::new(Callback::to(url)));
                answer_text(self.txn(|txn| ops::add(txn, std::slice::from_ref(&add))))
            }
            Step::Reserve { topic: t, count } => {
                let granted = self.txn(|txn| {
                    let seed = txn.db.store_head().store.0;
                    let host = host(count).map(|url| HostNumber::new(&seed, url.origin()));
                    ops::reserve(txn, &Outlet { topic: of(t), host }, &vec![Claim::default(); count])
                });
                let receipts = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone()));
                self.receipts.extend(receipts);
                answer_text(granted)
            }
            Step::Delete { job } => self.apply(name(job), StepAction::Delete(DeleteRule::AnyState)),
            Step::Patch { job, wait_ms } => {
                let patch = Patch { due: Some(after(wait(wait_ms))), ..Patch::default() };
                self.apply(name(job), StepAction::Patch(patch))
            }
            Step::Requeue { job, wait_ms: ms } => {
                self.apply(name(job), StepAction::Requeue(after(wait(ms)).into()))
            }
            Step::Change { job, wait_ms, kind } => {
                let Some(job) = self.txn(|txn| ops::get(txn, ALL, &name(job))) else { return String::new() };
                let change = match kind {
                    0 => JobChange::Delete,
                    1 => JobChange::Reschedule(after(wait(wait_ms))),
                    2 => JobChange::Requeue(after(wait(wait_ms)).into()),
                    _ => JobChange::Revoke { due: after(wait(wait_ms)), reason: None },
                };
                // The second one mostly finds it moved.
                let twice = [(); 2].map(|()| ChangeJob { seen: SeenJob::new(&job), change: change.clone() });
                self.change(twice)
            }
            Step::Held { pick, kind } => self.holder_step(pick, kind),
            Step::Pass { ms } => {
                self.clock.advance(wait(ms));
                String::new()
            }
            Step::Promote { limit } => answer_text(self.txn(|txn| ops::promote(txn, limit))),
            Step::Pause { topic: t, delivery } => {
                let stored = self.txn(|txn| ops::topic_values(txn, &of(t)));
                let mut config = stored.config().expect("sound");
                config.pause.delivery = delivery.then(Default::default);
                let values = stored.with(&config);
                answer_text(self.txn(|txn| ops::update_topic(txn, &of(t), &stored, &values)))
            }
            Step::DeadOfTopic { topic: t, requeue } => {
                let filter = JobFilter { topic: Some(of(t)), ..JobFilter::all(State::Dead) };
                let page = self.txn(|txn| ops::list(txn, &filter, Order::Ascending, None, 2));
                let change =
                    if requeue { JobChange::Requeue(Due::default().into()) } else { JobChange::Delete };
                let seen = page.jobs.iter().map(|listed| SeenJob::new(&listed.job));
                self.change(seen.map(|seen| ChangeJob { seen, change: change.clone() }))
            }
            Step::Purge { topic: t } => {
                // The order of a purge is not specified.
                while self.txn(|txn| ops::purge(txn, &of(t), None, 2)).next.is_some() {}
                String::new()
            }
        }
    }

    fn holder_step(&mut self, pick: usize, kind: usize) -> String {
        if self.receipts.is_empty() {
            return String::new();
        }
        let (name, receipt) = self.receipts[pick % self.receipts.len()].clone();
        match kind {
            0 => {
                let finish = FinishJob { id: name, receipt: Some(receipt) };
                answer_text(self.txn(|txn| ops::finish(txn, ALL, &[finish])))
            }
            1 => self.apply(name, StepAction::Release(receipt, Release::default())),
            2 => {
                let note = NoteText::new("half").filter(|_| pick.is_multiple_of(2));
                self.apply(name, StepAction::Touch(receipt, Touch { ttr: None, note }))
            }
            3 => self.apply(name, StepAction::Bury(receipt, None)),
            _ => self.apply(name, StepAction::Cancel(receipt)),
        }
    }

    fn apply(&mut self, id: JobId, action: StepAction) -> String {
        self.apply_all(vec![store::Step::unscoped(id, action, None)])
    }

    fn change(&mut self, jobs: impl IntoIterator<Item = ChangeJob>) -> String {
        self.apply_all(jobs.into_iter().map(|job| store::Step::of_seen(job, None)).collect())
    }

    fn apply_all(&mut self, steps: Vec<store::Step>) -> String {
        answer_text(self.txn(|txn| ops::apply(txn, &steps)))
    }
}

fn answer_text(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

#[derive(Debug, Clone)]
enum Step {
    Add { job: usize, wait_ms: u64, attempts: u32, topic: usize },
    Reserve { topic: usize, count: usize },
    Delete { job: usize },
    Patch { job: usize, wait_ms: u64 },
    Requeue { job: usize, wait_ms: u64 },
    Change { job: usize, wait_ms: u64, kind: usize },
    Held { pick: usize, kind: usize },
    Pass { ms: u64 },
    Promote { limit: usize },
    Pause { topic: usize, delivery: bool },
    DeadOfTopic { topic: usize, requeue: bool },
    Purge { topic: usize },
}

fn waits() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..4, 1u64..12_000, 1u64..300_000]
}

fn steps() -> impl Strategy<Value = Step> {
    let add = (0..24usize, waits(), 0..3u32, 0..3usize);
    prop_oneof![
        6 => add.prop_map(|(job, wait_ms, attempts, topic)| Step::Add { job, wait_ms, attempts, topic }),
        3 => (0..3usize, 1..3usize).prop_map(|(topic, count)| Step::Reserve { topic, count }),
        2 => (0..24usize).prop_map(|job| Step::Delete { job }),
        2 => (0..24usize, waits()).prop_map(|(job, wait_ms)| Step::Patch { job, wait_ms }),
        1 => (0..24usize, waits()).prop_map(|(job, wait_ms)| Step::Requeue { job, wait_ms }),
        2 => (0..24usize, waits(), 0..4usize).prop_map(|(job, wait_ms, kind)| Step::Change { job, wait_ms, kind }),
        4 => (any::<usize>(), 0..5usize).prop_map(|(pick, kind)| Step::Held { pick, kind }),
        2 => prop_oneof![0u64..3, 0u64..2_000, 0u64..30_000, Just(120_000)].prop_map(|ms| Step::Pass { ms }),
        3 => (1..6usize).prop_map(|limit| Step::Promote { limit }),
        1 => (0..3usize, any::<bool>()).prop_map(|(topic, delivery)| Step::Pause { topic, delivery }),
        1 => (0..3usize, any::<bool>()).prop_map(|(topic, requeue)| Step::DeadOfTopic { topic, requeue }),
        1 => (0..3usize).prop_map(|topic| Step::Purge { topic }),
    ]
}

/// Groups of steps, and whether each group is committed.
fn groups() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    prop::collection::vec((prop::collection::vec(steps(), 1..8), prop::bool::weighted(0.7)), 1..16)
}

/// Runs the groups; returns the answer of each step.
fn run(machine: &mut StateMachine, groups: &[(Vec<Step>, bool)]) -> Vec<String> {
    let mut answers = Vec::new();
    for (steps, commits) in groups {
        let (memory, disk) = (snapshot(&machine.memory), rows(&machine.db));
        answers.extend(steps.iter().map(|step| machine.step(step)));
        if *commits {
            machine.commit();
        } else {
            machine.rollback();
            assert_eq!(snapshot(&machine.memory), memory, "memory is as it was");
            assert_eq!(rows(&machine.db), disk, "and so is the disk");
        }
        assert_consistent(&machine.memory, &machine.db, machine.clock.read());
        let ready = machine.memory.topics().outlets().flat_map(|(_, state)| state.ready.keys());
        assert!(ready.into_iter().all(|key| key.slot() <= machine.clock.now()), "nothing is early");
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

    #[test]
    fn memory_and_disk_agree_after_every_group(groups in groups()) {
        run(&mut StateMachine::new(JobIndex::new()), &groups);
    }

    #[test]
    fn ids_with_equal_hashes_are_never_taken_for_each_other(groups in groups()) {
        let answers = run(&mut StateMachine::new(JobIndex::new()), &groups);
        prop_assert_eq!(run(&mut StateMachine::new(JobIndex::colliding()), &groups), answers);
    }

    #[test]
    fn what_is_loaded_is_what_was_there(groups in groups()) {
        let mut machine = StateMachine::new(JobIndex::new());
        run(&mut machine, &groups);
        let mark = machine.clock.read().rounded_up;
        // Promote every due job, so that the states are the same before and after.
        while machine.txn(|txn| ops::promote(txn, 100)).more {}
        machine.commit();
        let states = |machine: &mut StateMachine| -> Vec<_> {
            let jobs: Vec<_> = rows(&machine.db).into_values().map(|(name, _)| name).collect();
            jobs.iter().map(|name| machine.txn(|txn| ops::get(txn, ALL, &id(name)))).collect()
        };
        let before = states(&mut machine);
        machine.memory = Memory::new(JobIndex::new());
        machine.txn(|txn| load(txn, mark));
        machine.commit();
        assert_consistent(&machine.memory, &machine.db, machine.clock.read());
        prop_assert_eq!(states(&mut machine), before);
    }

    #[test]
    fn lists_have_every_job_once(groups in groups(), limit in 1..4usize) {
        let mut machine = StateMachine::new(JobIndex::new());
        run(&mut machine, &groups);
        let ids = rows(&machine.db).into_values().map(|(name, _)| id(&name));
        let jobs = ids.map(|id| machine.txn(|txn| ops::get(txn, ALL, &id)).expect("is there")).collect::<Vec<_>>();
        for state in State::ALL {
            let mut expected: Vec<_> =
                jobs.iter().filter(|job| job.state() == state).map(|job| job.id.clone()).collect();
            let ascending = machine.list(state, Order::Ascending, limit);
            let mut descending = machine.list(state, Order::Descending, limit);
            descending.reverse();
            prop_assert_eq!(&ascending, &descending);
            descending.sort();
            expected.sort();
            prop_assert_eq!(descending, expected);
        }
    }

    #[test]
    fn a_promotion_leaves_nothing_that_was_due(groups in groups(), limit in 1..4usize) {
        let mut machine = StateMachine::new(JobIndex::new());
        run(&mut machine, &groups);
        let mut calls = 0;
        while machine.txn(|txn| ops::promote(txn, limit)).more {
            calls += 1;
            prop_assert!(calls < 1_000, "it comes to an end");
        }
        machine.commit();
        let now = machine.clock.now();
        for (name, _) in rows(&machine.db).into_values() {
            let job = machine.txn(|txn| ops::get(txn, ALL, &id(&name))).expect("is there");
            match job.state() {
                State::Delayed => prop_assert!(job.due_at > now, "{job:?}"),
                State::Reserved => prop_assert!(job.reserved_until() > Some(now), "{job:?}"),
                State::Ready => prop_assert!(job.due_at <= now, "never early: {job:?}"),
                State::Dead => {
                    prop_assert!(job.dead_at().is_some_and(|at| at.after(Duration::from_secs(60)) > now));
                }
            }
        }
    }
}

#[test]
fn equal_due_times_keep_the_order_of_arrival_also_when_a_millisecond_is_full() {
    let mut db = Db::new(schema::in_memory());
    let due = Timestamp::from_millis(START_MS);
    let put = |db: &mut Db, key: RowKey, moment: Timestamp| {
        db.insert(Table::Live, key, &record(&format!("{key:?}"), moment)).expect("inserts");
    };
    let take = |db: &mut Db, moment: Timestamp| {
        let key = db.free_key(Table::Live, moment, DueKind::Elapsed).expect("finds");
        put(db, key, moment);
        key
    };
    let first = RowKey::first_at(due);
    assert_eq!([take(&mut db, due), take(&mut db, due)], [first, first.next()]);
    // As if one millisecond were full.
    let last_place = RowKey::from_bits(RowKey::first_of_kind(due, DueKind::Moment).to_bits() - 1);
    put(&mut db, last_place, due);
    let later = due.after(seconds(1));
    assert_eq!(take(&mut db, later), RowKey::first_at(later));
    let next = RowKey::first_after(due);
    let keys = [take(&mut db, due), take(&mut db, due), take(&mut db, due)];
    assert_eq!(keys, [next, next.next(), next.next().next()], "the next millisecond's places, in order");
    // A key at another moment in between changes nothing.
    assert_eq!(take(&mut db, later), RowKey::first_at(later).next());
    assert_eq!(take(&mut db, due), keys[2].next());
    // The last moment has no next one, but unlimited keys.
    let very_last = RowKey::from_bits(RowKey::first_after(Timestamp::MAX).to_bits() - 1);
    put(&mut db, very_last, Timestamp::MAX);
    let beyond = [take(&mut db, Timestamp::MAX), take(&mut db, Timestamp::MAX)];
    assert_eq!(beyond, [very_last.next(), very_last.next().next()]);
    assert_eq!((beyond[1].slot(), beyond[1].kind()), (Timestamp::MAX, DueKind::Moment));
    let moment = db.free_key(Table::Live, Timestamp::MAX, DueKind::Moment).expect("finds");
    assert_eq!(moment, beyond[1].next());
    // Jobs with moments have places of their own.
    let first = RowKey::first_of_kind(due, DueKind::Moment);
    for expected in [first, first.next()] {
        let key = db.free_key(Table::Live, due, DueKind::Moment).expect("finds");
        assert_eq!(key, expected);
        put(&mut db, key, due);
    }
    assert_eq!(
        take(&mut db, due),
        keys[2].next().next(),
        "those with delays go on behind the full millisecond"
    );
}
