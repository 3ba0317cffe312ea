//! The lives of a job. The id of a job that has ended is free again: an add whose outcome nobody knew, and that was
//! sent again, may find it free and begin a second life. Each call of an add begins at most one life.

use super::{Act, Event};

/// The events of each life of a job, in order. `rests` says whether the job is there at the end.
pub fn lives<'a>(events: &[&'a Event], rests: bool) -> Vec<Vec<&'a Event>> {
    let mut lives = Vec::new();
    let mut left = events.to_vec();
    while let Some((first, rest)) = split(&left, rests) {
        lives.push(first);
        left = rest;
    }
    lives.push(left);
    lives
}

/// The events of the first life and those after it, where there were two.
fn split<'a>(events: &[&'a Event], rests: bool) -> Option<(Vec<&'a Event>, Vec<&'a Event>)> {
    let end = events.iter().filter(|event| event.act.removes() && event.done());
    let end = *end.min_by_key(|event| event.answered)?;
    let adds = events.iter().filter(|event| matches!(event.act, Act::Add { .. }) && event.possible());
    let first_add = *adds.min_by_key(|event| event.sent)?;
    let begins_again = |event: &Event| {
        matches!(event.act, Act::Add { .. })
            && event.possible()
            && event.answered >= end.sent
            && !std::ptr::eq(event, first_add)
    };
    let last_attempt = events.iter().find_map(|event| match &event.act {
        Act::Deliver { receipt, attempt, .. } if end.act.shown() == Some(receipt) => Some(*attempt),
        _ => None,
    });
    let is_later = |event: &Event| match &event.act {
        Act::Deliver { receipt, attempt, .. } => {
            let came_late = event.sent < end.sent && last_attempt.is_some_and(|last| *attempt < last);
            event.answered > end.sent && end.act.shown() != Some(receipt) && !came_late
        }
        _ => false,
    };
    let receipts: Vec<&str> = events
        .iter()
        .filter(|event| is_later(event))
        .filter_map(|event| match &event.act {
            Act::Deliver { receipt, .. } => Some(receipt.as_str()),
            _ => None,
        })
        .collect();
    if !events.iter().any(|event| begins_again(event)) || (receipts.is_empty() && !rests) {
        return None;
    }
    Some(events.iter().copied().partition(|event| {
        let is_second = match &event.act {
            Act::Add { .. } => begins_again(event),
            Act::Deliver { .. } => is_later(event),
            Act::Delete => event.sent >= end.answered,
            act => act.shown().is_some_and(|receipt| receipts.contains(&receipt)),
        };
        !is_second
    }))
}
