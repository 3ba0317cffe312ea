//! What the scenarios share: the running bench with its topics, the jobs of a step, and running one task on
//! each of many connections. Owns the cleaning up of topics.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use linger_client::{Client, Due as ClientDue, NewJob, ReservedJob, Timestamp};
use serde_json::value::RawValue;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    calls::Connection,
    failure::Failure,
    ledger::{Delivery, Ledger, TTR, Tally},
    now::now_us,
    plan::{Due, Load},
    progress::Progress,
    report::{Report, Row},
    watch::{Sample, Watch},
};

/// Most purges of a topic; jobs of requests in progress may come in between.
const PURGES: usize = 50;

/// A running bench.
#[derive(Debug)]
pub(crate) struct Bench {
    pub server: Client,
    pub load: Load,
    pub watch: Watch,
    pub progress: Progress,
    pub tally: Tally,
    pub report: Mutex<Report>,
    /// Topics of this bench that may have jobs.
    topics: Mutex<Vec<String>>,
    /// Those of them, and others without jobs, that may have a callback.
    called: Mutex<Vec<String>>,
    /// Topics of schedules that may be there, and how many each has.
    scheduled: Mutex<Vec<(String, usize)>>,
}

impl Bench {
    pub fn new(server: Client, load: Load, watch: Watch, report: Report) -> Self {
        let (progress, tally) = (Progress::new(), Tally::default());
        let (report, topics, called) = (Mutex::new(report), Mutex::default(), Mutex::default());
        Self { server, load, watch, progress, tally, report, topics, called, scheduled: Mutex::default() }
    }

    /// A topic that no other client uses, and that the token allows this bench to delete.
    pub async fn new_topic(&self) -> Result<String, Failure> {
        let topic = format!("bench-{:016x}", rand::random::<u64>());
        // Purged before it has jobs: the bench does not begin what it cannot clean up.
        Connection::new(&self.server).purge(&topic).await?;
        lock(&self.topics).push(topic.clone());
        Ok(topic)
    }

    /// Sets the URL that the server calls for the jobs of a topic, until [`clean_up`](Self::clean_up).
    pub async fn set_callback(&self, connection: &Connection, topic: &str, url: &str) -> Result<(), Failure> {
        lock(&self.called).push(topic.to_owned());
        connection.set_callback(topic, Some(url)).await
    }

    /// Remembers that schedules 0 to `count` - 1 of a topic are to be deleted by [`clean_up`](Self::clean_up).
    pub fn schedules_begin(&self, topic: &str, count: usize) {
        lock(&self.scheduled).push((topic.to_owned(), count));
    }

    /// Connections, open.
    pub async fn open(&self, count: usize) -> Result<Vec<Connection>, Failure> {
        let connections: Vec<_> = (0..count).map(|_| Connection::new(&self.server)).collect();
        for connection in &connections {
            connection.open().await?;
        }
        Ok(connections)
    }

    pub fn sample(&self) -> Sample {
        self.watch.sample()
    }

    pub fn push(&self, row: Row) {
        lock(&self.report).push(row);
    }

    /// The report so far.
    pub fn take_report(&self) -> Report {
        let mut report = std::mem::take(&mut *lock(&self.report));
        report.close(self.tally.totals());
        report
    }

    /// Deletes every schedule and every topic of this bench. The server may still run the last request of a scenario that was
    /// cut off, so it goes on until nothing more is found.
    pub async fn clean_up(&self) -> Result<(), Failure> {
        // They would add jobs to the topics.
        self.delete_schedules().await?;
        let topics = std::mem::take(&mut *lock(&self.topics));
        let connection = Connection::new(&self.server);
        let called = std::mem::take(&mut *lock(&self.called));
        for topic in called {
            connection.set_callback(&topic, None).await?;
        }
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
                sleep(Duration::from_millis(20)).await;
            }
            if left != Some(0) {
                return Err(failed(&"jobs keep coming"));
            }
        }
        Ok(())
    }

    async fn delete_schedules(&self) -> Result<(), Failure> {
        let scheduled = std::mem::take(&mut *lock(&self.scheduled));
        for (topic, count) in scheduled {
            let mut connections = self.open(self.load.connections()).await?;
            let share = connections.len();
            loop {
                let deleted = Arc::new(AtomicU64::new(0));
                connections = run_on_all(connections, |index, connection| {
                    let (topic, deleted) = (topic.clone(), deleted.clone());
                    async move {
                        for number in (index..count).step_by(share) {
                            let was_there =
                                connection.delete_schedule(&schedule_name(&topic, number)).await?;
                            deleted.fetch_add(u64::from(was_there), Relaxed);
                        }
                        Ok(connection)
                    }
                })
                .await?;
                if deleted.load(Relaxed) == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The jobs of one step: how they are made, and the record of each.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub topic: String,
    pub due: Due,
    pub count: usize,
    pub ledger: Ledger,
    body: Box<RawValue>,
    ids: Ids,
}

/// How the number of a job is found in its id.
#[derive(Debug)]
enum Ids {
    /// The bench added it: `<topic>.<number>`.
    Added,
    /// A schedule added it: `cron:<topic>.<number>:<moment>.<suffix>`. So many schedules have a run at each of these moments.
    Runs { schedules: usize, moments: Vec<String> },
}

/// The name of a schedule that runs jobs of a topic.
pub(crate) fn schedule_name(topic: &str, number: usize) -> String {
    format!("{topic}.{number}")
}

impl Jobs {
    pub fn new(bench: &Bench, topic: &str, count: usize, due: Due) -> Arc<Self> {
        let (topic, body) = (topic.to_owned(), body_of(bench.load.body_bytes));
        Arc::new(Self { topic, due, count, ledger: Ledger::new(count), body, ids: Ids::Added })
    }

    /// The jobs that schedules 0 to `schedules` - 1 of a topic are to add at each of these moments, which are given by the
    /// server's clock and in microseconds by ours.
    pub fn of_runs(bench: &Bench, topic: &str, schedules: usize, moments: &[(Timestamp, i64)]) -> Arc<Self> {
        let (count, body) = (schedules * moments.len(), body_of(bench.load.body_bytes));
        let ledger = Ledger::new(count);
        for (run, (_, due_us)) in moments.iter().enumerate() {
            (0..schedules).for_each(|number| ledger.expect(run * schedules + number, *due_us));
        }
        let name = |(moment, _): &(Timestamp, i64)| moment.strftime("%Y%m%dT%H%M%SZ").to_string();
        let ids = Ids::Runs { schedules, moments: moments.iter().map(name).collect() };
        Arc::new(Self { topic: topic.to_owned(), due: Due::Now, count, ledger, body, ids })
    }

    /// The job of this number, which is about to be sent; records when it is due.
    pub fn next(&self, number: usize) -> NewJob {
        let now_us = now_us();
        let (due, due_us) = match self.due {
            Due::Now => (ClientDue::Delay(Duration::ZERO), now_us),
            Due::After { least_ms, spread_ms } => {
                let delay = Duration::from_millis(least_ms + rand::random_range(0..=spread_ms));
                (ClientDue::Delay(delay), now_us + i64::try_from(delay.as_micros()).unwrap_or(i64::MAX / 4))
            }
            Due::At { moment, due_us } => (ClientDue::At(moment), due_us),
        };
        self.ledger.expect(number, due_us);
        new_job(&self.topic, &number.to_string(), due, self.body.clone())
    }

    /// Records deliveries, and returns those to finish: not a doubled one, which another worker holds too.
    pub fn deliver(
        &self,
        bench: &Bench,
        jobs: Vec<ReservedJob>,
        mut record_late: impl FnMut(i64),
    ) -> Result<Vec<ReservedJob>, Failure> {
        let now_us = now_us();
        let mut to_finish = Vec::with_capacity(jobs.len());
        for job in jobs {
            let number = self.number(&job)?;
            match self.ledger.deliver(number, now_us, &bench.tally) {
                Some(Delivery::First { late_us }) => {
                    record_late(late_us);
                    to_finish.push(job);
                }
                Some(Delivery::Again) => to_finish.push(job),
                Some(Delivery::Doubled) => {}
                None => return Err(never_added(&job)),
            }
        }
        Ok(to_finish)
    }

    /// Finishes jobs; how long that took, in microseconds.
    pub async fn finish(
        &self,
        bench: &Bench,
        connection: &Connection,
        jobs: &[ReservedJob],
    ) -> Result<i64, Failure> {
        let start_us = now_us();
        connection.finish(jobs).await?;
        let end_us = now_us();
        let numbers = jobs.iter().map(|job| self.number(job)).collect::<Result<Vec<_>, _>>()?;
        self.ledger.finish(numbers.into_iter(), end_us);
        bench.progress.step(jobs.len());
        Ok(end_us - start_us)
    }

    fn number(&self, job: &ReservedJob) -> Result<usize, Failure> {
        self.number_of(&job.id).ok_or_else(|| never_added(job))
    }

    /// The number in a job's id; none if it is no job of this step.
    pub fn number_of(&self, id: &str) -> Option<usize> {
        let number = |id: &str| id.strip_prefix(&self.topic)?.strip_prefix('.')?.parse().ok();
        match &self.ids {
            Ids::Added => number(id),
            Ids::Runs { schedules, moments } => {
                let (name, run) = id.strip_prefix("cron:")?.rsplit_once(':')?;
                let (moment, _) = run.split_once('.')?;
                let run = moments.iter().position(|known| known == moment)?;
                number(name)
                    .filter(|number: &usize| number < schedules)
                    .map(|number| run * schedules + number)
            }
        }
    }
}

fn never_added(job: &ReservedJob) -> Failure {
    Failure::Unfit(format!("pop: job {} was never added", job.id))
}

/// A job of a bench: with an id made of topic and `name`, and a reservation that outlasts the bench.
pub(crate) fn new_job(topic: &str, name: &str, due: ClientDue, body: Box<RawValue>) -> NewJob {
    let job = NewJob::new(topic).id(format!("{topic}.{name}")).body(body);
    NewJob { due: Some(due), ttr: Some(TTR), ..job }
}

/// A body of this many bytes of JSON, at least two.
pub(crate) fn body_of(bytes: usize) -> Box<RawValue> {
    let text = format!("\"{}\"", "x".repeat(bytes.saturating_sub(2)));
    RawValue::from_string(text).expect("a string of letters is JSON")
}

/// Runs `work` on every connection at the same time, and returns the connections in no order. The first
/// failure ends all of them.
pub(crate) async fn run_on_all<F>(
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

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no code panics while it holds this")
}
