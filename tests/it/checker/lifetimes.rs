//! The lifetimes of a job id. After a job ended, its id can be used again: an add whose outcome was unknown, and that was
//! sent again, may find the id free and begin a second lifetime. Each sending of an add begins at most one lifetime.

use std::time::Duration;

use super::{Action, Event, Outcome};

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

    /// Removals with an unknown outcome, each with its repeats.
    fn possible(events: &[&'a Event]) -> Vec<Self> {
        let mut ends: Vec<Self> = Vec::new();
        let unknown = |event: &&&Event| event.action.removes() && event.outcome == Outcome::Unknown;
        for removal in events.iter().filter(unknown) {
            let receipt = removal.action.receipt();
            if ends.iter().all(|end| end.receipt != receipt) {
                let repeats = events.iter().filter(|event| event.action == removal.action);
                let answered = repeats.map(|event| event.answered).max().unwrap_or(removal.answered);
                ends.push(Self { sent: removal.sent, answered, receipt });
            }
        }
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
    let is_add = |event: &Event| matches!(event.action, Action::Add { .. });
    let adds = || events.iter().filter(|event| is_add(event) && event.possible());
    let first_add = *adds().min_by_key(|event| event.sent)?;
    let last_add = adds().map(|event| event.answered).max()?;
    let begins_again =
        |event: &Event| event.possible() && event.answered >= end.sent && !std::ptr::eq(event, first_add);
    let last_attempt = events.iter().find_map(|event| match &event.action {
        Action::Deliver { receipt, attempt, .. } if end.receipt == Some(receipt) => Some(*attempt),
        _ => None,
    });
    let is_behind = |event: &Event| match &event.action {
        Action::Deliver { receipt, .. } => event.answered > end.sent && end.receipt != Some(receipt),
        _ => false,
    };
    let is_late = |event: &Event| match &event.action {
        Action::Deliver { attempt, .. } => {
            event.sent < end.sent && last_attempt.is_some_and(|last| *attempt < last)
        }
        _ => false,
    };
    if late == Late::OfSecond && !events.iter().any(|event| is_behind(event) && is_late(event)) {
        return None;
    }
    let is_later = |event: &Event| is_behind(event) && (late == Late::OfSecond || !is_late(event));
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
            Action::Add { .. } => begins_again(event),
            Action::Deliver { .. } => is_later(event),
            action => match action.receipt() {
                Some(receipt) => receipts.contains(&receipt),
                None => event.sent >= end.answered || event.sent >= last_add,
            },
        };
        !is_second
    });
    let begins = second.iter().any(|event| is_add(event));
    let was_there = second.iter().any(|event| event.done());
    (begins && (was_there || remains)).then_some((first, second))
}
