//! The two steps that several scenarios take: adding all jobs as fast as possible, and popping and finishing
//! all of them. Owns their timing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    Failure,
    client::Connection,
    figures::{Percentiles, Times},
    work::{Bench, Jobs, crew},
};

/// How long a pop waits where jobs are due; a pop that is answered sooner without a job has waited in vain.
const WAIT: Duration = Duration::from_secs(1);

/// Pause after an answer without a job that came at once, so that a server that does not wait is not asked in
/// a tight loop.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a pop after the last job looks for one that comes twice, and how many of those are looked at.
const AFTERWARDS: (Duration, usize) = (Duration::from_millis(200), 1_000);

/// Jobs added.
pub(super) struct Added {
    pub connections: Vec<Connection>,
    /// Of requests.
    pub latency: Option<Percentiles>,
    pub elapsed_us: i64,
}

/// Jobs popped and finished.
pub(super) struct Drained {
    /// Of requests that brought a job.
    pub pop: Option<Percentiles>,
    pub finish: Option<Percentiles>,
    /// From the due moment to the delivery.
    pub late: Option<Percentiles>,
    /// From the first pop to the last finish.
    pub elapsed_us: i64,
    /// The first and the last delivery.
    pub first_last_us: (i64, i64),
}

/// Adds all `jobs`, `batch` in a request.
pub(super) async fn add_all(
    bench: &Arc<Bench>,
    jobs: &Arc<Jobs>,
    batch: usize,
    connections: Vec<Connection>,
) -> Result<Added, Failure> {
    let (next, times) = (Arc::new(AtomicUsize::new(0)), Arc::new(Times::new()));
    let begun_us = bench.clock.now_micros();
    let adding = crew(connections, |_, mut connection| {
        let (bench, jobs, next, times) = (bench.clone(), jobs.clone(), next.clone(), times.clone());
        async move {
            loop {
                let first = next.fetch_add(batch, Relaxed);
                let numbers = first..jobs.count.min(first.saturating_add(batch));
                if numbers.is_empty() {
                    return Ok(connection);
                }
                let begun_us = bench.clock.now_micros();
                let written: Vec<_> =
                    numbers.map(|number| jobs.write(number, bench.clock.as_ref())).collect();
                connection.add(&written).await?;
                jobs.ledger.taken(written.len());
                times.record(bench.clock.now_micros() - begun_us);
                bench.progress.step(written.len());
            }
        }
    });
    let name = "jobs to be added";
    let guarded = bench.progress.guard(bench.clock.as_ref(), name, jobs.count, Duration::ZERO, adding);
    let connections = guarded.await?;
    let elapsed_us = bench.clock.now_micros() - begun_us;
    Ok(Added { connections, latency: times.percentiles(), elapsed_us })
}

/// What the workers of a drain share.
#[derive(Debug)]
struct Drain {
    pop: Times,
    finish: Times,
    late: Times,
    /// When the first and the last job came.
    first_us: AtomicI64,
    last_us: AtomicI64,
}

/// Pops and finishes all `jobs`, up to `batch` in a request, and then looks whether one comes again. Ends
/// without those that do not come. `idle` is how long none may come because none is due.
pub(super) async fn drain(
    bench: &Arc<Bench>,
    jobs: &Arc<Jobs>,
    batch: usize,
    connections: Vec<Connection>,
    idle: Duration,
) -> Result<Drained, Failure> {
    let drain = Arc::new(Drain {
        pop: Times::new(),
        finish: Times::new(),
        late: Times::new(),
        first_us: i64::MAX.into(),
        last_us: 0.into(),
    });
    let begun_us = bench.clock.now_micros();
    let draining = crew(connections, |_, connection| {
        take_turns(bench.clone(), jobs.clone(), drain.clone(), batch, connection)
    });
    let name = "jobs to be popped and finished";
    let mut connections =
        bench.progress.guard(bench.clock.as_ref(), name, jobs.count, idle, draining).await?;
    let elapsed_us = jobs.ledger.last_us() - begun_us;
    if let Some(connection) = connections.first_mut() {
        look_again(bench, jobs, connection).await?;
    }
    jobs.ledger.close(&bench.tally);
    let (pop, finish, late) = (drain.pop.percentiles(), drain.finish.percentiles(), drain.late.percentiles());
    let first_last_us = (drain.first_us.load(Relaxed), drain.last_us.load(Relaxed));
    Ok(Drained { pop, finish, late, elapsed_us, first_last_us })
}

/// One worker: pops and finishes until all is done or hopeless.
async fn take_turns(
    bench: Arc<Bench>,
    jobs: Arc<Jobs>,
    drain: Arc<Drain>,
    batch: usize,
    mut connection: Connection,
) -> Result<Connection, Failure> {
    // A poll under way when all is done is not cut off: it may be the one that gets a job twice.
    while !jobs.ledger.is_done() {
        let begun_us = bench.clock.now_micros();
        let popped = connection.pop(&jobs.topic, batch, WAIT).await?;
        let now_us = bench.clock.now_micros();
        if popped.is_empty() {
            if jobs.ledger.is_hopeless(now_us) {
                break;
            }
            rest(&bench, now_us - begun_us).await;
            continue;
        }
        drain.pop.record(now_us - begun_us);
        drain.first_us.fetch_min(now_us, Relaxed);
        drain.last_us.fetch_max(now_us, Relaxed);
        let to_finish = jobs.deliver(&bench, popped, |_, late_us| drain.late.record(late_us))?;
        if !to_finish.is_empty() {
            drain.finish.record(jobs.finish(&bench, &mut connection, &to_finish).await?);
        }
    }
    Ok(connection)
}

/// Pauses after an answer without a job that took `took_us`.
pub(super) async fn rest(bench: &Bench, took_us: i64) {
    if u128::from(took_us.unsigned_abs()) < PAUSE.as_micros() {
        bench.clock.sleep(PAUSE).await;
    }
}

/// Pops once all is done: what comes now came before.
pub(super) async fn look_again(
    bench: &Bench,
    jobs: &Jobs,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let (wait, most) = AFTERWARDS;
    for _ in 0..most {
        let popped = connection.pop(&jobs.topic, 1, wait).await?;
        if popped.is_empty() {
            break;
        }
        jobs.deliver(bench, popped, |_, _| {})?;
    }
    Ok(())
}
