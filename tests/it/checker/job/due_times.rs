//! The earliest times at which a job may be delivered.

use std::time::Duration;

use super::{Delivery, JobHistory, versions::Version};
use crate::checker::{Action, Event, Law};

impl JobHistory<'_> {
    pub(super) fn check_due_times(&mut self) {
        let mut found = Vec::new();
        for (index, delivery) in self.deliveries.iter().enumerate() {
            let Some(version) = self.versions.of(delivery.revision) else {
                return self.violation(Law::NothingInvented, "was never sent".to_owned());
            };
            let due =
                self.earliest_due(delivery, index.checked_sub(1).map(|i| &self.deliveries[i]), &version);
            if delivery.event.answered < due {
                let early = due - delivery.event.answered;
                found.push(format!("was delivered {early:?} early, as attempt {}", delivery.attempt));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::NeverEarly, description));
    }

    /// The earliest due time of a delivery, by what determined it last: the add of its version, a requeue, the end of the
    /// reservation `before`, or a change of the due time.
    fn earliest_due(
        &self,
        delivery: &Delivery<'_>,
        before: Option<&Delivery<'_>>,
        version: &Version,
    ) -> Duration {
        let returns =
            before.filter(|before| (before.revision, before.round, before.attempt + 1) == delivery.order());
        let requeue = delivery.round.checked_sub(1).map(|last| self.requeues[last]);
        let requeue = requeue.filter(|requeue| requeue.answered > version.sent);
        let (since, due) = match (returns, requeue) {
            (Some(before), _) => {
                let returned = self.released_until(before).or_else(|| self.timed_out_until(before));
                (before.event.answered, returned.unwrap_or_default())
            }
            (None, Some(requeue)) => {
                let requeued = requeue.sent + delay_of(requeue).unwrap_or_default();
                // Attempts that start again show that the requeue took effect.
                let starts_again = before.is_some_and(|before| {
                    before.revision == delivery.revision && before.attempt >= delivery.attempt
                });
                if version.is_certain_at(requeue.sent) && (requeue.done() || starts_again) {
                    (requeue.sent, requeued)
                } else {
                    (requeue.sent.min(version.sent), requeued.min(version.due))
                }
            }
            (None, None) => (version.sent, version.due),
        };
        let is_between = |event: &&&Event| {
            matches!(event.action, Action::Reschedule { .. })
                && event.possible()
                && event.answered > since
                && event.sent < delivery.event.answered
        };
        let changes: Vec<&Event> = self.events.iter().filter(is_between).copied().collect();
        let is_certain = |event: &&&Event| {
            event.done()
                && event.sent >= since
                && event.answered <= delivery.event.answered
                && version.is_certain_at(event.sent)
        };
        let last = changes.iter().filter(is_certain).max_by_key(|event| event.sent);
        // After a change that is certain, only others that may have come later count.
        let from = last.map_or(since, |last| last.sent);
        let changed = changes.iter().filter(|event| event.answered > from);
        let changed = changed.filter_map(|event| Some(event.sent + delay_of(event)?)).min();
        let unchanged = last.is_none().then_some(due);
        unchanged.into_iter().chain(changed).min().unwrap_or(due)
    }

    /// The earliest time at which the job may be delivered again by its retry schedule, if only its TTR can have ended this
    /// reservation.
    fn timed_out_until(&self, delivery: &Delivery<'_>) -> Option<Duration> {
        let last = self.retry.len().checked_sub(1)?;
        let step = self.retry[last.min(delivery.attempt.saturating_sub(1) as usize)];
        let may_end = |event: &&Event| {
            event.action.ends_reservation()
                && event.action.receipt() == Some(delivery.receipt)
                && event.possible()
        };
        let was_ended = self.events.iter().copied().any(|event| may_end(&event));
        (!was_ended).then(|| self.reserved_until(delivery, None) + step)
    }

    /// The earliest time at which the job may be delivered again, if a release or a failed call ended this reservation for
    /// certain.
    pub(super) fn released_until(&self, delivery: &Delivery<'_>) -> Option<Duration> {
        self.events.iter().find_map(|event| match &event.action {
            Action::Release { receipt, delay } if receipt == delivery.receipt && event.done() => {
                Some(event.sent + *delay)
            }
            Action::Fail { receipt, delay, step } if receipt == delivery.receipt => {
                Some((event.sent + *delay).min(delivery.event.sent + delivery.ttr + *step))
            }
            _ => None,
        })
    }
}

/// The delay that a requeue or a change of the due time asks for.
pub(super) fn delay_of(event: &Event) -> Option<Duration> {
    match event.action {
        Action::Reschedule { delay } | Action::Requeue { delay } => Some(delay),
        _ => None,
    }
}
