//! One client for all: drives Linger, beanstalkd or the server that stores nothing over keep-alive connections, one
//! request at a time on each, and prints one line of JSON. The cost of its own is the same for each of them.

mod beanstalkd;
mod connection;
mod http;
mod late;
mod process;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use connection::{Connection, Failure};

/// Drives a server, and prints what it saw as JSON.
#[derive(Debug, Clone, Parser)]
struct Options {
    /// What the server is.
    #[arg(long)]
    peer: Kind,
    /// Where it listens; several share the connections.
    #[arg(long, required = true, num_args = 1..)]
    address: Vec<SocketAddr>,
    /// Its processes, whose processor time and memory are told.
    #[arg(long, num_args = 0..)]
    pid: Vec<u32>,
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
    /// Random delays (Linger only): so many seconds more at most, each as likely as the other, by the job's number.
    #[arg(long, default_value_t = 0)]
    spread: u32,
    /// Enough for the number that beanstalkd's begin with.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(20..))]
    body_bytes: u32,
    /// Topics that the jobs are spread over, one job to a request.
    #[arg(long, default_value_t = 1)]
    topics: usize,
    /// Jobs that are added in a second, where lateness is measured.
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
    /// Holds a long poll on every connection.
    Parked,
    /// Adds evenly while others poll, and tells how long after their due moment jobs come.
    Late,
}

/// What a connection does in a step.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add,
    Drain,
    Empty,
}

/// A step of all connections together, whose processor time counts from `before_us` on.
async fn step(options: &Arc<Options>, step: Step, jobs: usize, before_us: u64) -> Result<Value, Failure> {
    let mut connections = Vec::new();
    for number in 0..options.connections {
        connections.push(Connection::open(options.address[number % options.address.len()]).await?);
    }
    let began = Instant::now();
    let mut work = JoinSet::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        let options = options.clone();
        work.spawn_local(async move {
            let mut times = Histogram::<u64>::new(3)?;
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
                times.record(u64::try_from(sent.elapsed().as_micros())?)?;
                if got == 0 {
                    break;
                }
                done += got;
            }
            Ok::<_, Failure>((done, times))
        });
    }
    let (mut done, mut times) = (0, Histogram::<u64>::new(3)?);
    while let Some(ended) = work.join_next().await {
        let (own, of) = ended??;
        done += own;
        times.add(&of)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu_us = process::cpu_us(&options.pid) - before_us;
    Ok(json!({
        "jobs": done,
        "missing": jobs - done,
        "per_second": done as f64 / seconds,
        "cpu_us": cpu_us as f64 / done.max(1) as f64,
        "p50_ms": times.value_at_quantile(0.5) as f64 / 1e3,
        "p99_ms": times.value_at_quantile(0.99) as f64 / 1e3,
        "resident_bytes": process::resident_bytes(&options.pid),
    }))
}

/// Holds polls for a few seconds, and tells what they cost.
async fn parked(options: &Options) -> Result<Value, Failure> {
    let before = process::resident_bytes(&options.pid);
    let mut held = Vec::new();
    for number in 0..options.connections {
        let mut connection = Connection::open(options.address[number % options.address.len()]).await?;
        http::hold(&mut connection, options.peer == Kind::Bare).await?;
        held.push(connection);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (resting_us, began) = (process::cpu_us(&options.pid), Instant::now());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cpu_us = process::cpu_us(&options.pid) - resting_us;
    let after = process::resident_bytes(&options.pid);
    Ok(json!({
        "connections": held.len(),
        "bytes_each": after.saturating_sub(before) as f64 / held.len().max(1) as f64,
        "cores": cpu_us as f64 / began.elapsed().as_micros() as f64,
    }))
}

async fn run(options: Arc<Options>) -> Result<Value, Failure> {
    let cpu_us = || process::cpu_us(&options.pid);
    match options.what {
        What::Parked => parked(&options).await,
        What::Late => late::run(&options).await,
        What::Add => step(&options, Step::Add, options.jobs, cpu_us()).await,
        What::Empty => step(&options, Step::Empty, options.jobs, cpu_us()).await,
        What::Throughput => {
            let (began, delay) = (Instant::now(), Duration::from_secs(options.delay.into()));
            let add = step(&options, Step::Add, options.jobs, cpu_us()).await?;
            if began.elapsed() >= delay {
                return Ok(
                    json!({ "too_slow": "adding took longer than the delay: jobs became due meanwhile" }),
                );
            }
            // A job's becoming due belongs to its way out.
            let added_us = cpu_us();
            tokio::time::sleep(delay + Duration::from_secs(1 + u64::from(options.spread))).await;
            let drain = step(&options, Step::Drain, options.jobs, added_us).await?;
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
    let ran = tokio::task::LocalSet::new().run_until(run(options)).await?;
    println!("{ran}");
    Ok(())
}
