//! Load through the real program: producers, workers, and a record that knows every promise.
//!
//! Short in the normal run. `LINGER_LOAD_JOBS` and `LINGER_LOAD_SECONDS` set how many jobs with delays
//! spread over how long, `LINGER_LOAD_KILLS` how often the embedded engine's process is killed meanwhile.

#![expect(clippy::disallowed_methods, reason = "clients of a real server live in real time")]

mod ledger;

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use ledger::Ledger;
use linger::{
    clock::{Clock, SystemClock},
    job::Timestamp,
};
use rand::RngExt;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{
    client::{Client, Unknown},
    process::Server,
    redis::{fresh_prefix, shared},
};

const PRODUCERS: usize = 8;
const WORKERS: usize = 8;
/// How long after the last job is due everything must be done: a few TTRs.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Load {
    jobs: usize,
    spread: Duration,
    ttr: Duration,
    kills: u32,
}

impl Load {
    fn asked(kills: u32, ttr: u64) -> Self {
        let setting = |name: &str, default| {
            std::env::var(name)
                .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
        };
        let kills = if kills == 0 { 0 } else { setting("LINGER_LOAD_KILLS", u64::from(kills)) };
        Self {
            jobs: usize::try_from(setting("LINGER_LOAD_JOBS", 2_000)).expect("fits"),
            spread: Duration::from_secs(setting("LINGER_LOAD_SECONDS", 2)),
            ttr: Duration::from_secs(ttr),
            kills: u32::try_from(kills).expect("fits"),
        }
    }
}

/// What producers and workers share.
struct Run {
    load: Load,
    address: SocketAddr,
    ledger: Mutex<Ledger>,
    added: AtomicBool,
}

impl Run {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("not poisoned")
    }

    fn done(&self) -> bool {
        self.added.load(Ordering::Acquire) && self.ledger().open() == 0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_on_the_embedded_engine_keeps_every_promise() {
    let home = tempfile::tempdir().expect("a directory");
    run("embedded", Load::asked(0, 30), &[], home.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_on_redis_keeps_every_promise() {
    let home = tempfile::tempdir().expect("a directory");
    let settings = format!("[redis]\nprefix = \"{}\"\n", fresh_prefix());
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let url = shared().url();
    let arguments = ["--config", "settings.toml", "--store", "redis", "--redis-url", &url];
    run("redis", Load::asked(0, 30), &arguments, home.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_load_the_embedded_engine_loses_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    run("embedded, killed", Load::asked(3, 2), &[], home.path()).await;
}

async fn run(name: &str, load: Load, arguments: &[&str], home: &Path) {
    let start = |listen: &str| {
        let arguments: Vec<&str> =
            ["serve", "--listen", listen].into_iter().chain(arguments.iter().copied()).collect();
        Server::start(&arguments, home)
    };
    let mut server = start("127.0.0.1:0");
    let address = server.address;
    let run = Arc::new(Run { load, address, ledger: Mutex::default(), added: AtomicBool::new(false) });
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(run.clone()));
    }
    let mut producers = JoinSet::new();
    for number in 0..PRODUCERS {
        producers.spawn(produce(run.clone(), number));
    }
    let clock = SystemClock::new();
    let began = Instant::now();
    for kill in 1..=load.kills {
        let pause = load.spread.mul_f64(rand::rng().random_range(0.2..1.8) / f64::from(load.kills));
        clock.sleep(pause).await;
        server.kill();
        let acked = run.ledger().acknowledged();
        let finished = acked - run.ledger().open();
        server = start(&address.to_string());
        println!(
            "kill {kill} at {:.1} s: {acked} acknowledged, {finished} of them finished",
            began.elapsed().as_secs_f64(),
        );
    }
    producers.join_all().await;
    run.added.store(true, Ordering::Release);
    let deadline = Instant::now() + load.spread + GRACE + load.ttr;
    while !run.done() && Instant::now() < deadline {
        clock.sleep(Duration::from_millis(20)).await;
    }
    workers.join_all().await;
    let left = Client::new(address).get("/topics/load").await.expect("answers").status;
    let mut ledger = run.ledger();
    let [p50, p99, max] = [50.0, 99.0, 100.0].map(|percentile| ledger.late_ms(percentile));
    println!(
        "{name}: {} jobs over {:?}, {} kills: {} lost, {} broken promises, {} delivered again; late p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms",
        ledger.acknowledged(),
        load.spread,
        load.kills,
        ledger.open(),
        ledger.broken.len(),
        ledger.again,
    );
    assert_eq!((ledger.acknowledged(), ledger.open()), (load.jobs, 0), "every acknowledged job was finished");
    assert!(ledger.broken.is_empty(), "{:#?}", ledger.broken);
    assert_eq!(left, 404, "nothing is left in the topic");
}

/// Adds its share of the jobs, each until it is acknowledged.
async fn produce(run: Arc<Run>, number: usize) {
    let mut client = Client::new(run.address);
    for n in (number..run.load.jobs).step_by(PRODUCERS) {
        let id = format!("job-{n}");
        let delay_ms = rand::rng().random_range(0..=run.load.spread.as_millis() as u64);
        let job = json!({
            "topic": "load", "id": id, "delay": format!("{delay_ms}ms"),
            "ttr": run.load.ttr.as_secs(), "max_attempts": 0, "body": { "n": n },
        });
        run.ledger().sending(&id, Duration::from_millis(delay_ms));
        loop {
            match client.post("/jobs", &job).await {
                Ok(answer) if matches!(answer.status, 200 | 201) => break run.ledger().acked(&id),
                Ok(answer) if answer.status < 500 => panic!("{answer:?}"),
                Ok(_) | Err(Unknown) => tokio::task::yield_now().await,
            }
        }
    }
}

/// Pops and finishes until everything is done.
async fn work(run: Arc<Run>) {
    let mut client = Client::new(run.address);
    let give_up = Instant::now() + run.load.spread * 3 + GRACE * 3;
    while !run.done() && Instant::now() < give_up {
        let asked = Instant::now();
        let Ok(answer) = client.get("/topics/load/pop?wait=1s").await else {
            tokio::task::yield_now().await;
            continue;
        };
        match answer.status {
            200 => {}
            204 | 503 => continue,
            _ => panic!("{answer:?}"),
        }
        let (id, receipt) = (answer.text("id"), answer.text("receipt"));
        run.ledger().delivered(&id, asked, run.load.ttr, moment(&answer.text("due_at")));
        finish(&run, &mut client, &id, &receipt, asked + run.load.ttr).await;
    }
}

fn moment(text: &str) -> SystemTime {
    let unix_ms = Timestamp::parse(text).expect("a moment").as_millis();
    SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.unsigned_abs())
}

/// Finishes a job, asking again while nobody knows whether it happened.
async fn finish(run: &Run, client: &mut Client, id: &str, receipt: &str, held_until: Instant) {
    let path = format!("/jobs/{id}/finish?receipt={receipt}");
    let mut unanswered = false;
    loop {
        match client.send(hyper::Method::POST, &path, None).await {
            Ok(answer) => match answer.status {
                204 => return run.ledger().finished(id),
                404 if unanswered => {
                    run.ledger().gone(id);
                    return;
                }
                409 => return run.ledger().refused(id, held_until),
                500.. => unanswered = true,
                _ => panic!("{answer:?}"),
            },
            Err(Unknown) => unanswered = true,
        }
        tokio::task::yield_now().await;
    }
}
