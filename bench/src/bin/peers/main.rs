//! One client for all servers that are compared: drives Linger, beanstalkd or the server that stores nothing over
//! keep-alive connections, one request at a time on each, and prints one line of JSON. Its own cost is the same for
//! each of them, which is why Linger is driven by bytes here, too, and not by the client library.
#![forbid(unsafe_code)]

mod beanstalkd;
mod connection;
mod http;
mod late;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::{Parser, ValueEnum};
use linger_bench::{Sample, Times, Watch};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use connection::{Connection, Failure};

/// Drives a server, and prints what it measured as JSON.
#[derive(Debug, Clone, Parser)]
struct Options {
    /// What the server is.
    #[arg(long)]
    peer: Kind,
    /// Where it listens; several share the connections.
    #[arg(long, required = true, num_args = 1..)]
    address: Vec<SocketAddr>,
    /// Its processes, whose processor time and memory are measured.
    #[arg(long, num_args = 0..)]
    pid: Vec<u32>,
    /// Its directory, whose disk space is measured.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// What to do.
    #[arg(long)]
    what: What,
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// Number of the first job, so that jobs added before keep their ids.
    #[arg(long, default_value_t = 0)]
    first: usize,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Jobs in a request; for beanstalkd, which has no batches, requests that are sent before the first answer
    /// is read.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Delay of every job in seconds: long enough that none is due while others are still added.
    #[arg(long, default_value_t = 8)]
    delay: u32,
    /// Random delays (Linger only): up to so many seconds more, evenly distributed, by the job's number.
    #[arg(long, default_value_t = 0)]
    spread: u32,
    /// At least the length of the number that a body for beanstalkd begins with.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(20..))]
    body_bytes: u32,
    /// Topics that the jobs are spread over, one job to a request.
    #[arg(long, default_value_t = 1)]
    topics: usize,
    /// Jobs that are added per second, where lateness is measured.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Linger,
    Beanstalkd,
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Adds all jobs, waits until they are due, pops and finishes them.
    Throughput,
    /// Adds only.
    Add,
    /// Pops of an empty topic.
    Empty,
    /// Keeps a long poll waiting on every connection.
    Parked,
    /// Adds evenly while others poll, and measures how long after their due time jobs are delivered.
    Late,
}

impl Options {
    fn sample(&self) -> Sample {
        Watch { pids: self.pid.clone(), directory: self.directory.clone() }.sample()
    }

    async fn connect(&self, number: usize) -> Result<Connection, Failure> {
        Connection::open(self.address[number % self.address.len()]).await
    }
}

/// What a connection does in a step.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add,
    Drain,
    Empty,
}

/// Runs a step on all connections together; its processor time counts from `before` on.
async fn step(options: &Arc<Options>, step: Step, jobs: usize, before: Sample) -> Result<Value, Failure> {
    let mut connections = Vec::new();
    for number in 0..options.connections {
        connections.push(options.connect(number).await?);
    }
    let (times, start) = (Arc::new(Times::new()), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        let (options, times) = (options.clone(), times.clone());
        tasks.spawn_local(async move {
            let share = (number..jobs).step_by(options.connections).len();
            let mut done = 0;
            while done < share {
                let first = options.first + done * options.connections + number;
                let count = options.batch.min(share - done);
                let sent = Instant::now();
                let got = match (step, options.peer) {
                    (Step::Add, Kind::Beanstalkd) => {
                        beanstalkd::add(&mut connection, &options, first, count).await?
                    }
                    (Step::Add, _) => http::add(&mut connection, &options, first, count).await?,
                    (Step::Drain, Kind::Beanstalkd) => beanstalkd::drain(&mut connection, count).await?,
                    (Step::Drain, _) => http::drain(&mut connection, &options, first, count).await?,
                    (Step::Empty, _) => http::empty(&mut connection).await?,
                };
                times.record(i64::try_from(sent.elapsed().as_micros())?);
                if got == 0 {
                    break;
                }
                done += got;
            }
            Ok::<_, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = tasks.join_next().await {
        done += ended??;
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), options.sample());
    let percentiles = times.percentiles();
    Ok(json!({
        "jobs": done,
        "missing": jobs - done,
        "per_second": done as f64 / seconds,
        "cpu_us": after.cpu_us_per(&before, done),
        "p50_ms": percentiles.map(|times| times.p50),
        "p99_ms": percentiles.map(|times| times.p99),
        "resident_before_bytes": before.resident_bytes,
        "resident_bytes": after.resident_bytes,
        "disk_bytes": after.disk_bytes,
    }))
}

/// Keeps polls waiting for some seconds, and measures what they cost.
async fn parked(options: &Options) -> Result<Value, Failure> {
    let before = options.sample();
    let mut polls = Vec::new();
    for number in 0..options.connections {
        let mut connection = options.connect(number).await?;
        http::send_poll(&mut connection, options.peer == Kind::Bare).await?;
        polls.push(connection);
    }
    sleep(Duration::from_secs(2)).await;
    let (waiting, start) = (options.sample(), Instant::now());
    sleep(Duration::from_secs(5)).await;
    let after = options.sample();
    let grown = after.resident_bytes.unwrap_or(0).saturating_sub(before.resident_bytes.unwrap_or(0));
    Ok(json!({
        "connections": polls.len(),
        "bytes_each": grown as f64 / polls.len().max(1) as f64,
        "cores": after.cpu_us_per(&waiting, 1).unwrap_or(0.0) / start.elapsed().as_micros() as f64,
    }))
}

async fn run(options: Arc<Options>) -> Result<Value, Failure> {
    match options.what {
        What::Parked => parked(&options).await,
        What::Late => late::run(&options).await,
        What::Add => step(&options, Step::Add, options.jobs, options.sample()).await,
        What::Empty => step(&options, Step::Empty, options.jobs, options.sample()).await,
        What::Throughput => {
            let (start, delay) = (Instant::now(), Duration::from_secs(options.delay.into()));
            let add = step(&options, Step::Add, options.jobs, options.sample()).await?;
            if start.elapsed() >= delay {
                return Ok(
                    json!({ "too_slow": "adding took longer than the delay: jobs became due meanwhile" }),
                );
            }
            // The drain's processor time includes the jobs becoming due.
            let added = options.sample();
            sleep(delay + Duration::from_secs(1 + u64::from(options.spread))).await;
            let drain = step(&options, Step::Drain, options.jobs, added).await?;
            Ok(json!({ "add": add, "drain": drain }))
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let options = Arc::new(Options::parse());
    if options.spread > 0 && options.peer != Kind::Linger {
        return Err("random delays are for Linger".into());
    }
    let measured = tokio::task::LocalSet::new().run_until(run(options)).await?;
    println!("{measured}");
    Ok(())
}
