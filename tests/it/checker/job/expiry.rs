//! Jobs that expire: none is delivered after its expiry.

use std::time::Duration;

use super::{Delivery, JobHistory, due_times::delay_of};
use crate::checker::Law;

impl JobHistory<'_> {
    pub(super) fn check_expiry(&mut self) {
        let mut found = Vec::new();
        for delivery in &self.deliveries {
            let Some(expiry) = self.latest_expiry(delivery) else { continue };
            if delivery.event.sent > expiry {
                let late = delivery.event.sent - expiry;
                found.push(format!(
                    "was delivered {late:?} after its expiry, as attempt {}",
                    delivery.attempt
                ));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::NotExpired, description));
    }

    /// The latest time until which the job may be delivered, counted from the last due time that an add, a requeue or a change
    /// may have set. `None` if it does not expire.
    fn latest_expiry(&self, delivery: &Delivery<'_>) -> Option<Duration> {
        let version = self.versions.of(delivery.revision)?;
        let changes =
            self.events.iter().filter(|event| event.possible() && event.sent < delivery.event.answered);
        let changed = changes.filter_map(|event| Some(event.answered + delay_of(event)?)).max();
        Some(version.latest_due.max(changed.unwrap_or_default()) + self.expire?)
    }
}
