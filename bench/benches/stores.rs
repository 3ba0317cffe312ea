//! Every operation of the stores, 64 jobs to a call, with a backlog of jobs that are due in a day. Nothing is
//! synced, so that the engine is measured and not the disk.
//!
//! `cargo bench --package linger-bench --features criterion --bench stores`; in the environment, `LINGER_BENCH_PENDING`
//! lists the backlogs (default 10000), and `LINGER_BENCH_REDIS_URL` names a Redis of its own to measure as well.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use linger::{
    clock::SystemClock,
    job::{Body, Delay, Due, Fingerprint, JobId, JobSpec, Outlet, Receipt, Topic, TopicFilter, Ttr},
    metrics::Metrics,
    queue::{Limits, Pop, Queue, StoreEvents},
    store::{AddJob, Claim, FinishJob, Patch, Release, Reservation, Steps, Store, Wait, embedded, redis},
};
use tokio::runtime::Runtime;

/// The scope of a caller who may use every topic.
const ALL: &TopicFilter = &TopicFilter::ALL;
/// Jobs in a call.
const CALL: usize = 64;
/// Jobs in a call while the backlog is made.
const FILL: usize = 1_000;
const DAY: Duration = Duration::from_secs(86_400);

/// A store, and what it takes to call it from outside of its runtime.
struct Bench {
    runtime: Runtime,
    store: Arc<dyn Store>,
    outlet: Outlet,
    body: Body,
    _directory: Option<tempfile::TempDir>,
}

impl Bench {
    fn embedded() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = embedded::Options::new(directory.path());
        options.durability = embedded::Durability::Os;
        Self::new(Some(directory), async |clock, hints, metrics| {
            embedded::open(options, clock, hints, metrics.engine.clone()).await.expect("opens")
                as Arc<dyn Store>
        })
    }

    fn redis(url: &str) -> Self {
        let prefix = format!("bench:{:016x}", rand::random::<u64>());
        let options = redis::Options { prefix, ..redis::Options::new(url) };
        Self::new(None, async |_, hints, metrics| {
            let opened = redis::connect(options, redis::TimeSource::Server, hints, metrics.engine.clone());
            opened.await.expect("connects") as Arc<dyn Store>
        })
    }

    fn new(
        directory: Option<tempfile::TempDir>,
        open: impl AsyncFnOnce(Arc<SystemClock>, Arc<StoreEvents>, &Metrics) -> Arc<dyn Store>,
    ) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (clock, hints, metrics) =
            (Arc::new(SystemClock::new()), Arc::new(StoreEvents::default()), Metrics::new());
        let store = runtime.block_on(open(clock, hints, &metrics));
        let outlet = Outlet::plain(Topic::parse("bench").expect("is a topic"));
        let body = Body::parse(Bytes::from(format!("\"{}\"", "x".repeat(254)))).expect("is JSON");
        Self { runtime, store, outlet, body, _directory: directory }
    }

    fn jobs(&self, count: usize, delay: Duration) -> Vec<AddJob> {
        let job = |_| AddJob {
            id: JobId::generate(),
            topic: self.outlet.topic.clone(),
            due: Due::After(Delay::new(delay).expect("is a delay")),
            spec: JobSpec {
                ttr: Ttr::new(Duration::from_secs(3_600)).expect("is a TTR"),
                max_attempts: 5,
                ..JobSpec::default()
            },
            fingerprint: Fingerprint([7; 16]),
            body: self.body.clone(),
        };
        (0..count).map(job).collect()
    }

    fn fill(&self, mut pending: usize) {
        while pending > 0 {
            let count = pending.min(FILL);
            self.runtime.block_on(self.store.add(self.jobs(count, DAY))).expect("adds");
            pending -= count;
        }
    }

    fn add(&self, jobs: Vec<AddJob>) -> Vec<JobId> {
        let ids = jobs.iter().map(|job| job.id.clone()).collect();
        let added = self.runtime.block_on(self.store.add(jobs)).expect("adds");
        assert_eq!(added.len(), CALL);
        ids
    }

    fn reserve(&self) -> Vec<Reservation> {
        let reserved = self
            .runtime
            .block_on(self.store.reserve(&self.outlet, &vec![Claim::default(); CALL], Wait::No))
            .expect("reserves");
        assert_eq!(reserved.len(), CALL, "as many as are ready");
        reserved
    }

    fn reserved(&self) -> Vec<(JobId, Receipt)> {
        self.add(self.jobs(CALL, Duration::ZERO));
        self.reserve().into_iter().map(|reservation| (reservation.job.id, reservation.receipt)).collect()
    }

    fn finish(&self, held: Vec<(JobId, Receipt)>) {
        let jobs = held.into_iter().map(|(id, receipt)| FinishJob { id, receipt: Some(receipt) }).collect();
        self.runtime.block_on(self.store.finish(ALL, jobs)).expect("finishes");
    }

    fn delete(&self, ids: Vec<JobId>) {
        self.runtime.block_on(self.store.delete(ALL, ids)).expect("deletes");
    }

    /// Calls that take one job each, all at the same time.
    fn each<T: Send + 'static, F: Future<Output = ()> + Send + 'static>(
        &self,
        items: Vec<T>,
        call: impl Fn(Arc<dyn Store>, T) -> F,
    ) {
        self.runtime.block_on(async {
            let calls: Vec<_> =
                items.into_iter().map(|item| tokio::spawn(call(self.store.clone(), item))).collect();
            for call in calls {
                call.await.expect("does not panic");
            }
        });
    }
}

/// Jobs that an operation left; deleted when this is dropped, which is not measured.
struct Left<'a> {
    bench: &'a Bench,
    ids: Vec<JobId>,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.bench.delete(std::mem::take(&mut self.ids));
    }
}

/// Measures `run` on what `prepare` makes; it answers with the jobs that are left.
fn operation<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    bench: &Bench,
    name: &str,
    prepare: impl Fn() -> T,
    run: impl Fn(T) -> Vec<JobId>,
) {
    group.bench_function(name, |b| {
        b.iter_batched(&prepare, |made| Left { bench, ids: run(made) }, BatchSize::PerIteration);
    });
}

fn ids_of(held: &[(JobId, Receipt)]) -> Vec<JobId> {
    held.iter().map(|(id, _)| id.clone()).collect()
}

fn operations(c: &mut Criterion, engine: &str, bench: &Bench, pending: usize) {
    bench.fill(pending);
    let mut group = c.benchmark_group(format!("{engine}, {pending} pending"));
    group.throughput(Throughput::Elements(CALL as u64)).sample_size(50);
    let delayed = || bench.jobs(CALL, DAY);
    let added = || bench.add(delayed());
    operation(&mut group, bench, "add", delayed, |jobs| bench.add(jobs));
    operation(&mut group, bench, "add, each by itself", delayed, |jobs| {
        let ids = jobs.iter().map(|job| job.id.clone()).collect();
        bench.each(jobs, async |store, job| drop(store.add(vec![job]).await.expect("adds")));
        ids
    });
    let ready = || drop(bench.add(bench.jobs(CALL, Duration::ZERO)));
    operation(&mut group, bench, "reserve", ready, |()| {
        bench.reserve().into_iter().map(|reservation| reservation.job.id).collect()
    });
    operation(
        &mut group,
        bench,
        "finish",
        || bench.reserved(),
        |held| {
            bench.finish(held);
            Vec::new()
        },
    );
    operation(
        &mut group,
        bench,
        "touch",
        || bench.reserved(),
        |held| {
            let ids = ids_of(&held);
            bench.each(held, async |store, (id, receipt)| {
                store.touch(ALL, &id, &receipt, None).await.expect("answers").expect("is held");
            });
            ids
        },
    );
    operation(
        &mut group,
        bench,
        "release",
        || bench.reserved(),
        |held| {
            let ids = ids_of(&held);
            bench.each(held, async |store, (id, receipt)| {
                let release =
                    Release { due: Some(Due::After(Delay::new(DAY).expect("is a delay"))), reason: None };
                store.release(ALL, &id, &receipt, release).await.expect("answers").expect("is held");
            });
            ids
        },
    );
    operation(&mut group, bench, "look", added, |ids| {
        bench.each(ids.clone(), async |store, id| {
            drop(store.get(ALL, &id).await.expect("answers").expect("is there"))
        });
        ids
    });
    operation(&mut group, bench, "patch", added, |ids| {
        bench.each(ids.clone(), async |store, id| {
            let due = Some(Due::After(Delay::new(2 * DAY).expect("is a delay")));
            let patched =
                store.patch(ALL, &id, Patch { due, ..Patch::default() }, None).await.expect("answers");
            assert!(patched.is_ok(), "{patched:?}");
        });
        ids
    });
    operation(&mut group, bench, "delete", added, |ids| {
        bench.delete(ids);
        Vec::new()
    });
    group.finish();
}

fn stores(c: &mut Criterion) {
    let pending = std::env::var("LINGER_BENCH_PENDING").unwrap_or_else(|_| "10000".to_owned());
    for pending in pending
        .split(',')
        .map(|count| count.trim().parse().expect("LINGER_BENCH_PENDING is a list of counts"))
    {
        operations(c, "embedded", &Bench::embedded(), pending);
        if let Ok(url) = std::env::var("LINGER_BENCH_REDIS_URL") {
            operations(c, "redis", &Bench::redis(&url), pending);
        }
    }
}

/// Looking at an empty topic, alone and behind ten thousand parked polls.
fn polls(c: &mut Criterion) {
    let mut group = c.benchmark_group("polls");
    for parked in [0, 10_000] {
        let bench = Bench::embedded();
        let (clock, hints) = (Arc::new(SystemClock::new()), StoreEvents::default());
        let _inside = bench.runtime.enter();
        let limits = Limits::default();
        let wait = limits.max_wait;
        let queue = Queue::new(bench.store.clone(), &hints, clock, limits, Metrics::new().queue);
        let pop = |wait| Pop { topics: vec![bench.outlet.topic.clone()], max: 1, wait, ttr: None, by: None };
        for _ in 0..parked {
            let (queue, pop) = (queue.clone(), pop(wait));
            bench.runtime.spawn(async move { queue.pop(pop).await });
        }
        while queue.waiting() < parked {
            std::thread::yield_now();
        }
        group.bench_function(format!("pop of nothing, {parked} parked"), |b| {
            b.iter(|| bench.runtime.block_on(queue.pop(pop(Duration::ZERO))).expect("answers").jobs().len());
        });
        queue.drain();
    }
}

criterion_group!(benches, stores, polls);
criterion_main!(benches);
