//! What a seed decides before a run: how many clients do what, and which faults happen how often. Runs differ in kind, since
//! one with every fault at once would hardly get anything done.

use std::sync::{Arc, Mutex};

use linger::store::Error;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::harness::failing::{ChooseFault, Failure, Fault, HungCalls};

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub topics: usize,
    /// Which topics remember the ids of jobs that ended.
    pub remembering: [bool; 2],
    pub producers: usize,
    /// How often each producer adds jobs.
    pub adds: usize,
    pub workers: usize,
    /// How often a client leaves before it has its response, or is slow to read it.
    pub leaving: f64,
    /// How often a call of the store goes wrong.
    faults: f64,
    /// Which faults happen, by the order of `choose`.
    kinds: [bool; 4],
    /// Only these operations go wrong; all if it is empty.
    operations: &'static [&'static str],
}

impl Plan {
    pub fn new(random: &mut SmallRng) -> Self {
        let kinds = std::array::from_fn(|_| random.random_bool(0.6));
        Self {
            topics: random.random_range(1..=2),
            remembering: std::array::from_fn(|_| random.random_bool(0.5)),
            producers: random.random_range(1..=2),
            adds: random.random_range(1..=2),
            workers: random.random_range(1..=3),
            leaving: [0.0, 0.1, 0.4][random.random_range(0..3)],
            faults: [0.0, 0.1, 0.2, 0.4][random.random_range(0..4)],
            kinds,
            operations: [&[] as &[_], &[], &["reserve", "cancel"], &["promote", "reserve"]]
                [random.random_range(0..4)],
        }
    }
}

/// The calls of the store that hang, and how many faults there were.
#[derive(Debug, Default)]
pub struct Faults {
    hung: Mutex<Vec<Arc<HungCalls>>>,
    count: Mutex<u64>,
}

impl Faults {
    /// Lets one of the hung calls continue.
    pub fn release_one(&self, random: &mut SmallRng) {
        let mut hung = self.hung.lock().expect("not poisoned");
        if !hung.is_empty() {
            let one = random.random_range(0..hung.len());
            hung.swap_remove(one).release();
        }
    }

    pub fn release_all(&self) {
        self.hung.lock().expect("not poisoned").drain(..).for_each(|hung| hung.release());
    }

    pub fn count(&self) -> u64 {
        *self.count.lock().expect("not poisoned")
    }

    /// Chooses the faults of the store's calls by `seed`.
    pub fn choose(self: &Arc<Self>, plan: Plan, seed: u64) -> ChooseFault {
        let (faults, mut random) = (self.clone(), SmallRng::seed_from_u64(seed));
        Box::new(move |operation| {
            let concerned = plan.operations.is_empty() || plan.operations.contains(&operation);
            if !concerned || !random.random_bool(plan.faults) {
                return Fault::default();
            }
            *faults.count.lock().expect("not poisoned") += 1;
            let [fails_before, fails_after, hangs, panics] = plan.kinds;
            let takes_effect = random.random_bool(0.5);
            let hung = (hangs && random.random_bool(0.5)).then(HungCalls::new);
            faults.hung.lock().expect("not poisoned").extend(hung.clone());
            // The program ends when its timer panics.
            let failure = if panics && operation != "promote" && random.random_bool(0.3) {
                Some(Failure::Panic)
            } else if hung.is_some() && random.random_bool(0.5) {
                None
            } else if takes_effect && fails_after {
                Some(Failure::Error(Error::NotDurable("as the simulation demanded".to_owned())))
            } else if !takes_effect && fails_before {
                Some(Failure::Error(Error::Unavailable("as the simulation demanded".to_owned())))
            } else {
                None
            };
            Fault { takes_effect, hung, failure }
        })
    }
}
