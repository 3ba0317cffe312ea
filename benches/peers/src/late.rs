//! How long after its due moment a job is delivered: jobs are added evenly while others poll. Due is the moment just
//! before the request was sent plus the delay, so a delivery before that is early whatever the server's clock says.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    Kind, Options, beanstalkd,
    connection::{Connection, Failure},
    http, process,
};

/// How long nothing may come of what is due before whoever polls takes the rest for lost.
const PATIENCE: Duration = Duration::from_secs(5);

struct Late {
    options: Options,
    began: Instant,
    /// The next job to add.
    next: Cell<usize>,
    came: Cell<usize>,
    /// By job: when it is due, and whether it came.
    jobs: RefCell<Vec<(Option<Instant>, bool)>>,
    times: RefCell<Histogram<u64>>,
    early: Cell<usize>,
    doubled: Cell<usize>,
}

/// Adds `options.jobs` jobs, `options.rate` a second, on as many connections as poll.
///
/// # Errors
/// What the server refuses, and options that mean nothing here.
pub async fn run(options: &Options) -> Result<Value, Failure> {
    if options.topics != 1 || options.first != 0 {
        return Err("lateness is measured on one topic and from the first job on".into());
    }
    let mut adding = Vec::new();
    let mut polling = Vec::new();
    for number in 0..options.connections {
        let address = options.address[number % options.address.len()];
        adding.push(Connection::open(address).await?);
        polling.push(Connection::open(address).await?);
    }
    let late = Rc::new(Late {
        options: options.clone(),
        began: Instant::now(),
        next: Cell::default(),
        came: Cell::default(),
        jobs: RefCell::new(vec![(None, false); options.jobs]),
        times: RefCell::new(Histogram::new(3)?),
        early: Cell::default(),
        doubled: Cell::default(),
    });
    let before_us = process::cpu_us(&options.pid);
    let mut work = JoinSet::new();
    for (adding, polling) in adding.into_iter().zip(polling) {
        work.spawn_local(late.clone().add(adding));
        work.spawn_local(late.clone().poll(polling));
    }
    while let Some(ended) = work.join_next().await {
        ended??;
    }
    let (came, times) = (late.came.get(), late.times.borrow());
    let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    Ok(json!({
        "jobs": came,
        "missing": options.jobs - came,
        "early": late.early.get(),
        "doubled": late.doubled.get(),
        "p50_ms": ms(0.5),
        "p99_ms": ms(0.99),
        "max_ms": times.max() as f64 / 1e3,
        "cpu_us": (process::cpu_us(&options.pid) - before_us) as f64 / came.max(1) as f64,
    }))
}

impl Late {
    /// Adds whatever job's turn comes next.
    async fn add(self: Rc<Self>, mut connection: Connection) -> Result<(), Failure> {
        let gap = Duration::from_secs(1) / self.options.rate;
        loop {
            let number = self.next.replace(self.next.get() + 1);
            if number >= self.options.jobs {
                return Ok(());
            }
            sleep_until(self.began + gap * u32::try_from(number)?).await;
            let due = Instant::now() + Duration::from_secs(self.options.delay.into());
            self.jobs.borrow_mut()[number].0 = Some(due);
            match self.options.peer {
                Kind::Beanstalkd => beanstalkd::add(&mut connection, &self.options, number, 1).await?,
                Kind::Linger | Kind::Bare => http::add(&mut connection, &self.options, number, 1).await?,
            };
        }
    }

    /// Polls, and finishes what comes, until every job has come or none comes any more.
    async fn poll(self: Rc<Self>, mut connection: Connection) -> Result<(), Failure> {
        let mut heard = Instant::now() + Duration::from_secs(self.options.delay.into());
        while self.came.get() < self.options.jobs && heard.elapsed() < PATIENCE {
            let came = match self.options.peer {
                Kind::Beanstalkd => match beanstalkd::reserve(&mut connection, 1).await? {
                    Some(job) => {
                        self.came(job.number)?;
                        beanstalkd::delete(&mut connection, &[job]).await?;
                        true
                    }
                    None => false,
                },
                Kind::Linger | Kind::Bare => match http::pop(&mut connection, &self.options, 0, 1).await? {
                    Some(job) => {
                        self.came(job.number()?)?;
                        http::finish(&mut connection, &job).await?;
                        true
                    }
                    None => false,
                },
            };
            if came {
                heard = heard.max(Instant::now());
            }
        }
        Ok(())
    }

    fn came(&self, number: usize) -> Result<(), Failure> {
        let now = Instant::now();
        let mut jobs = self.jobs.borrow_mut();
        let Some((Some(due), came)) = jobs.get_mut(number) else {
            return Err(format!("job {number} was never added").into());
        };
        let count = if std::mem::replace(came, true) { &self.doubled } else { &self.came };
        count.set(count.get() + 1);
        if now < *due {
            self.early.set(self.early.get() + 1);
        }
        let late = now.saturating_duration_since(*due);
        self.times.borrow_mut().record(u64::try_from(late.as_micros())?)?;
        Ok(())
    }
}
