//! The lifetimes of a job id. After a job ended, its id can be used again: an add whose outcome was unknown, and that was
//! sent again, may find the id free and begin a second lifetime. Each sending of an add begins at most one lifetime.

use std::time::Duration;

use super::{Action, Add, Event, Outcome};

/// Ways to split the events of a job id by lifetime, in order. The history is valid if it is valid by one of them. `remains`
/// says whether the job exists at the end.
pub fn splits<'a>(events: &[&'a Event], remains: bool) -> Vec<Vec<Vec<&'a Event>>> {
    let mut splits = Vec::new();
    for end in End::certain(events).into_iter().chain(End::possible(events)) {
        for late in [Late::OfFirst, Late::OfSecond] {
            let Some((first, rest)) = split_at(&end, late, events, remains) else { continue };
            splits.extend(self::splits(&rest, remains).into_iter().map(|mut later| {
                later.insert(0, first.clone());
                later
            }));
        }
    }
    splits.push(vec![events.to_vec()]);
    splits
}

/// To which lifetime deliveries of earlier attempts belong that were sent before the end and answered behind it: their answers
/// may have been late, or their polls may have waited for the job's second lifetime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    OfFirst,
    OfSecond,
}

/// The end of a lifetime: the job was removed at a time in between.
struct End<'a> {
    sent: Duration,
    answered: Duration,
    receipt: Option<&'a str>,
}

impl<'a> End<'a> {
    /// Removals that are certain, the first one first.
    fn certain(events: &[&'a Event]) -> Vec<Self> {
        let done = events.iter().filter(|event| event.action.removes() && event.done());
        let end = |event: &&'a Event| Self {
            sent: event.sent,
            answered: event.answered,
            receipt: event.action.receipt(),
        };
        let mut ends: Vec<Self> = done.map(end).collect();
        ends.sort_by_key(|end| end.answered);
        ends
    }

    /// Removals with an unknown outcome, each with its repeats: a client repeats its call until it knows the outcome.
    fn possible(events: &[&'a Event]) -> Vec<Self> {
        let mut ends: Vec<Self> = Vec::new();
        let mut open: Vec<Self> = Vec::new();
        let mut removals: Vec<&Event> =
            events.iter().copied().filter(|event| event.action.removes()).collect();
        removals.sort_by_key(|event| event.sent);
        for Event { sent, answered, action, outcome, .. } in removals {
            let receipt = action.receipt();
            let own = open.iter().position(|end| end.receipt == receipt);
            match (own, *outcome == Outcome::Unknown) {
                (Some(own), true) => open[own].answered = open[own].answered.max(*answered),
                (Some(own), false) => {
                    let end = open.swap_remove(own);
                    ends.push(Self { answered: end.answered.max(*answered), ..end });
                }
                (None, true) => open.push(Self { sent: *sent, answered: *answered, receipt }),
                (None, false) => {}
            }
        }
        ends.extend(open);
        ends
    }
}

/// Separates the events before `end` from the later ones. Returns `None` if there was only one lifetime, or if there are no
/// late deliveries to which [`Late::OfSecond`] could apply.
fn split_at<'a>(
    end: &End<'a>,
    late: Late,
    events: &[&'a Event],
    remains: bool,
) -> Option<(Vec<&'a Event>, Vec<&'a Event>)> {
    let boundary = Boundary::new(end, events)?;
    let is_behind = |event: &Event| boundary.is_behind(event);
    if late == Late::OfSecond && !events.iter().any(|event| is_behind(event) && boundary.is_late(event)) {
        return None;
    }
    let is_later = |event: &Event| is_behind(event) && (late == Late::OfSecond || !boundary.is_late(event));
    let receipts: Vec<&str> = events
        .iter()
        .filter(|event| is_later(event))
        .filter_map(|event| match &event.action {
            Action::Deliver { receipt, .. } => Some(receipt.as_str()),
            _ => None,
        })
        .collect();
    let (first, second): (Vec<&Event>, Vec<&Event>) = events.iter().copied().partition(|event| {
        let is_second = match &event.action {
            Action::Add(_) if event.outcome != Outcome::Gone => boundary.begins_again(event),
            Action::Deliver { .. } => is_later(event),
            action => match action.receipt() {
                Some(receipt) => receipts.contains(&receipt),
                None => event.sent >= end.answered || event.sent >= boundary.last_add,
            },
        };
        !is_second
    });
    let begins = second.iter().any(|event| event.action.added().is_some());
    let was_there = second.iter().any(|event| event.done());
    (begins && (was_there || remains)).then_some((first, second))
}

/// Which adds and deliveries may belong to the lifetime after an end.
struct Boundary<'e, 'a> {
    end: &'e End<'a>,
    /// The adds that may have taken effect.
    adds: Vec<&'a Event>,
    /// When the last of them was answered.
    last_add: Duration,
    /// The newest version that the first lifetime had for certain.
    newest: Option<u64>,
    /// The first add, and the first one of the newest version.
    of_first: [&'a Event; 2],
    /// The attempt that ended the first lifetime.
    last_attempt: Option<(u64, u32)>,
}

impl<'e, 'a> Boundary<'e, 'a> {
    fn new(end: &'e End<'a>, events: &[&'a Event]) -> Option<Self> {
        let is_add = |event: &&'a Event| event.action.added().is_some() && event.possible();
        let adds: Vec<&Event> = events.iter().copied().filter(is_add).collect();
        let first = *adds.iter().min_by_key(|event| event.sent)?;
        let delivered = events.iter().filter_map(|event| match &event.action {
            Action::Deliver { receipt, revision, .. } => {
                (event.answered <= end.sent || end.receipt == Some(receipt)).then_some(*revision)
            }
            _ => None,
        });
        let acknowledged = adds.iter().filter(|event| event.done() && event.answered <= end.sent);
        let acknowledged = acknowledged.filter_map(|event| revision_of(event));
        let newest = delivered.chain(acknowledged).max().max(revision_of(first));
        let of_newest = adds.iter().copied().filter(|event| revision_of(event) == newest);
        let last_attempt = events.iter().find_map(|event| match &event.action {
            Action::Deliver { receipt, revision, attempt, .. } if end.receipt == Some(receipt) => {
                Some((*revision, *attempt))
            }
            _ => None,
        });
        Some(Self {
            end,
            last_add: adds.iter().map(|event| event.answered).max()?,
            newest,
            of_first: [first, of_newest.min_by_key(|event| event.sent).unwrap_or(first)],
            last_attempt,
            adds,
        })
    }

    /// Whether an add may begin the second lifetime. Where the id is remembered, only a newer version can.
    fn begins_again(&self, event: &Event) -> bool {
        let is_free = |add: &Add| !add.is_remembered || Some(add.revision) > self.newest;
        event.possible()
            && event.answered >= self.end.sent
            && !self.of_first.iter().any(|first| std::ptr::eq(event, *first))
            && event.action.added().is_some_and(is_free)
    }

    /// Whether a delivery was answered after the end, and with a version that the second lifetime has.
    fn is_behind(&self, event: &Event) -> bool {
        let Action::Deliver { receipt, revision, .. } = &event.action else { return false };
        let mut again = self.adds.iter().filter(|event| self.begins_again(event));
        event.answered > self.end.sent
            && self.end.receipt != Some(receipt)
            && again.any(|event| revision_of(event) == Some(*revision))
    }

    /// Whether a delivery of an earlier attempt was sent before the end.
    fn is_late(&self, event: &Event) -> bool {
        let Action::Deliver { revision, attempt, .. } = &event.action else { return false };
        event.sent < self.end.sent && self.last_attempt.is_some_and(|last| (*revision, *attempt) < last)
    }
}

fn revision_of(event: &Event) -> Option<u64> {
    event.action.added().map(|add| add.revision)
}
