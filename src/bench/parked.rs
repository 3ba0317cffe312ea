//! Parked: long polls that wait for nothing, what each of them takes in memory, what all of them take of a
//! processor while they rest, and how soon a job reaches one of them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};

use super::{
    Failure,
    calls::{Delivered, When, job_text},
    client::Connection,
    figures::{Times, per_second},
    ledger::TTR,
    plan::Due,
    report::Row,
    steps::{look_again, rest},
    watch::{Sample, grown},
    work::{Bench, Jobs, body_of},
};

const NAME: &str = "parked";

/// Most polls that are parked at a time, so that the server is not met by all of them at once.
const WAVE: usize = 500;

/// How long a poll waits; the most that the server allows.
const WAIT: Duration = Duration::from_secs(60);

/// How often the server is asked how many polls wait.
const LOOK: Duration = Duration::from_millis(20);

/// Past this a job that no poll got is lost.
const HOPE: Duration = Duration::from_secs(10);

/// How long the polls are kept after the last job.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// With `polls` polls that rest for `resting`, and then `jobs` jobs.
pub(super) async fn run(
    bench: &Arc<Bench>,
    polls: usize,
    resting: Duration,
    jobs: usize,
) -> Result<(), Failure> {
    let topic = bench.new_topic().await?;
    let mut connection = Connection::new(&bench.peer);
    // The server shows a topic while it has a job, so it gets one that is out of the way.
    let anchor = When::In(Duration::from_secs(86_400));
    connection.add(&[job_text(&topic, &format!("{topic}.anchor"), TTR, anchor, &body_of(2))]).await?;
    let jobs = Jobs::new(bench, &topic, jobs, Due::Now);
    let (told, mut arrivals) = unbounded_channel();
    let mut polling = Polling { bench: bench.clone(), jobs: jobs.clone(), tasks: JoinSet::new(), told };

    let before = bench.look();
    let begun_us = bench.clock.now_micros();
    let parking = polling.park(polls, &mut connection);
    bench.progress.guard(bench.clock.as_ref(), "polls to be parked", polls, Duration::ZERO, parking).await?;
    let parked = bench.look();
    report_parked(bench, polls, bench.clock.now_micros() - begun_us, &before, &parked);

    let begun_us = bench.clock.now_micros();
    bench.clock.sleep(resting).await;
    report_rest(bench, polls, bench.clock.now_micros() - begun_us, &parked);

    let before = bench.look();
    let name = "jobs to reach parked polls";
    let giving = give(bench, &jobs, &mut connection, &mut arrivals);
    let took = bench.progress.guard(bench.clock.as_ref(), name, jobs.count, Duration::ZERO, giving).await?;
    let after = bench.look();
    // One that comes twice goes to another poll, which must be there to see it.
    bench.clock.sleep(AFTERWARDS).await;
    polling.tasks.shutdown().await;
    look_again(bench, &jobs, &mut connection).await?;
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
    row.note("memory_per_poll_bytes", memory, |bytes| format!("{:.1} KiB of memory a poll", bytes / 1_024.0));
    bench.push(row);
}

fn report_rest(bench: &Bench, polls: usize, elapsed_us: i64, before: &Sample) {
    let after = bench.look();
    let mut row = Row {
        scenario: NAME,
        step: "polls at rest".to_owned(),
        delay: Due::Now.pattern(),
        count: polls,
        resident_bytes: after.resident_bytes,
        ..Row::default()
    };
    let spent_us = after.cpu_us_per(before, 1);
    let share = spent_us.map(|spent_us| spent_us * 100.0 / elapsed_us.max(1) as f64);
    row.note("cpu_percent", share, |percent| format!("{percent:.2} % of a processor"));
    bench.push(row);
}

/// A delivery to some poll, with its moment.
type Arrival = (Vec<Delivered>, i64);

/// Polls, each on a connection of its own.
struct Polling {
    bench: Arc<Bench>,
    jobs: Arc<Jobs>,
    tasks: JoinSet<Result<(), Failure>>,
    told: UnboundedSender<Result<Arrival, Failure>>,
}

impl Polling {
    /// Parks polls in waves, each once the server says that the one before is parked.
    async fn park(&mut self, polls: usize, connection: &mut Connection) -> Result<(), Failure> {
        let mut parked = 0;
        while parked < polls {
            let wave = WAVE.min(polls - parked);
            for _ in 0..wave {
                let (bench, jobs, told) = (self.bench.clone(), self.jobs.clone(), self.told.clone());
                self.tasks.spawn(async move {
                    // Told, too: whoever waits for an arrival must not wait for one that cannot come.
                    if let Err(failure) = poll(&bench, &jobs, &told).await {
                        let _ = told.send(Err(failure));
                    }
                    Ok(())
                });
            }
            parked += wave;
            while connection.topic(&self.jobs.topic).await?.waiting < parked {
                self.bench.clock.sleep(LOOK).await;
            }
            self.bench.progress.step(wave);
        }
        Ok(())
    }
}

/// Polls until it is aborted; tells of what came, and finishes it.
async fn poll(
    bench: &Bench,
    jobs: &Jobs,
    told: &UnboundedSender<Result<Arrival, Failure>>,
) -> Result<(), Failure> {
    let mut connection = Connection::new(&bench.peer);
    loop {
        let begun_us = bench.clock.now_micros();
        let popped = connection.pop(&jobs.topic, 1, WAIT).await?;
        let now_us = bench.clock.now_micros();
        if popped.is_empty() {
            rest(bench, now_us - begun_us).await;
            continue;
        }
        let to_finish = jobs.deliver(bench, popped, |_, _| {})?;
        if !to_finish.is_empty() {
            jobs.finish(bench, &mut connection, &to_finish).await?;
            let _ = told.send(Ok((to_finish, now_us)));
        }
    }
}

/// Adds jobs one by one, each when the one before was finished; how long each took to a poll.
async fn give(
    bench: &Bench,
    jobs: &Jobs,
    connection: &mut Connection,
    arrivals: &mut UnboundedReceiver<Result<Arrival, Failure>>,
) -> Result<Times, Failure> {
    let times = Times::new();
    for number in 0..jobs.count {
        let sent_us = bench.clock.now_micros();
        connection.add(&[jobs.write(number, bench.clock.as_ref())]).await?;
        jobs.ledger.taken(1);
        tokio::select! {
            arrival = arrivals.recv() => {
                let Some(arrival) = arrival else { break };
                times.record(arrival?.1 - sent_us);
            }
            // Lost, unless it comes at the very end.
            () = bench.clock.sleep(HOPE) => break,
        }
    }
    Ok(times)
}
