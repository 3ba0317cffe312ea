//! How long after its due time a job is delivered: jobs are added evenly while others poll. A job is due at the
//! moment just before its request was sent plus the delay, so a delivery before that is early whatever the server's
//! clock says. Jobs that do not come, or come twice, are counted by the ledger of the bench.

use std::{cell::Cell, rc::Rc, time::Duration};

use linger_bench::{Delivery, Ledger, Tally, Times, now_us};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    Kind, Options, beanstalkd,
    connection::{Connection, Failure},
    http,
};

/// After so long without a job the missing ones are taken for lost.
const PATIENCE: Duration = Duration::from_secs(5);

struct Late {
    options: Options,
    start: Instant,
    /// The next job to add.
    next: Cell<usize>,
    delivered: Cell<usize>,
    ledger: Ledger,
    tally: Tally,
    times: Times,
}

/// Adds `options.jobs` jobs, `options.rate` a second, on as many connections as poll.
///
/// # Errors
/// What the server refuses, and options that make no sense here.
pub async fn run(options: &Options) -> Result<Value, Failure> {
    if options.topics != 1 || options.first != 0 {
        return Err("lateness is measured on one topic and from the first job on".into());
    }
    let mut connections = Vec::new();
    for number in 0..options.connections {
        connections.push((options.connect(number).await?, options.connect(number).await?));
    }
    let late = Rc::new(Late {
        options: options.clone(),
        start: Instant::now(),
        next: Cell::default(),
        delivered: Cell::default(),
        ledger: Ledger::new(options.jobs),
        tally: Tally::default(),
        times: Times::new(),
    });
    let before = options.sample();
    let mut tasks = JoinSet::new();
    for (adding, polling) in connections {
        tasks.spawn_local(late.clone().add(adding));
        tasks.spawn_local(late.clone().poll(polling));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    late.ledger.close(&late.tally);
    let (totals, times) = (late.tally.totals(), late.times.percentiles());
    Ok(json!({
        "jobs": late.delivered.get(),
        "missing": totals.lost,
        "early": totals.early,
        "doubled": totals.doubled,
        "p50_ms": times.map(|times| times.p50),
        "p99_ms": times.map(|times| times.p99),
        "max_ms": times.map(|times| times.max),
        "cpu_us": options.sample().cpu_us_per(&before, late.delivered.get()),
    }))
}

impl Late {
    /// Adds the next job at its time, until all are added.
    async fn add(self: Rc<Self>, mut connection: Connection) -> Result<(), Failure> {
        let gap = Duration::from_secs(1) / self.options.rate;
        loop {
            let number = self.next.replace(self.next.get() + 1);
            if number >= self.options.jobs {
                return Ok(());
            }
            sleep_until(self.start + gap * u32::try_from(number)?).await;
            self.ledger.expect(number, now_us() + i64::from(self.options.delay) * 1_000_000);
            match self.options.peer {
                Kind::Beanstalkd => beanstalkd::add(&mut connection, &self.options, number, 1).await?,
                Kind::Linger | Kind::Bare => http::add(&mut connection, &self.options, number, 1).await?,
            };
            self.ledger.taken(1);
        }
    }

    /// Polls, and finishes each job, until every job was delivered or none is delivered any more.
    async fn poll(self: Rc<Self>, mut connection: Connection) -> Result<(), Failure> {
        let mut last = Instant::now() + Duration::from_secs(self.options.delay.into());
        while self.delivered.get() < self.options.jobs && last.elapsed() < PATIENCE {
            let is_delivered = match self.options.peer {
                Kind::Beanstalkd => match beanstalkd::reserve(&mut connection, 1).await? {
                    Some(job) => {
                        self.record(job.number)?;
                        beanstalkd::delete(&mut connection, &[job]).await?;
                        true
                    }
                    None => false,
                },
                Kind::Linger | Kind::Bare => match http::pop(&mut connection, &self.options, 0, 1).await? {
                    Some(job) => {
                        self.record(job.number()?)?;
                        http::finish(&mut connection, &job).await?;
                        true
                    }
                    None => false,
                },
            };
            if is_delivered {
                last = last.max(Instant::now());
            }
        }
        Ok(())
    }

    fn record(&self, number: usize) -> Result<(), Failure> {
        match self.ledger.deliver(number, now_us(), &self.tally) {
            Some(Delivery::First { late_us }) => {
                self.delivered.set(self.delivered.get() + 1);
                self.times.record(late_us);
            }
            // The ledger has counted it.
            Some(Delivery::Doubled | Delivery::Again) => {}
            None => return Err(format!("job {number} was never added").into()),
        }
        Ok(())
    }
}
