//! The steps that several scenarios have in common: adding all jobs as fast as possible, popping and finishing all of
//! them, and comparing the server's counts with those of jobs that stay. Owns their timing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use linger_client::{Counts, Due as ClientDue, Timestamp};
use tokio::time::sleep;

use crate::{
    calls::Connection,
    failure::Failure,
    now::now_us,
    times::{Percentiles, Times},
    work::{Bench, Jobs, body_of, new_job, run_on_all},
};

/// How long a pop waits while jobs are due.
const WAIT: Duration = Duration::from_secs(1);

/// Pause after an empty pop that was answered at once: a server that does not wait must not be called in a tight
/// loop.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a pop after the last job waits for one that comes twice, and how many of those are counted.
const AFTERWARDS: (Duration, usize) = (Duration::from_millis(200), 1_000);

/// Jobs added.
pub(crate) struct Added {
    pub connections: Vec<Connection>,
    /// Of requests.
    pub latency: Option<Percentiles>,
    pub elapsed_us: i64,
}

/// Jobs popped and finished.
pub(crate) struct Drained {
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
pub(crate) async fn add_all(
    bench: &Arc<Bench>,
    jobs: &Arc<Jobs>,
    batch: usize,
    connections: Vec<Connection>,
) -> Result<Added, Failure> {
    let (next, times) = (Arc::new(AtomicUsize::new(0)), Arc::new(Times::new()));
    let begun_us = now_us();
    let adding = run_on_all(connections, |_, connection| {
        let (bench, jobs, next, times) = (bench.clone(), jobs.clone(), next.clone(), times.clone());
        async move {
            loop {
                let first = next.fetch_add(batch, Relaxed);
                let numbers = first..jobs.count.min(first.saturating_add(batch));
                if numbers.is_empty() {
                    return Ok(connection);
                }
                let begun_us = now_us();
                let next: Vec<_> = numbers.map(|number| jobs.next(number)).collect();
                connection.add(&next).await?;
                jobs.ledger.taken(next.len());
                times.record(now_us() - begun_us);
                bench.progress.step(next.len());
            }
        }
    });
    let name = "jobs to be added";
    let guarded = bench.progress.guard(name, jobs.count, Duration::ZERO, adding);
    let connections = guarded.await?;
    let elapsed_us = now_us() - begun_us;
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

/// Pops and finishes all `jobs`, up to `batch` in a request, and then counts those that come again. Ends without
/// the jobs that do not come. `idle` is how long no job comes because none is due.
pub(crate) async fn drain(
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
    let begun_us = now_us();
    let draining = run_on_all(connections, |_, connection| {
        pop_and_finish(bench.clone(), jobs.clone(), drain.clone(), batch, connection)
    });
    let name = "jobs to be popped and finished";
    let connections = bench.progress.guard(name, jobs.count, idle, draining).await?;
    let elapsed_us = jobs.ledger.last_us() - begun_us;
    if let Some(connection) = connections.first() {
        count_doubles(bench, jobs, connection).await?;
    }
    jobs.ledger.close(&bench.tally);
    let (pop, finish, late) = (drain.pop.percentiles(), drain.finish.percentiles(), drain.late.percentiles());
    let first_last_us = (drain.first_us.load(Relaxed), drain.last_us.load(Relaxed));
    Ok(Drained { pop, finish, late, elapsed_us, first_last_us })
}

/// One worker: pops and finishes until all jobs are done or the rest is lost.
async fn pop_and_finish(
    bench: Arc<Bench>,
    jobs: Arc<Jobs>,
    drain: Arc<Drain>,
    batch: usize,
    connection: Connection,
) -> Result<Connection, Failure> {
    // A poll in progress when all jobs are done is not cut off: it may be the one that gets a job twice.
    while !jobs.ledger.is_done() {
        let begun_us = now_us();
        let popped = connection.pop(&jobs.topic, batch, WAIT).await?;
        let now_us = now_us();
        if popped.is_empty() {
            if jobs.ledger.are_missing_lost(now_us) {
                break;
            }
            pause_after_empty_pop(now_us - begun_us).await;
            continue;
        }
        drain.pop.record(now_us - begun_us);
        drain.first_us.fetch_min(now_us, Relaxed);
        drain.last_us.fetch_max(now_us, Relaxed);
        let to_finish = jobs.deliver(&bench, popped, |late_us| drain.late.record(late_us))?;
        if !to_finish.is_empty() {
            drain.finish.record(jobs.finish(&bench, &connection, &to_finish).await?);
        }
    }
    Ok(connection)
}

/// Pauses after a pop without a job that took `took_us`.
pub(crate) async fn pause_after_empty_pop(took_us: i64) {
    if u128::from(took_us.unsigned_abs()) < PAUSE.as_micros() {
        sleep(PAUSE).await;
    }
}

/// Pops once all jobs are done: any job that comes now came before.
pub(crate) async fn count_doubles(
    bench: &Bench,
    jobs: &Jobs,
    connection: &Connection,
) -> Result<(), Failure> {
    let (wait, most) = AFTERWARDS;
    for _ in 0..most {
        let popped = connection.pop(&jobs.topic, 1, wait).await?;
        if popped.is_empty() {
            break;
        }
        jobs.deliver(bench, popped, |_| {})?;
    }
    Ok(())
}

/// The instant `lead` after a job that is added now, by the server's clock. By ours, in microseconds, it is not before the
/// job was sent plus `lead`, less the millisecond to which the server rounds.
pub(crate) async fn instant(bench: &Bench, lead: Duration) -> Result<(Timestamp, i64), Failure> {
    let probe = bench.new_topic().await?;
    let job = new_job(&probe, "0", ClientDue::Delay(Duration::from_secs(86_400)), body_of(2));
    let sent_us = now_us();
    let created = Connection::new(&bench.server).add_one(&job).await?;
    let lead_us = i64::try_from(lead.as_micros()).unwrap_or(i64::MAX / 4);
    Ok((created + lead, sent_us + lead_us - 1_000))
}

/// Compares the jobs in the store with those that were added to these topics, none of which is due.
pub(crate) async fn compare_counts(bench: &Bench, topics: &[(String, usize)]) -> Result<(), Failure> {
    let connection = Connection::new(&bench.server);
    for (topic, added) in topics {
        let (Counts { delayed, ready, reserved, dead }, _) = connection.topic(topic).await?;
        let (added, there) = (u64::try_from(*added).unwrap_or(u64::MAX), delayed + ready + reserved + dead);
        bench.tally.jobs.fetch_add(added, Relaxed);
        bench.tally.lost.fetch_add(added.saturating_sub(there), Relaxed);
        bench.tally.doubled.fetch_add(there.saturating_sub(added), Relaxed);
        bench.tally.early.fetch_add(ready + reserved + dead, Relaxed);
    }
    Ok(())
}
