//! What exists of a job once the run has come to rest.

use std::time::Duration;

use super::JobHistory;
use crate::checker::{Action, Event, FinalJob, FinalState, Law};

impl JobHistory<'_> {
    pub(super) fn check_final_state(&mut self, final_state: &FinalState) {
        let Some(final_job) = final_state.jobs.get(self.name) else {
            if self.acknowledged().is_some() && self.removals.is_empty() {
                self.violation(Law::NothingLost, "does not exist any more".to_owned());
            }
            return;
        };
        if !self.ends().is_empty() {
            self.violation(Law::GoneStaysGone, format!("exists again:  {final_job:?}"));
        }
        let buried = |certain: bool| {
            let bury = |event: &&Event| matches!(event.action, Action::Bury { .. });
            let counts = |event: &Event| if certain { event.done() } else { event.possible() };
            let last_revision = if certain {
                self.versions.possible_at(Duration::MAX)
            } else {
                self.versions.certain_at(Duration::MAX)
            };
            let is_last = |event: &Event| self.is_of_last_round(event, last_revision);
            self.events.iter().any(|event| bury(event) && counts(event) && is_last(event))
        };
        let may_still_be_dead = self.requeues.last().is_some_and(|last| !last.done());
        let may_be_dead = buried(false)
            || may_still_be_dead
            || self.expire.is_some()
            || (self.max_attempts > 0 && final_job.attempts >= self.max_attempts);
        let must_be_dead = buried(true) || self.used_its_attempts();
        match final_job {
            FinalJob { dead: true, attempts } if !may_be_dead => {
                let max = self.max_attempts;
                self.violation(Law::DeadLetters, format!("is dead after {attempts} attempts of {max}"));
            }
            FinalJob { dead: false, .. } if must_be_dead => {
                self.violation(Law::DeadLetters, format!("should be dead: {final_job:?}"));
            }
            FinalJob { .. } => {}
        }
        if self.max_attempts > 0 && final_job.attempts > self.max_attempts {
            self.violation(
                Law::Attempts,
                format!("has {} attempts of {}", final_job.attempts, self.max_attempts),
            );
        }
    }

    /// Whether the receipt of a call is that of a delivery since the last requeue, of this revision or a later one.
    fn is_of_last_round(&self, call: &Event, revision: Option<u64>) -> bool {
        let own = self.deliveries.iter().find(|delivery| call.action.receipt() == Some(delivery.receipt));
        own.is_none_or(|own| own.round == self.requeues.len() && Some(own.revision) >= revision)
    }

    /// Whether the last permitted attempt was released for certain, and the job neither requeued nor replaced since.
    fn used_its_attempts(&self) -> bool {
        let last = self.deliveries.last().filter(|last| {
            let revision = self.versions.possible_at(Duration::MAX).unwrap_or_default();
            self.max_attempts > 0 && last.order() == (revision, self.requeues.len(), self.max_attempts)
        });
        last.is_some_and(|last| self.released_until(last).is_some())
    }
}
