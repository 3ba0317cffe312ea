//! Burst: jobs that are all due at one instant; when the first and the last are delivered, and how much longer a
//! job of another topic takes meanwhile. No order is promised, since they are due at the same time.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    calls::Connection,
    failure::Failure,
    now::now_us,
    plan::Due,
    report::Row,
    steps::{add_all, count_doubles, drain, instant, pause_after_empty_pop},
    times::{Times, per_second},
    work::{Bench, Jobs},
};

const NAME: &str = "burst";

/// Most jobs of the other topic; one every [`BEAT`] while it goes on.
const MOST_OTHERS: usize = 10_000;

/// Pause between two jobs of the other topic.
const BEAT: Duration = Duration::from_millis(10);

/// How long a poll of the other topic waits; the job is lost when nearly all of that passes.
const WAIT: Duration = Duration::from_secs(10);
const LONG_US: i64 = 9_900_000;

/// How long the other topic is measured before the instant, for comparison: at least, and if there is time, so that a machine that
/// stands still leaves some of it.
const CALM: Duration = Duration::from_secs(1);
const LONG_CALM: Duration = Duration::from_secs(3);

/// With `jobs` jobs due `lead` from now.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    jobs: usize,
    batch: usize,
    lead: Duration,
) -> Result<(), Failure> {
    let topic = bench.new_topic().await?;
    let (moment, due_us) = instant(bench, lead).await?;
    let due = Due::At { moment, due_us };
    let jobs = Jobs::new(bench, &topic, jobs, due);
    let connections = bench.open(bench.load.connections()).await?;
    let added = add_all(bench, &jobs, batch.max(100), connections).await?;
    let idle = due.longest(now_us());
    if idle < CALM {
        return Err(Failure::Unfit(format!(
            "burst: adding took {:.1} s, too long for jobs due {lead:?} after it began: use --seconds",
            added.elapsed_us as f64 / 1e6
        )));
    }
    let calm = idle.min(LONG_CALM);
    sleep(idle - calm).await;

    let other = Other {
        jobs: Jobs::new(bench, &bench.new_topic().await?, MOST_OTHERS, Due::Now),
        is_over: CancellationToken::new(),
        calm: Times::new(),
        burst: Times::new(),
    };
    let before = bench.sample();
    let draining = async {
        let drained = drain(bench, &jobs, batch, added.connections, calm).await;
        other.is_over.cancel();
        drained
    };
    let (drained, ()) = tokio::try_join!(draining, deliver_others(bench, &other, due))?;
    let after = bench.sample();

    let row = |step: &str, count| Row {
        scenario: NAME,
        step: step.to_owned(),
        delay: due.pattern(),
        count,
        ..Row::default()
    };
    let (first_us, last_us) = drained.first_last_us;
    let mut all = Row {
        per_second: Some(per_second(jobs.count, last_us - due_us)),
        latency_ms: drained.late,
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row("delivered after due", jobs.count)
    };
    let ms = |at_us: i64| Some((at_us - due_us) as f64 / 1_000.0);
    all.annotate("first_ms", ms(first_us), |ms| format!("first after {ms:.1} ms"));
    all.annotate("last_ms", ms(last_us), |ms| format!("last after {ms:.1} ms"));
    bench.push(all);
    for (step, times) in [("other topic before", &other.calm), ("other topic meanwhile", &other.burst)] {
        let latency_ms = times.percentiles();
        let count = latency_ms.map_or(0, |times| usize::try_from(times.count).unwrap_or(usize::MAX));
        bench.push(Row { latency_ms, delay: "none".to_owned(), ..row(step, count) });
    }
    Ok(())
}

/// A topic beside the one of the burst.
#[derive(Debug)]
struct Other {
    jobs: Arc<Jobs>,
    /// Cancelled after the burst.
    is_over: CancellationToken,
    /// From the add to the delivery, before the instant.
    calm: Times,
    /// The same from the instant on.
    burst: Times,
}

/// One job after the other through the other topic, as long as the burst goes on.
async fn deliver_others(bench: &Bench, other: &Other, burst: Due) -> Result<(), Failure> {
    let (adder, poller) = (Connection::new(&bench.server), Connection::new(&bench.server));
    for number in 0..other.jobs.count {
        if other.is_over.is_cancelled() {
            break;
        }
        deliver_one(bench, other, number, burst, (&adder, &poller)).await?;
        sleep(BEAT).await;
    }
    count_doubles(bench, &other.jobs, &poller).await?;
    other.jobs.ledger.close(&bench.tally);
    Ok(())
}

/// Adds one job while a poll for it is under way, and finishes it.
async fn deliver_one(
    bench: &Bench,
    other: &Other,
    number: usize,
    burst: Due,
    (adder, poller): (&Connection, &Connection),
) -> Result<(), Failure> {
    let jobs = &other.jobs;
    let polling = async {
        loop {
            let begun_us = now_us();
            let popped = poller.pop(&jobs.topic, 1, WAIT).await?;
            let now_us = now_us();
            // A job that has not come by now is counted as lost.
            if !popped.is_empty() || now_us - begun_us > LONG_US {
                return Ok::<_, Failure>((popped, now_us));
            }
            pause_after_empty_pop(now_us - begun_us).await;
        }
    };
    let sent_us = now_us();
    let next = [jobs.next(number)];
    let ((popped, got_us), ()) = tokio::try_join!(polling, adder.add(&next))?;
    jobs.ledger.taken(1);
    if popped.is_empty() {
        return Ok(());
    }
    let is_calm = matches!(burst, Due::At { due_us, .. } if got_us < due_us);
    let times = if is_calm { &other.calm } else { &other.burst };
    times.record(got_us - sent_us);
    let to_finish = jobs.deliver(bench, popped, |_| {})?;
    if to_finish.is_empty() {
        return Ok(());
    }
    jobs.finish(bench, poller, &to_finish).await.map(drop)
}
