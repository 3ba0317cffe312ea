//! The queue and its API in one thread, on a store whose calls go wrong: random clients on the router over the naive model,
//! on a manual clock, judged by the history checker. Each call of the store works, fails before or after its effect, hangs
//! until it is released or its caller leaves, or panics.
//!
//! A run depends on its seed alone. `LINGER_SIMULATION_SEEDS` sets how many seeds run, `LINGER_SIMULATION_SEED` the first
//! one. A failure names its seed: run that one alone with `LINGER_SIMULATION_SEEDS=1`.

mod client;
mod operator;
mod plan;
mod producer;
mod run;
mod worker;
mod world;

use std::collections::HashMap;

use self::run::{Report, run};
use crate::{
    checker::{Action, Event, Law},
    load::setting,
};

/// Seeds in the normal run.
const SEEDS: u64 = 300;

#[test]
fn random_clients_on_a_failing_store_see_every_promise_kept() {
    let first = setting("LINGER_SIMULATION_SEED", rand::random::<u32>().into());
    let seeds = setting("LINGER_SIMULATION_SEEDS", SEEDS);
    println!("{seeds} seeds from LINGER_SIMULATION_SEED={first}");
    let (mut totals, mut runs, mut failed) = (Totals::default(), 0, None);
    while runs < seeds && failed.is_none() {
        let seed = first.wrapping_add(runs);
        let report = run(seed);
        totals.add(&report);
        failed = (!report.is_clean()).then(|| failure(seed, &report));
        runs += 1;
    }
    let Totals { faults, jobs, deliveries, again, refused, lost, violations } = totals;
    println!(
        "proof: what=simulation runs={runs} store_faults={faults} jobs={jobs} deliveries={deliveries} \
         again={again} refused={refused} lost={lost} violations={violations} seed={first}"
    );
    assert!(failed.is_none(), "{}", failed.unwrap_or_default());
}

/// The sums over all runs.
#[derive(Default)]
struct Totals {
    faults: u64,
    jobs: usize,
    deliveries: usize,
    again: usize,
    refused: usize,
    lost: usize,
    violations: usize,
}

impl Totals {
    fn add(&mut self, Report { verdict, faults, problems, .. }: &Report) {
        self.faults += faults;
        self.jobs += verdict.acknowledged;
        self.deliveries += verdict.deliveries;
        self.again += verdict.redeliveries;
        self.refused += verdict.refused;
        self.lost += verdict.count(Law::NothingLost);
        self.violations += verdict.violations.len() + problems.len();
    }
}

fn failure(seed: u64, Report { verdict, problems, .. }: &Report) -> String {
    let violations: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
    let (wrong, first_job) = ([&violations[..], problems].concat().join("\n"), verdict.first_job.join("\n"));
    format!(
        "seed {seed}:\n{wrong}\nthe first job:\n{first_job}\nTo run it alone: LINGER_SIMULATION_SEED={seed} \
         LINGER_SIMULATION_SEEDS=1 cargo test --test it simulation"
    )
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(described(&run(seed).events), described(&run(seed).events), "seed {seed}");
    }
}

/// The events of a run as text, with numbers in place of receipts, which are random.
fn described(events: &[Event]) -> Vec<String> {
    let mut receipts: HashMap<String, usize> = HashMap::new();
    let mut describe = |event: &Event| {
        let mut text = format!("{}: {event}", event.job);
        let delivered = match &event.action {
            Action::Deliver { receipt, .. } => Some(receipt.as_str()),
            action => action.receipt(),
        };
        if let Some(receipt) = delivered {
            let next = receipts.len();
            let number = *receipts.entry(receipt.to_owned()).or_insert(next);
            text = text.replace(receipt, &number.to_string());
        }
        text
    };
    events.iter().map(&mut describe).collect()
}
