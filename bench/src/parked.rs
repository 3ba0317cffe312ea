//! Parked: the memory of a long poll that waits, the processor time of many that wait, and how soon a job
//! reaches one of them.

use std::{sync::Arc, time::Duration};

use linger_client::{Due as ClientDue, ReservedJob};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::sleep,
};

use crate::{
    calls::Connection,
    failure::Failure,
    now::now_us,
    plan::Due,
    report::Row,
    steps::{count_doubles, pause_after_empty_pop},
    times::{Times, per_second},
    watch::{Sample, grown},
    work::{Bench, Jobs, body_of, new_job},
};

const NAME: &str = "parked";

/// Most polls that are sent at a time.
const WAVE: usize = 500;

/// How long a poll waits; the most that the server allows.
const WAIT: Duration = Duration::from_secs(60);

/// How often the number of waiting polls is read.
const INTERVAL: Duration = Duration::from_millis(20);

/// A job that no poll gets for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How long the polls are kept after the last job.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// With `polls` polls that wait for `rest`, and then `jobs` jobs.
pub(crate) async fn run(
    bench: &Arc<Bench>,
    polls: usize,
    rest: Duration,
    jobs: usize,
) -> Result<(), Failure> {
    let topic = bench.new_topic().await?;
    let connection = Connection::new(&bench.server);
    // A topic exists only while it has a job, so it gets one that is not due.
    let anchor = ClientDue::Delay(Duration::from_secs(86_400));
    connection.add(&[new_job(&topic, "anchor", anchor, body_of(2))]).await?;
    let jobs = Jobs::new(bench, &topic, jobs, Due::Now);
    let (sender, mut arrivals) = unbounded_channel();
    let mut polling = Polling { bench: bench.clone(), jobs: jobs.clone(), tasks: JoinSet::new(), sender };

    let before = bench.sample();
    let begun_us = now_us();
    let parking = polling.park(polls, &connection);
    bench.progress.guard("polls to be parked", polls, Duration::ZERO, parking).await?;
    let parked = bench.sample();
    report_parked(bench, polls, now_us() - begun_us, &before, &parked);

    let begun_us = now_us();
    sleep(rest).await;
    report_waiting(bench, polls, now_us() - begun_us, &parked);

    let before = bench.sample();
    let name = "jobs to reach parked polls";
    let delivering = deliver_one_by_one(&jobs, &connection, &mut arrivals);
    let took = bench.progress.guard(name, jobs.count, Duration::ZERO, delivering).await?;
    let after = bench.sample();
    // A job that comes twice goes to another poll, which must still be there.
    sleep(AFTERWARDS).await;
    polling.tasks.shutdown().await;
    count_doubles(bench, &jobs, &connection).await?;
    jobs.ledger.close(&bench.tally);
    bench.push(Row {
        scenario: NAME,
        step: "job to a parked poll".to_owned(),
        delay: Due::Now.pattern(),
        count: jobs.count,
        latency_ms: took.percentiles(),
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..Row::default()
    });
    Ok(())
}

fn report_parked(bench: &Bench, polls: usize, elapsed_us: i64, before: &Sample, parked: &Sample) {
    let mut row = Row {
        scenario: NAME,
        step: "park polls".to_owned(),
        delay: Due::Now.pattern(),
        count: polls,
        per_second: Some(per_second(polls, elapsed_us)),
        cpu_us_per_job: parked.cpu_us_per(before, polls),
        resident_bytes: parked.resident_bytes,
        ..Row::default()
    };
    let memory = grown(parked.resident_bytes, before.resident_bytes, polls);
    row.annotate("memory_per_poll_bytes", memory, |bytes| {
        format!("{:.1} KiB of memory a poll", bytes / 1_024.0)
    });
    bench.push(row);
}

fn report_waiting(bench: &Bench, polls: usize, elapsed_us: i64, before: &Sample) {
    let after = bench.sample();
    let mut row = Row {
        scenario: NAME,
        step: "polls at rest".to_owned(),
        delay: Due::Now.pattern(),
        count: polls,
        resident_bytes: after.resident_bytes,
        ..Row::default()
    };
    row.annotate_cpu(after.cpu_percent(before, elapsed_us));
    bench.push(row);
}

/// A delivery to a poll, and when it arrived.
type Arrival = (Vec<ReservedJob>, i64);

/// Polls, each on a connection of its own.
struct Polling {
    bench: Arc<Bench>,
    jobs: Arc<Jobs>,
    tasks: JoinSet<Result<(), Failure>>,
    sender: UnboundedSender<Result<Arrival, Failure>>,
}

impl Polling {
    /// Parks polls in waves, each once the server counts all polls of the one before.
    async fn park(&mut self, polls: usize, connection: &Connection) -> Result<(), Failure> {
        let mut parked = 0;
        while parked < polls {
            let wave = WAVE.min(polls - parked);
            for _ in 0..wave {
                let (bench, jobs, sender) = (self.bench.clone(), self.jobs.clone(), self.sender.clone());
                self.tasks.spawn(async move {
                    // A failure is sent too, so that the bench does not wait for an arrival that cannot come.
                    if let Err(failure) = poll(&bench, &jobs, &sender).await {
                        let _ = sender.send(Err(failure));
                    }
                    Ok(())
                });
            }
            parked += wave;
            while connection.topic(&self.jobs.topic).await?.1 < parked {
                sleep(INTERVAL).await;
            }
            self.bench.progress.step(wave);
        }
        Ok(())
    }
}

/// Polls until it is aborted, finishes each job, and sends its arrival.
async fn poll(
    bench: &Bench,
    jobs: &Jobs,
    sender: &UnboundedSender<Result<Arrival, Failure>>,
) -> Result<(), Failure> {
    let connection = Connection::new(&bench.server);
    loop {
        let begun_us = now_us();
        let popped = connection.pop(&jobs.topic, 1, WAIT).await?;
        let now_us = now_us();
        if popped.is_empty() {
            pause_after_empty_pop(now_us - begun_us).await;
            continue;
        }
        let to_finish = jobs.deliver(bench, popped, |_| {})?;
        if !to_finish.is_empty() {
            jobs.finish(bench, &connection, &to_finish).await?;
            let _ = sender.send(Ok((to_finish, now_us)));
        }
    }
}

/// Adds jobs one by one, each when the one before was finished; the times from add to arrival.
async fn deliver_one_by_one(
    jobs: &Jobs,
    connection: &Connection,
    arrivals: &mut UnboundedReceiver<Result<Arrival, Failure>>,
) -> Result<Times, Failure> {
    let times = Times::new();
    for number in 0..jobs.count {
        let sent_us = now_us();
        connection.add(&[jobs.next(number)]).await?;
        jobs.ledger.taken(1);
        tokio::select! {
            arrival = arrivals.recv() => {
                let Some(arrival) = arrival else { break };
                times.record(arrival?.1 - sent_us);
            }
            // Lost, unless it comes at the very end.
            () = sleep(LOST_AFTER) => break,
        }
    }
    Ok(times)
}
