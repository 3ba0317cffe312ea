//! Backlog: adds jobs that are due in a day, and measures in stages how fast adding is as they pile up, and the
//! memory and disk space of a job. No job is ever delivered, so the server's own counts show what is lost.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    failure::Failure,
    plan::Due,
    report::Row,
    steps::{add_all, compare_counts},
    times::per_second,
    watch::grown,
    work::{Bench, Jobs},
};

const NAME: &str = "backlog";

const DAY_MS: u64 = 86_400_000;

/// How many jobs there are when a stage ends.
const STAGES: [usize; 7] = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];

/// Time for what the server does after its answer, such as a checkpoint, before memory and disk are measured.
const SETTLE: Duration = Duration::from_millis(500);

/// With `jobs` jobs, `batch` in a request.
pub(crate) async fn run(bench: &Arc<Bench>, jobs: usize, batch: usize) -> Result<(), Failure> {
    // An hour is as random as a day: far more jobs fall into it than a page of an index holds.
    let due = Due::after(bench.load.delay, DAY_MS, DAY_MS, DAY_MS + 3_600_000);
    let mut connections = bench.open(bench.load.connections()).await?;
    let (empty, mut topics, mut done) = (bench.sample(), Vec::new(), 0);
    for stage in stages(jobs) {
        // A topic for each stage, because a topic has one numbering of jobs.
        let topic = bench.new_topic().await?;
        let stage_jobs = Jobs::new(bench, &topic, stage - done, due);
        let before = bench.sample();
        let added = add_all(bench, &stage_jobs, batch, connections).await?;
        connections = added.connections;
        let after = bench.sample();
        sleep(SETTLE).await;
        let settled = bench.sample();
        let mut row = Row {
            scenario: NAME,
            step: format!("add up to {stage}, {batch} a request"),
            delay: due.pattern(),
            count: stage - done,
            per_second: Some(per_second(stage - done, added.elapsed_us)),
            latency_ms: added.latency,
            cpu_us_per_job: after.cpu_us_per(&before, stage - done),
            resident_bytes: settled.resident_bytes,
            ..Row::default()
        };
        let memory = grown(settled.resident_bytes, empty.resident_bytes, stage);
        row.annotate("memory_per_job_bytes", memory, |bytes| format!("{bytes:.0} B of memory a job"));
        let disk = grown(settled.disk_bytes, empty.disk_bytes, stage);
        row.annotate("disk_per_job_bytes", disk, |bytes| format!("{bytes:.0} B on disk a job"));
        bench.push(row);
        topics.push((topic, stage - done));
        done = stage;
    }
    compare_counts(bench, &topics).await
}

/// Where the stages end for so many jobs.
fn stages(jobs: usize) -> impl Iterator<Item = usize> {
    STAGES.into_iter().filter(move |stage| *stage < jobs).chain([jobs])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_end_with_all_jobs() {
        assert_eq!(stages(200).collect::<Vec<_>>(), [200]);
        assert_eq!(stages(10_000).collect::<Vec<_>>(), [10_000]);
        assert_eq!(stages(50_000).collect::<Vec<_>>(), [10_000, 30_000, 50_000]);
    }
}
