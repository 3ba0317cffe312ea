//! Bulk changes, a part of the scenario `look`: what adds notice of one, and how soon one stops. Checks how each ended.

use std::{cell::Cell, sync::Arc, time::Duration};

use linger_client::Due as ClientDue;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    calls::{Connection, Operation},
    failure::Failure,
    look_rows::{Filled, row, wide, wrong},
    now::now_us,
    report::Row,
    times::{Times, per_second},
    work::{Bench, body_of, new_job},
};

/// Most jobs that are changed beside adds.
const CHANGED: usize = 100_000;

/// Most adds before the change, for comparison.
const CALM: usize = 2_000;

/// How often the state of an operation is read.
const INTERVAL: Duration = Duration::from_millis(50);

/// When the jobs are due that are added meanwhile.
const DELAY: ClientDue = ClientDue::Delay(Duration::from_secs(86_400));

/// Moves the jobs of one topic beside adds, and begins the same with another one and stops it. `jobs` are pending. Returns
/// the topic of the adds.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    moved: &Filled,
    stopped: &Filled,
    jobs: usize,
) -> Result<Filled, Failure> {
    let topic = bench.new_topic().await?;
    let adder = Adder { bench, connection: Connection::new(&bench.server), topic, count: Cell::new(0) };
    let times = Times::new();
    for _ in 0..CALM.min(jobs) {
        adder.add(&times).await?;
    }
    let calm = times.percentiles();
    bench.push(Row { latency_ms: calm, ..row("add before a bulk change", adder.count.get()) });

    let (before, times, is_over) = (adder.count.get(), Times::new(), CancellationToken::new());
    let changing = async {
        let changed = change(bench, moved).await;
        is_over.cancel();
        changed
    };
    let (elapsed_us, ()) = tokio::try_join!(changing, adder.add_until(&is_over, &times))?;
    let count = adder.count.get() - before;
    let mut row = Row { latency_ms: times.percentiles(), ..row("add beside a bulk change", count) };
    let more = row.latency_ms.zip(calm).map(|(beside, calm)| beside.p99 - calm.p99);
    row.annotate("p99_more_ms", more, |ms| format!("p99 {ms:+.2} ms"));
    let changed = moved.1.min(CHANGED);
    row.annotate("changed", Some(changed as f64), |jobs| format!("{jobs} jobs changed"));
    let rate = Some(per_second(changed, elapsed_us));
    row.annotate("changed_per_second", rate, |rate| format!("{rate:.0} a second"));
    bench.push(row);

    measure_stop(bench, stopped).await?;
    Ok((adder.topic, adder.count.into_inner()))
}

/// Adds jobs one by one.
struct Adder<'a> {
    bench: &'a Bench,
    connection: Connection,
    topic: String,
    count: Cell<usize>,
}

impl Adder<'_> {
    async fn add(&self, times: &Times) -> Result<(), Failure> {
        let (name, body) = (self.count.get().to_string(), body_of(self.bench.load.body_bytes));
        let job = new_job(&self.topic, &name, DELAY, body);
        let begun_us = now_us();
        self.connection.add_one(&job).await?;
        times.record(now_us() - begun_us);
        self.count.set(self.count.get() + 1);
        Ok(())
    }

    async fn add_until(&self, is_over: &CancellationToken, times: &Times) -> Result<(), Failure> {
        while !is_over.is_cancelled() {
            self.add(times).await?;
        }
        Ok(())
    }
}

/// Moves the jobs of a topic, but not too many; how long that took, in microseconds.
async fn change(bench: &Bench, (topic, count): &Filled) -> Result<i64, Failure> {
    let (connection, wanted, begun_us) = (Connection::new(&bench.server), (*count).min(CHANGED), now_us());
    let name = "jobs to be changed";
    let changing = async {
        let (id, limit) = (format!("{topic}.move"), wide(wanted).max(1));
        let mut operation = connection.start_shift(&id, topic, limit).await?;
        while operation.is_running() {
            sleep(INTERVAL).await;
            let before = operation.changed;
            operation = connection.operation(&id).await?;
            bench.progress.step(usize::try_from(operation.changed - before).unwrap_or(usize::MAX));
        }
        Ok(operation)
    };
    let operation = bench.progress.guard(name, wanted, Duration::ZERO, changing).await?;
    let elapsed_us = now_us() - begun_us;
    // No other client changes jobs of this topic, so none is skipped.
    if operation.state == "done" && operation.changed == wide(wanted) {
        return Ok(elapsed_us);
    }
    Err(wrong("bulk change", &format_args!("{operation}, of {wanted} jobs")))
}

/// Begins to move all jobs of a topic, and stops when some have moved.
async fn measure_stop(bench: &Bench, (topic, count): &Filled) -> Result<(), Failure> {
    let (connection, id, times) = (Connection::new(&bench.server), format!("{topic}.stop"), Times::new());
    let stopping = async {
        let mut operation = connection.start_shift(&id, topic, wide(*count).max(1)).await?;
        while operation.is_running() && operation.changed == 0 {
            operation = connection.operation(&id).await?;
        }
        let begun_us = now_us();
        let operation = connection.stop_operation(&id).await?;
        times.record(now_us() - begun_us);
        Ok::<Operation, Failure>(operation)
    };
    let operation = bench.progress.guard("a change to be stopped", 1, Duration::ZERO, stopping).await?;
    // A small one may be done before it is stopped.
    if !matches!(&*operation.state, "stopped" | "done") {
        return Err(wrong("stop of a bulk change", &operation));
    }
    let mut row = Row { latency_ms: times.percentiles(), ..row("stop a bulk change", 1) };
    row.annotate("changed", Some(operation.changed as f64), |_| operation.to_string());
    bench.push(row);
    Ok(())
}
