//! Viewers: what open dashboards cost a server, and how late jobs are beside them. Owns what a viewer asks for.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    calls::Connection, failure::Failure, lateness, now::now_us, plan::Due, report::Row, rest::rest,
    times::Times, work::Bench,
};

const NAME: &str = "lateness";

/// What the first page of the dashboard reads most often, and how often.
const READ: [&str; 4] =
    ["/stats?by=minute", "/timeline?span=60m&step=1m&by=topic", "/topics?limit=1000", "/topics?sort=overdue"];
const EVERY: Duration = Duration::from_secs(2);

/// Time for what a server does after a step.
const SETTLE: Duration = Duration::from_millis(500);

/// The server at rest for `time` each, before, beside and after `viewers` viewers; then `jobs` jobs, `rate` a second, alone
/// and beside the viewers.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    jobs: usize,
    rate: usize,
    viewers: usize,
    time: Duration,
) -> Result<(), Failure> {
    let row = |step: String, count| {
        let delay = Due::Now.pattern();
        Row { scenario: NAME, step, delay, count, ..Row::default() }
    };
    sleep(SETTLE).await;
    bench.push(rest(bench, row("at rest, before viewers".to_owned(), 0), time).await?);
    let watched = rest(bench, row(format!("{viewers} viewers, no jobs"), viewers), time);
    let (watched, times) = beside_viewers(bench, viewers, watched).await?;
    bench.push(Row { latency_ms: times.percentiles(), ..watched });
    sleep(SETTLE).await;
    bench.push(rest(bench, row("at rest, after viewers".to_owned(), 0), time).await?);

    let [add, alone] = lateness::measure(bench, NAME, jobs, rate).await?;
    let (alone_late, alone_cpu_us) = (alone.latency_ms, alone.cpu_us_per_job);
    bench.push(add);
    bench.push(alone);
    let measured = lateness::measure(bench, NAME, jobs, rate);
    let ([mut add, mut delivered], times) = beside_viewers(bench, viewers, measured).await?;
    for row in [&mut add, &mut delivered] {
        row.step += &format!(", {viewers} viewers");
    }
    let ratio = delivered.latency_ms.zip(alone_late).map(|(beside, alone)| beside.p99 / alone.p99);
    delivered.annotate("p99_against_alone", ratio, |ratio| format!("p99 {ratio:.2}x of alone"));
    let more_us = delivered.cpu_us_per_job.zip(alone_cpu_us).map(|(beside, alone)| beside - alone);
    let percent = more_us.map(|us| us * rate as f64 / 10_000.0);
    delivered.annotate("viewers_cpu_percent", percent, |percent| {
        format!("{percent:+.2} % of a processor for the viewers")
    });
    bench.push(add);
    bench.push(delivered);
    let step = format!("{viewers} viewers, {rate} jobs/s");
    bench.push(Row { latency_ms: times.percentiles(), ..row(step, viewers) });
    Ok(())
}

/// Does `work` while viewers read. Also returns the times of their calls, of which none may fail.
async fn beside_viewers<T>(
    bench: &Bench,
    viewers: usize,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<(T, Times), Failure> {
    let times = Arc::new(Times::new());
    let mut tasks = JoinSet::new();
    for (viewer, connection) in (0..).zip(bench.open(viewers).await?) {
        // Viewers do not open the page at the same moment.
        let wait = EVERY * viewer / u32::try_from(viewers).unwrap_or(u32::MAX);
        tasks.spawn(view(connection, wait, times.clone()));
    }
    let done = tokio::select! {
        done = work => done?,
        Some(failed) = tasks.join_next() => {
            return Err(failed.unwrap_or_else(|error| Failure::Unfit(error.to_string())));
        }
    };
    tasks.shutdown().await;
    let times = Arc::into_inner(times).expect("all viewers have ended");
    Ok((done, times))
}

/// Reads until it is aborted, or until a call fails.
async fn view(connection: Connection, wait: Duration, times: Arc<Times>) -> Failure {
    sleep(wait).await;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for path in READ {
            let begun_us = now_us();
            if let Err(failure) = connection.visit(path).await {
                return failure;
            }
            times.record(now_us() - begun_us);
        }
    }
}
