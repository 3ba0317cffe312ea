//! Schedules in the real program: its servers are killed around the moments of runs, and no occurrence is left out or added twice.

use std::{collections::BTreeSet, path::Path, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    job::{Timestamp, schedule::run_id},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{Engine, schedule_name};
use crate::harness::{
    process::Server,
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

/// They all run at every full second.
const SCHEDULES: usize = 100;
const KILLS: usize = 5;

#[tokio::test]
async fn runs_survive_kills_of_the_embedded_engine() {
    let home = tempfile::tempdir().expect("a directory");
    kill_around_runs(Engine::Embedded, 1, &[], home.path()).await;
}

#[tokio::test]
async fn runs_survive_kills_of_one_of_two_servers_on_redis() {
    let home = tempfile::tempdir().expect("a directory");
    let settings = format!("[redis]\nprefix = \"{}\"\n", fresh_prefix());
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let arguments = ["--config", "settings.toml", "--store", "redis", "--redis-url", &shared().url()];
    kill_around_runs(Engine::Redis, 2, &arguments, home.path()).await;
}

async fn kill_around_runs(engine: Engine, count: usize, arguments: &[&str], home: &Path) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let start = |address: &str| Server::start(&[&["serve", "--listen", address], arguments].concat(), home);
    let mut servers: Vec<Server> = (0..count).map(|_| start("127.0.0.1:0")).collect();
    let names: Vec<String> = (0..SCHEDULES).map(|number| format!("s{number}")).collect();
    for name in &names {
        let schedule = json!({
            "every": "1s", "overlap": "allow", "missed": "all",
            "job": { "topic": "t", "body": name },
        });
        let made = servers[0].call("PUT", &format!("/schedules/{name}"), &schedule.to_string());
        assert_eq!(made.status, 201);
    }
    let clock = SystemClock::new();
    for kill in 0..KILLS {
        // The moment of the kill is the fault: at a full second, when the schedules run, or a little later.
        let into_second = Duration::from_micros((clock.now_micros() % 1_000_000).unsigned_abs());
        let later = Duration::from_millis(random.random_range(0..60));
        clock.sleep(Duration::from_secs(1) - into_second + later).await;
        let server = &mut servers[kill % count];
        let address = server.address.to_string();
        server.kill();
        *server = start(&address);
    }
    let killed_until = clock.now();
    for name in &names {
        wait_for_run_after(&servers[0], name, killed_until).await;
    }
    for name in &names {
        assert_eq!(servers[0].call("POST", &format!("/schedules/{name}/pause"), "").status, 200);
    }
    let added = pop_all(&servers[0], count_ready(&servers[0]).await);
    for name in &names {
        let expected =
            occurrences(&servers[0].call("GET", &format!("/schedules/{name}"), "").json(), name, &added);
        let found = added.iter().filter(|id| id.starts_with(&format!("cron:{name}:"))).cloned().collect();
        assert_eq!(expected, found, "{engine:?}, {name}");
    }
}

fn last_run(schedule: &Value) -> Option<Timestamp> {
    Some(Timestamp::parse(schedule["last"].as_str()?).expect("a moment"))
}

async fn wait_for_run_after(server: &Server, name: &str, moment: Timestamp) {
    let time_limit = TimeLimit::new();
    loop {
        let schedule = server.call("GET", &format!("/schedules/{name}"), "").json();
        if last_run(&schedule) > Some(moment) {
            return;
        }
        time_limit.check(|| schedule.to_string());
        time_limit.pause().await;
    }
}

/// How many jobs there are, once all are ready.
async fn count_ready(server: &Server) -> u64 {
    let time_limit = TimeLimit::new();
    loop {
        let counts = server.call("GET", "/topics/t", "").json()["counts"].clone();
        if counts["delayed"] == 0 {
            return counts["ready"].as_u64().expect("a number");
        }
        time_limit.check(|| counts.to_string());
        time_limit.pause().await;
    }
}

/// Reserves so many jobs. Returns their ids without suffixes.
fn pop_all(server: &Server, count: u64) -> BTreeSet<String> {
    let (mut ids, mut popped) = (BTreeSet::new(), 0);
    while popped < count {
        let pop = json!({ "topics": ["t"], "max": 1_000, "wait": "20s" }).to_string();
        let jobs = server.call("POST", "/batch/pop", &pop).json()["jobs"].as_array().expect("jobs").clone();
        assert_ne!(jobs.len(), 0, "{popped} of {count}");
        for job in &jobs {
            let id = job["id"].as_str().expect("an id");
            let id = id.rsplit_once('.').map_or(id, |(stem, _)| stem);
            assert!(ids.insert(id.to_owned()), "{id} was added twice");
        }
        popped += jobs.len() as u64;
    }
    ids
}

/// The ids of all occurrences from the first that was added to the last that ran.
fn occurrences(schedule: &Value, name: &str, added: &BTreeSet<String>) -> BTreeSet<String> {
    let (name, last) = (schedule_name(name), last_run(schedule).expect("ran"));
    let all = (0..).map(|n| run_id(&name, last.shifted(-1_000 * n)).to_string());
    let first = added.iter().find(|id| id.starts_with(&format!("cron:{name}:"))).expect("one ran");
    let mut ids: BTreeSet<String> = all.take_while(|id| id != first).collect();
    ids.insert(first.clone());
    let fired = schedule["runs"]["fired"].as_u64().expect("a number");
    assert_eq!(fired, ids.len() as u64, "{schedule}");
    ids
}
