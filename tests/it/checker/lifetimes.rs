//! The lifetimes of a job id. After a job ended, its id can be used again: an add whose outcome was unknown, and that was
//! sent again, may find the id free and begin a second lifetime. Each sending of an add begins at most one lifetime.

use super::{Action, Event};

/// Splits the events of a job id by lifetime, in order. `remains` says whether the job exists at the end.
pub fn split<'a>(events: &[&'a Event], remains: bool) -> Vec<Vec<&'a Event>> {
    let mut lifetimes = Vec::new();
    let mut remaining = events.to_vec();
    while let Some((first, rest)) = split_once(&remaining, remains) {
        lifetimes.push(first);
        remaining = rest;
    }
    lifetimes.push(remaining);
    lifetimes
}

/// Separates the events of the first lifetime from the later ones. Returns `None` if there was only one lifetime.
fn split_once<'a>(events: &[&'a Event], remains: bool) -> Option<(Vec<&'a Event>, Vec<&'a Event>)> {
    let end = events.iter().filter(|event| event.action.removes() && event.done());
    let end = *end.min_by_key(|event| event.answered)?;
    let adds = events.iter().filter(|event| matches!(event.action, Action::Add { .. }) && event.possible());
    let first_add = *adds.min_by_key(|event| event.sent)?;
    let begins_again = |event: &Event| {
        matches!(event.action, Action::Add { .. })
            && event.possible()
            && event.answered >= end.sent
            && !std::ptr::eq(event, first_add)
    };
    let last_attempt = events.iter().find_map(|event| match &event.action {
        Action::Deliver { receipt, attempt, .. } if end.action.receipt() == Some(receipt) => Some(*attempt),
        _ => None,
    });
    let is_later = |event: &Event| match &event.action {
        Action::Deliver { receipt, attempt, .. } => {
            let came_late = event.sent < end.sent && last_attempt.is_some_and(|last| *attempt < last);
            event.answered > end.sent && end.action.receipt() != Some(receipt) && !came_late
        }
        _ => false,
    };
    let receipts: Vec<&str> = events
        .iter()
        .filter(|event| is_later(event))
        .filter_map(|event| match &event.action {
            Action::Deliver { receipt, .. } => Some(receipt.as_str()),
            _ => None,
        })
        .collect();
    if !events.iter().any(|event| begins_again(event)) || (receipts.is_empty() && !remains) {
        return None;
    }
    Some(events.iter().copied().partition(|event| {
        let is_second = match &event.action {
            Action::Add { .. } => begins_again(event),
            Action::Deliver { .. } => is_later(event),
            Action::Delete => event.sent >= end.answered,
            action => action.receipt().is_some_and(|receipt| receipts.contains(&receipt)),
        };
        !is_second
    }))
}
