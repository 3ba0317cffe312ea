//! Schedules: many, of which some run at the same moments, and how long after its moment the job of each run is delivered.
//! The others run in a day: a server has to find those that are due among them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use linger_client::{NewJob, NewSchedule, Recurrence, Timestamp};

use crate::{
    calls::Connection,
    failure::Failure,
    ledger::TTR,
    now::now_us,
    plan::Due,
    report::Row,
    steps::{drain, instant},
    times::{Times, per_second},
    work::{Bench, Jobs, body_of, run_on_all, schedule_name},
};

const NAME: &str = "schedules";

/// How often the schedules that share their moments run, which divides a minute, and how many times.
const SECONDS_APART: u16 = 10;
const RUNS: usize = 3;

/// A zone whose clocks change, so that each next moment has to be searched in it.
const ZONE: &str = "Europe/Berlin";

const DAY: Duration = Duration::from_secs(86_400);

/// From the beginning of putting the schedules that share their moments to the first moment, beside the time that putting them
/// is expected to take.
const LEAD: Duration = Duration::from_secs(3);
/// How many schedules a second are put at least.
const LEAST_RATE: f64 = 100.0;

/// With so many schedules, `due` of which share their moments. A pop takes up to `batch` jobs.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    schedules: usize,
    due: usize,
    batch: usize,
) -> Result<(), Failure> {
    let topic = bench.new_topic().await?;
    bench.schedules_begin(&topic, schedules);
    let put = Arc::new(Put { bench: bench.clone(), topic: topic.clone(), times: Times::new() });
    let connections = bench.open(bench.load.connections()).await?;
    let (tomorrow, _) = instant(bench, DAY).await?;
    let others = put.all(due..schedules, connections, move |number, job| {
        let start = tomorrow + Duration::from_secs(u64::try_from(number).unwrap_or(0));
        NewSchedule { start: Some(start), ..NewSchedule::every(DAY, job) }
    });
    let (connections, others_us) = others.await?;

    let rate = if schedules > due { per_second(schedules - due, others_us) } else { LEAST_RATE };
    let moments = moments(bench, LEAD + Duration::from_secs_f64(2.0 * due as f64 / rate)).await?;
    let [(first, first_us), _, (last, last_us)] = moments;
    let sharing = put.all(0..due, connections, move |_, job| {
        let recurrence = Recurrence::Cron { cron: pattern(first), time_zone: Some(ZONE.to_owned()) };
        NewSchedule { start: Some(first), end: Some(last), ..NewSchedule::new(recurrence, job) }
    });
    let (connections, due_us) = sharing.await?;
    if now_us() >= first_us {
        return Err(Failure::Unfit(format!(
            "schedules: putting {due} took {:.1} s, and they were to run before that: use fewer --jobs",
            due_us as f64 / 1e6
        )));
    }

    let jobs = Jobs::of_runs(bench, &topic, due, &moments);
    jobs.ledger.taken(jobs.count);
    let before = bench.sample();
    let idle = Duration::from_micros(u64::try_from(last_us - now_us()).unwrap_or(0));
    let drained = drain(bench, &jobs, batch, connections, idle).await?;
    let after = bench.sample();
    let row = |step: &str, count| Row { scenario: NAME, step: step.to_owned(), count, ..Row::default() };
    bench.push(Row {
        delay: Due::Now.pattern(),
        per_second: Some(per_second(schedules, others_us + due_us)),
        latency_ms: put.times.percentiles(),
        ..row("put", schedules)
    });
    bench.push(Row {
        delay: format!("{RUNS} moments"),
        latency_ms: drained.late,
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row("delivered after its moment", jobs.count)
    });
    Ok(())
}

/// The moments that are shared, the first at least `lead` from now, by the server's clock and in microseconds by ours.
async fn moments(bench: &Bench, lead: Duration) -> Result<[(Timestamp, i64); RUNS], Failure> {
    let (instant, due_us) = instant(bench, lead).await?;
    // A pattern has whole seconds.
    let to_second_us = (1_000 - instant.as_millisecond().rem_euclid(1_000)) * 1_000;
    Ok(std::array::from_fn(|run| {
        let apart_us = i64::from(SECONDS_APART) * i64::try_from(run).unwrap_or(0) * 1_000_000;
        let later_us = to_second_us + apart_us;
        (instant + Duration::from_micros(later_us.unsigned_abs()), due_us + later_us)
    }))
}

/// A pattern for moments that are so far apart, of which this is one.
fn pattern(moment: Timestamp) -> String {
    let first = moment.as_second().rem_euclid(i64::from(SECONDS_APART));
    let seconds = (first..60).step_by(usize::from(SECONDS_APART)).map(|second| second.to_string());
    format!("{} * * * * *", seconds.collect::<Vec<_>>().join(","))
}

/// Schedules as they are put.
#[derive(Debug)]
struct Put {
    bench: Arc<Bench>,
    topic: String,
    /// Of requests.
    times: Times,
}

impl Put {
    /// Puts the schedules of these numbers. Returns how long that took, in microseconds.
    async fn all(
        self: &Arc<Self>,
        numbers: std::ops::Range<usize>,
        connections: Vec<Connection>,
        schedule: impl Fn(usize, NewJob) -> NewSchedule + Copy + Send + 'static,
    ) -> Result<(Vec<Connection>, i64), Failure> {
        let (count, end, next) = (numbers.len(), numbers.end, Arc::new(AtomicUsize::new(numbers.start)));
        let begun_us = now_us();
        let putting = run_on_all(connections, |_, connection| {
            let (put, next) = (self.clone(), next.clone());
            async move {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= end {
                        return Ok(connection);
                    }
                    let schedule = schedule(number, put.job());
                    let begun_us = now_us();
                    connection.put_schedule(&schedule_name(&put.topic, number), &schedule).await?;
                    put.times.record(now_us() - begun_us);
                    put.bench.progress.step(1);
                }
            }
        });
        let guarded = self.bench.progress.guard("schedules to be put", count, Duration::ZERO, putting);
        Ok((guarded.await?, now_us() - begun_us))
    }

    /// The job of a schedule.
    fn job(&self) -> NewJob {
        NewJob {
            ttr: Some(TTR),
            ..NewJob::new(self.topic.as_str()).body(body_of(self.bench.load.body_bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_moments_that_are_so_far_apart() {
        let moment = Timestamp::from_second(1_767_225_600 + 57).expect("a moment");
        assert_eq!(pattern(moment), "7,17,27,37,47,57 * * * * *");
    }
}
