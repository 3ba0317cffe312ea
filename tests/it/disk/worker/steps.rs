//! Which calls a worker makes: all of them once, or random ones.

use rand::{RngExt, rngs::SmallRng, seq::IndexedRandom};

use super::{BulkAction, Outcome, Worker};
use crate::disk::ledger::JobState;

/// Most jobs of one client. A client with more jobs deletes instead of adding.
const MAX_JOBS: usize = 60;

/// The calls of [`Worker::script`] if all of them succeed.
const SCRIPT_CALLS: usize = 34;

impl Worker<'_> {
    /// Makes a fixed sequence of calls of every kind, whatever the results of earlier ones. A call whose job does not exist
    /// because an earlier call failed is left out.
    pub fn script(&mut self) -> Vec<Outcome> {
        let mut outcomes = vec![
            self.add(&[10, 10], false),
            self.purge(),
            self.add(&[20, 20, 20, 20, 20, 20, 20], false),
            self.add(&[50_000], false),
            self.add(&[10, 10, 10, 10], true),
            self.add(&[10], true),
            self.pop(7),
        ];
        let held = self.reservations();
        let ended = held.iter().enumerate().take(5).map(|(n, (id, receipt))| match n {
            0 => self.finish(id, receipt),
            1..3 => self.bury(id, receipt),
            3 => self.release(id, receipt, true),
            _ => self.release(id, receipt, false),
        });
        outcomes.extend(ended);
        let first = |state| self.ids(|found| *found == state).into_iter().next();
        outcomes.extend(first(JobState::Delayed).map(|id| self.delete(&id)));
        outcomes.extend(first(JobState::Dead).map(|id| self.requeue(&id)));
        // Its reservation lasts to the end, so that a restart shows whether the touch was kept.
        let touched = self.reservations().into_iter().next();
        outcomes.extend(touched.iter().map(|(id, receipt)| self.touch(id, receipt)));
        outcomes.extend(first(JobState::Ready).map(|id| self.patch(&id, 9_000)));
        outcomes.extend(first(JobState::Delayed).map(|id| self.reschedule(&id, 7)));
        outcomes.push(self.set(90));
        outcomes.push(self.pause("pause"));
        outcomes.push(self.pause("resume"));
        outcomes.extend(self.add_secret());
        outcomes.extend(self.add_secret());
        outcomes.extend(self.delete_secret());
        outcomes.extend(self.add_secret());
        outcomes.push(self.bulk(BulkAction::Requeue));
        outcomes.push(self.bulk(BulkAction::Reschedule));
        // Not the one that was patched.
        let ends: Vec<String> = self.ids(|state| *state == JobState::Ready).into_iter().skip(1).collect();
        outcomes.extend((!ends.is_empty()).then(|| self.delete_all(&ends)));
        outcomes.push(self.add(&[30, 30, 30], false));
        outcomes.push(self.pop(3));
        let mut others = self.reservations();
        others.retain(|held| Some(held) != touched.as_ref());
        let ends: Vec<_> = others.drain(..others.len().min(2)).collect();
        outcomes.extend((!ends.is_empty()).then(|| self.finish_all(&ends)));
        for (n, (id, receipt)) in others.into_iter().take(2).enumerate() {
            outcomes.push(self.bury(&id, &receipt));
            outcomes.push(if n == 0 { self.requeue_dead() } else { self.delete_dead() });
        }
        let whole =
            outcomes.len() == SCRIPT_CALLS || outcomes.iter().any(|outcome| *outcome != Outcome::Done);
        assert!(whole, "only {} calls were made, and none failed", outcomes.len());
        outcomes
    }

    /// One random step of a busy client. A quarter of the adds is small, the others have bodies up to `largest` bytes.
    pub fn random_step(&mut self, rng: &mut SmallRng, largest: usize) -> Outcome {
        match rng.random_range(0..1_000) {
            0..400 => {
                let living = self.ids(|state| *state != JobState::Gone);
                if living.len() > MAX_JOBS {
                    let some: Vec<String> = living.sample(rng, 4).cloned().collect();
                    return if rng.random() { self.delete_all(&some) } else { self.delete(&some[0]) };
                }
                let largest = if rng.random_bool(0.75) { largest } else { 200 };
                let jobs = rng.random_range(1..=8);
                let bodies: Vec<usize> = (0..jobs).map(|_| rng.random_range(0..largest)).collect();
                let delayed = rng.random_bool(0.3);
                self.add(&bodies, delayed)
            }
            400..600 => self.pop(rng.random_range(1..=4)),
            600..620 => self.one_of(rng, &self.ids(|state| *state == JobState::Dead), |id| self.requeue(id)),
            kind @ 620..680 => {
                let waiting = self.ids(|state| matches!(state, JobState::Ready | JobState::Delayed));
                let n = rng.random_range(0..largest);
                self.one_of(rng, &waiting, |id| {
                    if kind < 650 { self.patch(id, n) } else { self.reschedule(id, n % 100) }
                })
            }
            680..690 => self.set(rng.random_range(60..600)),
            690..695 => self.pause("pause"),
            695..700 => self.pause("resume"),
            700..705 => self.add_secret().unwrap_or(Outcome::Done),
            705..710 => self.delete_secret().unwrap_or(Outcome::Done),
            710..720 => self.bulk(BulkAction::Reschedule),
            720..723 => self.bulk(BulkAction::Requeue),
            723..726 => self.bulk(BulkAction::Delete),
            726..728 => self.requeue_dead(),
            728..730 => self.delete_dead(),
            730 => self.purge(),
            731..760 => self.finish_all(&self.reservations()),
            kind => self.one_of(rng, &self.reservations(), |(id, receipt)| match kind {
                761..800 => self.release(id, receipt, kind < 780),
                800..840 => self.bury(id, receipt),
                840..880 => self.touch(id, receipt),
                _ => self.finish(id, receipt),
            }),
        }
    }

    fn one_of<T>(&self, rng: &mut SmallRng, things: &[T], step: impl FnOnce(&T) -> Outcome) -> Outcome {
        things.choose(rng).map_or(Outcome::Done, step)
    }
}
