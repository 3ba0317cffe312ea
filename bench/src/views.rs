//! Views, the scenario `look`: how long timelines and pages of jobs take beside many pending jobs; `bulk` measures bulk
//! changes of them. Owns which topics there are and what is asked. Checks each answer: a wrong or failed one ends the
//! bench.

use std::{cell::Cell, sync::Arc, time::Duration};

use linger_client::Timestamp;

use crate::{
    bulk,
    calls::{Connection, JobPage, ListedJob},
    failure::Failure,
    look_rows::{Filled, LEAST, due, row, wide, wrong},
    now::now_us,
    report::Row,
    steps::{add_all, compare_counts},
    times::{Times, per_second},
    work::{Bench, Jobs},
};

/// How many topics share the jobs that the two small topics leave.
const LARGE: usize = 9;

/// Most jobs of the smallest topic.
const FEW: usize = 100;

/// Most calls of each kind, and most that examine as many jobs as the server allows.
const CALLS: usize = 200;
const LONG_CALLS: usize = 20;

/// Jobs of a page.
const PAGE: usize = 50;

const MINUTE: Duration = Duration::from_secs(60);

/// The pending jobs.
struct Pending {
    /// When the first job is due, by the server's clock.
    begins: Timestamp,
    large: Vec<Filled>,
    one_percent: Filled,
    few: Filled,
}

/// With `jobs` pending jobs, which are added `batch` in a request.
pub(crate) async fn run(bench: &Arc<Bench>, jobs: usize, batch: usize) -> Result<(), Failure> {
    let pending = add_pending(bench, jobs, batch).await?;
    measure_timelines(bench, &pending, jobs).await?;
    measure_pages(bench, &pending, jobs).await?;
    let [moved, stopped] = [1, 2].map(|number| &pending.large[number]);
    let added = bulk::run(bench, moved, stopped, jobs).await?;
    let Pending { large, one_percent, few, .. } = pending;
    let topics: Vec<_> = large.into_iter().chain([one_percent, few, added]).collect();
    compare_counts(bench, &topics).await
}

/// How many jobs each topic has: the large ones, the one of 1 %, and the smallest.
fn sizes(jobs: usize) -> (Vec<usize>, usize, usize) {
    let (one_percent, few) = (jobs / 100, FEW.min(jobs / 100));
    let left = jobs - one_percent - few;
    let large = (0..LARGE).map(|number| left / LARGE + usize::from(number < left % LARGE));
    (large.collect(), one_percent, few)
}

async fn add_pending(bench: &Arc<Bench>, jobs: usize, batch: usize) -> Result<Pending, Failure> {
    let mut connections = bench.open(bench.load.connections()).await?;
    let (before, mut elapsed_us, mut filled) = (bench.sample(), 0, Vec::new());
    let begins = Connection::new(&bench.server).timeline(None, None, "1m").await?.now + LEAST;
    let (large, one_percent, few) = sizes(jobs);
    for count in large.into_iter().chain([one_percent, few]) {
        let topic = bench.new_topic().await?;
        let added = add_all(bench, &Jobs::new(bench, &topic, count, due()), batch, connections).await?;
        connections = added.connections;
        elapsed_us += added.elapsed_us;
        filled.push((topic, count));
    }
    let after = bench.sample();
    bench.push(Row {
        per_second: Some(per_second(jobs, elapsed_us)),
        cpu_us_per_job: after.cpu_us_per(&before, jobs),
        resident_bytes: after.resident_bytes,
        ..row(&format!("add, {batch} a request"), jobs)
    });
    let small = filled.split_off(LARGE);
    let [one_percent, few] = small.try_into().expect("there are two small topics");
    Ok(Pending { begins, large: filled, one_percent, few })
}

/// Timelines of a day and of ten years. Each call asks for another span, because the server keeps what it has read for two
/// seconds, and for thirty if the span is longer than a day: a repeated call would measure nothing.
async fn measure_timelines(bench: &Bench, pending: &Pending, jobs: usize) -> Result<(), Failure> {
    let connection = Connection::new(&bench.server);
    let (topic, count) = &pending.large[0];
    for (name, span, apart) in [("24 h", "24h", 60 * MINUTE), ("10 years", "3652d", MINUTE)] {
        for (whose, topic, count) in [("a topic", Some(&**topic), *count), ("all topics", None, jobs)] {
            let step = format!("timeline of {name}, {whose}");
            let timed = time_calls(bench, &step, CALLS.min(jobs), async |number| {
                let from = pending.begins + apart * number;
                let seen = connection.timeline(topic, Some(from), span).await?.jobs();
                // Others may have jobs, too, but not in a topic of the bench.
                let is_right = if topic.is_some() { seen == wide(count) } else { seen >= wide(count) };
                if is_right { Ok(()) } else { Err(wrong(&step, &format_args!("{seen} of {count} jobs"))) }
            });
            bench.push(timed.await?);
        }
    }
    Ok(())
}

/// What a page is of.
struct Pages<'a> {
    step: &'static str,
    topic: Option<&'a str>,
    /// How far apart the beginnings of two pages are, or the ends of two that begin with the latest job.
    apart: Duration,
    is_descending: bool,
}

/// Pages of jobs, and searches for ids that no job has.
async fn measure_pages(bench: &Bench, pending: &Pending, jobs: usize) -> Result<(), Failure> {
    let of = |step, topic, apart| Pages { step, topic, apart, is_descending: false };
    // All pages are among the jobs, and those of the smallest topic are full.
    let (one_percent, few) = (Some(&*pending.one_percent.0), Some(&*pending.few.0));
    for pages in [
        of("50 jobs, all topics", None, 200 * MINUTE),
        of("50 jobs, a topic of 1 %", one_percent, 200 * MINUTE),
        of("50 jobs, a topic of 100 jobs", few, 20 * MINUTE),
        Pages { is_descending: true, ..of("50 jobs, all topics, latest first", None, 200 * MINUTE) },
    ] {
        let (key, first) = if pages.is_descending { ("to", 1) } else { ("from", 0) };
        let order = if pages.is_descending { "desc" } else { "asc" };
        let topic = pages.topic.map_or(String::new(), |topic| format!("&topic={topic}"));
        list(bench, pages.step, CALLS.min(jobs), |number| {
            let bound = pending.begins + pages.apart * (number + first);
            let query = format!("order={order}{topic}&{key}={bound}");
            Asked { query, topic: pages.topic, bound, is_descending: pages.is_descending }
        })
        .await?;
    }
    list(bench, "search of ids, all topics", LONG_CALLS.min(jobs), |number| {
        let bound = pending.begins + 200 * MINUTE * number;
        let query = format!("id_prefix=bench-nobody-{number}&from={bound}");
        // No job has such an id, so one that is listed is wrong, of whatever topic.
        Asked { query, topic: Some(""), bound, is_descending: false }
    })
    .await
}

/// What a page is asked for.
struct Asked<'a> {
    query: String,
    /// All its jobs must be of this topic.
    topic: Option<&'a str>,
    /// They must not be due before this moment, or, if they are listed from the latest on, before it.
    bound: Timestamp,
    is_descending: bool,
}

/// Lists `count` pages. One is short if the server has stopped before it was full, and says that there may be more.
async fn list<'a>(
    bench: &Bench,
    step: &str,
    count: usize,
    asked: impl Fn(u32) -> Asked<'a>,
) -> Result<(), Failure> {
    let connection = Connection::new(&bench.server);
    let (short, examined) = (Cell::new(0), Cell::new(0));
    let timed = time_calls(bench, step, count, async |number| {
        let Asked { query, topic, bound, is_descending } = asked(number);
        let page = connection.list(&format!("limit={PAGE}&{query}")).await?;
        let JobPage { jobs, next_cursor, examined: more } = page;
        let is_right = |job: &ListedJob| {
            topic.is_none_or(|topic| job.topic == topic) && (job.due_at < bound) == is_descending
        };
        if jobs.len() > PAGE || !jobs.iter().all(is_right) {
            return Err(wrong(step, &format_args!("{} jobs, some of which were not asked for", jobs.len())));
        }
        short.set(short.get() + usize::from(jobs.len() < PAGE && next_cursor.is_some()));
        examined.set(more.max(examined.get()));
        Ok(())
    });
    let mut row = timed.await?;
    row.annotate("short", Some(short.get() as f64), |short| format!("{short} short"));
    row.annotate("examined_at_most", Some(examined.get() as f64), |jobs| {
        format!("{jobs} jobs examined at most")
    });
    bench.push(row);
    Ok(())
}

/// Makes `count` calls one after the other; the row of their times. `call` gets the number of the call.
async fn time_calls(
    bench: &Bench,
    step: &str,
    count: usize,
    call: impl AsyncFn(u32) -> Result<(), Failure>,
) -> Result<Row, Failure> {
    let (times, before) = (Times::new(), bench.sample());
    let calling = async {
        for number in (0..).take(count) {
            let begun_us = now_us();
            call(number).await?;
            times.record(now_us() - begun_us);
            bench.progress.step(1);
        }
        Ok(())
    };
    bench.progress.guard(step, count, Duration::ZERO, calling).await?;
    let after = bench.sample();
    Ok(Row {
        latency_ms: times.percentiles(),
        cpu_us_per_job: after.cpu_us_per(&before, count),
        resident_bytes: after.resident_bytes,
        ..row(step, count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_in_one_of_the_topics() {
        for jobs in [1, 99, 200, 20_000, 1_000_001] {
            let (large, one_percent, few) = sizes(jobs);
            assert_eq!(large.len(), LARGE);
            assert_eq!(large.iter().sum::<usize>() + one_percent + few, jobs);
        }
        let (large, one_percent, few) = sizes(10_000_000);
        assert_eq!((large[0], one_percent, few), (1_099_989, 100_000, 100));
    }
}
