//! The laws of a single job.

mod due_times;
mod expiry;
mod final_state;
mod versions;

use std::time::Duration;

use self::versions::Versions;
use super::{Action, Add, Event, FinalState, Law, Outcome, Verdict, Violation};

/// A delivery, with the values of its event.
struct Delivery<'a> {
    event: &'a Event,
    receipt: &'a str,
    revision: u64,
    /// How many requeues were sent before it. Each lets the attempts start again.
    round: usize,
    attempt: u32,
    ttr: Duration,
}

/// The place of an attempt among all of the job: revision, round, and number.
type AttemptOrder = (u64, usize, u32);

impl Delivery<'_> {
    fn order(&self) -> AttemptOrder {
        (self.revision, self.round, self.attempt)
    }
}

/// All events of one lifetime of a job.
struct JobHistory<'a> {
    name: &'a str,
    events: &'a [&'a Event],
    /// The deliveries in the order of their attempts.
    deliveries: Vec<Delivery<'a>>,
    /// The requeues that may have taken effect, in order.
    requeues: Vec<&'a Event>,
    versions: Versions<'a>,
    /// Calls that removed the job, or may have removed it.
    removals: Vec<&'a Event>,
    max_attempts: u32,
    retry: &'static [Duration],
    expire: Option<Duration>,
    end: End<'a>,
    verdict: &'a mut Verdict,
}

/// What follows a lifetime.
#[derive(Clone, Copy)]
pub enum End<'a> {
    /// Another lifetime of the same id.
    AddedAgain,
    /// The final state, if it is known.
    Last(Option<&'a FinalState>),
}

pub fn check(name: &str, events: &[&Event], end: End<'_>, verdict: &mut Verdict) {
    let requeue = |event: &&Event| matches!(event.action, Action::Requeue { .. }) && event.possible();
    let mut requeues: Vec<&Event> = events.iter().copied().filter(requeue).collect();
    requeues.sort_by_key(|event| event.sent);
    let mut deliveries: Vec<Delivery<'_>> =
        events.iter().filter_map(|event| delivery(event, &requeues)).collect();
    deliveries.sort_by_key(|delivery| (delivery.order(), delivery.event.answered));
    let versions = Versions::new(events);
    let removals = events
        .iter()
        .copied()
        .filter(|event| event.action.removes() && event.possible())
        .filter(|event| !is_in_vain(event, &deliveries, &versions))
        .collect();
    let added = events.iter().find_map(|event| event.action.added());
    let Add { max_attempts, retry, expire, .. } = added.cloned().unwrap_or_default();
    verdict.deliveries += deliveries.len();
    verdict.redeliveries += deliveries.len().saturating_sub(1);
    let mut history = JobHistory {
        name,
        events,
        deliveries,
        requeues,
        versions,
        removals,
        max_attempts,
        retry,
        expire,
        end,
        verdict,
    };
    history.check_attempts();
    history.check_versions();
    history.check_expiry();
    history.check_due_times();
    history.check_exclusive_reservations();
    history.check_stale_receipts();
    history.check_nothing_returns();
    history.check_nothing_lost();
    if let End::Last(Some(final_state)) = end {
        history.check_final_state(final_state);
    }
}

fn delivery<'a>(event: &'a Event, requeues: &[&Event]) -> Option<Delivery<'a>> {
    match &event.action {
        Action::Deliver { receipt, revision, attempt, ttr } => {
            let round = requeues.iter().filter(|requeue| requeue.sent < event.answered).count();
            Some(Delivery { event, receipt, revision: *revision, round, attempt: *attempt, ttr: *ttr })
        }
        _ => None,
    }
}

/// Whether the outcome of a call is unknown and yet cannot have been a success, because a later attempt had been delivered
/// or the job had been replaced before it was sent.
fn is_in_vain(event: &Event, deliveries: &[Delivery<'_>], versions: &Versions<'_>) -> bool {
    let own = deliveries.iter().find(|delivery| event.action.receipt() == Some(delivery.receipt));
    let is_stale = |own: &Delivery<'_>| {
        let mut later = deliveries.iter().filter(|delivery| delivery.order() > own.order());
        later.any(|delivery| delivery.event.answered <= event.sent)
            || versions.certain_at(event.sent) > Some(own.revision)
    };
    event.outcome == Outcome::Unknown && own.is_some_and(is_stale)
}

impl JobHistory<'_> {
    fn violation(&mut self, law: Law, description: String) {
        self.verdict.violations.push(Violation { law, job: self.name.to_owned(), description });
    }

    /// The earliest time at which the add is known to be acknowledged.
    fn acknowledged(&self) -> Option<Duration> {
        let adds = self.events.iter().filter(|event| event.action.added().is_some() && event.done());
        adds.map(|event| event.answered).min()
    }

    fn check_attempts(&mut self) {
        let mut found = Vec::new();
        for delivery in &self.deliveries {
            if delivery.attempt == 0 || (self.max_attempts > 0 && delivery.attempt > self.max_attempts) {
                let (attempt, max) = (delivery.attempt, self.max_attempts);
                found.push(format!("was delivered as attempt {attempt} of {max}"));
            }
        }
        for pair in self.deliveries.windows(2) {
            let [one, next] = pair else { continue };
            if one.order() == next.order() {
                found.push(format!("was delivered twice as attempt {}", one.attempt));
            } else if next.event.answered < one.event.sent {
                found.push(format!("had attempt {} before attempt {}", next.attempt, one.attempt));
            }
            if one.receipt == next.receipt {
                found.push(format!("had one receipt for attempts {} and {}", one.attempt, next.attempt));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::Attempts, description));
    }

    /// The earliest time at which this reservation may have ended without the call `except`: its deadline, or the sending
    /// of a call that may have ended it.
    fn reserved_until(&self, delivery: &Delivery<'_>, except: Option<&Event>) -> Duration {
        let mut deadline = delivery.event.sent + delivery.ttr;
        let mut ended = Duration::MAX;
        for event in self.events {
            let other = except.is_none_or(|except| !std::ptr::eq(*event, except));
            // The holder of an older version ends its reservation although its call is refused, also by a finish without receipt,
            // which the history has as a delete.
            let is_replaced = self.versions.possible_at(event.answered) > Some(delivery.revision);
            let may_be_refused = matches!(event.outcome, Outcome::Refused | Outcome::Unknown);
            if is_replaced
                && may_be_refused
                && event.action == Action::Delete
                && event.answered > delivery.event.sent
            {
                ended = ended.min(event.sent);
            }
            let counts = event.possible() || event.action.ends_reservation() && is_replaced;
            if !other || event.action.receipt() != Some(delivery.receipt) || !counts {
                continue;
            }
            if let Action::Touch { ttr, .. } = event.action {
                let touched = event.sent + ttr;
                // If the outcome of the touch is unknown, the earlier of both deadlines counts.
                deadline = if event.done() { touched } else { deadline.min(touched) };
            } else if event.action.ends_reservation() {
                ended = ended.min(event.sent);
            }
        }
        deadline.min(ended)
    }

    fn check_exclusive_reservations(&mut self) {
        let (mut found, mut reserved_until) = (Vec::new(), Duration::ZERO);
        for delivery in &self.deliveries {
            if delivery.event.answered < reserved_until {
                let left = reserved_until - delivery.event.answered;
                found.push(format!("was delivered while another client had it reserved for {left:?} more"));
            }
            reserved_until = reserved_until.max(self.reserved_until(delivery, None));
        }
        let is_refused =
            |event: &&&Event| event.outcome == Outcome::Refused && event.action.receipt().is_some();
        for refused in self.events.iter().filter(is_refused) {
            self.verdict.refused += 1;
            let own =
                self.deliveries.iter().find(|delivery| refused.action.receipt() == Some(delivery.receipt));
            let own = own.filter(|own| self.versions.possible_at(refused.answered) <= Some(own.revision));
            let own = own.filter(|_| !self.may_be_another(refused));
            let Some(until) = own.map(|delivery| self.reserved_until(delivery, Some(refused))) else {
                continue;
            };
            if refused.answered < until {
                let left = until - refused.answered;
                found.push(format!("was taken from its holder {left:?} before its reservation ended"));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::OneHolder, description));
    }

    /// Whether the call may have met another job: the next lifetime of the id may have begun before its answer.
    fn may_be_another(&self, call: &Event) -> bool {
        let is_added_again = matches!(self.end, End::AddedAgain);
        is_added_again && self.removals.iter().any(|removal| removal.sent < call.answered)
    }

    fn check_stale_receipts(&mut self) {
        let mut found = Vec::new();
        for call in self.events.iter().filter(|event| event.action.receipt().is_some() && event.done()) {
            let Some(used) =
                self.deliveries.iter().find(|delivery| call.action.receipt() == Some(delivery.receipt))
            else {
                found.push(format!("accepted a receipt that no delivery had, for {:?}", call.action));
                continue;
            };
            let later = |delivery: &&Delivery<'_>| {
                delivery.order() > used.order() && delivery.event.answered <= call.sent
            };
            if let Some(next) = self.deliveries.iter().find(later) {
                let (stale, present) = (used.attempt, next.attempt);
                found.push(format!(
                    "accepted the receipt of attempt {stale} after attempt {present} was delivered"
                ));
            }
            if self.versions.certain_at(call.sent) > Some(used.revision) {
                let revision = used.revision;
                found.push(format!("accepted a receipt of revision {revision} after the job was replaced"));
            }
            let is_finish = matches!(call.action, Action::Finish { .. });
            self.verdict.late += usize::from(is_finish && self.reserved_until(used, Some(call)) <= call.sent);
            // Only a job whose reservation has ended can be changed.
            let changed = |event: &&&Event| {
                event.action.changes()
                    && event.done()
                    && event.sent >= used.event.answered
                    && event.answered <= call.sent
            };
            if let Some(change) = self.events.iter().find(changed) {
                let (stale, change) = (used.attempt, &change.action);
                found.push(format!("accepted the receipt of attempt {stale} after {change:?}"));
            }
            let ended = |event: &&&Event| {
                event.action.ends_reservation()
                    && event.action.receipt() == call.action.receipt()
                    && event.done()
                    && event.answered <= call.sent
                    && event.action != call.action
            };
            if let Some(end) = self.events.iter().find(ended) {
                found.push(format!("accepted {:?} after {:?}", call.action, end.action));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::StaleReceipt, description));
    }

    fn check_nothing_returns(&mut self) {
        let mut found = Vec::new();
        let removals = self.removals.iter().filter(|event| event.done()).count();
        if removals > 1 {
            found.push(format!("was removed {removals} times"));
        }
        let ends: Vec<(&Event, Option<AttemptOrder>)> =
            self.ends().into_iter().map(|end| (end, self.removed_attempt(end))).collect();
        for delivery in &self.deliveries {
            let returned = |(end, last): &(&Event, Option<AttemptOrder>)| {
                delivery.event.sent >= end.answered || last.is_some_and(|last| delivery.order() > last)
            };
            if ends.iter().any(returned) {
                found
                    .push(format!("was delivered as attempt {} after it had been removed", delivery.attempt));
            }
        }
        // Also an add: it answers with success only if the job exists.
        let accepted_late = |event: &&&Event| {
            let is_later =
                |(end, _): &(&Event, _)| !std::ptr::eq(*end, **event) && event.sent >= end.answered;
            event.done() && !matches!(event.action, Action::Deliver { .. }) && ends.iter().any(is_later)
        };
        if let Some(event) = self.events.iter().find(accepted_late) {
            found.push(format!("accepted {:?} after it had been removed", event.action));
        }
        found.into_iter().for_each(|description| self.violation(Law::GoneStaysGone, description));
    }

    /// The first events from whose answers on the job does not exist any more: a removal that is certain, and a call that
    /// did not find the job, although it had existed.
    fn ends(&self) -> Vec<&Event> {
        let events = || self.events.iter().copied();
        let removed = self.removals.iter().copied().filter(|event| event.done());
        let is_add = |event: &&Event| event.action.added().is_some() && event.possible();
        let seen = events().filter(|event| event.done()).map(|event| event.answered).min();
        let added = events().filter(is_add).map(|event| event.answered).max();
        let existed = [seen, added].into_iter().flatten().min();
        let missed = events().filter(|event| {
            event.outcome == Outcome::Gone && existed.is_some_and(|existed| event.sent >= existed)
        });
        [removed.min_by_key(|event| event.answered), missed.min_by_key(|event| event.answered)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The attempt whose receipt removed the job, if `end` or what it shows cannot have been another removal.
    fn removed_attempt(&self, end: &Event) -> Option<AttemptOrder> {
        let receipt = end.action.receipt()?;
        let by_others =
            |removal: &&Event| removal.sent < end.answered && removal.action.receipt() != Some(receipt);
        if !end.done() && self.removals.iter().any(by_others) {
            return None;
        }
        let own = self.deliveries.iter().find(|delivery| delivery.receipt == receipt);
        own.map(Delivery::order)
    }

    fn check_nothing_lost(&mut self) {
        let Some(acknowledged) = self.acknowledged() else { return };
        self.verdict.acknowledged += 1;
        self.verdict.gone += usize::from(self.removals.iter().any(|event| event.done()));
        let missed = self.events.iter().find(|event| {
            let may_have_gone = || self.removals.iter().any(|removal| removal.sent < event.answered);
            event.outcome == Outcome::Gone && event.sent >= acknowledged && !may_have_gone()
        });
        if let Some(missed) = missed {
            self.violation(Law::NothingLost, format!("did not exist for {:?}", missed.action));
        }
    }
}
