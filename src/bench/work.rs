//! What the scenarios share: the bench at work with its topics, the jobs of a step, and many connections
//! doing one thing at a time. Owns the cleaning up of topics.

use std::{
    sync::{Arc, Mutex, MutexGuard, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::task::JoinSet;

use super::{
    Failure,
    calls::{Delivered, When, job_text},
    client::{Connection, Peer},
    ledger::{Delivery, Ledger, TTR, Tally},
    plan::{Due, Load},
    progress::Progress,
    report::{Report, Row, Totals},
    watch::{Sample, Watch},
};
use crate::clock::Clock;

/// How often a topic is purged before it is given up; jobs on their way may come in between.
const PURGES: usize = 50;

/// A bench at work.
#[derive(Debug)]
pub(super) struct Bench {
    pub clock: Arc<dyn Clock>,
    pub peer: Arc<Peer>,
    pub load: Load,
    pub watch: Watch,
    pub progress: Progress,
    pub tally: Tally,
    pub report: Mutex<Report>,
    /// Those of ours that may hold jobs.
    topics: Mutex<Vec<String>>,
}

impl Bench {
    pub fn new(clock: Arc<dyn Clock>, peer: Arc<Peer>, load: Load, watch: Watch, report: Report) -> Self {
        let (progress, tally) = (Progress::new(), Tally::default());
        let (report, topics) = (Mutex::new(report), Mutex::new(Vec::new()));
        Self { clock, peer, load, watch, progress, tally, report, topics }
    }

    /// A topic that nobody has, and that we are allowed to delete again.
    pub async fn new_topic(&self) -> Result<String, Failure> {
        let topic = format!("bench-{:016x}", rand::random::<u64>());
        // Asked before there is anything to delete: what cannot be cleaned up is not begun.
        Connection::new(&self.peer).purge(&topic).await?;
        lock(&self.topics).push(topic.clone());
        Ok(topic)
    }

    /// Connections, open.
    pub async fn open(&self, count: usize) -> Result<Vec<Connection>, Failure> {
        let mut connections: Vec<_> = (0..count).map(|_| Connection::new(&self.peer)).collect();
        for connection in &mut connections {
            connection.open().await?;
        }
        Ok(connections)
    }

    pub fn look(&self) -> Sample {
        self.watch.look()
    }

    pub fn push(&self, row: Row) {
        lock(&self.report).push(row);
    }

    /// The report as it stands.
    pub fn take_report(&self) -> Report {
        let mut report = std::mem::take(&mut *lock(&self.report));
        let Tally { jobs, lost, doubled, early } = &self.tally;
        let [jobs, lost, doubled, early] = [jobs, lost, doubled, early].map(|count| count.load(Relaxed));
        report.close(Totals { jobs, lost, doubled, early });
        report
    }

    /// Deletes every topic of ours. The last request of a scenario that was cut off may still be at work, so
    /// each is purged until it stays empty.
    pub async fn clean_up(&self) -> Result<(), Failure> {
        let topics = std::mem::take(&mut *lock(&self.topics));
        let mut connection = Connection::new(&self.peer);
        for topic in topics {
            let failed = |why: &dyn std::fmt::Display| {
                Failure::Unfit(format!("the topic {topic} could not be deleted: {why}"))
            };
            let mut left = None;
            for _ in 0..PURGES {
                let deleted = connection.purge(&topic).await.map_err(|failure| failed(&failure))?;
                if left == Some(0) && deleted == 0 {
                    break;
                }
                left = Some(deleted);
                self.clock.sleep(Duration::from_millis(20)).await;
            }
            if left != Some(0) {
                return Err(failed(&"jobs keep coming"));
            }
        }
        Ok(())
    }
}

/// The jobs of one step: what they look like, and what became of them.
#[derive(Debug)]
pub(super) struct Jobs {
    pub topic: String,
    pub due: Due,
    pub count: usize,
    pub ledger: Ledger,
    body: String,
}

impl Jobs {
    pub fn new(bench: &Bench, topic: &str, count: usize, due: Due) -> Arc<Self> {
        let (topic, body) = (topic.to_owned(), body_of(bench.load.body_bytes));
        Arc::new(Self { topic, due, count, ledger: Ledger::new(count), body })
    }

    /// Writes a job that is about to be sent, and notes when it is due.
    pub fn write(&self, number: usize, clock: &dyn Clock) -> String {
        let now_us = clock.now_micros();
        let (when, due_us) = match self.due {
            Due::Now => (When::In(Duration::ZERO), now_us),
            Due::After { least_ms, spread_ms } => {
                let delay = Duration::from_millis(least_ms + rand::random_range(0..=spread_ms));
                (When::In(delay), now_us + i64::try_from(delay.as_micros()).unwrap_or(i64::MAX / 4))
            }
            Due::At { moment, due_us } => (When::At(moment), due_us),
        };
        self.ledger.expect(number, due_us);
        job_text(&self.topic, &format!("{}.{number}", self.topic), TTR, when, &self.body)
    }

    /// Notes deliveries. Those to finish: a doubled one is not, since its holder before has it too.
    pub fn deliver(
        &self,
        bench: &Bench,
        jobs: Vec<Delivered>,
        mut late: impl FnMut(usize, i64),
    ) -> Result<Vec<Delivered>, Failure> {
        let now_us = bench.clock.now_micros();
        let mut to_finish = Vec::with_capacity(jobs.len());
        for job in jobs {
            let number = self.number(&job)?;
            match self.ledger.deliver(number, now_us, &bench.tally) {
                Some(Delivery::First { late_us }) => {
                    late(number, late_us);
                    to_finish.push(job);
                }
                Some(Delivery::Again) => to_finish.push(job),
                Some(Delivery::Doubled) => {}
                None => return Err(strange(&job)),
            }
        }
        Ok(to_finish)
    }

    /// Finishes jobs, and says how long that took in microseconds.
    pub async fn finish(
        &self,
        bench: &Bench,
        connection: &mut Connection,
        jobs: &[Delivered],
    ) -> Result<i64, Failure> {
        let begun_us = bench.clock.now_micros();
        connection.finish(jobs).await?;
        let now_us = bench.clock.now_micros();
        let numbers = jobs.iter().map(|job| self.number(job)).collect::<Result<Vec<_>, _>>()?;
        self.ledger.finish(numbers.into_iter(), now_us);
        bench.progress.step(jobs.len());
        Ok(now_us - begun_us)
    }

    fn number(&self, job: &Delivered) -> Result<usize, Failure> {
        let number = job.id.strip_prefix(&self.topic).and_then(|rest| rest.strip_prefix('.')?.parse().ok());
        number.ok_or_else(|| strange(job))
    }
}

fn strange(job: &Delivered) -> Failure {
    Failure::Broken { call: "pop", error: format!("job {} was never added", job.id) }
}

/// A body of this many bytes of JSON, at least two.
pub(super) fn body_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes.saturating_sub(2)))
}

/// Has each connection do its part of the work at the same time, and hands them back in no order. The first
/// failure ends them all.
pub(super) async fn crew<F>(
    connections: Vec<Connection>,
    work: impl Fn(usize, Connection) -> F,
) -> Result<Vec<Connection>, Failure>
where
    F: Future<Output = Result<Connection, Failure>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let count = connections.len();
    for (index, connection) in connections.into_iter().enumerate() {
        tasks.spawn(work(index, connection));
    }
    let mut back = Vec::with_capacity(count);
    while let Some(ended) = tasks.join_next().await {
        back.push(ended.map_err(|error| Failure::Unfit(error.to_string()))??);
    }
    Ok(back)
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no code panics while it holds this")
}
