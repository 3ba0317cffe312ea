//! Throughput: adds all jobs as fast as possible, waits until they are due, then pops and finishes all of them.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    failure::Failure,
    now::now_us,
    plan::Due,
    report::Row,
    steps::{Added, Drained, add_all, drain},
    times::per_second,
    work::{Bench, Jobs},
};

const NAME: &str = "throughput";

/// With `jobs` jobs, `batch` in a request.
pub(crate) async fn run(bench: &Arc<Bench>, jobs: usize, batch: usize) -> Result<(), Failure> {
    let topic = bench.new_topic().await?;
    let due = Due::after(bench.load.delay, 1_000, 0, 2_000);
    let jobs = Jobs::new(bench, &topic, jobs, due);
    let row = |step: &str| Row {
        scenario: NAME,
        step: if batch == 1 { step.to_owned() } else { format!("{step}, {batch} a request") },
        delay: due.pattern(),
        count: jobs.count,
        ..Row::default()
    };

    let connections = bench.open(bench.load.connections()).await?;
    let before = bench.sample();
    let Added { connections, latency, elapsed_us } = add_all(bench, &jobs, batch, connections).await?;
    let after = bench.sample();
    bench.push(Row {
        per_second: Some(per_second(jobs.count, elapsed_us)),
        latency_ms: latency,
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row("add")
    });

    let wait_us = u64::try_from(jobs.ledger.last_us() - now_us()).unwrap_or(0);
    sleep(Duration::from_micros(wait_us)).await;
    let before = bench.sample();
    let drained = drain(bench, &jobs, batch, connections, Duration::ZERO).await?;
    let after = bench.sample();
    let Drained { pop, finish, elapsed_us, .. } = drained;
    let rate = Some(per_second(jobs.count, elapsed_us));
    bench.push(Row { per_second: rate, latency_ms: pop, ..row("pop") });
    bench.push(Row { per_second: rate, latency_ms: finish, ..row("finish") });
    bench.push(Row {
        per_second: rate,
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row("pop and finish")
    });
    Ok(())
}
