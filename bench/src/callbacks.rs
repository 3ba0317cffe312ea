//! Callbacks: what a call costs beside a pop and a bare client, how soon it comes, and what endpoints that hang or are slow
//! do to the others. The server calls endpoints of this process, so it has to run on this machine.

use std::{sync::Arc, time::Duration};

use linger_client::ReservedJob;
use tokio::time::sleep;

use crate::{
    calls::Connection,
    failure::Failure,
    lateness::{self, add_all_evenly},
    now::now_us,
    plan::{Due, Load},
    receiver::{Answering, Called, Receiver, send_bare},
    report::Row,
    rest::rest,
    steps::{add_all, drain},
    times::{Percentiles, Times, per_second},
    watch::grown,
    work::{Bench, Jobs, body_of, run_on_all},
};

const NAME: &str = "callbacks";

/// Connections beside those of the adders and pollers: the calls by default (`callbacks.max_calls`), some that are left of
/// the step before, and both ends of the bare client's.
pub(crate) const CONNECTIONS: usize = 2_048;

/// How many endpoints hang when several do.
const HANGING: usize = 20;

/// How many endpoints hang to measure the memory of their calls: nearly as many calls as there may be, with so many jobs that
/// none of them waits.
const FOR_MEMORY: usize = 60;
const JOBS_FOR_MEMORY: usize = 8;

/// How long the slow endpoint takes.
const SLOW: Duration = Duration::from_secs(1);

/// How often the state of a step is looked up.
const INTERVAL: Duration = Duration::from_millis(20);

/// Pause between two jobs that are popped beside the slow endpoint.
const BEAT: Duration = Duration::from_millis(5);

/// Jobs in a request where adding is not measured.
const BATCH: usize = 100;

/// How much of everything.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Jobs of which the cost is measured.
    jobs: usize,
    /// Jobs that are due for endpoints that hang or are slow.
    backlog: usize,
    /// Topics at rest.
    topics: usize,
    /// Jobs a second, half as many beside endpoints that hang.
    rate: usize,
    seconds: usize,
}

impl Sizes {
    pub fn new(load: &Load) -> Self {
        let seconds = usize::try_from(load.seconds.unwrap_or(10)).unwrap_or(usize::MAX);
        Self {
            jobs: load.jobs.unwrap_or(20_000),
            backlog: load.jobs.unwrap_or(100_000),
            topics: load.jobs.unwrap_or(10_000),
            rate: load.rate,
            seconds,
        }
    }
}

/// Measures all of it, with these sizes.
pub(crate) async fn run(bench: &Arc<Bench>, sizes: &Sizes) -> Result<(), Failure> {
    // First, since later steps leave memory behind that would be used again.
    measure_memory(bench).await?;
    measure_cost(bench, sizes.jobs).await?;

    let polled = lateness::run(bench, NAME, sizes.rate * sizes.seconds, sizes.rate).await?;
    let mut row = call_evenly(bench, "called after due", sizes.rate, sizes.seconds).await?;
    annotate_p99(&mut row, "polls", polled);
    bench.push(row);

    let rate = (sizes.rate / 2).max(1);
    let alone = call_evenly(bench, "called after due, alone", rate, sizes.seconds).await?;
    let alone_late = alone.latency_ms;
    bench.push(alone);
    for hosts in [1, HANGING] {
        let (hanging, _) = Hanging::start(bench, hosts, sizes.backlog).await?;
        let mut row = call_evenly(bench, &format!("beside {hosts} that hang"), rate, sizes.seconds).await?;
        annotate_p99(&mut row, "alone", alone_late);
        annotate_hanging(&mut row, &hanging);
        bench.push(row);
        hanging.stop().await?;
    }
    measure_slow_endpoint(bench, sizes).await?;
    bench.clean_up().await?;
    measure_rest(bench, sizes).await
}

fn row(step: &str, count: usize) -> Row {
    Row { scenario: NAME, step: step.to_owned(), delay: Due::Now.pattern(), count, ..Row::default() }
}

/// Adds the p99 of a row as a multiple of that of another one.
fn annotate_p99(row: &mut Row, name: &str, other: Option<Percentiles>) {
    let ratio = row.latency_ms.zip(other).map(|(this, other)| this.p99 / other.p99);
    row.annotate(&format!("p99_against_{name}"), ratio, |ratio| format!("p99 {ratio:.2}x of {name}"));
}

fn annotate_hanging(row: &mut Row, hanging: &Hanging) {
    let calls = hanging.in_progress() as f64;
    row.annotate("hanging_calls", Some(calls), |calls| format!("{calls} calls hang"));
}

/// Calls that hang: the memory of each.
async fn measure_memory(bench: &Arc<Bench>) -> Result<(), Failure> {
    let jobs = FOR_MEMORY * JOBS_FOR_MEMORY;
    let (hanging, grown) = Hanging::start(bench, FOR_MEMORY, jobs).await?;
    let mut row = Row { resident_bytes: bench.sample().resident_bytes, ..row("hanging calls", jobs) };
    let calls = hanging.in_progress().max(1) as f64;
    annotate_hanging(&mut row, &hanging);
    row.annotate("memory_per_call_bytes", grown.map(|bytes| bytes / calls), |bytes| {
        format!("{:.1} KiB of memory for each", bytes / 1_024.0)
    });
    bench.push(row);
    hanging.stop().await
}

/// A bare client's requests, pops with finishes, and calls, one after the other.
async fn measure_cost(bench: &Arc<Bench>, count: usize) -> Result<(), Failure> {
    let connections = bench.load.connections();
    let receiver = Receiver::start(Answering::AtOnce, None).await?;
    let body = body_of(bench.load.body_bytes).get().to_owned();
    let sent = send_bare(receiver.address, count, connections, body).await?;
    let bare_us = sent.cpu_us.map(|cpu_us| cpu_us / count.max(1) as f64);
    let bare_rate = per_second(count, sent.elapsed_us);
    bench.push(Row { per_second: Some(bare_rate), cpu_us_per_job: bare_us, ..row("bare POST", count) });

    let jobs = add_ready(bench, count).await?;
    let pollers = bench.open(connections).await?;
    let before = bench.sample();
    let drained = drain(bench, &jobs, 1, pollers, Duration::ZERO).await?;
    let popped_us = bench.sample().cpu_us_per(&before, count);
    bench.push(Row {
        per_second: Some(per_second(count, drained.elapsed_us)),
        cpu_us_per_job: popped_us,
        ..row("pop and finish", count)
    });

    let called = Called::new(bench, add_ready(bench, count).await?);
    let receiver = Receiver::start(Answering::AtOnce, Some(called.clone())).await?;
    let (before, begun_us) = (bench.sample(), now_us());
    bench.set_callback(&Connection::new(&bench.server), &called.jobs.topic, &receiver.url()).await?;
    wait_until_called(bench, &called, Duration::ZERO).await?;
    let after = bench.sample();
    let (called_us, rate) =
        (after.cpu_us_per(&before, count), per_second(count, called.first_last_us().1 - begun_us));
    let mut row = Row {
        per_second: Some(rate),
        cpu_us_per_job: called_us,
        resident_bytes: after.resident_bytes,
        ..row("call", count)
    };
    let against = |other_us: Option<f64>| called_us.zip(other_us).map(|(called, other)| called / other);
    row.annotate("cpu_against_bare", against(bare_us), |ratio| format!("CPU {ratio:.2}x of bare"));
    row.annotate("cpu_against_pop", against(popped_us), |ratio| format!("{ratio:.2}x of pop and finish"));
    row.annotate("rate_against_bare", Some(rate / bare_rate), |ratio| format!("rate {ratio:.2}x of bare"));
    bench.push(row);
    Ok(())
}

/// A topic with jobs that are ready.
async fn add_ready(bench: &Arc<Bench>, count: usize) -> Result<Arc<Jobs>, Failure> {
    let jobs = Jobs::new(bench, &bench.new_topic().await?, count, Due::Now);
    let connections = bench.open(bench.load.connections()).await?;
    add_all(bench, &jobs, BATCH, connections).await?;
    Ok(jobs)
}

/// Waits until every job was called and its call is settled, or the rest is lost, and closes the ledger.
async fn wait_until_called(bench: &Arc<Bench>, called: &Called, idle: Duration) -> Result<(), Failure> {
    let (jobs, connection) = (&called.jobs, Connection::new(&bench.server));
    let waiting = async {
        while !called.is_complete() && !jobs.ledger.are_missing_lost(now_us()) {
            sleep(INTERVAL).await;
        }
        while called.is_complete() && connection.topic(&jobs.topic).await?.0.reserved > 0 {
            sleep(INTERVAL).await;
        }
        Ok(())
    };
    bench.progress.guard("jobs to be called", jobs.count, idle, waiting).await?;
    jobs.ledger.close(&bench.tally);
    Ok(())
}

/// Adds jobs evenly to a topic with a good endpoint, and measures how long after their due time they are called.
async fn call_evenly(bench: &Arc<Bench>, step: &str, rate: usize, seconds: usize) -> Result<Row, Failure> {
    let due = Due::after(bench.load.delay, 1_000, 1_000, 2_000);
    let jobs = Jobs::new(bench, &bench.new_topic().await?, rate * seconds, due);
    let called = Called::new(bench, jobs.clone());
    let receiver = Receiver::start(Answering::AtOnce, Some(called.clone())).await?;
    bench.set_callback(&Connection::new(&bench.server), &jobs.topic, &receiver.url()).await?;
    let adders = bench.open(bench.load.connections()).await?;
    let (before, begun_us) = (bench.sample(), now_us());
    let waiting = wait_until_called(bench, &called, due.longest(begun_us));
    tokio::try_join!(add_all_evenly(&jobs, rate, adders), waiting)?;
    let (after, (first_us, last_us)) = (bench.sample(), called.first_last_us());
    Ok(Row {
        delay: due.pattern(),
        per_second: Some(per_second(jobs.count, last_us - first_us)),
        latency_ms: called.late.percentiles(),
        cpu_us_per_job: after.cpu_us_per(&before, jobs.count),
        resident_bytes: after.resident_bytes,
        ..row(&format!("{step}, {rate}/s"), jobs.count)
    })
}

/// Endpoints that never answer, each of a topic with ready jobs.
struct Hanging {
    bench: Arc<Bench>,
    receivers: Vec<Receiver>,
    topics: Vec<String>,
}

impl Hanging {
    /// Starts `hosts` endpoints with `backlog` jobs in all, and waits until no more calls begin. Also returns by how many
    /// bytes the memory grew meanwhile.
    async fn start(bench: &Arc<Bench>, hosts: usize, backlog: usize) -> Result<(Self, Option<f64>), Failure> {
        let mut hanging = Self { bench: bench.clone(), receivers: Vec::new(), topics: Vec::new() };
        for _ in 0..hosts {
            hanging.topics.push(add_ready(bench, (backlog / hosts).max(1)).await?.topic.clone());
            hanging.receivers.push(Receiver::start(Answering::Never, None).await?);
        }
        let (connection, before) = (Connection::new(&bench.server), bench.sample());
        for (topic, receiver) in hanging.topics.iter().zip(&hanging.receivers) {
            bench.set_callback(&connection, topic, &receiver.url()).await?;
        }
        let mut calls = 0;
        loop {
            sleep(INTERVAL * 10).await;
            let now = hanging.in_progress();
            if now > 0 && now == calls {
                break;
            }
            calls = now;
        }
        let memory = grown(bench.sample().resident_bytes, before.resident_bytes, 1);
        Ok((hanging, memory))
    }

    fn in_progress(&self) -> usize {
        self.receivers.iter().map(Receiver::in_progress).sum()
    }

    /// Removes the URLs of the topics, so that the server makes no more calls, and closes the connections.
    async fn stop(self) -> Result<(), Failure> {
        let connection = Connection::new(&self.bench.server);
        for topic in &self.topics {
            connection.set_callback(topic, None).await?;
        }
        Ok(())
    }
}

/// Many jobs that are due for an endpoint that takes a second: how many are reserved, and what pops of another topic notice.
async fn measure_slow_endpoint(bench: &Arc<Bench>, sizes: &Sizes) -> Result<(), Failure> {
    let slow = add_ready(bench, sizes.backlog).await?;
    let beats = sizes.seconds * 100;
    let calm = pop_beside(bench, beats, None).await?.0.percentiles();
    let receiver = Receiver::start(Answering::After(SLOW), None).await?;
    bench.set_callback(&Connection::new(&bench.server), &slow.topic, &receiver.url()).await?;
    let (times, reserved) = pop_beside(bench, beats, Some(&slow.topic)).await?;
    bench.push(Row { latency_ms: calm, ..row("pop before", beats) });
    let mut row = Row { latency_ms: times.percentiles(), ..row("pop beside a slow endpoint", beats) };
    let more = row.latency_ms.zip(calm).map(|(beside, calm)| beside.p99 - calm.p99);
    row.annotate("p99_more_ms", more, |ms| format!("p99 {ms:+.2} ms"));
    row.annotate("reserved", Some(reserved as f64), |jobs| {
        format!("at most {jobs} of {} jobs reserved, {} called", slow.count, receiver.most_in_progress())
    });
    bench.push(row);
    Connection::new(&bench.server).set_callback(&slow.topic, None).await
}

/// Adds, pops and finishes jobs one by one. Returns the times of pops, and the most reserved jobs of `watched`.
async fn pop_beside(
    bench: &Arc<Bench>,
    count: usize,
    watched: Option<&str>,
) -> Result<(Times, u64), Failure> {
    let jobs = Jobs::new(bench, &bench.new_topic().await?, count, Due::Now);
    let (connection, times, mut reserved) = (Connection::new(&bench.server), Times::new(), 0);
    let working = async {
        for number in 0..count {
            connection.add(&[jobs.next(number)]).await?;
            jobs.ledger.taken(1);
            let begun_us = now_us();
            let popped = pop_one(&jobs, &connection).await?;
            times.record(now_us() - begun_us);
            let to_finish = jobs.deliver(bench, popped, |_| {})?;
            if !to_finish.is_empty() {
                jobs.finish(bench, &connection, &to_finish).await?;
            }
            if let Some(topic) = watched {
                reserved = reserved.max(connection.topic(topic).await?.0.reserved);
            }
            sleep(BEAT).await;
        }
        Ok(())
    };
    bench.progress.guard("jobs to be popped", count, Duration::ZERO, working).await?;
    jobs.ledger.close(&bench.tally);
    Ok((times, reserved))
}

/// Pops the job that is there. A pop at a server that stands still for longer than the pop waits brings none.
async fn pop_one(jobs: &Jobs, connection: &Connection) -> Result<Vec<ReservedJob>, Failure> {
    loop {
        let popped = connection.pop(&jobs.topic, 1, SLOW).await?;
        if !popped.is_empty() {
            return Ok(popped);
        }
    }
}

/// Topics with callbacks and without jobs: what they cost at rest.
async fn measure_rest(bench: &Arc<Bench>, sizes: &Sizes) -> Result<(), Failure> {
    let time = Duration::from_secs(u64::try_from(sizes.seconds).unwrap_or(u64::MAX));
    bench.push(rest(bench, row("at rest, no topics", 0), time).await?);
    let prefix = bench.new_topic().await?;
    let receiver = Receiver::start(Answering::AtOnce, None).await?;
    let connections = bench.open(bench.load.connections()).await?;
    let share = connections.len();
    run_on_all(connections, |index, connection| {
        let (bench, prefix, url, topics) = (bench.clone(), prefix.clone(), receiver.url(), sizes.topics);
        async move {
            for number in (index..topics).step_by(share) {
                bench.set_callback(&connection, &format!("{prefix}-{number}"), &url).await?;
            }
            Ok(connection)
        }
    })
    .await?;
    bench.push(rest(bench, row("topics at rest", sizes.topics), time).await?);
    Ok(())
}
