//! Workers on three machines under random faults: networks that are cut, lost answers, workers and servers that are killed,
//! and workers and commands that are stopped for a while.
//!
//! `LINGER_PROVE_WORKERS` sets the number of faults, `LINGER_PROVE_SEED` which.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use serde_json::{Value, json};

use super::{Engine, Site, Worker};
use crate::{
    harness::{process::Server, proxy::Proxy, wait::TimeLimit},
    load::setting,
};

const MACHINES: usize = 3;
/// The number of faults in the normal run.
const FAULTS: u64 = 36;
/// How many faults later a cut network or a stopped worker is mended, at most: after longer than a lease.
const LONGEST_FAULT: u32 = 24;
/// A tenth of it is left for a command to end when its lease is lost.
const TTR: &str = "3s";

/// A command that takes as many seconds as the body says, in a process of its own. It notes which worker it belongs to
/// when it begins, that it was done, and whether another command had the job at the same time.
const COMMAND: &str = "read -r seconds
exec 9>>../locks/$LINGER_JOB_ID
if flock -n 9; then echo $PPID >../holders/$LINGER_JOB_ID
else echo $LINGER_JOB_ID $PPID $(cat ../holders/$LINGER_JOB_ID) >>../overlaps; fi
sleep $seconds & wait $!
echo $LINGER_JOB_ID >>../done";

/// A worker with a network of its own, in a directory of its own, by which its commands are found.
struct Machine {
    directory: PathBuf,
    proxy: Proxy,
    worker: Worker,
    /// For so many more faults its network is cut, and its worker stopped.
    cut_off_for: u32,
    suspended_for: u32,
}

impl Machine {
    fn start(site: &Site, number: usize) -> Self {
        let directory = site.path().join(format!("machine{number}"));
        fs::create_dir(&directory).expect("can be made");
        // As the system names it.
        let directory = directory.canonicalize().expect("is there");
        let proxy = Proxy::start(site.server.address);
        let worker = Self::worker(&proxy, &directory);
        Self { directory, proxy, worker, cut_off_for: 0, suspended_for: 0 }
    }

    /// A worker as it is by default, but for the number of jobs at a time.
    fn worker(proxy: &Proxy, directory: &Path) -> Worker {
        Worker::start(&["t", "-j", "8", "--exec", COMMAND], &[("LINGER_URL", &proxy.url())], directory)
    }

    /// The worker and its commands, those that have ended left out.
    fn processes(&self) -> Vec<Pid> {
        processes_in(&self.directory)
    }

    /// The commands, and what they started.
    fn commands(&self) -> Vec<Pid> {
        let (workers, commands): (Vec<_>, Vec<_>) =
            self.processes().into_iter().partition(|process| *process == self.worker.pid());
        assert_eq!(workers.len(), 1, "the worker is found by its directory, or its commands would not be");
        commands
    }

    /// Ends the worker and its commands as a container ends, and starts another worker. Returns the ended one.
    fn replace(&mut self) -> Worker {
        self.worker.signal(Signal::KILL);
        self.worker.wait();
        let time_limit = TimeLimit::new();
        while !self.processes().is_empty() {
            self.processes().into_iter().for_each(|process| send(process, Signal::KILL));
            time_limit.check(|| format!("these live on: {:?}", self.processes()));
            time_limit.pause_thread();
        }
        self.suspended_for = 0;
        std::mem::replace(&mut self.worker, Self::worker(&self.proxy, &self.directory))
    }
}

/// The processes whose working directory this is.
fn processes_in(directory: &Path) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").expect("Linux has it").flatten();
    let ours =
        entries.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory));
    ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Sends a signal to a process that may have ended.
fn send(process: Pid, signal: Signal) {
    let sent = kill_process(process, signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
}

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Faults in which every worker can end its commands in time: then no job ever has two commands.
    Workers,
    /// Also workers that are stopped or killed, which cannot end their commands in time.
    Machines,
}

struct Storm {
    kind: Kind,
    site: Site,
    machines: Vec<Machine>,
    random: StdRng,
    jobs: Vec<String>,
    /// Workers that were stopped or killed: they could not end their commands before the leases ended.
    excused: BTreeSet<u32>,
    killed: Vec<Worker>,
    stopped_commands: Vec<Pid>,
    counts: BTreeMap<&'static str, u32>,
}

impl Storm {
    fn new(engine: Engine, kind: Kind, seed: u64) -> Self {
        let site = Site::new(engine);
        for name in ["locks", "holders"] {
            fs::create_dir(site.path().join(name)).expect("can be made");
        }
        let machines = (0..MACHINES).map(|number| Machine::start(&site, number)).collect();
        Self {
            kind,
            site,
            machines,
            random: StdRng::seed_from_u64(seed),
            jobs: Vec::new(),
            excused: BTreeSet::new(),
            killed: Vec::new(),
            stopped_commands: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    fn add_job(&mut self) {
        let id = self.jobs.len().to_string();
        // Some take so long that their leases are lost while they run.
        let hundredths: u32 = if self.random.random_ratio(1, 2) {
            self.random.random_range(400..800)
        } else {
            self.random.random_range(1..80)
        };
        let seconds = f64::from(hundredths) / 100.0;
        self.site.add(&id, json!({ "ttr": TTR, "retry": ["100ms"], "max_attempts": 1000, "body": seconds }));
        self.jobs.push(id);
    }

    /// Mends what has been broken for long enough.
    fn mend(&mut self) {
        self.stopped_commands.drain(..).for_each(|command| send(command, Signal::CONT));
        for machine in &mut self.machines {
            if machine.cut_off_for == 1 {
                machine.proxy.heal();
            }
            if machine.suspended_for == 1 {
                machine.worker.signal(Signal::CONT);
            }
            machine.cut_off_for = machine.cut_off_for.saturating_sub(1);
            machine.suspended_for = machine.suspended_for.saturating_sub(1);
        }
    }

    /// Makes one fault.
    fn strike(&mut self) {
        // The others can take the jobs of a machine that is cut off.
        let is_cut = self.machines.iter().any(|machine| machine.cut_off_for > 0);
        let machine = &mut self.machines[self.random.random_range(0..MACHINES)];
        let faults = if self.kind == Kind::Machines { 12 } else { 9 };
        let name = match self.random.random_range(0..faults) {
            0..3 if !is_cut => {
                machine.proxy.cut();
                machine.cut_off_for = self.random.random_range(LONGEST_FAULT / 2..LONGEST_FAULT);
                "network"
            }
            0..6 => {
                let call = ["pop", "touch", "finish"].choose(&mut self.random).expect("there are some");
                machine.proxy.lose_response(call);
                "answer"
            }
            6 => {
                machine
                    .commands()
                    .choose(&mut self.random)
                    .into_iter()
                    .for_each(|one| send(*one, Signal::KILL));
                "command killed"
            }
            7 => {
                self.stopped_commands = machine.commands();
                self.stopped_commands.iter().for_each(|command| send(*command, Signal::STOP));
                "command stopped"
            }
            8 => {
                self.site.server.kill();
                let listen = self.site.server.address.to_string();
                self.site.server = Server::start(&["serve", "--listen", &listen], self.site.path());
                "server killed"
            }
            9 | 10 => {
                self.excused.insert(machine.worker.child.id());
                super::leases::suspend(&machine.worker);
                machine.suspended_for = self.random.random_range(1..LONGEST_FAULT);
                "worker stopped"
            }
            _ => {
                self.excused.insert(machine.worker.child.id());
                self.killed.push(machine.replace());
                "worker killed"
            }
        };
        *self.counts.entry(name).or_default() += 1;
    }

    /// Mends everything, waits until all jobs are done, and ends the workers. Returns the events of all.
    fn calm(&mut self) -> Vec<Value> {
        for machine in &mut self.machines {
            machine.commands().into_iter().for_each(|command| send(command, Signal::CONT));
            machine.proxy.heal();
            machine.worker.signal(Signal::CONT);
        }
        self.jobs.iter().for_each(|id| self.site.server.wait_for_state(id, &Value::Null));
        let mut events: Vec<Value> = self.killed.iter().flat_map(Worker::events).collect();
        for machine in &mut self.machines {
            machine.worker.signal(Signal::TERM);
            machine.worker.ends_with(0);
            events.extend(machine.worker.events());
            let left = machine.processes();
            assert!(left.is_empty(), "they live on: {left:?}");
        }
        events
    }

    /// Compares what happened with what the worker promises.
    fn judge(&self, events: &[Value]) {
        let done = self.site.read("done");
        let done: BTreeSet<&str> = done.lines().collect();
        let lost: Vec<_> = self.jobs.iter().filter(|id| !done.contains(id.as_str())).collect();
        assert!(lost.is_empty(), "finished although no command was done: {lost:?}");

        for overlap in self.site.read("overlaps").lines() {
            let [_job, _second, holder] = overlap.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{overlap}")
            };
            let is_excused = holder.parse().is_ok_and(|holder| self.excused.contains(&holder));
            assert!(is_excused, "two commands had a job, its id and the workers: {overlap}");
        }

        let of = |name: &'static str| events.iter().filter(move |event| event["event"] == name);
        let mut deliveries = BTreeSet::new();
        for start in of("start") {
            let delivery = format!("{} {}", start["id"], start["attempt"]);
            assert!(deliveries.insert(delivery), "delivered twice: {start}");
        }
        for finish in of("finish").filter(|finish| finish["outcome"] == "accepted") {
            let is_later =
                |start: &&Value| start["id"] == finish["id"] && start["at"].as_str() > finish["at"].as_str();
            let again = of("start").find(is_later);
            assert_eq!(again, None, "it began after its finish: {finish}");
        }
    }
}

async fn run(engine: Engine, kind: Kind) {
    let (faults, seed) = (
        setting("LINGER_PROVE_WORKERS", FAULTS),
        setting("LINGER_PROVE_SEED", rand::random_range(0..1_000_000)),
    );
    println!("seed {seed}");
    let mut storm = Storm::new(engine, kind, seed);
    for _ in 0..faults {
        storm.add_job();
        // Nothing is awaited: the faults come at random times.
        let pause = Duration::from_millis(storm.random.random_range(100..600));
        SystemClock::new().sleep(pause).await;
        storm.mend();
        storm.strike();
    }
    let events = storm.calm();
    storm.judge(&events);
    let number = |name| events.iter().filter(|event| event["event"] == name).count();
    let (jobs, starts, leases_lost) = (storm.jobs.len(), number("start"), number("lost"));
    let overlaps = storm.site.read("overlaps").lines().count();
    println!("{:?}, {leases_lost} leases lost, {overlaps} excused overlaps", storm.counts);
    println!(
        "proof: what={kind:?}_on_{engine:?} runs=1 faults={faults} jobs={jobs} deliveries={starts} seed={seed}"
    );
}

#[tokio::test]
async fn workers_that_can_end_their_commands_make_no_second_holder_on_the_embedded_engine() {
    run(Engine::Embedded, Kind::Workers).await;
}

#[tokio::test]
async fn workers_that_can_end_their_commands_make_no_second_holder_on_redis() {
    run(Engine::Redis, Kind::Workers).await;
}

#[tokio::test]
async fn machines_that_stop_lose_no_job_on_the_embedded_engine() {
    run(Engine::Embedded, Kind::Machines).await;
}

#[tokio::test]
async fn machines_that_stop_lose_no_job_on_redis() {
    run(Engine::Redis, Kind::Machines).await;
}
