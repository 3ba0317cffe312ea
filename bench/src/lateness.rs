//! Lateness: adds evenly while others poll, and measures how long after its due moment each job is delivered.
//! The due moment is the one just before the request was sent plus the delay, all by the client's clock, so
//! that a delivery before it is early whatever the clocks say.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    calls::Connection,
    failure::Failure,
    now::now_us,
    plan::Due,
    report::Row,
    steps::drain,
    times::{Percentiles, Times, per_second},
    work::{Bench, Jobs, run_on_all},
};

/// With `jobs` jobs, `rate` a second. Returns how late they were; `scenario` names the rows.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    scenario: &'static str,
    jobs: usize,
    rate: usize,
) -> Result<Option<Percentiles>, Failure> {
    let [add, delivered] = measure(bench, scenario, jobs, rate).await?;
    let late = delivered.latency_ms;
    bench.push(add);
    bench.push(delivered);
    Ok(late)
}

/// The same, without reporting it: the rows of the adds and of the deliveries.
pub(crate) async fn measure(
    bench: &Arc<Bench>,
    scenario: &'static str,
    jobs: usize,
    rate: usize,
) -> Result<[Row; 2], Failure> {
    let topic = bench.new_topic().await?;
    let due = Due::after(bench.load.delay, 1_000, 1_000, 2_000);
    let jobs = Jobs::new(bench, &topic, jobs, due);
    let idle = due.longest(now_us());
    let pollers = bench.open(bench.load.connections()).await?;
    // As many connections again, so that one slow add does not delay the next.
    let adders = bench.open(bench.load.connections()).await?;

    let before = bench.sample();
    // Only the drain is guarded: it makes no progress when the adding makes none.
    let draining = drain(bench, &jobs, 1, pollers, idle);
    let (added, drained) = tokio::try_join!(add_all_evenly(&jobs, rate, adders), draining)?;
    let after = bench.sample();
    let (first_us, last_us) = drained.first_last_us;

    let row = |step: &str| Row {
        scenario,
        step: step.to_owned(),
        delay: due.pattern(),
        count: jobs.count,
        ..Row::default()
    };
    let mut add = Row {
        per_second: Some(per_second(jobs.count, added.elapsed_us)),
        latency_ms: added.latency,
        ..row(&format!("add, {rate}/s"))
    };
    let behind = added.behind.map(|behind| behind.p99);
    add.annotate("behind_schedule_p99_ms", behind, |ms| format!("{ms:.2} ms behind its schedule at p99"));
    let delivered = Row {
        per_second: Some(per_second(jobs.count, last_us - first_us)),
        latency_ms: drained.late,
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row("delivered after due")
    };
    Ok([add, delivered])
}

/// Jobs added evenly.
pub(crate) struct Evenly {
    /// Of requests.
    pub latency: Option<Percentiles>,
    /// How much later than planned requests were sent.
    pub behind: Option<Percentiles>,
    pub elapsed_us: i64,
}

/// Adds all `jobs`, `rate` a second.
pub(crate) async fn add_all_evenly(
    jobs: &Arc<Jobs>,
    rate: usize,
    connections: Vec<Connection>,
) -> Result<Evenly, Failure> {
    let added = Arc::new(Adding { next: AtomicUsize::new(0), rate, late: Times::new(), times: Times::new() });
    let begun_us = now_us();
    run_on_all(connections, |_, connection| add_evenly(jobs.clone(), added.clone(), begun_us, connection))
        .await?;
    let elapsed_us = now_us() - begun_us;
    Ok(Evenly { latency: added.times.percentiles(), behind: added.late.percentiles(), elapsed_us })
}

#[derive(Debug)]
struct Adding {
    next: AtomicUsize,
    /// Jobs per second.
    rate: usize,
    /// How much later than planned requests were sent.
    late: Times,
    times: Times,
}

/// Adds jobs, each at its scheduled time.
async fn add_evenly(
    jobs: Arc<Jobs>,
    adding: Arc<Adding>,
    begun_us: i64,
    connection: Connection,
) -> Result<Connection, Failure> {
    loop {
        let number = adding.next.fetch_add(1, Relaxed);
        if number >= jobs.count {
            return Ok(connection);
        }
        let share_us =
            u64::try_from(number).unwrap_or(0) * 1_000_000 / u64::try_from(adding.rate).unwrap_or(1);
        let planned_us = begun_us + i64::try_from(share_us).unwrap_or(i64::MAX / 4);
        let wait_us = u64::try_from(planned_us - now_us()).unwrap_or(0);
        if wait_us > 0 {
            sleep(Duration::from_micros(wait_us)).await;
        }
        let sent_us = now_us();
        adding.late.record(sent_us - planned_us);
        connection.add(&[jobs.next(number)]).await?;
        jobs.ledger.taken(1);
        adding.times.record(now_us() - sent_us);
    }
}
